// Counts what is there, what is coming and what was asked for, and launches the rest. A node is
// launched for only when its volume was made, so that a refused volume does not leave an instance
// that is paid for nothing.
#include "manager/core/launching.hpp"

#include <algorithm>
#include <limits>

#include "bootstrap/base/words.hpp"
#include "manager/core/adopting.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/budget.hpp"
#include "manager/core/launch_calls.hpp"
#include "manager/core/launch_limits.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/offers.hpp"
#include "manager/core/templates.hpp"

namespace warmroot::core {

namespace {

/// One call's share of EC2's bucket of instances (1,000); smaller calls fail less as a whole.
constexpr std::size_t kMostPerLaunch = 100;
/// Where there are too few tokens for calls of that size, up to so many go in one.
constexpr std::size_t kMostPerLaunchAtAll = 250;

bool without_instance(Draft& draft, const NodeDraft& node) {
  return node.wanted && !serving_lease(draft, node) && !waiting_lease(draft, node);
}

/// One that leaves without ever having had a volume still costs a place until EC2 shows it on its
/// way out: its end is asked for in this plan, or when EC2 shows it again. A launch beside it would
/// be one too many.
bool holds_its_place(Draft& draft, const InstanceDraft& instance) {
  return (instance.pending || instance.running) && instance.launched &&
         !instance.departing.empty() && !draft.lease_on(instance.id) &&
         !draft.would_delete_volume(instance.id) &&
         !draft.ledger.failures.contains(failure_key("TerminateInstances", instance.id));
}

/// EC2 shows a volume of ours on it, and no lease says so: its own listing lags behind that of the
/// volume, which it is about to get again, or it is misled and retired for that within a minute,
/// unless somebody else's is on it, too. A launch beside it would be one too many.
bool may_be_free_soon(Draft& draft, const InstanceDraft& instance) {
  return (instance.pending || instance.running) && instance.launched &&
         instance.departing.empty() && !instance.ending && !instance.carries &&
         !draft.lease_on(instance.id) && draft.shows_volume_on(instance.id) &&
         !holds_unknown_volume(draft, instance) &&
         !draft.ledger.failures.contains(failure_key("TerminateInstances", instance.id));
}

bool backs_off(Draft& draft, const NodeDraft& node) {
  return draft.backing_off("RunInstances", node.name) ||
         draft.backing_off("CreateFleet", node.name);
}

/// When a launch for the node was throttled. It may have been carried out all the same: its nodes
/// are launched for again together and with nobody else, so that the call has the same token and
/// EC2 answers it with the instances that it made.
std::optional<Instant> throttled_at(const Draft& draft, const NodeDraft& node) {
  for (const auto* action : {"RunInstances", "CreateFleet"}) {
    const auto failure = draft.ledger.failures.find(failure_key(action, node.name));
    if (failure != draft.ledger.failures.end() && failure->second.throttled)
      return failure->second.last;
  }
  return std::nullopt;
}

/// Leaves those out that have to wait, and those that were in a throttled call with one of them.
void drop_waiting(Draft& draft, std::vector<NodeDraft*>& nodes) {
  std::set<std::optional<Instant>> waiting;
  std::set<const NodeDraft*> held;
  for (const auto* node : nodes) {
    if (!backs_off(draft, *node)) continue;
    held.insert(node);
    waiting.insert(throttled_at(draft, *node));
  }
  std::erase_if(nodes, [&](const NodeDraft* node) {
    const auto at = throttled_at(draft, *node);
    return held.contains(node) || (at && waiting.contains(at));
  });
}

/// The nodes of each call.
std::vector<std::vector<NodeDraft*>> split_into_calls(const Draft& draft,
                                                      std::vector<NodeDraft*> nodes,
                                                      std::size_t per_call) {
  std::stable_sort(nodes.begin(), nodes.end(), [&](const auto* left, const auto* right) {
    return throttled_at(draft, *left) < throttled_at(draft, *right);
  });
  std::vector<std::vector<NodeDraft*>> calls;
  for (auto* node : nodes) {
    if (calls.empty() || calls.back().size() == per_call ||
        throttled_at(draft, *calls.back().front()) != throttled_at(draft, *node))
      calls.emplace_back();
    calls.back().push_back(node);
  }
  return calls;
}

/// Another launch for one of them may have been carried out: what it made is not shown yet.
bool may_be_launched_already(Draft& draft, const std::vector<NodeDraft*>& nodes,
                             const std::string& token) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeDraft* node) {
    return draft.may_be_done_already("RunInstances", node->name, token) ||
           draft.may_be_done_already("CreateFleet", node->name, token);
  });
}

std::vector<std::string> names_of(const std::vector<NodeDraft*>& nodes) {
  std::vector<std::string> names;
  for (const auto* node : nodes) names.push_back(node->name);
  return names;
}

