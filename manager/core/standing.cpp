// Reads the draft only; decides nothing but the cadence.
#include "manager/core/standing.hpp"

#include <algorithm>
#include <climits>

#include "manager/core/adopting.hpp"
#include "manager/core/census.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"
#include "manager/core/orphans.hpp"
#include "manager/core/stocking.hpp"
#include "manager/core/warmth.hpp"

namespace warmroot::core {

namespace {

NodeCondition condition_of_lease(const Lease& lease) {
  switch (lease.state) {
    case LeaseState::attaching:
      return NodeCondition::attaching;
    case LeaseState::checking:
      return NodeCondition::checking;
    case LeaseState::active:
      return NodeCondition::active;
    case LeaseState::leaving:
      return NodeCondition::leaving;
    case LeaseState::reserved:
    case LeaseState::ended:
      break;
  }
  return NodeCondition::waiting;
}

NodeCondition condition_without_volume(const PoolDraft& pool, const NodeDraft& node) {
  if (node.asked) return NodeCondition::creating;
  return pool.source.problems.empty() ? NodeCondition::no_volume : NodeCondition::blocked;
}

/// `asked`: the plan's actions are in the draft.
NodeCondition condition_of(Draft& draft, const PoolDraft& pool, const NodeDraft& node, bool asked) {
  if (node.volume_id.empty()) return condition_without_volume(pool, node);
  const auto* holder = draft.holder_of(node.volume_id);
  if (!node.wanted) {
    // Before its instance is asked to go, it is what it was.
    if (const auto* serving = asked ? nullptr : serving_lease(draft, node))
      return condition_of_lease(*serving);
    if (holder) return NodeCondition::leaving;
    const bool made = node.volume && node.volume->state != aws::VolumeState::creating;
    return made ? NodeCondition::asleep : NodeCondition::creating;
  }
  if (const auto* serving = serving_lease(draft, node)) return condition_of_lease(*serving);
  if (waiting_lease(draft, node)) return holder ? NodeCondition::handover : NodeCondition::waiting;
  if (node.covered) return holder ? NodeCondition::handover : NodeCondition::launching;
  if (!node.volume || node.volume->state == aws::VolumeState::creating)
    return NodeCondition::creating;
  if (!pool.source.may_launch) return NodeCondition::blocked;
  return holder ? NodeCondition::leaving : NodeCondition::no_instance;
}

std::vector<NodeRow> node_rows(Draft& draft, bool asked) {
  std::vector<NodeRow> rows;
  for (const auto& pool : draft.pools)
    for (const auto& node : pool.nodes) {
      NodeRow row;
      row.pool = pool.spec->name;
      row.node = node.name;
      row.wanted = node.wanted;
      row.zone = node.zone;
      row.volume_id = node.volume_id;
      row.condition = condition_of(draft, pool, node, asked);
      const auto* waiting = waiting_lease(draft, node);
      if (const auto* holder = node.volume_id.empty() ? nullptr : draft.holder_of(node.volume_id)) {
        row.lease = holder->state;
        row.instance_id = holder->instance_id;
        if (waiting) row.successor_id = waiting->instance_id;
      } else if (waiting) {
        row.lease = waiting->state;
        row.instance_id = waiting->instance_id;
      }
      rows.push_back(std::move(row));
    }
  return rows;
}

VolumeCondition condition_of(const Draft& draft, const aws::Volume& volume, VolumeRole role,
                             bool own) {
  using enum aws::VolumeState;
  if (draft.is_set_aside(volume)) return VolumeCondition::quarantined;
  if (volume.state == error) return VolumeCondition::error;
  if (volume.state == creating) return VolumeCondition::creating;
  if (const auto* attachment = attachment_of(volume)) {
    switch (attachment->state) {
      case aws::AttachmentState::attaching:
        return VolumeCondition::attaching;
      case aws::AttachmentState::detaching:
        return VolumeCondition::detaching;
      case aws::AttachmentState::busy:
        return VolumeCondition::busy;
      default:
        return VolumeCondition::in_use;
    }
  }
  if (role == VolumeRole::retired) return VolumeCondition::retired;
  if (own) return is_stock(role) ? VolumeCondition::ready : VolumeCondition::free;
  return VolumeCondition::unclaimed;
}

/// By the record, which people cannot retag, or else by the tags.
VolumeRole role_of(const Draft& draft, const aws::Volume& volume) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  if (has_tag(volume.tags, kTagRetired)) return VolumeRole::retired;
  if (has_tag(volume.tags, kTagNode))
    return record && record->role == VolumeRole::retired ? VolumeRole::retired : VolumeRole::node;
  if (record) return record->role;
  return volume_role_from(tag_of(volume.tags, kTagRole)).value_or(VolumeRole::node);
}

/// A claimed volume gets its tag some time after the ledger's word.
std::string node_named(const Draft& draft, const aws::Volume& volume) {
  return is_unnamed(volume) ? claimed_for(draft, volume) : tag_of(volume.tags, kTagNode);
}

void add_volume_rows(Draft& draft) {
  IdIndex<bool> own;
  own.reserve(draft.observed.volumes.size());
  const auto add_own = [&](std::string_view id) {
    if (!own.find(id)) own.add(id, true);
  };
  for (const auto& pool : draft.pools) {
    for (const auto& node : pool.nodes) {
      if (node.beyond) continue;
      add_own(node.volume_id);
      if (pool.rolling)
        for (const auto* other : node.others) add_own(other->volume_id);  // its next one
    }
    for (const auto& volume : pool.stock)
      if (volume.fit) add_own(volume.id);
  }
  std::set<std::string_view> parked;  // of the spec's nodes: kept, and no orphans
  for (const auto* volume : draft.parked)
    if (const auto* pool = draft.find_pool(tag_of(volume->tags, kTagPool));
        pool && node_index(pool->spec->name, node_named(draft, *volume)).value_or(INT_MAX) <
                    pool->spec->nodes)
      parked.insert(volume->volume_id);
  for (const auto& [id, volume] : draft.observed.volumes) {
    // A base's own root, or adopted at the next look; what neither happened to is somebody's to
    // see.
    if (is_from_launch(volume) &&
        (attachment_of(volume) || volume.state == aws::VolumeState::creating))
      continue;
    if (volume.state == aws::VolumeState::deleting || volume.state == aws::VolumeState::deleted)
      continue;
    VolumeRow row;
    row.volume_id = id;
    row.pool = tag_of(volume.tags, kTagPool);
    row.node = node_named(draft, volume);
    row.zone = volume.availability_zone;
    row.size_gib = volume.size_gib;
    if (const auto* attachment = attachment_of(volume)) {
      row.instance_id = attachment->instance_id;
      row.device = attachment->device;
    }
    row.role = role_of(draft, volume);
    row.warmth = warmth_of(draft, id);
    row.condition = condition_of(draft, volume, row.role, own.find(id) != nullptr);
    if (row.condition == VolumeCondition::unclaimed && parked.contains(id))
      row.condition = VolumeCondition::parked;
    if (row.condition == VolumeCondition::unclaimed) draft.hold(orphan_key(id));
    draft.plan.volumes.push_back(std::move(row));
  }
  for (const auto& [id, owned] : draft.ledger.volumes)
    if (!draft.observed.volumes.contains(id))
      draft.plan.volumes.push_back(
          {id, owned.pool, owned.node, owned.zone, "", "", 0,
           owned.seen ? VolumeCondition::missing : VolumeCondition::creating, owned.role});
}

}  // namespace

