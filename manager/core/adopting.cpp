// Order is by id everywhere, so that a second look after a crash gives the same node the same
// volume.
#include "manager/core/adopting.hpp"

#include <algorithm>

#include "manager/core/leasing.hpp"
#include "manager/core/pool_source.hpp"

namespace warmroot::core {

namespace {

/// So many volumes are named one by one; more of them are claimed together, up to the next number
/// in one call, of which EC2 takes 1,000.
constexpr std::size_t kNamedAtOnce = 4;
constexpr std::size_t kMostPerClaim = 200;

/// Volumes made by launches and attached, by instance.
using Carried = std::map<std::string, const aws::Volume*>;

Carried carried_volumes(const Draft& draft) {
  Carried carried;
  for (const auto* volume : draft.from_launch)
    if (const auto* attachment = attachment_of(*volume);
        attachment && (attachment->device == kLaunchDevice || is_unnamed(*volume)))
      carried[attachment->instance_id] = volume;
  return carried;
}

/// The node whose tags are on their way to the volume has it.
void count_tagging(Draft& draft) {
  for (const auto& intent : draft.ledger.intents) {
    const bool tags = intent.call.action == "CreateTags";
    auto* pool = tags || launches_with_volumes(intent) ? draft.find_pool(intent.pool) : nullptr;
    if (!pool) continue;
    for (const auto& name : intent.nodes)
      if (auto* node = pool->find_node(name); node && node->volume_id.empty()) {
        node->asked = true;
        node->covered = true;
        if (!intent.zone.empty()) node->zone = intent.zone;
      }
  }
}

std::vector<NodeDraft*> nodes_without_volume(PoolDraft& pool) {
  std::vector<NodeDraft*> nodes;
  for (auto& node : pool.nodes)
    if (!node.beyond && node.volume_id.empty() && !node.asked) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const NodeDraft* left, const NodeDraft* right) {
    return left->wanted && !right->wanted;
  });
  return nodes;
}

enum class Carries { nothing, unseen, known, unwanted };

/// What an instance that was launched with a volume has of it now.
Carries carries_what(const Draft& draft, const aws::Instance& seen, const Carried& carried) {
  if (carried.contains(seen.instance_id)) return Carries::known;
  if (!has_tag(seen.tags, kTagLaunchVolume)) return Carries::nothing;
  for (const auto& device : seen.block_devices) {
    if (device.device_name != kLaunchDevice) continue;
    const auto* volume = draft.observed.volumes.get(device.volume_id);
    if (!volume) return Carries::unseen;
    return tag_of(volume->tags, kTagRole) == to_string(VolumeRole::spare) ? Carries::unwanted
                                                                          : Carries::nothing;
  }
  // Shown with its disks and without ours: somebody took it off.
  const bool lost = seen.state == aws::InstanceState::running && !seen.block_devices.empty();
  return lost ? Carries::nothing : Carries::unseen;
}

bool tag_as(Draft& draft, const PoolDraft& pool, const aws::Volume& volume,
            std::vector<std::string> nodes, aws::Tags tags, const std::string& reason) {
  if (draft.undecided(volume.volume_id) || draft.backing_off("CreateTags", volume.volume_id))
    return false;
  return draft.act(aws::CreateTags{{volume.volume_id}, std::move(tags)}, pool.spec->name,
                   std::move(nodes), reason);
}

void record_as(Draft& draft, const PoolDraft& pool, const aws::Volume& volume,
               const NodeDraft& node) {
  draft.record(
      RecordVolume{volume.volume_id,
                   {pool.spec->name, node.name, volume.availability_zone, draft.now, true, true}});
}

void name(Draft& draft, const PoolDraft& pool, const aws::Volume& volume, const NodeDraft& node,
          const std::string& reason) {
  if (draft.backing_off("CreateTags", node.name)) return;
  const bool asked = tag_as(draft, pool, volume, {node.name},
                            {{kTagNode, node.name},
                             {kTagRole, std::string(to_string(VolumeRole::node))},
                             {"Name", "warmroot " + node.name}},
                            reason);
  // While the tag is on its way, another look may show the launch's volumes in another order.
  if (asked && claimed_for(draft, volume) != node.name) record_as(draft, pool, volume, node);
}

struct Gift {
  const aws::Volume* volume;
  NodeDraft* node;
};

