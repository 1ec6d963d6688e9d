// The tag is the only memory: a manager that lost its ledger in the middle goes on from what EC2
// shows.
#include "manager/core/moving.hpp"

#include <algorithm>

#include "manager/core/census.hpp"
#include "manager/core/filling_facts.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/offers.hpp"
#include "manager/core/placing.hpp"
#include "manager/core/stocking.hpp"
#include "manager/core/warmth.hpp"

namespace warmroot::core {

namespace {

ZoneOffers offers_of(const Draft& draft, const PoolDraft& pool, const std::string& zone) {
  return offers_in(*pool.spec, zone, draft.observed.market, draft.refused_offers, draft.now);
}

bool has_capacity(const ZoneOffers& offers) {
  return !offers.usable().empty() && !offers.last_resort;
}

/// The zones of the pool that instances can be bought in now, in the spec's order.
std::vector<std::string> zones_with_capacity(const Draft& draft, const PoolDraft& pool) {
  std::vector<std::string> zones;
  for (const auto& zone : pool.spec->zones)
    if (has_capacity(offers_of(draft, pool, zone))) zones.push_back(zone);
  return zones;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_stranded(Draft& draft, const NodeDraft& node) {
  return node.wanted && node.volume && node.volume->state == aws::VolumeState::available &&
         !attachment_of(*node.volume) && !draft.holder_of(node.volume_id) &&
         !waiting_lease(draft, node) && !draft.undecided(node.volume_id);
}

/// The volumes that nodes of the pools left behind, by node.
std::map<std::string, std::vector<const aws::Volume*>> parked_volumes(const Draft& draft) {
  std::map<std::string, std::vector<const aws::Volume*>> parked;
  for (const auto* volume : draft.parked) {
    const auto* record = draft.ledger.volumes.get(volume->volume_id);
    const auto node = record ? record->node : tag_of(volume->tags, kTagNode);
    parked[node].push_back(volume);
  }
  return parked;
}

void note_parked(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                 const aws::Volume& volume) {
  draft.note(NoteKind::zone_moved, pool.spec->name, node.name,
             "volume " + volume.volume_id + " (" + std::to_string(volume.size_gib) + " GiB) of " +
                 node.name + " stays in " + volume.availability_zone +
                 ", detached and kept with its data and warmth, because the node moved to " +
                 tag_of(volume.tags, kTagParked) + ": remove its tag " + kTagParked + " to have " +
                 node.name + " return to it at its next launch",
             false);
}

/// A parked volume of its own before any other.
void come_back(Draft& draft, PoolDraft& pool, NodeDraft& node,
               const std::vector<const aws::Volume*>& parked,
               const std::vector<std::string>& zones) {
  // What may have been made elsewhere would be its second one.
  for (const auto* action : {"CreateVolume", "CopyVolumes", "RunInstances"})
    if (draft.may_be_done_already(action, node.name)) {
      node.asked = true;
      return;
    }
  for (const auto* volume : parked) {
    if (!contains(zones, volume->availability_zone) || draft.undecided(volume->volume_id)) continue;
    node.zone = volume->availability_zone;
    node.asked = true;  // no other volume is made for it
    if (!draft.backing_off("DeleteTags", node.name))
      draft.act(aws::DeleteTags{{volume->volume_id}, {kTagParked}}, pool.spec->name, {node.name},
                node.name + " returns to its own volume, " + node.zone + " has capacity");
    return;
  }
}

/// In brackets; nothing where nobody has said.
std::string how_warm(const Draft& draft, const std::string& volume_id) {
  const auto percent = warmth_of(draft, volume_id);
  return percent ? " (" + std::to_string(*percent) + " %)" : std::string();
}

/// What a zone has for the nodes that move there at this look.
class Destinations {
 public:
  Destinations(Draft& draft, const PoolDraft& pool) : draft_(draft), pool_(pool) {}

  /// What the next one gets.
  std::string next_gets(const std::string& zone, const std::string& node) {
    const auto [spares, is_new] = spares_.try_emplace(zone);
    if (is_new) spares->second = spares_in(draft_, pool_, zone);
    const auto moved = moved_[zone]++;
    if (moved < spares->second.size())
      return "takes spare " + spares->second[moved] + " there" +
             how_warm(draft_, spares->second[moved]);
    return "gets a new volume from " + pool_.source.snapshot_id + " there, " + made(zone, node);
  }

 private:
  std::string made(const std::string& zone, const std::string& node) {
    if (!facts_) facts_.emplace(draft_);
    const auto within = pool_.spec->stock.ready_within;
    auto facts = facts_->of(draft_, pool_, zone, node, within > Milliseconds{0});
    // As stocking.cpp: who waits gets a cold one rather than a copy in some minutes.
    if (facts.copy_after && *facts.copy_after > kAvailableAfter) facts.copy_after.reset();
    return choose_fill(facts, within).why;
  }

  Draft& draft_;
  const PoolDraft& pool_;
  std::optional<FillingFacts> facts_;
  std::map<std::string, std::vector<std::string>> spares_;  // by zone
  std::map<std::string, std::size_t> moved_;
};

void move_away(Draft& draft, PoolDraft& pool, NodeDraft& node, const std::string& target,
               Destinations& destinations) {
  const auto& volume = *node.volume;
  if (target == node.zone || draft.backing_off("CreateTags", node.name)) return;
  std::string reason;
  if (draft.calls_left("CreateTags") != 0)  // else nobody reads it
    reason = node.zone + " has had no capacity for a minute: " + node.name + " moves to " + target +
             " and " + destinations.next_gets(target, node.name) + "; " + volume.volume_id +
             " stays in " + node.zone + ", detached and kept: its data and warmth" +
             how_warm(draft, volume.volume_id) + " do not come along";
  if (!draft.act(aws::CreateTags{{volume.volume_id}, {{kTagParked, target}, {kTagNode, node.name}}},
                 pool.spec->name, {node.name}, reason))
    return;
  draft.note(NoteKind::zone_moved, pool.spec->name, node.name, reason, false);
  node.asked = true;  // until the tag is seen, nothing is made or launched for it
}

void move_pool(Draft& draft, PoolDraft& pool,
               const std::map<std::string, std::vector<const aws::Volume*>>& parked) {
  const auto zones = zones_with_capacity(draft, pool);
  std::map<std::string, bool> dry;  // by zone: for long enough
  for (const auto& zone : pool.spec->zones) {
    const auto offers = offers_of(draft, pool, zone);
    const bool empty = !has_capacity(offers) && offers.dry_since;
    if (empty && draft.now < *offers.dry_since + kMoveAfter)
      draft.wake_at(*offers.dry_since + kMoveAfter);
    dry[zone] = empty && draft.now >= *offers.dry_since + kMoveAfter;
  }
  std::vector<const NodeDraft*> stranded;
  std::map<std::string, int> coming;
  for (auto& node : pool.nodes) {
    const auto left_behind = parked.find(node.name);
    if (left_behind != parked.end())
      for (const auto* volume : left_behind->second)
        if (!node.volume_id.empty()) note_parked(draft, pool, node, *volume);
    if (node.volume_id.empty() && !node.asked && left_behind != parked.end()) {
      // The one that it was moved to may not be shown yet to a ledger that does not know of it.
      if (draft.looking_around()) {
        node.asked = true;
        continue;
      }
      come_back(draft, pool, node, left_behind->second, zones);
      // A look that lags behind its return shows it as still away: a second volume would be its.
      if (!node.asked) node.asked = !draft.surely("away/" + node.name);
    } else if (pool.spec->launch->zone_fallback && !zones.empty() && dry[node.zone] &&
               is_stranded(draft, node) && !draft.launch_asked_for(node.name, node.zone)) {
      const auto [left, is_new] = coming.try_emplace(node.zone, 0);
      if (is_new) left->second = instances_coming(draft, pool, node.zone);
      if (left->second-- <= 0) stranded.push_back(&node);
    }
  }
  const auto targets = zones_for(draft, pool, stranded);
  Destinations destinations(draft, pool);
  for (std::size_t i = 0; i < stranded.size(); ++i)
    move_away(draft, pool, *pool.find_node(stranded[i]->name), targets[i], destinations);
}

/// The volumes that the node would have beside the one that it serves from, parked in their turn.
/// True when none is left. A rollout makes a second one on purpose.
bool parked_others(Draft& draft, const PoolDraft& pool, const NodeDraft& node) {
  if (pool.spec->rollout.policy == RolloutSpec::Policy::replace) return true;
  bool none = true;
  for (const auto* other : node.others) {
    const auto& id = other->volume_id;
    if (!draft.ledger.volumes.contains(id)) continue;  // somebody copied the tags
    none = false;
    if (attachment_of(*other) || draft.holder_of(id) || draft.undecided(id) ||
        draft.backing_off("CreateTags", node.name))
      continue;
    draft.act(aws::CreateTags{{id}, {{kTagParked, node.zone}, {kTagNode, node.name}}},
              pool.spec->name, {node.name},
              node.name + " serves from " + node.volume_id + " in " + node.zone + " again: " + id +
                  " stays in " + other->availability_zone + ", detached and kept");
  }
  return none;
}

/// A node that is served again from what it left behind stays with it: the tag would make the
/// volume look left behind at the next interruption. What it got meanwhile changes places with it.
void unpark_attached(Draft& draft) {
  for (const auto& [id, volume] : draft.observed.volumes) {
    const auto* attachment = attachment_of(volume);
    if (!attachment || !has_tag(volume.tags, kTagParked) ||
        !draft.find_instance(attachment->instance_id) || draft.undecided(id))
      continue;
    const std::string name = tag_of(volume.tags, kTagNode);
    const auto* pool = draft.find_pool_of(name);
    if (!pool || draft.backing_off("DeleteTags", name)) continue;
    const auto* node = pool->find_node(name);
    if (node && node->volume_id == id && !parked_others(draft, *pool, *node)) continue;
    draft.act(aws::DeleteTags{{id}, {kTagParked}}, pool->spec->name, {name},
              name + " serves from it again");
  }
}

}  // namespace

bool is_parked(const aws::Volume& volume) {
  return has_tag(volume.tags, kTagParked) && !attachment_of(volume);
}

void move_nodes(Draft& draft) {
  unpark_attached(draft);
  const auto parked = parked_volumes(draft);
  for (auto& pool : draft.pools)
    if (pool.spec->launch && pool.source.problems.empty() &&
        (!parked.empty() || (pool.spec->launch->zone_fallback && pool.spec->zones.size() > 1)))
      move_pool(draft, pool, parked);
}

}  // namespace warmroot::core