bool node_settled(Draft& draft, const NodeDraft& node) {
  if (node.beyond) return true;
  if (!node.volume) return false;
  const auto* attachment = attachment_of(*node.volume);
  if (!node.wanted) return node.volume->state == aws::VolumeState::available && !attachment;
  const auto* serving = serving_lease(draft, node);
  // How many run is the group's to say.
  if (!serving && !attachment && node.volume->state == aws::VolumeState::available &&
      !waiting_lease(draft, node))
    if (const auto* pool = draft.find_pool_of(node.name);
        pool && !pool->spec->auto_scaling_group.empty())
      return true;
  if (!serving || !attachment || attachment->state != aws::AttachmentState::attached) return false;
  const auto* instance = draft.find_instance(attachment->instance_id);
  return instance && instance->running;
}

namespace {

/// Volumes and instances of the spec's pools that will change state by themselves.
bool in_transition(Draft& draft) {
  for (const auto& [id, volume] : draft.observed.volumes) {
    if (!draft.find_pool(tag_of(volume.tags, kTagPool))) continue;
    if (volume.state == aws::VolumeState::creating || volume.state == aws::VolumeState::deleting)
      return true;
    if (const auto* attachment = attachment_of(volume);
        attachment && attachment->state != aws::AttachmentState::attached)
      return true;
  }
  for (const auto& [id, instance] : draft.instances) {
    if (!instance.seen || instance.pending) return true;
    if (!instance.running && !instance.stopped) return true;  // shutting down or stopping
    if (!instance.departing.empty() && (instance.launched || draft.lease_on(id))) return true;
  }
  return false;
}

bool awaiting(Draft& draft) {
  if (!draft.plan.actions.empty() || !draft.ledger.intents.empty() ||
      !draft.plan.short_of.empty() || in_transition(draft) || !draft.plan.drains.empty())
    return true;
  for (const auto& pool : draft.pools) {
    const bool makes = pool.source.problems.empty();
    if (makes && (!stock_settled(pool) || pool.rolling)) return true;
    for (const auto& node : pool.nodes)
      if ((makes || (pool.source.may_launch && !node.volume_id.empty())) &&
          !node_settled(draft, node))
        return true;
  }
  return false;
}

Instant last_change(const Draft& draft) {
  Instant last = draft.ledger.begun;
  const auto consider = [&](Instant at) {
    if (at <= draft.now) last = std::max(last, at);
  };
  for (const auto& lease : draft.leases) consider(lease.since);
  for (const auto& [id, owned] : draft.ledger.volumes) consider(owned.recorded);
  for (const auto& [id, launched] : draft.ledger.instances) consider(launched.recorded);
  for (const auto& [key, watch] : draft.ledger.watches) consider(watch.since);
  for (const auto& intent : draft.ledger.intents) consider(intent.recorded);
  if (!draft.plan.actions.empty()) consider(draft.now);
  return last;
}

}  // namespace

