// What operators do by hand: attach, release, volume quarantine/return/delete, pool delete, reap.
// Each becomes orders in the ledger. A `serve` on the same state folder is told by its socket,
// carries them out and answers; without one, or once it has died, the command does so itself, and
// nothing else that the spec may ask for.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include "manager/cli.hpp"
#include "manager/cli_context.hpp"
#include "manager/cli_progress.hpp"
#include "manager/core/orphans.hpp"
#include "manager/daemon_lock.hpp"
#include "manager/daemon_signals.hpp"
#include "manager/order_socket.hpp"
#include "manager/pool_end.hpp"

namespace warmroot::manager {
namespace {

using Clock = std::chrono::steady_clock;
/// How often a stop is noticed, and whether a running manager can be spoken to yet.
constexpr Milliseconds kAskEvery{200};

struct Placed {
  std::int64_t id = 0;
  std::string words;  ///< "release i-1"
};

/// Places orders, has them carried out and tells the answers.
class OrderRun {
 public:
  OrderRun(const Options& options, Ledger& ledger, std::stop_token stop)
      : options_(options), ledger_(ledger), stop_(std::move(stop)) {}

  /// Places them and has them carried out. What an error leaves open is taken back: whoever hears
  /// of it does not wait for what may come of it later.
  Result<int> run(Context& context, const std::vector<core::Order>& orders) {
    Result<int> status = kSuccessStatus;
    if (Ok placed = place(orders); !placed)
      status = fail(placed.error());
    else
      status = carry_out(context);
    if (!status && collect()) std::ignore = take_back("could not be carried out");
    return status;
  }

 private:
  Ok place(const std::vector<core::Order>& orders) {
    for (core::Order order : orders) {
      order.asked = wall_clock();
      TRY_ASSIGN(const auto id, ledger_.place_order(order));
      placed_.push_back({id, fmt::format("{} {}", core::to_string(order.kind), order.subject)});
    }
    return {};
  }

  /// By whoever holds the state folder; by itself while nobody else does, step by step: a `serve`
  /// that begins meanwhile goes on with it, and can ask nodes, as this cannot.
  Result<int> carry_out(Context& context) {
    auto alone_from = Clock::now();
    while (true) {
      Milliseconds pause = kAskEvery;
      if (const auto lock = StateLock::take(options_.state)) {
        // A `serve` that has gone may be on its way back, and the node in the middle of its answer.
        if (Clock::now() >= alone_from) {
          TRY_ASSIGN(pause, step(context));
        }
      } else {
        progress_.waiting_for("the running manager to carry it out");
        through_serve();
        alone_from = Clock::now() + kWaitForLock;
      }
      TRY(collect());
      if (placed_.empty() || over()) return finish();
      wait(pause);
    }
  }

  /// Waits at a running `serve` for as long as it lives. Who holds the lock and does not listen (a
  /// `reconcile`, a `serve` that begins or ends) carries orders out as well: then the ledger tells.
  void through_serve() {
    auto serve = OrderConnection::open(options_.state);
    if (!serve || !serve->await(open_orders())) return wait(kAskEvery);
    while (!placed_.empty() && !over()) {
      const auto answer = serve->next(kAskEvery);
      if (!answer) {
        progress_.say("the running manager has gone; the order stays in the ledger");
        return wait(kAskEvery);
      }
      if (*answer) settle((*answer)->order, (*answer)->met, (*answer)->text);
    }
  }

  /// One tick; how long until the next one is due.
  Result<Milliseconds> step(Context& context) {
    if (!reconciler_) {
      user_data_.emplace(context.config, load_bootstrap(options_.bootstrap), kDefaultPort);
      ReconcilerOptions settings = reconciler_options(context, *user_data_);
      settings.orders_only = true;
      reconciler_.emplace(*context.connection.ec2, *context.ledger, std::move(settings));
    }
    progress_.waiting_for("EC2");
    TRY_ASSIGN(const TickReport report, reconciler_->tick(stop_));
    if (report.blind && report.blind->kind != ErrorKind::retry_later) return fail(*report.blind);
    for (const CallReport& call : report.calls)
      progress_.say(
          fmt::format("{} {}: {}", call.action, call.resource,
                      call.outcome.sentence.empty() ? call.reason : call.outcome.sentence));
    return report.plan.next_look;
  }