/// The nodes of the zone that have a volume and no instance. Those that an instance on its way will
/// serve are marked: first those that a launch without an answer names. Source: invariant (7), seed
/// 44000007287.
std::vector<NodeDraft*> mark_covered(Draft& draft, PoolDraft& pool, const std::string& zone) {
  std::vector<NodeDraft*> waiting;
  for (auto& node : pool.nodes)
    if (node.zone == zone && !node.volume_id.empty() && without_instance(draft, node))
      waiting.push_back(&node);
  std::stable_partition(waiting.begin(), waiting.end(), [&](const NodeDraft* node) {
    return draft.launch_asked_for(node->name, zone);
  });
  int coming = waiting.empty() ? 0 : instances_coming(draft, pool, zone);
  for (auto* node : waiting) node->covered = coming-- > 0;
  return waiting;
}

/// Those that somebody has to launch for.
std::vector<NodeDraft*> find_missing(Draft& draft, PoolDraft& pool, const std::string& zone) {
  auto missing = mark_covered(draft, pool, zone);
  // One that is asked for is about to leave its volume.
  std::erase_if(missing, [](const NodeDraft* node) { return node->covered || node->asked; });
  std::sort(missing.begin(), missing.end(), [](const NodeDraft* left, const NodeDraft* right) {
    return left->index < right->index;
  });
  drop_waiting(draft, missing);
  return missing;
}

void ask_others(Draft& draft, const PoolDraft& pool, const std::string& zone,
                const std::vector<NodeDraft*>& missing) {
  const std::string& group = pool.spec->auto_scaling_group;
  if (!group.empty())
    return draft.note(
        NoteKind::nobody_launched, pool.spec->name, "",
        std::to_string(missing.size()) + (missing.size() == 1 ? " node" : " nodes") + " of " +
            pool.spec->name + " in " + zone + (missing.size() == 1 ? " has" : " have") +
            " no instance: Auto Scaling group " + group + " runs as many as it is told",
        false);
  for (const auto* node : missing)
    draft.note(NoteKind::nobody_launched, pool.spec->name, node->name,
               "no running instance tagged " + std::string(kTagPool) + "=" + pool.spec->name +
                   " in " + zone + " is free: launch one",
               true);
}

/// Nobody has to act for capacity; a price that is too low or a type that is not there are the
/// spec's.
void note_nothing_to_buy(Draft& draft, const PoolDraft& pool, const std::string& zone,
                         const ZoneOffers& offers, std::size_t nodes) {
  std::string text = std::to_string(nodes) + (nodes == 1 ? " node waits" : " nodes wait") +
                     " for an instance in " + zone + ": " + joined(offers.reasons, ", ");
  if (offers.retry) {
    draft.wake_at(*offers.retry);
    // A time of day, so that the note stays the same note from look to look.
    text += "; tried again at " +
            to_iso8601(std::chrono::ceil<std::chrono::seconds>(*offers.retry)).substr(11, 8) +
            " UTC";
  }
  text += ": allow more instance_types or zones";
  if (offers.dry_since && !pool.spec->launch->on_demand_fallback) text += ", or on_demand_fallback";
  draft.note(NoteKind::no_capacity, pool.spec->name, "", text, true);
  draft.plan.notes.back().passes = offers.retry.has_value();
}

/// EC2 chooses in a fleet: it may be the dearest. Absent when the price of one is not known.
std::optional<MicroUsd> dearest_of(const std::vector<PricedOffer>& offers) {
  MicroUsd most = 0;
  for (const auto& [offer, price] : offers) {
    if (!price) return std::nullopt;
    most = std::max(most, *price);
  }
  return most;
}

/// A fleet may take the dearest of its types: those that the limit has no room for stay out, and
/// those of which nobody knows the price.
void leave_out_what_is_too_dear(ZoneOffers& offers, const LaunchRoom& room) {
  auto& list = offers.spot.empty() ? offers.on_demand : offers.spot;
  while (list.size() > 1 && !room.affords(dearest_of(list)))
    list.erase(std::max_element(list.begin(), list.end(), [](const auto& left, const auto& right) {
      constexpr MicroUsd kUnknown = std::numeric_limits<MicroUsd>::max();
      return left.price.value_or(kUnknown) < right.price.value_or(kUnknown);
    }));
}

void send_launches(Draft& draft, PoolDraft& pool, const ZoneOffers& offers,
                   const FleetChoice& fleet, const std::vector<NodeDraft*>& missing) {
  const auto& best = offers.usable().front().offer;
  for (const auto& nodes : split_into_calls(draft, missing, kMostPerLaunch)) {
    const auto names = names_of(nodes);
    const auto reason = why_launched(names, offers);
    aws::Mutation call = run_call(draft, *pool.spec, best, names);
    if (fleet.way == FleetWay::fleet)
      call = fleet_call(draft, *pool.spec, fleet.template_id, offers.usable(), names);
    if (may_be_launched_already(draft, nodes, token_of(call))) continue;
    if (!draft.act(std::move(call), pool.spec->name, names, reason, best.zone)) return;
    for (auto* node : nodes) node->covered = true;
  }
}

