// The order of statements is the safety: an intent is on the disk before its bytes leave, and an
// intent without a clear answer is sent again, byte for byte, before anything new.
#include "manager/reconciler.hpp"

#include <algorithm>
#include <set>

#include "manager/aws/ec2_codec.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "manager/core/unanswered.hpp"

namespace warmroot::manager {

namespace {

/// What is forgotten is a week old.
constexpr std::chrono::hours kPruneEvery{6};
/// For two dry runs at once; see kOneAskedEvery.
constexpr Milliseconds kAskOthersAfter{2'000};
/// Of a single look, each with four dry runs, which EC2 answers at two a second; each plans anew.
/// Source: our choice; a person waits for a minute at most.
constexpr int kRoundsOfOneLook = 25;

/// What a call other than an attach sets off is looked at this soon.
constexpr Milliseconds kAfterCall{500};
/// Between ticks while anything is awaited: at most, at least, and at least for each ten things in
/// the world, to which the CPU of a plan is proportional.
constexpr Milliseconds kPaceLongest{2'000};
constexpr Milliseconds kPaceSoonest{50};
constexpr Milliseconds kPacePerThing{1};
/// A tick of a large world waits for several tokens: one for so many things, within bounds well
/// below the 50 that the bucket holds.
constexpr std::size_t kThingsPerToken = 66;
constexpr std::size_t kFewestTokens = 5;
constexpr std::size_t kMostTokens = 40;

/// However often a launch is sent, EC2 makes its instances once: its client token sees to that.
int launched_by(const core::Intent& intent, bool replayed) {
  const bool launches = intent.call.action == "RunInstances" && !replayed;
  return launches ? static_cast<int>(intent.nodes.size()) : 0;
}

/// One of so many calls of one tick that is throttled says nothing of the bucket.
constexpr int kFewThrottled = 4;

/// Looks by id at what a plan does for good, which these calls do.
constexpr int kVerifyRounds = 3;
constexpr const char* kForGood[] = {"TerminateInstances", "DetachVolume", "DeleteVolume",
                                    "StopInstances"};

/// What calls that cannot be taken back name.
std::vector<std::string> ids_to_verify(const core::Plan& plan) {
  std::vector<std::string> ids;
  for (const auto& action : plan.actions) {
    const auto name = core::action_name(action.mutation);
    if (std::find(std::begin(kForGood), std::end(kForGood), name) == std::end(kForGood)) continue;
    for (auto& id : core::resource_ids(action.mutation)) ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
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

/// What was called for is not as the last look had it, or may not be. Of what changes by itself the
/// observer knows when to look.
bool tells_of_a_change(std::string_view action, const Outcome& outcome) {
  if (outcome.state == core::IntentState::accepted)
    return action == "CreateTags" || action == "DeleteTags";
  if (outcome.state == core::IntentState::unknown) return true;
  return outcome.state == core::IntentState::refused && !outcome.throttled &&
         !outcome.refuses_device;
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
      launch_check_(ec2),
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

/// Before the look, so that it sees the world after what was heard.
void Reconciler::listen() {
  if (!options_.heard) return;
  heard_ = options_.heard();
  observer_.look_at({heard_.changed.begin(), heard_.changed.end()});
  observer_.set_events_live(heard_.live);
}

/// EC2 counts a dry run like a launch.
void Reconciler::check_launches(TickReport& report) {
  const Instant sent = options_.now();
  const int asked = launch_check_.look(options_.desired, report.observed, report.started);
  budget_.spend("RunInstances", sent, asked);
  budget_.answered("RunInstances", sent, options_.now(), asked);
}

void Reconciler::plan_on(Look look, const core::LedgerView& view, TickReport& report) {
  report.observed = std::move(look.observed);
  report.blind = std::move(look.blind);
  if (look.due && (!due_ || *look.due < *due_)) due_ = look.due;
  if (const auto due = look.due_at_leisure; due && (!due_at_leisure_ || *due < *due_at_leisure_))
    due_at_leisure_ = due;
  render_user_data(report.observed);
  if (!report.blind) check_launches(report);
  if (const Instant next = options_.now() + kAskOthersAfter;
      launch_check_.postponed() && (!due_ || next < *due_))
    due_ = next;
  // One that is made anew hears nothing new: that would have to be looked at once more, too.
  if (options_.reports && !reports_) reports_ = options_.reports();
  if (reports_) {
    report.observed.reports = *reports_;
    report.observed.hears_since = view.begun;
  }
  report.observed.warnings = heard_.warnings;
  // EC2 tells the instance itself as well, whether or not a queue is read.
  for (const auto& [id, said] : report.observed.reports)
    if (said.rebalance)
      report.observed.warnings.try_emplace(id, core::WarningKind::rebalance, said.received);
  report.observed.events_live = heard_.live;
  const Instant now = options_.now();
  core::Limits limits;
  limits.calls = budget_.available(now);
  // What a plan that is made anew has more tokens for would have to be looked at once more.
  for (const auto& [action, most] : tick_limits_) {
    auto& calls = limits.calls.try_emplace(action, most).first->second;
    calls = std::min(calls, most);
  }
  tick_limits_ = limits.calls;
  limits.orders_only = options_.orders_only;
  report.plan = core::plan(options_.desired, report.observed, view, now, limits);
}

Result<TickReport> Reconciler::observe_and_plan(const core::LedgerView& view) {
  TickReport report;
  report.started = options_.now();
  due_.reset();
  due_at_leisure_.reset();
  tick_limits_.clear();
  reports_.reset();
  listen();
  auto look = observer_.look(options_.desired, view, report.started, settled_);
  bool swept = look.swept;
  plan_on(std::move(look), view, report);
  // This process was stopped for a while: what has come since would look as if it were gone, and
  // the second look below only asks for what the plan names.
  if (!report.blind && options_.now() - report.observed.at > core::kPlanExpires) {
    reports_.reset();
    look = observer_.look(options_.desired, view, options_.now(), true);
    swept = look.swept;
    plan_on(std::move(look), view, report);
  }
  if (swept || report.blind) return report;
  // Between sweeps, what cannot be taken back is looked at once more, and calm is not announced for
  // what somebody may have changed since.
  if (ids_to_verify(report.plan).empty()) {
    if (report.plan.stable && observer_.small())
      plan_on(observer_.look(options_.desired, view, options_.now(), true), view, report);
    return report;
  }
  verify_and_plan(view, report);
  return report;
}

/// Until all that the plan does for good was looked at once more: what a second manager or people
/// have changed meanwhile may have it plan other calls.
void Reconciler::verify_and_plan(const core::LedgerView& view, TickReport& report) {
  std::set<std::string> verified;
  for (int round = 0;; ++round) {
    auto ids = ids_to_verify(report.plan);
    std::erase_if(ids, [&](const auto& id) { return verified.contains(id); });
    if (ids.empty() || round > kVerifyRounds) return;
    // The world goes on changing: the next tick may take back what this one may not.
    if (round == kVerifyRounds) {
      for (const auto* action : kForGood) tick_limits_[action] = 0;
      ids.clear();
    }
    plan_on(observer_.verify(options_.desired, ids, options_.now()), view, report);
    if (report.blind) return;
    verified.insert(ids.begin(), ids.end());
  }
}

Milliseconds Reconciler::shortest_pause() const {
  return kPaceSoonest + kPacePerThing * static_cast<int>(observer_.things() / 10);
}

/// When the next tick is worth its calls: when tokens are there for what waits for them, or when
/// something seen is about to change.
void Reconciler::pace(const core::LedgerView& view, TickReport& report) {
  auto& plan = report.plan;
  settled_ = plan.stable;
  if (report.blind || !view.intents.empty()) return;
  const Instant now = options_.now();
  // What people change in a calm world shows when a listing has come to its end: page after page,
  // not one with each of the rare looks. Source: invariant (12), seed 47000050943.
  if (plan.stable && due_ && observer_.sweeping())
    plan.next_look = std::min(plan.next_look, std::max(*due_ - now, shortest_pause()));
  if (plan.stable) return;
  std::optional<Instant> next = plan.wake;
  const auto consider = [&](Instant at) {
    if (!next || at < *next) next = at;
  };
  if (due_) consider(*due_);
  // Where tokens are waited for, a tick is soon to come anyway.
  if (due_at_leisure_ && plan.short_of.empty()) consider(*due_at_leisure_);
  // In a large world several tokens are worth one plan; the last of those that wait get theirs at
  // once.
  const int worth = static_cast<int>(
      std::clamp<std::size_t>(observer_.things() / kThingsPerToken, kFewestTokens, kMostTokens));
  for (const auto& [action, missing] : plan.short_of)
    consider(now + budget_.wait_for(action, now, std::min(missing, worth)));
  for (const auto& call : report.calls) {
    if (call.outcome.state == core::IntentState::unknown) return;
    // Where attaches wait for tokens, the next token is the next chance of a refused one as well.
    const bool attaches = call.action == "AttachVolume";
    if (!attaches || (call.outcome.state != core::IntentState::accepted &&
                      !plan.short_of.contains("AttachVolume")))
      consider(now + kAfterCall);
  }
  if (!next) return;
  const Milliseconds longest = plan.short_of.empty() ? kPaceLongest : Milliseconds::max();
  plan.next_look = std::max(std::min(*next - now, longest), shortest_pause());
}

Result<TickReport> Reconciler::look() {
  TRY_ASSIGN(auto view, ledger_.view());
  // What will be done is asked for, not how long one that begins waits before it does it.
  view.begun = std::min(view.begun, options_.now() - core::kLooksAroundFor);
  TRY_ASSIGN(auto report, observe_and_plan(view));
  // Nobody looks again for somebody who looks once.
  const auto postponed = [&](int round) {
    return launch_check_.postponed() || (observer_.scores_postponed() && round < kRoundsOfOneLook);
  };
  for (int round = 1; !report.blind && postponed(round); ++round) {
    launch_check_.hurry();
    observer_.hurry_scores();
    launch_check_.leave_out(round >= kRoundsOfOneLook);
    auto again = observe_and_plan(view);
    launch_check_.leave_out(false);
    TRY_ASSIGN(report, std::move(again));
    report.untried = launch_check_.left_out();
  }
  return report;
}

Ok Reconciler::send(const std::vector<core::Intent>& intents,
                    const std::vector<std::string>& reasons, bool replayed, TickReport& report) {
  if (intents.empty()) return {};
  std::vector<aws::EncodedCall> calls;
  for (const auto& intent : intents) {
    calls.push_back(intent.call);
    budget_.spend(intent.call.action, options_.now());
    budget_.spend(core::kInstancesLaunched, options_.now(), launched_by(intent, replayed));
  }
  const Instant sent = options_.now();
  auto answers = ec2_.send(calls);
  CHECK(answers.size() == calls.size());
  std::vector<Settlement> settlements;
  std::map<std::string, int> throttled;
  for (const auto& intent : intents) {
    budget_.answered(intent.call.action, sent, options_.now());
    budget_.answered(core::kInstancesLaunched, sent, options_.now(), launched_by(intent, replayed));
  }
  for (std::size_t i = 0; i < intents.size(); ++i) {
    auto outcome = replayed ? judge_again(intents[i], answers[i], options_.now())
                            : judge(intents[i], answers[i]);
    Settlement settlement{intents[i], std::move(outcome), {}};
    if (answers[i]) settlement.answer = std::move(*answers[i]);
    if (const auto* attachment = std::get_if<aws::Attachment>(&settlement.answer);
        attachment && intents[i].call.action == "AttachVolume") {
      observer_.learn(*attachment, options_.now());
      const Instant due = options_.now() + observer_.attaching_patience();
      if (!due_at_leisure_ || due < *due_at_leisure_) due_at_leisure_ = due;
    }
    if (tells_of_a_change(intents[i].call.action, settlement.outcome))
      observer_.doubt(intents[i].resources);
    observer_.heed_refusal(settlement.outcome.code);
    if (settlement.outcome.throttled) {
      ++throttled[intents[i].call.action];
      budget_.may_be_left(core::kInstancesLaunched, options_.now(),
                          launched_by(intents[i], replayed));
    }
    report.calls.push_back(describe_call(intents[i], reasons[i], replayed, settlement.outcome));
    settlements.push_back(std::move(settlement));
  }
  heed_throttles(intents, throttled, sent);
  return ledger_.settle(settlements, options_.now());
}

/// A few of many that went out together do not mean that EC2's bucket is empty: it took the others.
void Reconciler::heed_throttles(const std::vector<core::Intent>& intents,
                                const std::map<std::string, int>& throttled, Instant sent) {
  for (const auto& [action, refused] : throttled) {
    const auto together = std::count_if(intents.begin(), intents.end(), [&](const auto& intent) {
      return intent.call.action == action;
    });
    for (int i = 0; i < refused; ++i)
      if (refused * kFewThrottled <= together)
        budget_.passed_over(action, options_.now());
      else
        budget_.throttled(action, sent, options_.now());
  }
}

Ok Reconciler::withdraw(const std::vector<core::Intent>& intents, TickReport& report) {
  if (intents.empty()) return {};
  std::vector<Settlement> settlements;
  for (const auto& intent : intents) {
    Outcome outcome;
    outcome.state = core::IntentState::refused;
    outcome.code = core::kWithdrawn;
    outcome.transient = true;
    outcome.sentence = aws::summary_of(intent.call.body) +
                       ": the first attempt had no clear answer; what EC2 shows decides" +
                       (intent.error.empty() ? "" : " (" + intent.error + ")");
    report.calls.push_back(
        describe_call(intent, "planned anew from what EC2 shows", true, outcome));
    settlements.push_back({intent, std::move(outcome), {}});
    observer_.doubt(intent.resources);
  }
  return ledger_.settle(settlements, options_.now());
}

Ok Reconciler::replay(const core::LedgerView& view, TickReport& report) {
  std::vector<core::Intent> due;
  std::vector<core::Intent> stale;
  // Where EC2 gives no clear answers to many calls, their replays would empty its bucket for good.
  const Instant now = options_.now();
  auto calls_left = budget_.available(now);
  const auto afford = [&](const std::string& action) {
    const auto left = calls_left.find(action);
    return left == calls_left.end() || left->second-- > 0;
  };
  const core::UnansweredFacts facts{options_.desired, view.paused_pools, shown_volumes_,
                                    shown_instances_};
  for (const auto& intent : view.intents) {
    const auto what = core::becomes_of(intent, facts, now);
    if (what == core::Unanswered::withdrawn)
      stale.push_back(intent);
    else if (what == core::Unanswered::again && afford(intent.call.action))
      due.push_back(intent);
  }
  TRY(withdraw(stale, report));
  const std::vector<std::string> reasons(due.size(), "the first attempt had no clear answer");
  return send(due, reasons, true, report);
}

Ok Reconciler::act(const core::LedgerView& view, std::stop_token stop, TickReport& report) {
  if (!report.observed.complete || stop.stop_requested()) return {};
  report.recorded = nothing_to_write(report.plan, view);
  if (report.recorded) return {};
  if (options_.now() - report.observed.at > core::kPlanExpires) return {};
  std::vector<aws::EncodedCall> calls;
  std::vector<std::string> reasons;
  for (const auto& action : report.plan.actions) {
    calls.push_back(aws::encode(action.mutation));
    reasons.push_back(action.reason);
  }
  auto recorded = ledger_.record(report.plan, calls, options_.now());
  if (!recorded && recorded.error().code == kOrderTakenBack) {  // planned anew
    report.plan.drains.clear();
    return {};
  }
  TRY_ASSIGN(const auto intents, std::move(recorded));
  report.recorded = true;
  // What was recorded and is not sent is planned anew, or a create whose token keeps it harmless.
  if (stop.stop_requested() || options_.now() - report.observed.at > core::kPlanExpires) return {};
  return send(intents, reasons, false, report);
}

Result<TickReport> Reconciler::tick(std::stop_token stop) {
  TickReport replays;
  if (!began_) {
    TRY(ledger_.begin_anew(options_.now()));
    pruned_ = options_.now();  // it was when it was opened
    began_ = true;
  }
  if (options_.now() - pruned_ >= kPruneEvery) {
    pruned_ = options_.now();
    // What cannot be forgotten now is later; a ledger that cannot be written says so at the next
    // call, and looks go on until then.
    [[maybe_unused]] const Ok pruned = ledger_.prune(options_.now());
  }
  TRY_ASSIGN(auto view, ledger_.shared_view());
  if (!view->intents.empty()) {
    TRY(replay(*view, replays));
    view.reset();  // while it is held, what changed is read into a copy
    TRY_ASSIGN(view, ledger_.shared_view());
  }
  TRY_ASSIGN(auto report, observe_and_plan(*view));
  report.calls = std::move(replays.calls);
  if (report.observed.complete) {
    shown_volumes_ = report.observed.volumes;
    shown_instances_ = report.observed.instances;
  }
  TRY(act(*view, stop, report));
  pace(*view, report);
  return report;
}

}  // namespace warmroot::manager