  std::vector<std::int64_t> open_orders() const {
    std::vector<std::int64_t> ids;
    for (const Placed& each : placed_) ids.push_back(each.id);
    return ids;
  }

  Ok collect() {
    for (const std::int64_t id : open_orders()) {
      TRY_ASSIGN(const OrderStanding standing, ledger_.order(id));
      if (standing.state != OrderState::open)
        settle(id, standing.state == OrderState::met, standing.answer);
    }
    return {};
  }

  /// Tells the answer, and waits for that order no more.
  void settle(std::int64_t id, bool met, const std::string& answer) {
    const auto found = std::find_if(placed_.begin(), placed_.end(),
                                    [&](const auto& each) { return each.id == id; });
    if (found == placed_.end()) return;
    refused_ = refused_ || !met;
    if (met)
      fmt::print("{}\n", answer);
    else
      fmt::print(stderr, "warmroot: {} was refused: {}\n", found->words, answer);
    std::fflush(stdout);
    placed_.erase(found);
  }

  bool over() const { return stop_.stop_requested() || Clock::now() >= deadline_; }

  void wait(Milliseconds at_most) {
    const auto until = std::min(Clock::now() + at_most, deadline_);
    while (Clock::now() < until && !stop_.stop_requested())
      std::this_thread::sleep_for(std::min<Clock::duration>(kAskEvery, until - Clock::now()));
  }

  /// Nobody waits for what is still open.
  Ok take_back(std::string_view why) {
    for (const Placed& each : placed_) {
      TRY_ASSIGN(const bool asked, ledger_.withdraw_order(each.id, wall_clock()));
      fmt::print(
          stderr, "warmroot: {} {}{}; see `warmroot plan`\n", each.words, why,
          asked ? ", and EC2 was asked already: what comes of that comes" : " and is taken back");
    }
    return {};
  }

  Result<int> finish() {
    TRY(take_back("was not met in time"));
    if (stop_.stop_requested()) return kInterruptedStatus;
    return refused_ || !placed_.empty() ? kUnmetStatus : kSuccessStatus;
  }

