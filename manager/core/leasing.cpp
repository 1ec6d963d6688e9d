// The attachment is the assignment: which node an instance is follows from the volume it gets.
// Pools take turns, one node each, so that a small pool does not wait behind a large one for the
// same bucket.
#include "manager/core/leasing.hpp"

#include <algorithm>
#include <span>

#include "manager/core/adopting.hpp"
#include "manager/core/device_names.hpp"
#include "manager/core/launching.hpp"
#include "manager/core/standing.hpp"
#include "manager/core/stocking.hpp"
#include "manager/core/unclean.hpp"

namespace warmroot::core {

namespace {

/// No tag and no record says what it is for.
bool is_unknown(const Draft& draft, const std::string& volume_id) {
  if (draft.ledger.volumes.contains(volume_id)) return false;
  const auto* shown = draft.observed.volumes.get(volume_id);
  return !shown || (!has_tag(shown->tags, kTagNode) && !has_tag(shown->tags, kTagRole));
}

/// Kept at the instance's end, as our volumes are, and none that has our tags:
/// people took them away, or attached something of their own. Somebody may have a session in it.
/// Of an image that is not shown, all but the root may be such a volume.
const aws::BlockDevice* unknown_volume(const Draft& draft, const InstanceDraft& made) {
  if (!made.launched || !made.seen) return nullptr;
  const aws::Instance& instance = *made.seen;
  const auto image = draft.observed.images.find(instance.image_id);
  std::span<const aws::ImageMapping> mappings;
  if (image != draft.observed.images.end() && image->second.found)
    mappings = image->second.found->mappings;
  const auto found = std::find_if(
      instance.block_devices.begin(), instance.block_devices.end(), [&](const auto& device) {
        const bool from_image =
            device.device_name == instance.root_device_name ||
            std::any_of(mappings.begin(), mappings.end(),
                        [&](const auto& each) { return each.device_name == device.device_name; });
        return !from_image && !device.delete_on_termination &&
               device.state != aws::AttachmentState::detached &&
               is_unknown(draft, device.volume_id);
      });
  return found == instance.block_devices.end() ? nullptr : &*found;
}

/// EC2 has just refused a name that nobody is seen to have: another manager's volume may be there.
/// Whoever it is, is looked at once more before the next name.
bool is_named_by_somebody(Draft& draft, const aws::Instance& instance) {
  const auto refused = draft.ledger.refused_devices.find(instance.instance_id);
  if (refused == draft.ledger.refused_devices.end()) return false;
  const auto& shown = instance.block_devices;
  const bool unexplained =
      std::any_of(refused->second.begin(), refused->second.end(), [&](const auto& entry) {
        const auto& [name, at] = entry;
        return draft.now - at < kVisibilityWindow &&
               std::none_of(shown.begin(), shown.end(), [&](const auto& device) {
                 return device_suffix(device.device_name) == device_suffix(name);
               });
      });
  if (!unexplained || draft.hold("named/" + instance.instance_id).looks >= 2) return false;
  draft.wake_at(draft.now + kLookSoonest);
  return true;
}

/// One that takes no further volume, by EC2's word, is left alone for a while: another may do.
bool idle(Draft& draft, const InstanceDraft& instance) {
  return instance.running && instance.departing.empty() && !instance.ending && !instance.carries &&
         !draft.lease_on(instance.id) && !draft.undecided(instance.id) &&
         !draft.shows_volume_on(instance.id) &&
         !draft.may_come_late("TerminateInstances", instance.id) &&
         !draft.backing_off("AttachVolume", instance.id) && !note_unknown_volume(draft, instance) &&
         !(instance.seen && is_named_by_somebody(draft, *instance.seen));
}

/// Idle instances of a pool, by zone: the longest running last, so that it is taken first and the
/// choice does not change between looks.
using IdleInstances = std::map<std::string, std::vector<InstanceDraft*>>;

IdleInstances idle_instances(Draft& draft, const PoolDraft& pool) {
  IdleInstances zones;
  for (auto* instance : pool.instances)
    if (idle(draft, *instance)) zones[instance->zone].push_back(instance);
  for (auto& [zone, list] : zones) {
    std::sort(list.begin(), list.end(), is_before_in_line);
    std::reverse(list.begin(), list.end());
  }
  return zones;
}

/// Takes the next one that is still idle; nullptr when the zone has none.
InstanceDraft* take_idle(Draft& draft, IdleInstances& zones, const std::string& zone) {
  const auto found = zones.find(zone);
  if (found == zones.end()) return nullptr;
  auto& list = found->second;
  while (!list.empty()) {
    auto* instance = list.back();
    list.pop_back();
    if (idle(draft, *instance)) return instance;
  }
  return nullptr;
}

std::set<std::string> used_names(const Draft& draft, const InstanceDraft& instance) {
  std::set<std::string> used;
  if (const auto known = draft.ledger.used_devices.find(instance.id);
      known != draft.ledger.used_devices.end())
    used = known->second;
  used.insert(instance.seen->root_device_name);
  for (const auto& device : instance.seen->block_devices) used.insert(device.device_name);
  return used;
}

/// Its tag may go out in this very plan: a session must not begin on it meanwhile.
bool is_being_set_aside(const Draft& draft, const std::string& volume_id) {
  const auto& orders = draft.ledger.orders;
  return std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
    return order.kind == OrderKind::quarantine && order.subject == volume_id;
  });
}

