// Volumes first, then instances. EC2 and its tags say what exists and whose it is; the ledger says
// what we meant.
#include "manager/core/census.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "manager/core/adopting.hpp"
#include "manager/core/departing.hpp"
#include "manager/core/moving.hpp"
#include "manager/core/replacing.hpp"
#include "manager/core/stock_census.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

bool usable(const Draft& draft, const aws::Volume& volume) {
  using enum aws::VolumeState;
  return (volume.state == creating || volume.state == available || volume.state == in_use) &&
         !draft.is_set_aside(volume) && !is_parked(volume);
}

/// Tags that say whose it is and tell the truth about the volume's origin.
bool tells_the_truth(const aws::Volume& volume) {
  const auto& lineage = tag_of(volume.tags, kTagLineage);
  return !lineage.empty() && (volume.snapshot_id.empty() || volume.snapshot_id == lineage);
}

/// A rollout took it from its node. The tag alone counts too: a ledger may be lost or an old copy.
bool is_retired(const Draft& draft, const aws::Volume& volume) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  return has_tag(volume.tags, kTagRetired) || (record && record->role == VolumeRole::retired);
}

/// Smaller is better: attached or leased, not retired, recorded, used before, older, then by id.
auto rank_of(Draft& draft, const aws::Volume& volume) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  const bool recorded = record;
  return std::make_tuple(!attachment_of(volume) && !draft.holder_of(volume.volume_id),
                         is_retired(draft, volume), !recorded, !(recorded && record->ever_used),
                         volume.create_time.value_or(Instant::max()), volume.volume_id);
}

NodeDraft& node_for(PoolDraft& pool, const std::string& name, int index) {
  if (auto* known = pool.find_node(name)) return *known;
  NodeDraft beyond;
  beyond.name = name;
  beyond.index = index;
  beyond.beyond = true;
  pool.nodes.push_back(beyond);
  return pool.nodes.back();
}

void adopt_or_mark_seen(Draft& draft, const aws::Volume& volume, const PoolDraft& pool,
                        const NodeDraft& node) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  const bool recorded = record;
  // A spare that the ledger knows as such has been given to the node since, by its tag.
  const bool changed = recorded && record->node != node.name;
  if (recorded && record->seen && !changed) return;
  OwnedVolume owned{pool.spec->name, node.name, volume.availability_zone, draft.now, true, true};
  if (recorded && !changed) {
    owned = *record;
    owned.seen = true;
  }
  draft.record(RecordVolume{volume.volume_id, owned});
}

struct Claims {
  PoolDraft* pool = nullptr;
  int index = 0;
  std::vector<const aws::Volume*> volumes;
};

void give_best_volume(Draft& draft, const std::string& name, Claims& claims) {
  auto& node = node_for(*claims.pool, name, claims.index);
  std::sort(claims.volumes.begin(), claims.volumes.end(),
            [&](const aws::Volume* left, const aws::Volume* right) {
              return rank_of(draft, *left) < rank_of(draft, *right);
            });
  const aws::Volume& own = *claims.volumes.front();
  const bool has_own =
      !is_retired(draft, own) || attachment_of(own) || draft.holder_of(own.volume_id);
  node.others.assign(claims.volumes.begin() + has_own, claims.volumes.end());
  // What a rollout made for it is remembered, too: after a look that does not show it, or with the
  // ledger lost, another would be made.
  const bool rolls = claims.pool->spec->rollout.policy == RolloutSpec::Policy::replace;
  for (const auto* other : node.others)
    if (draft.ledger.volumes.contains(other->volume_id) || (rolls && !is_retired(draft, *other)))
      adopt_or_mark_seen(draft, *other, *claims.pool, node);
  if (!has_own) return;
  node.volume_id = own.volume_id;
  node.volume = &own;
  node.zone = own.availability_zone;
  adopt_or_mark_seen(draft, own, *claims.pool, node);
  const auto& pool = claims.pool->spec->name;
  for (const auto* other : node.others)
    if (!is_retired(draft, *other) && !rolls)
      draft.note(NoteKind::volume_claimed_twice, pool, name,
                 "volume " + other->volume_id + " also says it is " + name + "'s, which keeps " +
                     own.volume_id +
                     ": delete it or remove its warmroot tags when it is not needed",
                 false);
  if (node.beyond)
    draft.note(NoteKind::volume_beyond, pool, name,
               "volume " + own.volume_id + " of " + name +
                   " is beyond nodes = " + std::to_string(claims.pool->spec->nodes) +
                   "; it is kept: delete it by hand when its data is not needed",
               false);
}

