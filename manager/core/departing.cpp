#include "manager/core/departing.hpp"

#include <algorithm>

#include "manager/core/replacing.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

/// A delayed report may speak of a volume that the instance had before. One that says the same long
/// after the present lease began is no delayed one: this bootstrap takes no other volume.
bool speaks_of_present_volume(Draft& draft, const NodeReport& report) {
  const auto* held = draft.lease_on(report.instance_id);
  if (report.volume_id.empty() || !held || !holds_volume(held->state) ||
      held->volume_id == report.volume_id)
    return true;
  draft.wake_at(held->since + kReportDelay);
  return report.received >= held->since + kReportDelay;
}

bool is_ordered_to_release(const Draft& draft, const std::string& id) {
  const auto& orders = draft.ledger.orders;
  return std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
    return order.kind == OrderKind::release && order.subject == id;
  });
}

/// Of an order nothing names a volume: a node that goes on as if there were none is not back.
bool speaks_of_what_it_gave_back(const NodeReport& report, const Departure& departure,
                                 const std::string& volume_id) {
  if (departure.volume_id.empty() ? !report.up_again : departure.volume_id != volume_id)
    return false;
  return report.volume_id.empty() || report.volume_id == volume_id;
}

/// The lease of what it gave back, where by its own word and EC2's it has that again, and nothing
/// but its word had it leave; else nullptr.
const Lease* lease_that_it_has_again(Draft& draft, const std::string& id) {
  const auto known = draft.ledger.departures.find(id);
  const auto* report = draft.report_of(id);
  if (known == draft.ledger.departures.end() || !report || !draft.observed.complete) return nullptr;
  const Departure& departure = known->second;
  const bool waits = report->up_again && report->stage < NodeStage::mounted;
  if ((!waits && !says_mounted(*report)) || report->received <= departure.since) return nullptr;
  if (departure.advised || departure.reclaim_at || warning_of(draft, id) ||
      is_ordered_to_release(draft, id))
    return nullptr;
  const auto* lease = draft.lease_on(id);
  if (!lease || !holds_volume(lease->state) ||
      !speaks_of_what_it_gave_back(*report, departure, lease->volume_id))
    return nullptr;
  const auto* volume = draft.observed.volumes.get(lease->volume_id);
  const auto* shown = volume ? attachment_of(*volume) : nullptr;
  if (!shown || shown->instance_id != id || shown->state != aws::AttachmentState::attached ||
      draft.is_set_aside(*volume))
    return nullptr;
  return lease;
}

/// A call of before may still take the volume from it, or end it.
bool may_lose_it_yet(Draft& draft, const Lease& lease) {
  return draft.undecided(lease.instance_id) || draft.undecided(lease.volume_id) ||
         draft.may_come_late("DetachVolume", lease.node) ||
         draft.may_come_late("TerminateInstances", lease.instance_id);
}

/// `up` was run again, after `down`, on an instance that others launched: it says hello anew and
/// holds nothing. One that we launched has its end coming instead.
bool serves_again(Draft& draft, const std::string& id, const Departure& departure) {
  if (warning_of(draft, id)) return false;  // a node repeats its hint
  const auto* report = draft.report_of(id);
  if (draft.ledger.instances.contains(id) || !report || report->stage != NodeStage::hello ||
      report->received <= departure.since)
    return false;
  const auto* seen = draft.observed.instances.get(id);
  if (!seen || is_own_launch(draft.desired.deployment, seen->client_token, seen->tags))
    return false;
  return !draft.lease_on(id);
}

/// Since when it has been waited for; one that others launched may stay pending for ever, too.
Instant pending_since(Draft& draft, const std::string& id) {
  const auto* launched = draft.ledger.instances.get(id);
  if (launched) return launched->recorded;
  return draft.hold("pending/" + id).since;
}

/// EC2's instance check asks the system of a machine, which does not answer while it reboots.
bool is_impaired(const Draft& draft, const std::string& id, bool reboots) {
  const auto found = draft.observed.statuses.find(id);
  if (found == draft.observed.statuses.end()) return false;
  const auto& status = found->second;
  return status.system_status == "impaired" || (!reboots && status.instance_status == "impaired");
}

}  // namespace

std::optional<Instant> back_by(const Draft& draft, const std::string& id) {
  const auto* report = draft.report_of(id);
  if (!report || report->stage != NodeStage::rebooting) return std::nullopt;
  return report->received + kRebootPatience;
}