bool volume_is_free(Draft& draft, const NodeDraft& node) {
  return node.volume && !is_being_set_aside(draft, node.volume_id) &&
         node.volume->state == aws::VolumeState::available && !attachment_of(*node.volume) &&
         !draft.holder_of(node.volume_id) && !draft.undecided(node.volume_id) &&
         !awaits_its_tag(*node.volume);
}

bool attach(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
            const InstanceDraft& instance) {
  if (draft.undecided(instance.id) || draft.backing_off("AttachVolume", node.name) ||
      draft.backing_off("AttachVolume", instance.id))
    return false;
  if (awaits_snapshot(draft, pool, node) || !draft.afford("AttachVolume")) return false;
  const auto device = next_device_name(used_names(draft, instance));
  if (!device) {
    draft.note(NoteKind::names_used_up, pool.spec->name, node.name,
               "every device name was used on " + instance.id + ": terminate it to get a fresh one",
               true);
    return false;
  }
  const std::string reason = instance.id + " runs and " + node.name + "'s volume is free";
  if (!draft.act(aws::AttachVolume{node.volume_id, instance.id, *device}, pool.spec->name,
                 {node.name}, reason))
    return false;
  forget_unclean(draft, pool, node);
  draft.set_lease({pool.spec->name, node.name, node.volume_id, instance.id, *device,
                   LeaseState::attaching, draft.now},
                  reason);
  return true;
}

/// Instances of a pool that wait for a volume which somebody else has, and when that ends nobody
/// may know.
using Successors = std::vector<std::size_t>;  // places of their leases, the latest last

Successors reservations(const Draft& draft) {
  Successors places;
  for (std::size_t place = 0; const Lease& lease : draft.leases) {
    if (lease.state == LeaseState::reserved) places.push_back(place);
    ++place;
  }
  return places;
}

Successors waiting_successors(Draft& draft, const PoolDraft& pool, const Successors& reserved) {
  Successors places;
  for (const auto place : reserved)
    if (const Lease& lease = draft.leases[place]; lease.state == LeaseState::reserved &&
                                                  lease.pool == pool.spec->name &&
                                                  draft.holder_of(lease.volume_id))
      places.push_back(place);
  return places;
}

/// A node whose volume is free now comes before one whose successor waits: it is served sooner, and
/// the other no later, by the next instance that comes up.
void serve_by_successor(Draft& draft, const PoolDraft& pool, const NodeDraft& node,
                        const Successors& successors) {
  if (!node.wanted || node.volume_id.empty() || node.moving || serving_lease(draft, node) ||
      waiting_lease(draft, node) || !volume_is_free(draft, node))
    return;
  for (auto place = successors.rbegin(); place != successors.rend(); ++place) {
    Lease reserved = draft.leases[*place];
    if (reserved.state != LeaseState::reserved) continue;
    const auto* instance = draft.find_instance(reserved.instance_id);
    if (!instance || !instance->running || instance->zone != node.zone || instance->ending ||
        !instance->departing.empty() || draft.shows_volume_on(instance->id))
      continue;
    if (!attach(draft, pool, node, *instance)) continue;
    reserved.state = LeaseState::ended;
    draft.set_lease(reserved, node.name + "'s volume is free, and this one is not");
    return;
  }
}