void note_stranger(Draft& draft, const aws::Volume& volume) {
  draft.note(NoteKind::stranger, tag_of(volume.tags, kTagPool), "",
             "volume " + volume.volume_id +
                 " carries our deployment's tag, but its pool, node and "
                 "lineage tags do not fit: correct them to have it used, or remove them",
             false);
}

/// Whose a volume is: by its record, which people cannot retag, or else by its tags. Empty:
/// nobody's of ours.
struct Owner {
  std::string pool;
  std::string node;
  VolumeRole role = VolumeRole::node;
};

Owner owner_of(Draft& draft, const aws::Volume& volume) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  const auto& node = tag_of(volume.tags, kTagNode);
  if (record) {
    const auto& owned = *record;
    // Nobody but a manager gives stock to a node; this ledger is older than that.
    if (is_stock(owned.role) && !node.empty()) return {owned.pool, node};
    return {owned.pool, owned.node, owned.role};
  }
  const auto role = volume_role_from(tag_of(volume.tags, kTagRole));
  if (node.empty() && role && is_stock(*role)) return {tag_of(volume.tags, kTagPool), "", *role};
  return {tag_of(volume.tags, kTagPool), node};
}

void count_shown_volume(Draft& draft, const aws::Volume& volume,
                        std::map<std::string, Claims>& claims) {
  const bool recorded = draft.ledger.volumes.contains(volume.volume_id);
  const auto& deployment = tag_of(volume.tags, kTagDeployment);
  if (deployment != draft.desired.deployment && !(recorded && deployment.empty())) {
    if (recorded) draft.record(RecordVolumeGone{volume.volume_id, "it was given to " + deployment});
    return;
  }
  if (draft.beyond_repair.contains(volume.volume_id) && is_from_launch(volume)) return;
  // Claimed by a ledger that was lost: as if it had not been.
  if (is_from_launch(volume) || (is_unnamed(volume) && !recorded))
    return draft.from_launch.push_back(&volume);
  if (is_parked(volume)) draft.parked.push_back(&volume);
  const Owner owner = owner_of(draft, volume);
  auto* pool = draft.find_pool(owner.pool);
  if (!pool) return;  // a pool that the spec does not name any more is left alone
  const auto index = node_index(owner.pool, owner.node);
  const bool stock = is_stock(owner.role);
  if ((!index && !stock) || (!recorded && !tells_the_truth(volume)))
    return note_stranger(draft, volume);
  if (volume.state == aws::VolumeState::deleting || volume.state == aws::VolumeState::deleted) {
    if (recorded)
      draft.record(RecordVolumeGone{volume.volume_id, "EC2 says that it is being deleted"});
    return;
  }
  if (stock) return count_shown_stock(draft, *pool, volume, owner.role);
  if (!usable(draft, volume)) return;
  auto& claim = claims[owner.node];
  claim.pool = pool;
  claim.index = *index;
  claim.volumes.push_back(&volume);
}

void count_shown_volumes(Draft& draft) {
  std::map<std::string, Claims> claims;
  for (const auto& [id, volume] : draft.observed.volumes) count_shown_volume(draft, volume, claims);
  for (auto& [name, claim] : claims) give_best_volume(draft, name, claim);
}

/// Frozen when more than a fifth of what EC2 once showed is gone: two volumes or more, or all there
/// were. One volume of several that somebody deleted is no reason to stop serving the others.
bool too_many(int vanished, int known) {
  return vanished > 0 && vanished * 5 > known && (vanished > 1 || vanished == known);
}

void freeze_if_too_many_vanished(Draft& draft) {
  int known = 0;
  int vanished = 0;
  for (const auto& [id, owned] : draft.ledger.volumes) {
    // Operators are told to delete retired volumes and old stock when they like.
    if (!owned.seen || owned.role != VolumeRole::node) continue;
    ++known;
    if (!draft.observed.volumes.contains(id)) ++vanished;
  }
  if (!too_many(vanished, known)) return;
  draft.frozen = true;
  draft.note(NoteKind::frozen, "", "",
             std::to_string(vanished) + " of " + std::to_string(known) +
                 " volumes are not shown by EC2 any more, so nothing is changed: check account, "
                 "--region and --endpoint-url; if they were deleted on purpose, remove the ledger "
                 "in the state directory, which also resumes paused pools and forgets the nodes' "
                 "report keys",
             true);
}

/// A look without the volume of a node's lease, another account's or a stale one, gives the node no
/// other as its own: but one that is attached, in which somebody may be.
bool keeps_lease(Draft& draft, const std::string& missing, const NodeDraft& node) {
  const auto leased = [&](const std::string& id) {
    return draft.holder_of(id) || draft.reservation_of(id);
  };
  return leased(missing) && !leased(node.volume_id) &&
         !(node.volume && attachment_of(*node.volume));
}