const Warning* warning_of(Draft& draft, const std::string& id) {
  const auto found = draft.observed.warnings.find(id);
  if (found == draft.observed.warnings.end()) return nullptr;
  if (found->second.kind == WarningKind::interruption) return &found->second;
  const auto* seen = draft.observed.instances.get(id);
  if (!seen) return nullptr;
  const auto* pool = draft.find_pool(tag_of(seen->tags, kTagPool));
  const bool asked = pool && pool->spec->launch && pool->spec->launch->replace_on_rebalance;
  return asked ? &found->second : nullptr;
}

bool is_there_again(Draft& draft, const std::string& id) {
  return lease_that_it_has_again(draft, id) != nullptr;
}

bool comes_back(Draft& draft, const std::string& id) {
  const auto* lease = lease_that_it_has_again(draft, id);
  return lease && !may_lose_it_yet(draft, *lease);
}

std::optional<Departure> departure_of(Draft& draft, const std::string& id) {
  const auto known = draft.ledger.departures.find(id);
  const bool recorded = known != draft.ledger.departures.end();
  const auto* report = draft.report_of(id);
  // A detach, or the instance's end, may have been asked for just before it said so.
  const bool is_back = comes_back(draft, id) && draft.surely("up again/" + id);
  if (is_back || (recorded && serves_again(draft, id, known->second))) {
    draft.record(RecordDepartureOver{id});
    return std::nullopt;
  }
  const bool current = report && speaks_of_present_volume(draft, *report);
  const bool releases = current && report->stage == NodeStage::released;
  const bool drains = current && report->stage == NodeStage::draining;
  const auto* warning = warning_of(draft, id);
  if (!recorded && !releases && !drains && !warning) return std::nullopt;
  const bool interrupted = warning && warning->kind == WarningKind::interruption;
  const Departure before = recorded ? known->second : Departure{false, draft.now, {}, true};
  Departure departure = before;
  departure.released = before.released || releases;
  departure.advised = before.advised && !interrupted && !releases && !drains;
  if (releases || (drains && !recorded)) departure.volume_id = report->volume_id;
  if (releases) departure.unclean = ends_unclean(report->reason);
  // A time to come is nobody's: EC2 says it when it happens, and a drain must not wait for ever.
  if (interrupted && !before.reclaim_at)
    departure.reclaim_at = std::min(warning->at, draft.now) + kSpotNotice;
  // What was only a hint becomes serious: its time starts now.
  if (before.advised && !departure.advised) departure.since = draft.now;
  if (!recorded || departure.released != before.released || departure.advised != before.advised ||
      departure.reclaim_at != before.reclaim_at || departure.unclean != before.unclean)
    draft.record(RecordDeparture{id, departure});
  return departure;
}

std::string why_departing(Draft& draft, const aws::Instance& instance) {
  using enum aws::InstanceState;
  switch (instance.state) {
    case shutting_down:
    case terminated:
      return "is being terminated";
    case stopping:
    case stopped:
      return "is stopped";
    case pending:
    case running:
    case unknown:
      break;
  }
  const auto& id = instance.instance_id;
  if (instance.state == pending) {
    const Instant due = pending_since(draft, id) + kPendingPatience;
    if (draft.now >= due) return kNeverCameUp;
    draft.wake_at(due);
  }
  const auto departure = departure_of(draft, id);
  if (departure && departure->released) return kGaveBack;
  if (departure && departure->advised && draft.replaced.contains(id)) return kMayBeInterrupted;
  if (departure && !departure->advised) {
    const auto* report = draft.report_of(id);
    if (departure->reclaim_at && (!report || report->stage != NodeStage::draining))
      return (instance.tags.contains(kTagGroup) ? "is ended by its group or EC2 at "
                                                : "is reclaimed by EC2 at ") +
             to_iso8601(*departure->reclaim_at).substr(11, 8) + " UTC";
    const bool drains = !report || report->stage == NodeStage::draining;
    return std::string(drains ? "is draining" : "began to drain and serves no more") +
           (report && !report->message.empty() ? ": " + report->message : "");
  }
  const auto back = back_by(draft, id);
  const bool reboots = back && draft.now < *back;
  // One that EC2 calls well may be back where nobody can hear it.
  if (back && !reboots && is_impaired(draft, id, false)) return kNeverCameBack;
  if (reboots) draft.wake_at(*back);
  if (is_impaired(draft, id, reboots)) {
    const Watch impaired = draft.hold("impaired/" + id);
    if (draft.now - impaired.since >= kImpairedAfter) return kFailsStatusChecks;
    draft.wake_at(impaired.since + kImpairedAfter);
  }
  return {};
}

}  // namespace warmroot::core