/// The ledger learns whose each one is before the call goes out; all of them look alike to EC2.
void claim(Draft& draft, const PoolDraft& pool, const std::vector<Gift>& gifts) {
  aws::CreateTags call{{}, {{kTagRole, std::string(to_string(VolumeRole::node))}}};
  std::vector<std::string> names;
  for (const auto& gift : gifts) {
    call.resource_ids.push_back(gift.volume->volume_id);
    names.push_back(gift.node->name);
  }
  if (!draft.act(std::move(call), pool.spec->name, std::move(names),
                 "their nodes have no volume, and the launch made one for each"))
    return;
  for (const auto& [volume, node] : gifts) record_as(draft, pool, *volume, *node);
}

/// One bad id fails a whole claim: whoever was in a refused one is named alone.
void give(Draft& draft, const PoolDraft& pool, const std::vector<Gift>& gifts) {
  if (draft.looking_around()) return;  // the node's own may not be shown yet
  std::vector<Gift> together;
  for (const auto& gift : gifts) {
    gift.node->zone = gift.volume->availability_zone;
    if (draft.undecided(gift.volume->volume_id)) continue;
    const bool refused = draft.ledger.failures.contains(failure_key("CreateTags", gift.node->name));
    if (gifts.size() > kNamedAtOnce && !refused)
      together.push_back(gift);
    else
      name(draft, pool, *gift.volume, *gift.node,
           gift.node->name + " has no volume, and the launch made one");
  }
  for (std::size_t first = 0; first < together.size(); first += kMostPerClaim) {
    const auto last = std::min(together.size(), first + kMostPerClaim);
    claim(draft, pool,
          {together.begin() + static_cast<std::ptrdiff_t>(first),
           together.begin() + static_cast<std::ptrdiff_t>(last)});
  }
}

void keep_as_spare(Draft& draft, const PoolDraft& pool, const aws::Volume& volume) {
  tag_as(draft, pool, volume, {}, {{kTagRole, std::string(to_string(VolumeRole::spare))}},
         "a launch made it and no node needs it: it is kept as a spare");
}

/// Takes a node of the zone, or where there is none the first one: without a volume, a node's zone
/// is only where it would be put today.
NodeDraft* take_node(std::vector<NodeDraft*>& nodes, const std::string& zone) {
  auto found = std::find_if(nodes.begin(), nodes.end(),
                            [&](const NodeDraft* node) { return node->zone == zone; });
  if (found == nodes.end()) found = nodes.begin();
  if (found == nodes.end()) return nullptr;
  NodeDraft* node = *found;
  nodes.erase(found);
  return node;
}

/// The node that the ledger claimed the volume for, if it still lacks one: no other may take it.
std::map<std::string, NodeDraft*> claimed_before(const Draft& draft, const PoolDraft& pool,
                                                 const Carried& carried,
                                                 std::vector<NodeDraft*>& nodes) {
  std::map<std::string, NodeDraft*> claimed;
  for (const auto* instance : pool.instances) {
    const auto volume = carried.find(instance->id);
    if (volume == carried.end()) continue;
    const auto name = claimed_for(draft, *volume->second);
    const auto node = std::find_if(nodes.begin(), nodes.end(),
                                   [&](const NodeDraft* each) { return each->name == name; });
    if (node == nodes.end()) continue;
    claimed[instance->id] = *node;
    nodes.erase(node);
  }
  return claimed;
}

bool may_be_given_its_volume(Draft& draft, const InstanceDraft& instance) {
  return instance.launched && instance.departing.empty() && !draft.lease_on(instance.id);
}

/// Claims that the ledger knows and EC2 does not show (the call failed, or a look lags) of volumes
/// whose instance is not waiting for its own: nothing else is made for their nodes, and each is
/// named.
void keep_claims(Draft& draft, const Carried& carried) {
  for (const auto* volume : draft.from_launch) {
    const auto* record = draft.ledger.volumes.get(volume->volume_id);
    if (!record) continue;
    auto* pool = draft.find_pool(record->pool);
    auto* node = pool ? pool->find_node(record->node) : nullptr;
    if (!node || node->beyond || !node->volume_id.empty() || node->asked) continue;
    const auto* attachment = attachment_of(*volume);
    const auto* instance = attachment ? draft.find_instance(attachment->instance_id) : nullptr;
    if (instance && carried.contains(instance->id) && may_be_given_its_volume(draft, *instance))
      continue;
    node->asked = true;
    node->covered = instance && instance->departing.empty();
    node->zone = volume->availability_zone;
    name(draft, *pool, *volume, *node,
         "the ledger has it as " + node->name + "'s, its tags do not say so yet");
  }
}