void count_missing_volumes(Draft& draft) {
  for (const auto& [id, owned] : draft.ledger.volumes) {
    if (draft.observed.volumes.contains(id)) continue;
    const Watch gone = draft.hold("gone/" + id);
    const bool over = gone.looks >= kLooksUntilGone && draft.now - gone.since >= kGoneAfter &&
                      draft.observed.listed > gone.since;
    if (over && !draft.frozen) {
      draft.record(RecordVolumeGone{id, "EC2 has not shown it for a minute"});
      draft.note(NoteKind::volume_gone, owned.pool, owned.node,
                 "volume " + id + " does not exist any more", false);
      continue;
    }
    auto* pool = draft.find_pool(owned.pool);
    if (pool && is_stock(owned.role)) {
      // One look that does not show it, or not any more, is no reason to make another.
      pool->stock.push_back({id, owned.role, owned.zone, "", nullptr, !owned.ever_used});
      draft.wake_at(gone.since + kGoneAfter);
      continue;
    }
    const auto index = node_index(owned.pool, owned.node);
    if (!pool || !index || owned.role == VolumeRole::retired) continue;
    auto& node = node_for(*pool, owned.node, *index);
    if (!node.volume_id.empty() && !keeps_lease(draft, id, node)) {
      node.other_coming = true;
      continue;
    }
    if (node.volume) node.others.push_back(std::exchange(node.volume, nullptr));
    node.volume_id = id;
    node.zone = owned.zone;
    draft.wake_at(gone.since + kGoneAfter);
    if (owned.seen)
      draft.note(NoteKind::volume_not_shown, owned.pool, owned.node,
                 "volume " + id + " is not shown by EC2; looking again", false);
  }
}

void count_asked_volumes(Draft& draft) {
  for (const auto& intent : draft.ledger.intents) {
    if (intent.call.action != "CreateVolume" && intent.call.action != "CopyVolumes") continue;
    auto* pool = draft.find_pool(intent.pool);
    if (!pool) continue;
    for (const auto& name : intent.nodes)
      if (auto* node = pool->find_node(name)) {
        node->asked = true;
        if (node->volume_id.empty()) node->zone = intent.zone;
      } else if (stock_subject_from(name)) {
        ++pool->stock_asked[name];
      }
  }
}

// ---- instances ----

/// By our record, if we launched it and people took its tags away; or else by its tags.
PoolDraft* pool_of(Draft& draft, const aws::Instance& instance) {
  const auto& deployment = tag_of(instance.tags, kTagDeployment);
  const auto& name = tag_of(instance.tags, kTagPool);
  const auto* record = draft.ledger.instances.get(instance.instance_id);
  const bool ours = deployment.empty() || deployment == draft.desired.deployment;
  if (record && ours && (deployment.empty() || name.empty())) return draft.find_pool(record->pool);
  auto* pool = draft.find_pool(name);
  if (!pool) return nullptr;
  if (deployment == draft.desired.deployment) return pool;
  // Others launch for such a pool and may leave our deployment's tag out, but another's never
  // counts.
  return deployment.empty() && !pool->spec->launch ? pool : nullptr;
}

/// Instances of a pool that the spec does not name are not ended: a slip of the pen would be
/// costly.
void note_unnamed_pools(Draft& draft) {
  std::map<std::string, int> live;
  for (const auto& [id, instance] : draft.observed.instances) {
    using enum aws::InstanceState;
    if (instance.state != pending && instance.state != running) continue;
    const auto& pool = tag_of(instance.tags, kTagPool);
    if (tag_of(instance.tags, kTagDeployment) == draft.desired.deployment && !pool.empty() &&
        !draft.find_pool(pool))
      ++live[pool];
  }
  for (const auto& [pool, count] : live)
    draft.note(NoteKind::pool_unnamed, pool, "",
               std::to_string(count) + (count == 1 ? " instance" : " instances") + " of pool " +
                   pool + ", which the spec does not name, " + (count == 1 ? "runs" : "run") +
                   " on: name the pool again with running = 0 until they are gone, or end them "
                   "by hand",
               true);
}

