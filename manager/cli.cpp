#include "manager/cli.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "manager/cli_context.hpp"
#include "manager/daemon.hpp"
#include "manager/daemon_lock.hpp"
#include "manager/daemon_signals.hpp"
#include "manager/order_socket.hpp"

namespace warmroot::manager {
namespace {

void print(const std::string& text) {
  fmt::print("{}", text);
}

bool blocked(const core::Plan& plan) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [](const core::Note& note) { return note.blocking; });
}

std::string plan_text(const TickReport& report) {
  if (!report.plan.actions.empty()) return as_text(action_table(report.plan));
  if (report.plan.stable) return "Nothing to do: every wish is met.\n";
  return blocked(report.plan) ? "Blocked: nothing can be done before the notes are dealt with.\n"
                              : "Nothing to do at this moment: what was asked for is on its way.\n";
}

Result<int> run_listing(const Options& options) {
  TRY_ASSIGN(Context context, open_context(options));
  TRY_ASSIGN(const TickReport report, look(context));
  core::Plan present = report.plan;  // lists show what is, `plan` what would be asked for
  present.nodes = present.nodes_now;
  const bool json = options.output == OutputForm::json;
  switch (options.command) {
    case Command::pool_list: {
      TRY_ASSIGN(const core::LedgerView view, context.ledger->view());
      print(formatted(pool_table(context.config.desired, present, view.paused_pools),
                      options.output));
      break;
    }
    case Command::node_list:
      print(formatted(node_table(present), options.output));
      break;
    case Command::volume_list:
      print(formatted(volume_table(report.plan), options.output));
      break;
    default:
      print(json ? as_json(action_table(report.plan)) : plan_text(report));
      break;
  }
  std::fflush(stdout);
  tell_notes(report.plan.notes);
  if (options.command == Command::plan && report.untried > 0)
    fmt::print(stderr,
               "warmroot: note: the launches of {} pools were not tried with EC2, which takes half "
               "a second each; `serve` and `reconcile` try each before they make anything for it\n",
               report.untried);
  return options.command == Command::plan && blocked(report.plan) ? kUnmetStatus : kSuccessStatus;
}

/// Needs no credentials: it is a wish, which the next tick reads from the ledger.
Result<int> run_pause_or_resume(const Options& options) {
  TRY_ASSIGN(const Config config, load_spec(options.spec));
  TRY(find_pool(config, options.pool));
  TRY_ASSIGN(const std::string region,
             aws::resolve_region(aws_choices(options, config), aws::real_surroundings()));
  TRY_ASSIGN(const auto ledger, open_ledger(options, config, region));
  const bool pause = options.command == Command::pool_pause;
  TRY_ASSIGN(const bool changed, pause ? ledger->pause(options.pool, wall_clock())
                                       : ledger->resume(options.pool, wall_clock()));
  wake_serve(options.state);
  if (!changed) {
    print(fmt::format("Pool {} was already {}.\n", options.pool, pause ? "paused" : "running"));
    return kSuccessStatus;
  }
  const char* then =
      pause ? "its volumes are kept; `serve` ends its instances within seconds, else the next "
              "`reconcile` does"
            : "`serve` starts its instances within seconds, else the next `reconcile` does";
  print(fmt::format("Pool {} is now {}: {}.\n", options.pool, pause ? "paused" : "running", then));
  return kSuccessStatus;
}

Result<int> run_user_data(const Options& options) {
  TRY_ASSIGN(const Config config, load_spec(options.spec));
  TRY_ASSIGN(const core::PoolSpec* pool, find_pool(config, options.pool));
  const UserDataSource user_data(config, load_bootstrap(options.bootstrap), kDefaultPort);
  TRY_ASSIGN(const std::string text, user_data(*pool));
  print(text);
  return kSuccessStatus;
}

Result<int> run_serve(const Options& options) {
  TRY_ASSIGN(const ListenAddress address, parse_listen(options.listen));
  TRY_ASSIGN(BootstrapProgram program, load_bootstrap(options.bootstrap));
  AdmissionRules rules;
  rules.check_address = !options.any_address;
  if (!options.identity_certificates.empty()) {
    TRY_ASSIGN(rules.certificates, load_identity_certificates(options.identity_certificates));
  }
  SignalWatch signals;  // before the first thread: the signals are blocked in all
  TRY_ASSIGN(Context context, open_context(options));
  const auto lock = StateLock::wait(options.state, signals.stop_token());
  if (!lock && lock.error().code == kStateHeld && signals.stop_token().stop_requested())
    return kSuccessStatus;
  if (!lock) return fail(lock.error());
  Daemon daemon(context, std::move(program), std::move(rules));
  TRY(daemon.run(address, signals));
  return kSuccessStatus;
}

Result<int> dispatch(const Options& options) {
  switch (options.command) {
    case Command::pool_pause:
    case Command::pool_resume:
      return run_pause_or_resume(options);
    case Command::user_data:
      return run_user_data(options);
    case Command::serve:
      return run_serve(options);
    case Command::reconcile:
      return run_reconcile(options);
    case Command::ami_import:
      return run_import(options);
    case Command::attach:
    case Command::release:
    case Command::volume_quarantine:
    case Command::volume_return:
    case Command::volume_delete:
    case Command::pool_delete:
    case Command::reap:
      return run_order(options);
    case Command::doctor:
      return run_doctor(options);
    case Command::ssh:
    case Command::ssh_config:
      return run_ssh(options);
    default:
      return run_listing(options);
  }
}

}  // namespace

int tell_error(const Error& error) {
  fmt::print(stderr, "warmroot: {}\n", error.message());
  return kBadInputStatus;
}

void tell_notes(const std::vector<core::Note>& notes) {
  for (const core::Note& note : notes)
    fmt::print(stderr, "{}: {}\n", note.blocking ? "warmroot: cannot go on" : "warmroot: note",
               note_line(note));
}

int run_command(const Options& options) {
  const Result<int> status = dispatch(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