void adopt_for(Draft& draft, PoolDraft& pool, const Carried& carried) {
  auto nodes = nodes_without_volume(pool);
  const auto claimed = claimed_before(draft, pool, carried, nodes);
  std::vector<Gift> gifts;
  for (auto* each : pool.instances) {
    auto& instance = *each;
    const auto& id = instance.id;
    if (instance.carries || !may_be_given_its_volume(draft, instance)) continue;
    // Of one that is not shown yet its launch tells.
    const auto* launched = draft.ledger.instances.get(id);
    const bool may = carried.contains(id) || (launched && launched->with_volume && !nodes.empty());
    const auto what = instance.seen ? carries_what(draft, *instance.seen, carried)
                      : may         ? Carries::unseen
                                    : Carries::nothing;
    if (what == Carries::unwanted) instance.departing = "carries a volume that no node needs";
    if (what != Carries::known && what != Carries::unseen) continue;
    const auto volume = carried.find(id);
    instance.carries = true;
    const auto known = claimed.find(id);
    auto* node = known != claimed.end() ? known->second : take_node(nodes, instance.zone);
    if (node) {
      node->asked = true;
      node->covered = true;
    }
    if (volume == carried.end()) continue;
    // Without a node it becomes a spare once it is off the instance: attached, it would count as
    // used.
    if (node)
      gifts.push_back({volume->second, node});
    else if (!is_unnamed(*volume->second))  // with a name lost it may serve a session
      instance.departing = "carries a volume that no node needs";
  }
  give(draft, pool, gifts);
}

/// It may have served a session, and the ledger that said whose it is was lost.
void note_claimed(Draft& draft, const aws::Volume& volume) {
  if (attachment_of(volume)) return;  // its instance finds it a node
  draft.note(NoteKind::stranger, tag_of(volume.tags, kTagPool), "",
             "volume " + volume.volume_id +
                 " was a node's and its name is lost with the ledger: set the tag " + kTagNode +
                 " to have it used, or remove its tags",
             false);
}

/// Until it shows as a spare, which the stock gives to a node that it fits, nothing else is made
/// for one of the zone that lacks a volume.
void let_wait_for(Draft& draft, PoolDraft& pool, const aws::Volume& orphan) {
  if (draft.backing_off("CreateTags", orphan.volume_id)) return;
  for (auto* node : nodes_without_volume(pool))
    if (node->zone == orphan.availability_zone) {
      node->asked = true;
      return;
    }
}

/// What a launch made and its instance lost or took to its end: never leased, so a spare. The
/// base's own root has the same tags and is told apart by its snapshot.
void keep_orphans(Draft& draft) {
  for (const auto* each : draft.from_launch) {
    const auto& volume = *each;
    if (is_unnamed(volume)) {
      note_claimed(draft, volume);
      continue;
    }
    if (attachment_of(volume) || volume.state != aws::VolumeState::available ||
        !claimed_for(draft, volume).empty())
      continue;
    auto* pool = draft.find_pool(tag_of(volume.tags, kTagPool));
    if (!pool || !pool->spec->launch || volume.snapshot_id != tag_of(volume.tags, kTagLineage))
      continue;
    const auto base = draft.observed.images.find(pool->spec->launch->base_ami);
    if (base == draft.observed.images.end() || !base->second.found ||
        root_snapshot_of(*base->second.found) == volume.snapshot_id)
      continue;
    keep_as_spare(draft, *pool, volume);
    let_wait_for(draft, *pool, volume);
  }
}

}  // namespace

bool is_from_launch(const aws::Volume& volume) {
  return tag_of(volume.tags, kTagRole) == kRoleLaunch && !has_tag(volume.tags, kTagNode);
}

std::string claimed_for(const Draft& draft, const aws::Volume& volume) {
  const auto* record = draft.ledger.volumes.get(volume.volume_id);
  return record ? record->node : std::string();
}

bool is_unnamed(const aws::Volume& volume) {
  return tag_of(volume.tags, kTagRole) == to_string(VolumeRole::node) &&
         !has_tag(volume.tags, kTagNode);
}

void name_claimed(Draft& draft) {
  for (const auto& pool : draft.pools)
    for (const auto& node : pool.nodes)
      if (node.volume && is_unnamed(*node.volume))
        name(draft, pool, *node.volume, node,
             "the ledger has it as " + node.name + "'s, its tags do not say so yet");
}

int volumes_by_launch(int nodes, int attaches_now) {
  return nodes > attaches_now ? nodes : 0;
}

void adopt(Draft& draft) {
  count_tagging(draft);
  const auto carried = carried_volumes(draft);
  keep_claims(draft, carried);
  for (auto& pool : draft.pools)
    if (pool.spec->launch && (pool.spec->launch->volume_with_launch || !carried.empty()))
      adopt_for(draft, pool, carried);
  keep_orphans(draft);
}

}  // namespace warmroot::core