/// A pool that launches for itself does not take what only carries its name.
void note_unserved_groups(Draft& draft) {
  std::map<std::pair<std::string, std::string>, int> unserved;
  for (const auto& [id, instance] : draft.observed.instances) {
    const auto group = tag_of(instance.tags, kTagGroup);
    const auto* pool = draft.find_pool(tag_of(instance.tags, kTagPool));
    if (instance.state == aws::InstanceState::running && !group.empty() && pool &&
        pool->spec->launch && !instance.tags.contains(kTagDeployment))
      ++unserved[{pool->spec->name, group}];
  }
  for (const auto& [key, count] : unserved)
    draft.note(NoteKind::extra_instance, key.first, "",
               std::to_string(count) + (count == 1 ? " instance" : " instances") +
                   " of Auto Scaling group " + key.second + (count == 1 ? " is" : " are") +
                   " tagged " + kTagPool + "=" + key.first +
                   ", which launches for itself, and get no volume: write auto_scaling_group = \"" +
                   key.second + "\" instead of [pool.launch], or tag the group's instances " +
                   kTagDeployment + "=" + draft.desired.deployment + " too",
               false);
}

void count_shown_instances(Draft& draft) {
  draft.replaced = replaced_now(draft);
  for (const auto& [id, instance] : draft.observed.instances) {
    const bool recorded = draft.ledger.instances.contains(id);
    if (instance.state == aws::InstanceState::terminated) {
      if (recorded) draft.record(RecordInstanceGone{id});
      continue;
    }
    auto* pool = pool_of(draft, instance);
    if (!pool) continue;
    InstanceDraft made;
    made.id = id;
    made.pool = pool->spec->name;
    made.zone = instance.availability_zone;
    made.seen = &instance;
    made.group = tag_of(instance.tags, kTagGroup);
    made.launched = (recorded && made.group.empty()) ||
                    is_own_launch(draft.desired.deployment, instance.client_token, instance.tags);
    made.pending = instance.state == aws::InstanceState::pending;
    made.running = instance.state == aws::InstanceState::running;
    made.stopped = instance.state == aws::InstanceState::stopped;
    made.carries = draft.undecided_launch(instance.client_token);
    made.departing = why_departing(draft, instance);
    if (made.launched && !recorded)
      draft.record(RecordInstance{id,
                                  {made.pool, made.zone, draft.now, InstanceFate::fresh,
                                   has_tag(instance.tags, kTagLaunchVolume)}});
    pool->instances.push_back(&draft.add_instance(std::move(made)));
  }
}

void count_missing_instances(Draft& draft) {
  for (const auto& [id, launched] : draft.ledger.instances) {
    if (draft.observed.instances.contains(id)) continue;
    auto* pool = draft.find_pool(launched.pool);
    // Where EC2 does not show the volumes either, its word on instances counts for nothing.
    // Where EC2 shows a volume of ours on it, it is there: another account's listing, or a server
    // that is behind, left it out.
    if (!draft.frozen && !draft.shows_volume_on(id)) {
      // Looks by id may be another account's: one of those that count is a listing, which shows the
      // volumes too. Source: invariant (5), seed 43000001410.
      const Watch gone = draft.hold("gone/" + id);
      const bool several = gone.looks >= kLooksUntilGone && draft.observed.listed > gone.since;
      if (several && draft.now - gone.since >= kGoneAfter) {
        draft.record(RecordInstanceGone{id});
        continue;
      }
      draft.wake_at(gone.since + kGoneAfter);
      // One that was shown before is not waited for long: several looks mean that it is gone.
      if (!pool || (draft.now - launched.recorded >= kGoneAfter && several)) continue;
    }
    if (!pool) continue;
    InstanceDraft made;
    made.id = id;
    made.pool = launched.pool;
    made.zone = launched.zone;
    made.launched = true;
    made.pending = true;
    if (departure_of(draft, id)) made.departing = "is leaving";
    pool->instances.push_back(&draft.add_instance(std::move(made)));
  }
}

}  // namespace

std::optional<int> node_index(const std::string& pool, const std::string& node) {
  if (node.size() <= pool.size() + 1 || node[pool.size()] != '-' || !node.starts_with(pool))
    return std::nullopt;
  // As node_name() writes it: no sign, and no zero before other digits.
  const char* first = node.data() + pool.size() + 1;
  const char* last = node.data() + node.size();
  if (*first < '0' || *first > '9' || (*first == '0' && last - first > 1)) return std::nullopt;
  int index = 0;
  const auto [end, error] = std::from_chars(first, last, index);
  if (error != std::errc{} || end != last) return std::nullopt;
  return index;
}

void take_census(Draft& draft) {
  count_shown_volumes(draft);
  freeze_if_too_many_vanished(draft);
  count_missing_volumes(draft);
  count_asked_volumes(draft);
  note_unnamed_pools(draft);
  note_unserved_groups(draft);
  count_shown_instances(draft);
  count_missing_instances(draft);
}

}  // namespace warmroot::core
