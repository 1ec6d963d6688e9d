// By EC2's reason for the end, by the node's own word, or by time. A launch that EC2 accepted and
// had no machine for is not the pool's failure, but the offer's.
#include "manager/core/proving.hpp"

#include <algorithm>
#include <utility>

#include "manager/core/offers.hpp"

namespace warmroot::core {

namespace {

/// EC2's reason for the end of an instance that it had no machine for.
constexpr const char* kNoCapacity = "Server.InsufficientInstanceCapacity";

/// Ends that say nothing about base AMI, user-data or bootstrap. Source: EC2's state reasons.
bool is_nobodys_fault(const std::string& reason) {
  return reason.starts_with("Server.Spot") || reason == "Client.UserInitiatedShutdown" ||
         reason == "Client.InstanceTerminated" || reason == "Server.ScheduledStop";
}

/// The code by which its offer counts as refused; empty: EC2 had a machine for it.
std::string why_unavailable(Draft& draft, const std::string& id, const aws::Instance& seen) {
  const auto* instance = draft.find_instance(id);
  if (instance && instance->departing == kNeverCameUp) return kStayedPending;
  const bool over = seen.state == aws::InstanceState::terminated ||
                    seen.state == aws::InstanceState::shutting_down;
  if (!over || seen.state_reason_code != kNoCapacity) return {};
  return seen.state_reason_code.substr(seen.state_reason_code.find('.') + 1);
}

/// As the ledger will have it after this plan: launches of the same plan see it already.
void refuse_offer(Draft& draft, const Offer& offer, const std::string& code) {
  auto& refusal = draft.refused_offers[offer];
  if (draft.now - refusal.last > streak_gap(code)) refusal = {draft.now, {}, 0, {}, {}};
  refusal.last = draft.now;
  refusal.count += 1;
  refusal.code = code;
}

/// Launched after what is known of its offer, and so later news.
bool is_news(const Draft& draft, const Offer& offer, const LaunchedInstance& launched) {
  const auto known = draft.refused_offers.find(offer);
  return known == draft.refused_offers.end() || launched.recorded > known->second.last;
}

Offer offer_of(const aws::Instance& seen) {
  return {seen.instance_type, seen.availability_zone, seen.spot};
}

/// One that was launched later runs: the offer is there.
bool runs_of_later(const Draft& draft, const Offer& offer, const LaunchedInstance& launched) {
  return std::any_of(draft.instances.begin(), draft.instances.end(), [&](const auto& entry) {
    const auto& other = entry.second;
    const auto* record = draft.ledger.instances.get(other.id);
    return other.running && other.seen && record && record->recorded > launched.recorded &&
           offer_of(*other.seen) == offer;
  });
}

void judge_unavailable(Draft& draft, const std::string& id, const LaunchedInstance& launched,
                       const aws::Instance& seen, std::string code) {
  const Offer offer = offer_of(seen);
  const std::string why = "EC2 had no machine for " + id + ", " + offer.instance_type + " in " +
                          offer.zone + " (" + code + ")";
  if (!is_news(draft, offer, launched) || runs_of_later(draft, offer, launched)) code.clear();
  if (!code.empty()) refuse_offer(draft, offer, code);
  draft.record(RecordFate{id, launched.pool, InstanceFate::failed, why, offer, std::move(code)});
}

/// An instance that runs says more of its offer than EC2's answer to the launch.
void heed_running(Draft& draft, const LaunchedInstance& launched, const aws::Instance& seen) {
  if (draft.refused_offers.empty() || seen.state != aws::InstanceState::running) return;
  const Offer offer = offer_of(seen);
  if (!draft.refused_offers.contains(offer) || !is_news(draft, offer, launched)) return;
  draft.refused_offers.erase(offer);
  draft.record(RecordOfferMet{offer});
}

/// Why the launch came to nothing; empty when it did not, or nobody can say yet.
std::string why_failed(Draft& draft, const std::string& id, const aws::Instance& seen) {
  // One volume beyond repair is no launch's fault, nor is one whose disk is gone; where all are,
  // none is to be made for the next.
  if (const auto* report = draft.report_of(id);
      report && (report->stage == NodeStage::failed || report->reason == kUncleanBeyondRepair ||
                 report->reason == kDiskGone))
    return "the bootstrap on " + id + " failed: " + report->message;
  using enum aws::InstanceState;
  if (seen.state == terminated || seen.state == shutting_down) {
    if (is_nobodys_fault(seen.state_reason_code) || draft.ledger.departures.contains(id)) return {};
    return id + " ended before it served anybody" +
           (seen.state_reason_code.empty() ? "" : " (" + seen.state_reason_code + ")");
  }
  const auto* instance = draft.find_instance(id);
  if (instance && instance->departing == kFailsStatusChecks)
    return id + " " + instance->departing + " from the start";
  if (instance && instance->departing == kNeverCameBack) return id + " " + instance->departing;
  return {};
}

bool has_proved(Draft& draft, const std::string& id) {
  const auto* lease = draft.lease_on(id);
  if (!lease || !holds_volume(lease->state)) return false;
  const auto* report = draft.report_of(id);
  if (report && says_mounted(*report)) return true;
  const bool attached = lease->state == LeaseState::active || lease->state == LeaseState::checking;
  return attached && draft.now - lease->since >= kProvedAfter;
}

}  // namespace

void judge_launches(Draft& draft) {
  for (const auto& [id, launched] : draft.ledger.instances) {
    if (launched.fate != InstanceFate::fresh) continue;
    const auto* seen = draft.observed.instances.get(id);
    if (!seen) continue;
    heed_running(draft, launched, *seen);
    if (has_proved(draft, id)) {
      draft.record(RecordFate{id, launched.pool, InstanceFate::proved, ""});
      draft.streaks.erase(launched.pool);
    } else if (const auto code = why_unavailable(draft, id, *seen); !code.empty()) {
      judge_unavailable(draft, id, launched, *seen, code);
    } else if (auto why = why_failed(draft, id, *seen); !why.empty()) {
      auto& streak = draft.streaks[launched.pool];  // this plan's launches see it already
      streak = {streak.failures + 1, draft.now, why};
      draft.record(RecordFate{id, launched.pool, InstanceFate::failed, std::move(why)});
    }
  }
}

}  // namespace warmroot::core
