#include "manager/core/rollout.hpp"

#include <algorithm>

#include "manager/core/departing.hpp"
#include "manager/core/filling_facts.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/stocking.hpp"

namespace warmroot::core {

namespace {

/// An Auto Scaling group replaces an instance within minutes.
constexpr Milliseconds kGroupPatience{900'000};

bool outdated(const PoolDraft& pool, const aws::Volume* volume) {
  if (!volume || pool.source.snapshot_id.empty()) return false;
  const auto lineage = lineage_of(*volume);
  return !lineage.empty() && lineage != pool.source.snapshot_id;
}

bool is_free(Draft& draft, const aws::Volume& volume) {
  return volume.state == aws::VolumeState::available && !attachment_of(volume) &&
         !draft.holder_of(volume.volume_id) && !draft.undecided(volume.volume_id);
}

/// The node's volume of the present source, made for it or retired in an earlier rollout.
const aws::Volume* next_volume(const PoolDraft& pool, const NodeDraft& node) {
  const aws::Volume* best = nullptr;
  for (const auto* other : node.others)
    if (lineage_of(*other) == pool.source.snapshot_id && !awaits_its_tag(*other) &&
        (!best || other->volume_id < best->volume_id))
      best = other;
  return best;
}

/// A spare of the present source was given to it, and the tag that says so has not got through.
bool awaits_next(const PoolDraft& pool, const NodeDraft& node) {
  return std::any_of(node.others.begin(), node.others.end(), [&](const aws::Volume* other) {
    return lineage_of(*other) == pool.source.snapshot_id && awaits_its_tag(*other);
  });
}

/// Read in full, as far as the pool asks for that; not waited for beyond the time it asks for, be
/// that by EC2's clock or, where ours is behind it, since the volume was first seen free.
bool is_ready(Draft& draft, const PoolDraft& pool, const aws::Volume& volume) {
  if (!is_free(draft, volume)) return false;
  const auto within = pool.spec->stock.ready_within;
  const Watch free = draft.hold("next/" + volume.volume_id);
  const Instant due = std::min(volume.create_time.value_or(free.since), free.since) + within;
  if (draft.now >= due || has_tag(volume.tags, kTagRetired)) return true;
  if (is_filled(draft, volume.volume_id)) return true;
  draft.wake_at(due);
  return false;
}

void record_role(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                 const aws::Volume& volume, VolumeRole role) {
  OwnedVolume owned{pool.spec->name, node.name, volume.availability_zone, draft.now, true, true};
  if (const auto* known = draft.ledger.volumes.get(volume.volume_id); known) owned = *known;
  owned.seen = true;
  owned.role = role;
  draft.record(RecordVolume{volume.volume_id, owned});
}

bool mark_retired(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                  const aws::Volume& volume, const std::string& why) {
  if (draft.undecided(volume.volume_id) || draft.backing_off("CreateTags", node.name)) return false;
  if (!draft.act(
          aws::CreateTags{{volume.volume_id}, {{kTagRetired, node.name}, {kTagNode, node.name}}},
          pool.spec->name, {node.name}, why))
    return false;
  record_role(draft, pool, node, volume, VolumeRole::retired);
  return true;
}

bool unmark_retired(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                    const aws::Volume& volume) {
  if (!has_tag(volume.tags, kTagRetired)) {
    record_role(draft, pool, node, volume, VolumeRole::node);
    return true;
  }
  if (draft.undecided(volume.volume_id) || draft.backing_off("DeleteTags", node.name)) return false;
  if (!draft.act(aws::DeleteTags{{volume.volume_id}, {kTagRetired}}, pool.spec->name, {node.name},
                 volume.volume_id + " is " + node.name + "'s again"))
    return false;
  record_role(draft, pool, node, volume, VolumeRole::node);
  return true;
}

/// Retired by an earlier rollout, and the node has nothing else. True when it is the node's again;
/// until its tag may go, nothing else is made.
bool take_back(Draft& draft, const PoolDraft& pool, NodeDraft& node) {
  const auto* former = next_volume(pool, node);
  if (former) node.asked = true;
  if (!former || !unmark_retired(draft, pool, node, *former)) return false;
  node.asked = false;
  node.volume_id = former->volume_id;
  node.volume = former;
  node.zone = former->availability_zone;
  std::erase(node.others, former);
  return true;
}

/// What tags say and records do not, and the other way round, after crashes and lost ledgers.
void mend_tags(Draft& draft, const PoolDraft& pool, NodeDraft& node) {
  const auto is_recorded = [&](const aws::Volume& volume) {
    const auto* record = draft.ledger.volumes.get(volume.volume_id);
    return record && record->role == VolumeRole::retired;
  };
  if (node.volume && (has_tag(node.volume->tags, kTagRetired) || is_recorded(*node.volume)))
    unmark_retired(draft, pool, node, *node.volume);
  for (const auto* other : node.others) {
    if (has_tag(other->tags, kTagRetired) || attachment_of(*other)) continue;
    const bool left_behind = node.volume && outdated(pool, other) && !outdated(pool, node.volume) &&
                             pool.spec->rollout.policy == RolloutSpec::Policy::replace;
    if (is_recorded(*other) || left_behind)
      mark_retired(draft, pool, node, *other,
                   node.name + " has " + node.volume_id + " in place of " + other->volume_id);
  }
}

bool unavailable(Draft& draft, const NodeDraft& node) {
  if (!node.wanted) return false;
  const auto* lease = serving_lease(draft, node);
  const auto back = lease ? back_by(draft, lease->instance_id) : std::nullopt;
  if (back && draft.now < *back) return true;  // for longer it may be back, and not heard
  return !lease || (lease->state != LeaseState::checking && lease->state != LeaseState::active);
}

/// The old volume is free and the new one ready: from here on the new one is the node's.
void hand_over(Draft& draft, PoolDraft& pool, NodeDraft& node, const aws::Volume& next) {
  const aws::Volume* old = node.volume;
  const std::string why = node.name + " moves to " + next.volume_id + " of " +
                          pool.source.snapshot_id + "; " + old->volume_id + " is kept";
  // First the one that it goes on with: with both marked, it would have none.
  if (has_tag(next.tags, kTagRetired) && !unmark_retired(draft, pool, node, next)) return;
  if (!mark_retired(draft, pool, node, *old, why)) return;
  record_role(draft, pool, node, next, VolumeRole::node);
  // Whoever waits for the old one is given the new one.
  if (const auto* waiting = draft.reservation_of(old->volume_id)) {
    Lease over = *waiting;
    over.state = LeaseState::ended;
    draft.set_lease(over, why);
  }
  node.volume_id = next.volume_id;
  node.volume = &next;
  node.zone = next.availability_zone;  // one retired before the node moved lies where it was
  std::erase(node.others, &next);
  node.others.push_back(old);
  node.moving = false;
}

/// True while it counts against the budget.
bool move_node(Draft& draft, PoolDraft& pool, NodeDraft& node, bool may_interrupt) {
  const auto* next = next_volume(pool, node);
  if (!next || !is_ready(draft, pool, *next)) return false;
  const bool interrupts = node.wanted && !unavailable(draft, node);
  if (interrupts && !may_interrupt) return false;
  node.moving = true;
  if (node.wanted) draft.hold("rollout/" + node.name);
  if (is_free(draft, *node.volume)) hand_over(draft, pool, node, *next);
  return interrupts;
}

/// Nobody gets an old volume that is free, as the node is about to have the new one.
void hold_back(Draft& draft, PoolDraft& pool) {
  for (auto& node : pool.nodes) {
    if (node.beyond || !outdated(pool, node.volume) || !is_free(draft, *node.volume)) continue;
    const auto* next = next_volume(pool, node);
    node.moving = next != nullptr && is_ready(draft, pool, *next);
  }
}

/// A group may have fewer instances than there are nodes. A node that has lacked one for so long is
/// one too many for it, and holds no rollout up; unless an instance that has given its volume back
/// still has its place in the group.
int too_many_for_the_group(Draft& draft, const PoolDraft& pool) {
  if (pool.spec->launch) return 0;
  int count = 0;
  for (const auto& node : pool.nodes) {
    if (node.beyond || !node.wanted || serving_lease(draft, node) || waiting_lease(draft, node))
      continue;
    const Watch lacking = draft.hold("lacks an instance/" + node.name);
    draft.wake_at(lacking.since + kGroupPatience);
    if (draft.now - lacking.since >= kGroupPatience) ++count;
  }
  for (const auto* instance : pool.instances)
    if (instance->running && !instance->departing.empty()) --count;
  return std::max(0, count);
}

void move_nodes(Draft& draft, PoolDraft& pool) {
  int budget = pool.spec->rollout.max_unavailable + too_many_for_the_group(draft, pool);
  for (const auto& node : pool.nodes)
    if (!node.beyond && unavailable(draft, node)) --budget;
  const auto begun = [&](const NodeDraft& node) {
    return draft.ledger.watches.contains("rollout/" + node.name);
  };
  for (const bool first : {true, false})
    for (auto& node : pool.nodes) {
      if (node.beyond || !outdated(pool, node.volume) || begun(node) != first) continue;
      if (move_node(draft, pool, node, first || budget > 0)) --budget;
    }
}

/// Those in turn alone: a volume that waits is paid for.
void prepare_next(Draft& draft, PoolDraft& pool) {
  int turn = 0;
  for (auto& node : pool.nodes) {
    if (node.beyond || !outdated(pool, node.volume)) continue;
    if (turn++ >= pool.spec->rollout.max_unavailable) return;
    if (node.asked || node.other_coming || awaits_next(pool, node) || next_volume(pool, node))
      continue;
    node.other_coming =
        take_spare(draft, pool, node, node.name + " moves to " + pool.source.snapshot_id);
    node.wants_next = !node.other_coming;
  }
}

void note_rollout(Draft& draft, PoolDraft& pool) {
  int old = 0;
  int all = 0;
  std::string lineage;
  for (const auto& node : pool.nodes) {
    if (node.beyond || !node.volume) continue;
    ++all;
    if (!outdated(pool, node.volume)) continue;
    ++old;
    lineage = lineage_of(*node.volume);
  }
  if (old == 0) return;
  const auto& source = pool.source.snapshot_id;
  const std::string counted = std::to_string(old) + " of " + std::to_string(all) +
                              (all == 1 ? " volume was" : " volumes were") + " made from " +
                              lineage + ", the spec now says " + source;
  if (pool.spec->rollout.policy == RolloutSpec::Policy::keep) {
    draft.note(NoteKind::lineage_changed, pool.spec->name, "",
               counted +
                   ": nodes keep their volumes and all data on them; write [pool.rollout] "
                   "policy = \"replace\" to give each node a new one",
               false);
    return;
  }
  pool.rolling = true;
  draft.note(NoteKind::rollout, pool.spec->name, "",
             counted + ": each node gets a new volume, at most " +
                 std::to_string(pool.spec->rollout.max_unavailable) +
                 " at a time is interrupted; WHAT PEOPLE WROTE ON THE OLD VOLUME IS NOT ON THE NEW "
                 "ONE; the old one is kept, detached, tagged " +
                 kTagRetired +
                 "=<node>, until you delete it; to go back, name the old source again",
             false);
}

}  // namespace

void roll_out(Draft& draft) {
  for (auto& pool : draft.pools) {
    if (pool.source.snapshot_id.empty()) continue;
    note_rollout(draft, pool);
    const bool replaces = pool.spec->rollout.policy == RolloutSpec::Policy::replace;
    if (draft.looking_around()) {  // a newer volume may not be visible yet
      if (replaces) hold_back(draft, pool);
      continue;
    }
    for (auto& node : pool.nodes) {
      const bool lost = replaces && node.volume_id.empty() && !node.beyond;
      if (!lost || !take_back(draft, pool, node)) mend_tags(draft, pool, node);
    }
    if (!replaces) continue;
    move_nodes(draft, pool);
    prepare_next(draft, pool);
  }
}

}  // namespace warmroot::core