/// Nodes of the zone whose first volume may come with their first launch.
std::vector<NodeDraft*> find_bare(Draft& draft, PoolDraft& pool, const std::string& zone) {
  std::vector<NodeDraft*> bare;
  if (!pool.spec->launch || !pool.spec->launch->volume_with_launch) return bare;
  for (auto& node : pool.nodes)
    if (node.zone == zone && node.wanted && !node.beyond && node.volume_id.empty() && !node.asked &&
        !draft.may_be_done_already("CreateVolume", node.name) &&
        !draft.may_be_done_already("CopyVolumes", node.name))
      bare.push_back(&node);
  drop_waiting(draft, bare);
  const int attaches = draft.calls_left("AttachVolume").value_or(static_cast<int>(bare.size()));
  if (volumes_by_launch(static_cast<int>(bare.size()), attaches) == 0) bare.clear();
  return bare;
}

/// What does not go out is left to stocking, which makes the volumes by themselves.
void launch_with_volumes(Draft& draft, PoolDraft& pool, const std::string& zone, LaunchRoom& room) {
  auto bare = find_bare(draft, pool, zone);
  if (bare.empty() || !pool.source.problems.empty() || draft.looking_around()) return;
  const auto offers =
      offers_in(*pool.spec, zone, draft.observed.market, draft.refused_offers, draft.now);
  if (offers.usable().empty()) return;
  const auto& best = offers.usable().front();
  const int most = draft.take(kInstancesLaunched, static_cast<int>(bare.size()));
  bare.resize(static_cast<std::size_t>(room.take(most, best.price)));
  const auto calls =
      static_cast<std::size_t>(std::max(1, draft.calls_left("RunInstances").value_or(1'000)));
  const auto per_call =
      std::clamp((bare.size() + calls - 1) / calls, kMostPerLaunch, kMostPerLaunchAtAll);
  for (const auto& nodes : split_into_calls(draft, bare, per_call)) {
    const auto names = names_of(nodes);
    auto call = run_call_with_volumes(draft, pool, best.offer, names);
    if (may_be_launched_already(draft, nodes, call.client_token)) continue;
    if (!draft.act(std::move(call), pool.spec->name, names,
                   why_launched(names, offers) + "; the launch makes the volumes too", zone))
      break;
    for (auto* node : nodes) node->asked = node->covered = true;
  }
}

void launch_in_zone(Draft& draft, PoolDraft& pool, const std::string& zone, LaunchRoom& room) {
  launch_with_volumes(draft, pool, zone, room);
  auto missing = find_missing(draft, pool, zone);
  if (missing.empty() || !pool.source.may_launch || draft.looking_around()) return;
  if (!pool.spec->launch) return ask_others(draft, pool, zone, missing);
  auto offers = offers_in(*pool.spec, zone, draft.observed.market, draft.refused_offers, draft.now);
  if (offers.usable().empty())
    return note_nothing_to_buy(draft, pool, zone, offers, missing.size());
  auto fleet = offers.usable().size() > 1 ? choose_fleet(draft, pool) : FleetChoice{};
  if (fleet.way == FleetWay::wait) return;
  if (fleet.way == FleetWay::fleet) leave_out_what_is_too_dear(offers, room);
  if (offers.usable().size() == 1) fleet = {};
  const auto price =
      fleet.way == FleetWay::fleet ? dearest_of(offers.usable()) : offers.usable().front().price;
  const int most = draft.take(kInstancesLaunched, static_cast<int>(missing.size()));
  missing.resize(static_cast<std::size_t>(room.take(most, price)));
  send_launches(draft, pool, offers, fleet, missing);
}

}  // namespace

int instances_coming(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  int count = 0;
  for (const auto* each : pool.instances) {
    const auto& instance = *each;
    if (instance.zone == zone && (unassigned(draft, instance) || holds_its_place(draft, instance) ||
                                  may_be_free_soon(draft, instance)))
      ++count;
  }
  return count + draft.launches_asked(pool.spec->name, zone);
}

bool unassigned(Draft& draft, const InstanceDraft& instance) {
  return (instance.running || instance.pending) && instance.departing.empty() && !instance.ending &&
         !instance.carries && !draft.lease_on(instance.id) && !draft.shows_volume_on(instance.id) &&
         !draft.may_come_late("TerminateInstances", instance.id);
}

int nodes_without_instance(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  int count = 0;
  for (const auto& node : pool.nodes)
    if (node.zone == zone && without_instance(draft, node)) ++count;
  return count;
}

void count_coming(Draft& draft) {
  for (auto& pool : draft.pools) {
    std::set<std::string> zones;
    for (const auto& node : pool.nodes) zones.insert(node.zone);
    for (const auto& zone : zones) mark_covered(draft, pool, zone);
  }
}

void launch(Draft& draft) {
  for (auto& pool : draft.pools) {
    std::set<std::string> zones;
    for (const auto& node : pool.nodes)
      if (node.wanted) zones.insert(node.zone);
    LaunchRoom room(draft, pool);
    for (const auto& zone : zones) launch_in_zone(draft, pool, zone, room);
    room.note_shortage();
  }
}

}  // namespace warmroot::core
