// `warmroot reconcile`: the daemon's tick without the daemon, with a person watching.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "manager/cli.hpp"
#include "manager/cli_context.hpp"
#include "manager/cli_progress.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/pool_source.hpp"
#include "manager/daemon_lock.hpp"
#include "manager/daemon_signals.hpp"

namespace warmroot::manager {
namespace {

using Clock = std::chrono::steady_clock;
/// A stop is noticed this soon.
constexpr Milliseconds kWaitSlice{100};

template <typename T>
bool any_transient(const std::map<std::string, core::Lookup<T>>& lookups) {
  return std::any_of(lookups.begin(), lookups.end(),
                     [](const auto& each) { return each.second.transient; });
}

/// What is wrong with pools that have nothing yet: such a spec is refused before anything is made.
/// A pool that has volumes goes on being served, and its problem is a note.
std::vector<std::string> refusals(const core::Desired& desired, const TickReport& look) {
  std::vector<std::string> found;
  const core::Observed& observed = look.observed;
  if (!observed.complete || any_transient(observed.images) || any_transient(observed.snapshots) ||
      any_transient(observed.subnets))
    return found;
  for (const core::PoolSpec& pool : desired.pools) {
    if (const auto check = observed.launch_checks.find(pool.name);
        check != observed.launch_checks.end() && check->second.transient)
      continue;  // nobody has answered yet
    const bool has_volumes =
        std::any_of(look.plan.volumes.begin(), look.plan.volumes.end(),
                    [&](const core::VolumeRow& row) { return row.pool == pool.name; });
    if (has_volumes) continue;
    for (const std::string& problem : core::find_source(pool, observed).problems)
      found.push_back(fmt::format("pool {}: {}", pool.name, problem));
  }
  return found;
}

std::string call_text(const CallReport& call) {
  const bool accepted = call.outcome.state == core::IntentState::accepted;
  std::string text = call.action;
  // EC2's sentence repeats the resource.
  if (accepted || call.outcome.sentence.find(call.resource) == std::string::npos)
    text += " " + call.resource;
  if (!call.nodes.empty()) text += fmt::format(" for {}", fmt::join(call.nodes, ", "));
  if (call.replayed) text += " (sent again)";
  if (!call.reason.empty()) text += ": " + call.reason;
  if (!accepted)
    text += fmt::format("; {}: {}", core::to_string(call.outcome.state), call.outcome.sentence);
  return text;
}

/// One run of the command.
class Run {
 public:
  Run(Context& context, std::stop_token stop)
      : context_(context),
        stop_(std::move(stop)),
        user_data_(context.config, load_bootstrap(context.options.bootstrap), kDefaultPort),
        reconciler_(*context.connection.ec2, *context.ledger,
                    reconciler_options(context, user_data_)) {}

  Result<int> go() {
    progress_.waiting_for("EC2's answers");
    TRY(refuse_bad_spec());
    const auto deadline = Clock::now() + context_.options.timeout;
    while (true) {
      TRY_ASSIGN(const TickReport report, reconciler_.tick(stop_));
      TRY(tell(report));
      if (stop_.stop_requested()) return interrupted();
      const bool late = Clock::now() >= deadline;
      // One step is all that the plan says, and not what it may say before it has looked around.
      const bool looks_around =
          report.plan.looking_around && core::shows_a_source(report.observed) && !late;
      if (!context_.options.until_stable && !looks_around) return finish_single(report);
      if (report.plan.stable && !looks_around) return finish_stable(report);
      if (late) return finish_late(report);
      wait(std::min(Clock::now() + report.plan.next_look, deadline));
      if (stop_.stop_requested()) return interrupted();
    }
  }

 private:
  Ok refuse_bad_spec() {
    TRY_ASSIGN(const TickReport look, reconciler_.look());
    if (look.blind) return fail(*look.blind);
    const std::vector<std::string> found = refusals(context_.config.desired, look);
    if (found.empty()) return {};
    return fail(ErrorKind::misconfigured,
                fmt::format("{}; nothing was changed", fmt::join(found, "\nwarmroot: ")));
  }

