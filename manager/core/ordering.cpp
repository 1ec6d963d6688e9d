// One function an order's kind; each looks at what EC2 shows, asks for the next call, or settles
// the order.
#include "manager/core/ordering.hpp"

#include <algorithm>

#include "manager/core/healing.hpp"
#include "manager/core/leasing.hpp"

namespace warmroot::core {

namespace {

void settle(Draft& draft, const Order& order, bool met, std::string answer) {
  draft.record(RecordOrderSettled{order.id, met, std::move(answer)});
}

void refuse(Draft& draft, const Order& order, std::string answer) {
  settle(draft, order, false, std::move(answer));
}

/// The last refusal of the call for what the order is about: " (EC2: ...)".
std::string what_ec2_said(const Draft& draft, std::string_view action, const std::string& about) {
  const auto failure = draft.ledger.failures.find(failure_key(action, about));
  return failure == draft.ledger.failures.end() ? "" : ": " + failure->second.sentence;
}

/// Asks for the call unless it is under way, was just refused, or has no budget; a refusal that
/// does not pass by itself ends the order.
void ask(Draft& draft, const Order& order, aws::Mutation mutation, std::string reason) {
  if (draft.undecided(order.subject)) return;
  const std::string action(action_name(mutation));
  const auto failure = draft.ledger.failures.find(failure_key(action, order.subject));
  if (failure != draft.ledger.failures.end() && !failure->second.transient &&
      failure->second.last >= order.asked)
    return refuse(draft, order, failure->second.sentence);
  if (!draft.backing_off(action, order.subject))
    draft.act(std::move(mutation), order.pool, {}, std::move(reason));
}

/// Not while so much is missing that another account may be asked.
bool surely_absent(Draft& draft, const std::string& id) {
  return draft.surely("ordered/" + id) && !draft.frozen;
}

// ---- instances ----

/// Empty when the instance may be given a volume of the pool.
std::string why_not_attach(Draft& draft, const Order& order, const aws::Instance& instance) {
  using enum aws::InstanceState;
  const auto& id = instance.instance_id;
  if (!draft.find_pool(order.pool)) return "the spec has no pool " + order.pool;
  if (instance.state == shutting_down || instance.state == terminated)
    return id + " is being terminated";
  if (instance.state == stopping || instance.state == stopped)
    return id + " is stopped: start it first";
  const auto& deployment = tag_of(instance.tags, kTagDeployment);
  if (!deployment.empty() && deployment != draft.desired.deployment)
    return id + " belongs to deployment " + deployment;
  const auto& pool = tag_of(instance.tags, kTagPool);
  if (!pool.empty() && pool != order.pool) return id + " belongs to pool " + pool;
  const auto* known = draft.find_instance(id);
  if (known && !known->departing.empty()) return id + " " + known->departing;
  return {};
}

/// Rather one that has its volume: nobody is leased what does not exist yet.
const NodeDraft* node_for(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  const NodeDraft* without = nullptr;
  for (const auto& node : pool.nodes) {
    if (!node.wanted || node.zone != zone || serving_lease(draft, node) ||
        waiting_lease(draft, node))
      continue;
    if (!node.volume_id.empty()) return &node;
    if (!without) without = &node;
  }
  return without;
}

void obey_attach(Draft& draft, const Order& order) {
  const auto* seen = draft.observed.instances.get(order.subject);
  if (!seen) {
    if (surely_absent(draft, order.subject))
      refuse(draft, order,
             "EC2 does not show " + order.subject + ": check the id, account and Region");
    return;
  }
  const auto& instance = *seen;
  if (const auto* lease = draft.lease_on(order.subject)) {
    if (lease->pool != order.pool)
      return refuse(draft, order, order.subject + " has " + lease->node + "'s volume");
    if (lease->state == LeaseState::checking || lease->state == LeaseState::active)
      settle(draft, order, true,
             order.subject + " has " + lease->node + "'s volume " + lease->volume_id + " as " +
                 lease->device);
    return;
  }
  if (const auto reason = why_not_attach(draft, order, instance); !reason.empty())
    return refuse(draft, order, reason);
  if (draft.shows_volume_on(order.subject)) {
    if (draft.surely("carries/" + order.subject))
      refuse(draft, order,
             order.subject +
                 " has a volume of ours that is no lease yet: see `volume list`, and "
                 "try again later");
    return;
  }
  const auto* pool = draft.find_pool(order.pool);
  if (!node_for(draft, *pool, instance.availability_zone))
    return refuse(draft, order,
                  "no node of " + order.pool + " in " + instance.availability_zone +
                      " is without an instance: raise `running`, or release one first");
  if (tag_of(instance.tags, kTagPool) == order.pool) return;  // leasing does the rest
  ask(draft, order,
      aws::CreateTags{{order.subject},
                      {{kTagDeployment, draft.desired.deployment}, {kTagPool, order.pool}}},
      order.subject + " is to have a volume of " + order.pool + ", by order");
}

/// Its detach was asked for. Of an instance that departs the lease says leaving before that.
bool is_detaching(const Draft& draft, const Lease& lease) {
  if (lease.state != LeaseState::leaving) return false;
  const auto* volume = draft.observed.volumes.get(lease.volume_id);
  const auto* shown = volume ? attachment_of(*volume) : nullptr;
  return !shown || shown->instance_id != lease.instance_id ||
         shown->state != aws::AttachmentState::attached ||
         draft.now - lease.since < kUnattachedAfter;
}

void detach_by_order(Draft& draft, const Order& order, const Lease& lease) {
  if (draft.undecided(lease.volume_id) || draft.backing_off("DetachVolume", lease.node)) return;
  const std::string reason = order.subject + " is to give its volume back, by order";
  if (!draft.act(aws::DetachVolume{lease.volume_id, lease.instance_id, lease.device}, lease.pool,
                 {lease.node}, reason))
    return;
  Lease leaving = lease;
  leaving.state = LeaseState::leaving;
  draft.enter_again(leaving, reason);
}

/// From now on it departs, whatever else it passes through. Returns it, or nullptr for one whose
/// pool the spec names no more.
const InstanceDraft* mark_released(Draft& draft, const std::string& id) {
  auto* instance = draft.find_instance(id);
  const auto known = draft.ledger.departures.find(id);
  if (known == draft.ledger.departures.end() || known->second.advised) {
    Departure departure{false, draft.now};
    if (known != draft.ledger.departures.end()) departure.reclaim_at = known->second.reclaim_at;
    draft.record(RecordDeparture{id, departure});
  }
  if (instance && instance->departing.empty()) instance->departing = "was released by the operator";
  return instance;
}

/// The node is asked to unmount first; one that does not report, or not in time, loses the volume
/// to the operator's word. EC2 then says "busy" until it has unmounted.
void obey_release(Draft& draft, const Order& order) {
  const auto* held = draft.lease_on(order.subject);
  if (!held) return settle(draft, order, true, order.subject + " holds no volume of ours");
  Lease lease = *held;  // a copy: the list may grow
  const auto* instance = mark_released(draft, order.subject);
  if (!holds_volume(lease.state)) {
    lease.state = LeaseState::ended;
    draft.set_lease(lease, "released by the operator");
    return settle(draft, order, true, order.subject + " waited for a volume and serves no more");
  }
  const bool gave_back = has_released(draft, lease);
  if (gave_back && instance) return;  // healing detaches
  const auto* shown = draft.observed.instances.get(order.subject);
  const bool runs = shown && shown->state == aws::InstanceState::running;
  // Also where it gave it back before a restart of ours: it may be up again since.
  if (runs && draft.may_yet_report(order.subject)) return;
  const bool listens = runs && !gave_back && draft.fresh_report_of(order.subject);
  const auto* pool = draft.find_pool(lease.pool);
  const Milliseconds patience = pool ? drain_patience(*pool->spec) : kDrainPatience;
  if (listens && draft.now - order.asked < patience) {
    draft.plan.drains[order.subject] = "the operator released it";
    return draft.wake_at(order.asked + patience);
  }
  if (!is_detaching(draft, lease)) detach_by_order(draft, order, lease);
}

// ---- volumes ----

const aws::Volume* shown_volume(Draft& draft, const Order& order) {
  const auto* seen = draft.observed.volumes.get(order.subject);
  if (!seen) return nullptr;
  const bool going =
      seen->state == aws::VolumeState::deleting || seen->state == aws::VolumeState::deleted;
  return going ? nullptr : seen;
}

bool is_ours(const Draft& draft, const aws::Volume& volume) {
  return tag_of(volume.tags, kTagDeployment) == draft.desired.deployment;
}

/// Whom the volume is with, for a refusal; empty when it is free.
std::string user_of(Draft& draft, const aws::Volume& volume) {
  if (const auto* attachment = attachment_of(volume)) return attachment->instance_id;
  const auto* lease = draft.holder_of(volume.volume_id);
  return lease ? lease->instance_id : "";
}

void obey_quarantine(Draft& draft, const Order& order, const aws::Volume& volume) {
  const bool wanted = order.kind == OrderKind::quarantine;
  // The node still gives it back, or looks have to agree that its tag is gone (unclean.cpp).
  if (!wanted && draft.beyond_repair.contains(order.subject) &&
      (!has_tag(volume.tags, kTagQuarantined) || !user_of(draft, volume).empty()))
    return;
  if (has_tag(volume.tags, kTagQuarantined) == wanted)
    return settle(draft, order, true,
                  order.subject + (wanted ? " is quarantined" : " is in use again"));
  if (!wanted)
    return ask(draft, order, aws::DeleteTags{{order.subject}, {kTagQuarantined}},
               order.subject + " is to be used again, by order");
  if (const auto user = user_of(draft, volume); !user.empty())
    return refuse(draft, order,
                  order.subject + " is with " + user + ": `warmroot release " + user + "` first");
  ask(draft, order,
      aws::CreateTags{{order.subject},
                      {{kTagQuarantined, order.detail.empty() ? "by order" : order.detail}}},
      order.subject + " is to be set aside, by order");
}

void obey_delete(Draft& draft, const Order& order, const aws::Volume& volume) {
  if (const auto user = user_of(draft, volume); !user.empty())
    return refuse(draft, order,
                  order.subject + " is with " + user + ": `warmroot release " + user + "` first");
  if (draft.reservation_of(order.subject))
    return refuse(draft, order, "an instance waits for " + order.subject + ": release it first");
  const auto* record = draft.ledger.volumes.get(order.subject);
  const bool maybe_used = !record || record->ever_used;
  if (maybe_used && order.detail.empty())
    return refuse(draft, order, order.subject + " may hold data of sessions: say --yes to lose it");
  if (volume.state == aws::VolumeState::creating) return;
  ask(draft, order, aws::DeleteVolume{order.subject},
      order.subject + " is to be deleted, by order");
}

void obey_volume_order(Draft& draft, const Order& order) {
  const auto* volume = shown_volume(draft, order);
  if (!volume) {
    if (!draft.observed.volumes.contains(order.subject) && !surely_absent(draft, order.subject))
      return;
    return settle(draft, order, order.kind == OrderKind::delete_volume,
                  "EC2 does not show " + order.subject +
                      (order.kind == OrderKind::delete_volume ? " any more" : ""));
  }
  if (!is_ours(draft, *volume))
    return refuse(draft, order,
                  order.subject + " does not carry the tag " + kTagDeployment + "=" +
                      draft.desired.deployment + ", so it is left alone");
  if (order.kind == OrderKind::delete_volume) return obey_delete(draft, order, *volume);
  obey_quarantine(draft, order, *volume);
}

/// A volume that was set aside and returned before the first call went out is not set aside: its
/// return would find nothing to undo, and the tag would stay.
bool taken_back(const Draft& draft, const Order& order) {
  if (order.kind != OrderKind::quarantine) return false;
  const auto& orders = draft.ledger.orders;
  return std::any_of(orders.begin(), orders.end(), [&](const Order& other) {
    return other.kind == OrderKind::return_volume && other.subject == order.subject &&
           other.id > order.id;
  });
}

void obey_one(Draft& draft, const Order& order) {
  if (taken_back(draft, order))
    return refuse(draft, order, order.subject + " was ordered to be used again since");
  if (draft.now - order.asked >= kOrderExpires) {
    const char* action = order.kind == OrderKind::attach ? "AttachVolume" : "DetachVolume";
    return refuse(draft, order,
                  std::string(to_string(order.kind)) + " " + order.subject +
                      " was not met within 15 minutes" +
                      what_ec2_said(draft, action, order.subject));
  }
  switch (order.kind) {
    case OrderKind::attach:
      return obey_attach(draft, order);
    case OrderKind::release:
      return obey_release(draft, order);
    case OrderKind::quarantine:
    case OrderKind::return_volume:
    case OrderKind::delete_volume:
      return obey_volume_order(draft, order);
  }
}

}  // namespace

void obey(Draft& draft) {
  if (!draft.observed.complete) return;
  for (const auto& order : draft.ledger.orders) {
    draft.wake_at(draft.now + kVisibilityWindow);
    obey_one(draft, order);
  }
}

void lease_as_ordered(Draft& draft) {
  for (const auto& order : draft.ledger.orders) {
    if (order.kind != OrderKind::attach || draft.lease_on(order.subject)) continue;
    const auto* pool = draft.find_pool(order.pool);
    auto* instance = draft.find_instance(order.subject);
    if (!pool || !instance || instance->pool != order.pool || !instance->running ||
        !instance->departing.empty() || draft.shows_volume_on(order.subject) ||
        draft.may_come_late("TerminateInstances", order.subject))
      continue;
    if (const auto* node = node_for(draft, *pool, instance->zone); node && !node->volume_id.empty())
      lease_to(draft, *pool, *node, *instance);
  }
}

}  // namespace warmroot::core
