// Three kinds: leased to a node that is not wanted any more (asked to drain first when it reports),
// without a lease and beyond what is needed, and gone out of service (released, stopped, impaired).
#include "manager/core/retiring.hpp"

#include <algorithm>
#include <tuple>

#include "manager/core/departing.hpp"
#include "manager/core/healing.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"

namespace warmroot::core {

namespace {

/// EC2 takes 1,000 ids a call; smaller calls fail less as a whole.
constexpr std::size_t kMostPerTermination = 50;

struct Ending {
  std::string instance_id;
  std::string reason;
  std::optional<Lease> lease;  ///< leaving as soon as the call is in the plan
};
/// By zone: one call over several zones can half succeed.
using Endings = std::map<std::string, std::vector<Ending>>;

void end_instance(Draft& draft, InstanceDraft& instance, const std::string& reason,
                  Endings& endings, std::optional<Lease> lease = {}) {
  if (!instance.launched || !instance.seen) return;
  if (draft.would_delete_volume(instance.id)) return keep_volumes_of(draft, instance);
  const bool up = instance.pending || instance.running || instance.stopped;
  if (!up || draft.backing_off("TerminateInstances", instance.id)) return;
  instance.ending = true;
  endings[instance.zone].push_back({instance.id, reason, std::move(lease)});
}

/// Asks a reporting node to give its volume back; true while that is worth waiting for.
bool draining(Draft& draft, const PoolDraft& pool, const InstanceDraft& instance,
              const std::string& reason) {
  if (instance.running && draft.may_yet_report(instance.id)) return true;
  const auto* report = draft.fresh_report_of(instance.id);
  if (!instance.running || !report) return false;
  // Its volume was taken away or deleted by somebody: there is nothing left to give back.
  if (report->stage == NodeStage::released && !draft.shows_volume_on(instance.id)) return false;
  draft.plan.drains[instance.id] = reason;
  const Watch asked = draft.hold("drain/" + instance.id);
  const Milliseconds patience = drain_patience(*pool.spec);
  if (draft.now - asked.since >= patience) return false;
  draft.wake_at(asked.since + patience);
  return true;
}

/// Nobody there could be asked to give the volume back.
bool hears_nobody(const InstanceDraft& instance) {
  return instance.departing == kFailsStatusChecks || instance.departing == kNeverCameBack;
}

/// It gave another volume back and takes none any more: this one it has never used.
bool released_another(const Draft& draft, const InstanceDraft& instance, const Lease& lease) {
  const auto* report = draft.report_of(instance.id);
  return instance.departing == kGaveBack && report && report->stage == NodeStage::released &&
         !report->volume_id.empty() && report->volume_id != lease.volume_id;
}

/// It began to drain long ago and holds its volume still: its end alone gives the volume back.
bool drains_for_ever(Draft& draft, const PoolDraft& pool, const InstanceDraft& instance) {
  const auto departure = draft.ledger.departures.find(instance.id);
  if (departure == draft.ledger.departures.end() || departure->second.advised) return false;
  if (instance.departing.empty() || is_there_again(draft, instance.id)) return false;
  Instant until = departure->second.since + drain_patience(*pool.spec);
  // EC2 itself ends what it has warned of; later than that, the warning has come to nothing.
  if (const auto reclaim = departure->second.reclaim_at)
    until = std::max(until, *reclaim + (kDrainPatience - kSpotNotice));
  draft.wake_at(until);
  if (instance.running && draft.may_yet_report(instance.id)) return false;
  return draft.now >= until;
}

/// A warning that the node may not have heard itself: its metadata service may be off.
void ask_to_drain(Draft& draft, const InstanceDraft& instance) {
  const auto departure = draft.ledger.departures.find(instance.id);
  const bool warned = warning_of(draft, instance.id) ||
                      (departure != draft.ledger.departures.end() && departure->second.reclaim_at);
  const auto* report = draft.fresh_report_of(instance.id);
  if (!warned || instance.departing.empty() || !instance.running || !report ||
      report->stage == NodeStage::draining || report->stage == NodeStage::released)
    return;
  draft.plan.drains[instance.id] = instance.id + " " + instance.departing;
}

/// Of a group's instance: what we end, the group would launch anew.
std::string who_ends(const InstanceDraft& instance) {
  return "Auto Scaling group " + instance.group +
         " ends it (aws autoscaling terminate-instance-in-auto-scaling-group --instance-id " +
         instance.id + " --should-decrement-desired-capacity)";
}

void retire_unwanted(Draft& draft, const PoolDraft& pool, InstanceDraft& instance,
                     const Lease& lease, Endings& endings) {
  const auto* node = pool.find_node(lease.node);
  const bool moves = node && node->moving && node->volume_id == lease.volume_id;
  const bool wanted = node && node->wanted && node->volume_id == lease.volume_id && !moves;
  if (wanted && instance.departing == kMayBeInterrupted) {
    // Nothing is lost by waiting: it serves until its successor runs.
    const auto* next = draft.reservation_of(lease.volume_id);
    const auto* successor = next ? draft.find_instance(next->instance_id) : nullptr;
    if (!successor || !successor->running) return;
    if (draining(draft, pool, instance, instance.id + " " + instance.departing)) return;
  } else if (wanted && !hears_nobody(instance) && !released_another(draft, instance, lease) &&
             !drains_for_ever(draft, pool, instance)) {
    ask_to_drain(draft, instance);
    return;
  }
  const std::string reason = wanted ? instance.id + " " + instance.departing
                             : moves
                                 ? lease.node + " moves to a volume of " + pool.source.snapshot_id
                                 : lease.node + " is not wanted now";
  if (!wanted && draining(draft, pool, instance, reason)) return;
  if (!instance.launched) {
    draft.note(NoteKind::not_ours_to_end, pool.spec->name, lease.node,
               reason + ", but we did not launch " + instance.id + ": " +
                   (instance.group.empty() ? "end it" : who_ends(instance)) +
                   ", or run `warmroot-bootstrap down` there",
               true);
    return;
  }
  end_instance(draft, instance, reason, endings, lease);
}

/// It holds a volume that no node goes by: a second manager's doing, or people's. A lagging look
/// shows the same for a moment.
void retire_misled(Draft& draft, InstanceDraft& instance, Endings& endings) {
  const Watch misled = draft.hold("misled/" + instance.id);
  draft.wake_at(misled.since + kUnattachedAfter);
  if (draft.now - misled.since >= kUnattachedAfter)
    end_instance(draft, instance, instance.id + " holds a volume that is no node's", endings);
}

void retire_surplus(Draft& draft, const PoolDraft& pool, Endings& endings) {
  if (draft.looking_around()) return;  // what makes them look idle may not be visible yet
  std::map<std::string, std::vector<InstanceDraft*>> by_zone;
  for (auto* each : pool.instances) {
    auto& instance = *each;
    if (!instance.launched || !instance.seen || draft.undecided(instance.id)) continue;
    const bool idle = unassigned(draft, instance);
    const bool misled = instance.departing.empty() && !instance.carries &&
                        !draft.lease_on(instance.id) && draft.shows_volume_on(instance.id);
    if (idle && !holds_unknown_volume(draft, instance))
      by_zone[instance.zone].push_back(&instance);
    else if (misled && !note_unknown_volume(draft, instance))
      retire_misled(draft, instance, endings);
  }
  for (auto& [zone, idle] : by_zone) {
    int surplus = static_cast<int>(idle.size()) - nodes_without_instance(draft, pool, zone);
    // The latest launched goes first, those still pending before all: they have done least.
    const auto age = [](const InstanceDraft* of) {
      return std::make_tuple(of->running, of->seen->launch_time.value_or(Instant::min()), of->id);
    };
    std::sort(idle.begin(), idle.end(), [&](const auto* left, const auto* right) {
      if (left->running != right->running) return right->running;
      return age(left) > age(right);
    });
    for (auto* instance : idle) {
      if (surplus-- <= 0) break;
      end_instance(draft, *instance, "no node of " + pool.spec->name + " needs it", endings);
    }
  }
}

/// What the people on an instance without a node should know.
std::string why_without_node(const Draft& draft, const PoolDraft& pool, const std::string& zone,
                             std::size_t place) {
  const std::string& name = pool.spec->name;
  if (draft.ledger.paused_pools.contains(name))
    return "pool " + name + " is paused: sessions here stay on the base system";
  return "no node of pool " + name + " in " + zone + " is free: sessions here stay on the base " +
         "system; this instance is number " + std::to_string(place) + " in line for the next one";
}

/// It said itself that it drains, and no time of EC2's is known by which it is gone.
bool has_drained_by_itself(const Draft& draft, const InstanceDraft& instance) {
  const auto departure = draft.ledger.departures.find(instance.id);
  return departure != draft.ledger.departures.end() && !departure->second.advised &&
         !departure->second.reclaim_at && !instance.departing.empty();
}

/// A boot behind the release, or behind a drain whose end nobody has heard of, finds what EC2 has
/// not detached yet, and would serve it until it is ended.
void tell_who_gave_back(Draft& draft, const InstanceDraft& instance) {
  if (instance.departing != kGaveBack && !has_drained_by_itself(draft, instance)) return;
  draft.plan.without_node[instance.id] =
      "this instance " + instance.departing + ": sessions here stay on the base system";
}

/// Others may launch more than there are nodes: those get nothing, wait in line, and are not ours
/// to end.
void note_extra(Draft& draft, const PoolDraft& pool) {
  std::map<std::string, std::vector<const InstanceDraft*>> by_zone;
  for (const auto* instance : pool.instances)
    if (instance->running && !instance->launched && unassigned(draft, *instance))
      by_zone[instance->zone].push_back(instance);
  for (auto& [zone, idle] : by_zone) {
    const auto wanted = static_cast<std::size_t>(nodes_without_instance(draft, pool, zone));
    if (idle.size() <= wanted) continue;
    std::sort(idle.begin(), idle.end(), is_before_in_line);
    std::string ids;
    for (std::size_t i = wanted; i < idle.size(); ++i) {
      ids += (ids.empty() ? "" : ", ") + idle[i]->id;
      draft.plan.without_node[idle[i]->id] = why_without_node(draft, pool, zone, i - wanted + 1);
    }
    const bool one = idle.size() - wanted == 1;
    const std::string& group = idle[wanted]->group;
    draft.note(NoteKind::extra_instance, pool.spec->name, "",
               "no node of " + pool.spec->name + " in " + zone + " needs " + ids +
                   ", launched by " + (group.empty() ? "others" : "Auto Scaling group " + group) +
                   (one ? ": it gets no volume and is not ended; it is"
                        : ": they get no volume and are not ended; the first is") +
                   " next in line when a node becomes free. Raise nodes and running, or " +
                   (group.empty() ? "launch fewer" : "lower the group's capacity"),
               false);
  }
}

/// One that gave its volume back runs on for nothing until its group ends it.
void note_spent(Draft& draft, const PoolDraft& pool) {
  for (const auto* each : pool.instances) {
    const auto& instance = *each;
    const auto& id = instance.id;
    const auto departure = draft.ledger.departures.find(id);
    const bool spent = departure != draft.ledger.departures.end() && departure->second.released &&
                       !departure->second.reclaim_at;
    if (!spent || instance.group.empty() || !instance.running || draft.lease_on(id)) continue;
    draft.note(NoteKind::not_ours_to_end, pool.spec->name, "",
               id + " has given its volume back and serves nobody; " + who_ends(instance), false);
  }
}

/// How many ids may share a call with this one. One that is gone or protected fails the whole call:
/// after a refusal its ids go in smaller ones, then alone, so that only the culprit stays.
std::size_t company_of(const Draft& draft, const Ending& ending) {
  constexpr std::size_t kMostAfterRefusal = 7;
  const auto failure =
      draft.ledger.failures.find(failure_key("TerminateInstances", ending.instance_id));
  if (failure == draft.ledger.failures.end() || failure->second.throttled)
    return kMostPerTermination;
  return failure->second.count == 1 ? kMostAfterRefusal : 1;
}

void send_endings(Draft& draft, const PoolDraft& pool, Endings& endings) {
  for (auto& [zone, list] : endings) {
    const auto company = [&draft](const Ending& each) { return company_of(draft, each); };
    std::stable_sort(list.begin(), list.end(), [&](const Ending& left, const Ending& right) {
      return company(left) > company(right);
    });
    for (std::size_t first = 0, last = 0; first < list.size(); first = last) {
      aws::TerminateInstances call;
      std::string reason;
      const std::size_t most = company(list[first]);
      while (last < list.size() && last - first < most && company(list[last]) == most) ++last;
      for (auto i = first; i < last; ++i) {
        call.instance_ids.push_back(list[i].instance_id);
        if (reason.find(list[i].reason) == std::string::npos)
          reason += (reason.empty() ? "" : "; ") + list[i].reason;
      }
      if (!draft.act(std::move(call), pool.spec->name, {}, reason)) continue;
      for (auto i = first; i < last; ++i) {
        if (!list[i].lease) continue;
        Lease leaving = *list[i].lease;
        leaving.state = LeaseState::leaving;
        draft.set_lease(leaving, list[i].reason);
      }
    }
  }
}

}  // namespace

void retire(Draft& draft) {
  for (const auto& pool : draft.pools) {
    Endings endings;
    for (auto* each : pool.instances) {
      auto& instance = *each;
      tell_who_gave_back(draft, instance);
      if (const auto* lease = draft.lease_on(instance.id); lease && holds_volume(lease->state))
        retire_unwanted(draft, pool, instance, Lease(*lease), endings);
      else if (!lease && !instance.departing.empty())
        end_instance(draft, instance, instance.id + " " + instance.departing, endings);
    }
    retire_surplus(draft, pool, endings);
    if (!pool.spec->launch) note_extra(draft, pool);
    note_spent(draft, pool);
    send_endings(draft, pool, endings);
  }
}

}  // namespace warmroot::core