  Ok tell(const TickReport& report) {
    for (const CallReport& call : report.calls) {
      progress_.say(call_text(call));
      if (!call.outcome.sentence.empty()) sentences_.insert(call.outcome.sentence);
      refused_ = refused_ || call.outcome.state != core::IntentState::accepted;
    }
    std::set<std::string> notes;
    for (const core::Note& note : report.plan.notes)
      if (!told_in_a_call(note)) notes.insert(note_line(note));
    // A note that counts seconds differs at every tick: told when its first clause is new.
    for (const std::string& note : notes)
      if (told_.insert(note.substr(0, note.find(';'))).second) progress_.say("note: " + note);
    progress_.waiting_for(report.plan.looking_around && !blocked(report)
                              ? "what may have been asked for before this and is not shown yet"
                              : unsettled_nodes(report.plan));
    if (!report.blind) return {};
    const ErrorKind kind = report.blind->kind;
    const bool may_pass = kind == ErrorKind::retry_later || kind == ErrorKind::unknown_outcome;
    if (may_pass && context_.options.until_stable) return {};
    return fail(*report.blind);
  }

  /// Something waits for the operator.
  static bool blocked(const TickReport& report) {
    return std::any_of(report.plan.notes.begin(), report.plan.notes.end(),
                       [](const core::Note& note) { return note.blocking; });
  }

  bool told_in_a_call(const core::Note& note) const {
    return std::any_of(sentences_.begin(), sentences_.end(), [&](const std::string& sentence) {
      return note.text.find(sentence) != std::string::npos;
    });
  }

  void wait(Clock::time_point until) {
    while (Clock::now() < until && !stop_.stop_requested())
      std::this_thread::sleep_for(std::min<Clock::duration>(kWaitSlice, until - Clock::now()));
  }

  void print_nodes(const TickReport& report) {
    fmt::print("{}", formatted(node_table(report.plan), context_.options.output));
    std::fflush(stdout);
  }

  std::string single_result(const TickReport& report) const {
    if (report.plan.looking_around)
      return "nothing is made before EC2 has shown all of the account for a while; run it again, "
             "with more time";
    if (report.plan.stable) return "stable: every wish is met";
    return "one step done; --until-stable goes on until every wish is met";
  }

  int finish_single(const TickReport& report) {
    progress_.say(single_result(report));
    print_nodes(report);
    tell_notes(report.plan.notes);
    return refused_ || blocked(report) ? kUnmetStatus : kSuccessStatus;
  }

  int finish_stable(const TickReport& report) {
    progress_.say("stable: every wish is met");
    print_nodes(report);
    return kSuccessStatus;
  }

  int finish_late(const TickReport& report) {
    progress_.say(fmt::format("not stable after {} s: waiting for {}",
                              context_.options.timeout.count(), unsettled_nodes(report.plan)));
    print_nodes(report);
    tell_notes(report.plan.notes);
    return kUnmetStatus;
  }

  int interrupted() {
    progress_.say(fmt::format(
        "interrupted; what was asked of EC2 is recorded in {} and goes on at the next run",
        context_.options.state));
    return kInterruptedStatus;
  }

  Context& context_;
  std::stop_token stop_;
  UserDataSource user_data_;
  Reconciler reconciler_;
  std::set<std::string> told_;
  std::set<std::string> sentences_;  ///< EC2's refusals that a call's line has shown
  bool refused_ = false;
  Progress progress_;
};

Result<int> reconcile(const Options& options) {
  const SignalWatch signals;  // before the first thread: the signals are blocked in all
  TRY_ASSIGN(Context context, open_context(options));
  TRY_ASSIGN(const StateLock lock, StateLock::take(options.state));
  return Run(context, signals.stop_token()).go();
}

}  // namespace

int run_reconcile(const Options& options) {
  const Result<int> status = reconcile(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