void serve(Draft& draft, const PoolDraft& pool, const NodeDraft& node, IdleInstances& idle_ones) {
  if (!node.wanted || node.volume_id.empty() || serving_lease(draft, node) || node.moving) return;
  InstanceDraft* instance = nullptr;
  if (const auto* reserved = waiting_lease(draft, node))
    instance = draft.find_instance(reserved->instance_id);
  else
    instance = take_idle(draft, idle_ones, node.zone);
  if (instance && instance->running) lease_to(draft, pool, node, *instance);
}

}  // namespace

bool holds_unknown_volume(const Draft& draft, const InstanceDraft& instance) {
  return unknown_volume(draft, instance) != nullptr;
}

bool note_unknown_volume(Draft& draft, const InstanceDraft& instance) {
  const auto* device = unknown_volume(draft, instance);
  if (!device) return false;
  draft.note(NoteKind::stranger, instance.pool, "",
             instance.id + " has " + device->volume_id + " attached as " + device->device_name +
                 ", which carries no tags of ours that say what it is for, so it gets no other "
                 "volume and is not ended as one too many: give it its tags back, detach it, or "
                 "end the instance",
             true);
  return true;
}

bool is_before_in_line(const InstanceDraft* left, const InstanceDraft* right) {
  const auto launched = [](const InstanceDraft* of) {
    return of->seen ? of->seen->launch_time.value_or(Instant::max()) : Instant::max();
  };
  return std::make_pair(launched(left), left->id) < std::make_pair(launched(right), right->id);
}

void lease_to(Draft& draft, const PoolDraft& pool, const NodeDraft& node, InstanceDraft& instance) {
  if (node.volume && node.volume->availability_zone != instance.zone) return;
  if (volume_is_free(draft, node) && attach(draft, pool, node, instance)) return;
  if (!draft.lease_on(instance.id))
    draft.set_lease({pool.spec->name, node.name, node.volume_id, instance.id, "",
                     LeaseState::reserved, draft.now},
                    instance.id + " waits for the volume to become free");
}

Lease* serving_lease(Draft& draft, const NodeDraft& node) {
  if (node.volume_id.empty()) return nullptr;
  auto* lease = draft.holder_of(node.volume_id);
  if (!lease) return nullptr;
  const auto* instance = draft.find_instance(lease->instance_id);
  // Attached to an instance that is none of the pool's: nobody else can have the volume, so nobody
  // is launched for it.
  if (!instance) return instance_is_foreign(draft, *lease) ? lease : nullptr;
  return instance->departing.empty() ? lease : nullptr;
}

bool instance_is_foreign(const Draft& draft, const Lease& lease) {
  const auto* seen = draft.observed.instances.get(lease.instance_id);
  if (seen) return seen->state != aws::InstanceState::terminated;
  const auto* volume = draft.observed.volumes.get(lease.volume_id);
  return volume && attachment_of(*volume) != nullptr;
}

Lease* waiting_lease(Draft& draft, const NodeDraft& node) {
  return node.volume_id.empty() ? nullptr : draft.reservation_of(node.volume_id);
}

void lease(Draft& draft) {
  std::size_t most = 0;
  std::vector<IdleInstances> idle_ones;
  for (const auto& pool : draft.pools) {
    most = std::max(most, pool.nodes.size());
    idle_ones.push_back(idle_instances(draft, pool));
  }
  for (std::size_t turn = 0; turn < most; ++turn)
    for (std::size_t place = 0; place < draft.pools.size(); ++place)
      if (const auto& pool = draft.pools[place]; turn < pool.nodes.size())
        serve(draft, pool, pool.nodes[turn], idle_ones[place]);
  const Successors reserved = reservations(draft);
  if (reserved.empty()) return;
  for (const auto& pool : draft.pools)
    if (const Successors successors = waiting_successors(draft, pool, reserved);
        !successors.empty())
      for (const auto& node : pool.nodes) serve_by_successor(draft, pool, node, successors);
}

}  // namespace warmroot::core