  const Options& options_;
  Ledger& ledger_;
  std::stop_token stop_;
  const Clock::time_point deadline_ = Clock::now() + options_.timeout;
  std::vector<Placed> placed_;
  std::optional<UserDataSource> user_data_;
  std::optional<Reconciler> reconciler_;  ///< one, so that it begins once
  bool refused_ = false;
  Progress progress_;
};

Result<int> carry_out(Context& context, const std::vector<core::Order>& orders,
                      const SignalWatch& signals) {
  const Options& options = context.options;
  OrderRun run(options, *context.ledger, signals.stop_token());
  return run.run(context, orders);
}

core::OrderKind kind_of(Command command) {
  switch (command) {
    case Command::attach:
      return core::OrderKind::attach;
    case Command::release:
      return core::OrderKind::release;
    case Command::volume_quarantine:
      return core::OrderKind::quarantine;
    case Command::volume_return:
      return core::OrderKind::return_volume;
    default:
      return core::OrderKind::delete_volume;
  }
}

std::vector<core::Order> deletions(const std::vector<std::string>& volumes, bool data_may_be_lost) {
  std::vector<core::Order> orders;
  for (const std::string& id : volumes)
    orders.push_back(
        {0, core::OrderKind::delete_volume, id, "", data_may_be_lost ? "yes" : "", {}});
  return orders;
}

// ---- pool delete ----

Result<int> delete_pool(Context& context, const SignalWatch& signals) {
  const Options& options = context.options;
  for (const core::PoolSpec& pool : context.config.desired.pools)
    if (pool.name == options.pool)
      return fail(ErrorKind::misconfigured,
                  fmt::format("the spec still names pool {}: remove it there first, or its volumes "
                              "would be made again",
                              options.pool));
  TRY_ASSIGN(const TickReport report, look(context));
  TRY_ASSIGN(const auto ledger, context.ledger->view());
  const auto [free_ones, leased] = end_of_pool(options.pool, report.observed, ledger, report.plan);
  if (!leased.empty()) {
    std::vector<std::string> users;
    for (const auto& [volume, instance] : leased) users.push_back(volume + " to " + instance);
    return fail(
        ErrorKind::refused,
        fmt::format("of pool {} {} leased: {}; release or end the instances first", options.pool,
                    leased.size() == 1 ? "one volume is" : "volumes are", fmt::join(users, ", ")));
  }
  std::ignore =
      context.ledger->resume(options.pool, wall_clock());  // a pool that is gone is not paused
  if (free_ones.empty() || options.keep_volumes) {
    fmt::print("Pool {} is gone; {} of its volumes are kept with their tags.\n", options.pool,
               free_ones.size());
    return kSuccessStatus;
  }
  if (!options.yes)
    return fail(ErrorKind::misconfigured,
                fmt::format("this deletes {} ({}); say --yes, or --keep-volumes",
                            free_ones.size() == 1
                                ? std::string("a volume and the data on it")
                                : fmt::format("{} volumes and the data on them", free_ones.size()),
                            fmt::join(free_ones, ", ")));
  return carry_out(context, deletions(free_ones, true), signals);
}

// ---- reap ----

Table orphan_table(const std::vector<core::Orphan>& orphans, Instant now) {
  Table table{{{"VOLUME", "volume_id"},
               {"POOL", "pool"},
               {"ZONE", "zone"},
               {"SIZE GiB", "size_gib"},
               {"UNUSED h", "unused_hours"},
               {"HAD SESSIONS", "maybe_used"},
               {"WHY", "reason"}},
              {}};
  for (const core::Orphan& orphan : orphans) {
    const auto age = orphan.since ? now - *orphan.since : Milliseconds{0};
    table.rows.push_back({orphan.volume_id, text_or_absent(orphan.pool), orphan.zone,
                          std::int64_t{orphan.size_gib},
                          std::int64_t{std::chrono::floor<std::chrono::hours>(age).count()},
                          std::string(orphan.maybe_used ? "perhaps" : "no"), orphan.why});
  }
  return table;
}

void tell_kept(std::size_t young, std::size_t used, const Options& options) {
  if (young > 0)
    fmt::print(stderr,
               "warmroot: {} kept: not seen without use for {} h by `serve` or `reconcile` "
               "(--grace-hours)\n",
               young, std::chrono::floor<std::chrono::hours>(options.grace).count());
  if (used > 0)
    fmt::print(stderr, "warmroot: {} kept: may hold data of sessions (--yes deletes it too)\n",
               used);
}

Result<int> reap(Context& context, const SignalWatch& signals) {
  const Options& options = context.options;
  TRY_ASSIGN(const TickReport report, look(context));
  TRY_ASSIGN(const core::LedgerView view, context.ledger->view());
  const auto orphans = core::find_orphans(context.config.desired, view, report.plan);
  const Instant now = wall_clock();
  fmt::print("{}", formatted(orphan_table(orphans, now), options.output));
  std::fflush(stdout);
  std::vector<std::string> due;
  std::size_t used = 0;
  std::size_t young = 0;
  for (const core::Orphan& orphan : orphans) {
    if (now - orphan.since.value_or(now) < options.grace)  // only this look saw it so
      ++young;
    else if (orphan.maybe_used && !options.yes)
      ++used;
    else
      due.push_back(orphan.volume_id);
  }
  tell_kept(young, used, options);
  if (!options.do_delete && !due.empty())
    fmt::print(stderr, "warmroot: {} would be deleted with --delete\n", fmt::join(due, ", "));
  if (!options.do_delete || due.empty()) {
    fmt::print(stderr, "warmroot: nothing is deleted\n");
    return kSuccessStatus;
  }
  return carry_out(context, deletions(due, options.yes), signals);
}

Result<int> order(const Options& options) {
  const SignalWatch signals;  // before the first thread: the signals are blocked in all
  TRY_ASSIGN(Context context, open_context(options));
  if (options.command == Command::pool_delete) return delete_pool(context, signals);
  if (options.command == Command::reap) return reap(context, signals);
  core::Order wanted;
  wanted.kind = kind_of(options.command);
  wanted.subject = options.subject;
  wanted.pool = options.pool;
  wanted.detail =
      options.command == Command::volume_delete ? (options.yes ? "yes" : "") : options.reason;
  return carry_out(context, {wanted}, signals);
}

}  // namespace

int run_order(const Options& options) {
  const Result<int> status = order(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
