// The order of statements is the safety: an intent is on the disk before its bytes leave, and an
// intent without a clear answer is sent again, byte for byte, before anything new.
#include "manager/reconciler.hpp"

#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "manager/core/token.hpp"

namespace warmroot::manager {

namespace {

/// A replay that got no answer again waits a little longer each time.
constexpr Milliseconds kReplayBase{200};
constexpr Milliseconds kReplayCap{30'000};

/// A plan older than this was made for another world: the process was frozen, or EC2 took minutes
/// to answer.
constexpr Milliseconds kPlanExpires{60'000};

Instant replay_at(const core::Intent& intent) {
  const double jitter =
      core::hash_fraction({std::to_string(intent.id), std::to_string(intent.attempts)});
  return intent.tried + core::backoff_delay(intent.attempts, kReplayBase, kReplayCap, jitter);
}

CallReport describe_call(const core::Intent& intent, const std::string& reason, bool replayed,
                         Outcome outcome) {
  CallReport report;
  report.action = intent.call.action;
  report.resource = aws::summary_of(intent.call.body);
  if (report.resource.starts_with(report.action + " "))
    report.resource.erase(0, report.action.size() + 1);
  report.reason = reason;
  report.pool = intent.pool;
  report.nodes = intent.nodes;
  report.replayed = replayed;
  report.outcome = std::move(outcome);
  return report;
}

bool nothing_to_write(const core::Plan& plan, const core::LedgerView& view) {
  return plan.actions.empty() && plan.records.empty() && plan.watches.empty() &&
         view.watches.empty();
}

}  // namespace

Reconciler::Reconciler(aws::Ec2& ec2, Ledger& ledger, ReconcilerOptions options)
    : ec2_(ec2),
      ledger_(ledger),
      options_(std::move(options)),
      observer_(ec2, options_.observer),
      budget_(options_.budget_share) {}

void Reconciler::render_user_data(core::Observed& observed) {
  if (!options_.user_data) return;
  for (const auto& pool : options_.desired.pools) {
    if (!pool.launch) continue;
    auto& lookup = observed.user_data[pool.name];
    if (auto text = options_.user_data(pool))
      lookup.found = std::move(*text);
    else
      lookup.error = text.error().message();
  }
}

Result<TickReport> Reconciler::observe_and_plan(const core::LedgerView& view) {
  TickReport report;
  report.started = options_.now();
  // Before the look, so that it sees the world after what was heard.
  core::Heard heard;
  if (options_.heard) heard = options_.heard();
  auto look = observer_.look(options_.desired, view, report.started, heard);
  report.observed = std::move(look.observed);
  report.blind = std::move(look.blind);
  render_user_data(report.observed);
  if (options_.reports) report.observed.reports = options_.reports();
  report.observed.warnings = std::move(heard.warnings);
  report.observed.events_live = heard.live;
  const Instant now = options_.now();
  core::Limits limits;
  limits.calls = budget_.available(now);
  limits.orders_only = options_.orders_only;
  report.plan = core::plan(options_.desired, report.observed, view, now, limits);
  return report;
}

Result<TickReport> Reconciler::look() {
  TRY_ASSIGN(auto view, ledger_.view());
  // What will be done is asked for, not how long a fresh ledger waits before it does it.
  view.created = std::min(view.created, options_.now() - core::kVisibilityWindow);
  return observe_and_plan(view);
}

Ok Reconciler::send(const std::vector<core::Intent>& intents,
                    const std::vector<std::string>& reasons, bool replayed, TickReport& report) {
  if (intents.empty()) return {};
  std::vector<aws::EncodedCall> calls;
  for (const auto& intent : intents) {
    calls.push_back(intent.call);
    budget_.spend(intent.call.action, options_.now());
  }
  auto answers = ec2_.send(calls);
  CHECK(answers.size() == calls.size());
  std::vector<Settlement> settlements;
  for (std::size_t i = 0; i < intents.size(); ++i) {
    Settlement settlement{intents[i], judge(intents[i], answers[i]), {}};
    if (answers[i]) settlement.answer = std::move(*answers[i]);
    if (settlement.outcome.throttled) budget_.throttled(intents[i].call.action, options_.now());
    report.calls.push_back(describe_call(intents[i], reasons[i], replayed, settlement.outcome));
    settlements.push_back(std::move(settlement));
  }
  return ledger_.settle(settlements, options_.now());
}

Ok Reconciler::replay(const core::LedgerView& view, TickReport& report) {
  std::vector<core::Intent> due;
  for (const auto& intent : view.intents)
    if (options_.now() >= replay_at(intent)) due.push_back(intent);
  const std::vector<std::string> reasons(due.size(), "the first attempt had no clear answer");
  return send(due, reasons, true, report);
}

Result<TickReport> Reconciler::tick(std::stop_token stop) {
  TickReport replays;
  TRY_ASSIGN(auto view, ledger_.view());
  if (!view.intents.empty()) {
    TRY(replay(view, replays));
    TRY_ASSIGN(view, ledger_.view());
  }
  TRY_ASSIGN(auto report, observe_and_plan(view));
  report.calls = std::move(replays.calls);
  if (!report.observed.complete || stop.stop_requested()) return report;
  if (nothing_to_write(report.plan, view)) {
    report.recorded = true;
    return report;
  }
  if (options_.now() - report.observed.at > kPlanExpires) return report;
  std::vector<aws::EncodedCall> calls;
  std::vector<std::string> reasons;
  for (const auto& action : report.plan.actions) {
    calls.push_back(aws::encode(action.mutation));
    reasons.push_back(action.reason);
  }
  TRY_ASSIGN(const auto intents, ledger_.record(report.plan, calls, options_.now()));
  report.recorded = true;
  if (stop.stop_requested()) return report;
  TRY(send(intents, reasons, false, report));
  return report;
}

}  // namespace warmroot::manager