Milliseconds look_interval(bool waiting, Milliseconds age, bool events_live) {
  constexpr Milliseconds kYoung{60'000};
  if (!waiting)
    return std::clamp(age / 4, kLookWaiting, events_live ? kLookIdleWithEvents : kLookIdle);
  if (age <= kYoung) return std::clamp(age / 10, kLookSoonest, kLookWaiting);
  return std::clamp(age / 60, kLookWaiting, kLookLongWait);
}

std::vector<NodeRow> rows_before_actions(Draft& draft) {
  count_coming(draft);
  auto rows = node_rows(draft, false);
  for (auto& pool : draft.pools)
    for (auto& node : pool.nodes) node.covered = false;  // launch() counts anew
  return rows;
}

void describe_result(Draft& draft) {
  draft.plan.nodes = node_rows(draft, true);
  add_volume_rows(draft);
  const auto& plan = draft.plan;
  const bool blocked = std::any_of(plan.notes.begin(), plan.notes.end(),
                                   [](const Note& note) { return note.blocking; });
  bool settled = true;
  for (const auto& pool : draft.pools) {
    settled = settled && stock_settled(pool) && !pool.rolling;
    for (const auto& node : pool.nodes) {
      settled =
          settled && node_settled(draft, node) && !(node.volume && awaits_its_tag(*node.volume));
    }
  }
  const bool waiting = awaiting(draft);
  draft.plan.stable = draft.observed.complete && !draft.frozen && !blocked && settled && !waiting;

  auto next = look_interval(waiting, draft.now - last_change(draft), draft.observed.events_live);
  if (draft.earliest_wake) next = std::min(next, *draft.earliest_wake - draft.now);
  // A look that failed is made again at leisure, whatever is waited for: it counts for nothing, so
  // that what waits for some looks would ask for the next one at once for as long as they fail.
  draft.plan.next_look = std::max(next, draft.observed.complete ? kLookSoonest : kLookWaiting);
  draft.plan.wake = draft.earliest_wake;
}

}  // namespace warmroot::core
