// Counts what exists and what was asked for and is not visible yet; creates the rest. Deletes
// nothing, ever.
#include "manager/core/stocking.hpp"

#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

aws::CreateVolume create_call(const Draft& draft, const PoolDraft& pool, const NodeDraft& node) {
  const auto& spec = pool.spec->volumes;
  aws::CreateVolume call;
  call.availability_zone = node.zone;
  call.snapshot_id = pool.source.snapshot_id;
  call.size_gib = spec.size_gib;
  call.volume_type = spec.type;
  call.iops = spec.iops;
  call.throughput_mib_s = spec.throughput_mib_s;
  call.encrypted = spec.encrypted;
  call.kms_key = spec.kms_key;
  call.tags = spec.tags;
  call.tags[kTagDeployment] = draft.desired.deployment;
  call.tags[kTagPool] = pool.spec->name;
  call.tags[kTagNode] = node.name;
  call.tags[kTagLineage] = pool.source.snapshot_id;
  call.tags.try_emplace("Name", "warmroot " + node.name);
  call.client_token =
      client_token({draft.desired.deployment, "CreateVolume", pool.spec->name, node.name,
                    draft.generation("CreateVolume", node.name), node.zone});
  return call;
}

}  // namespace

void stock(Draft& draft) {
  if (draft.young_ledger()) return draft.wake_at(draft.ledger.created + kVisibilityWindow);
  for (auto& pool : draft.pools) {
    if (!pool.source.problems.empty()) continue;
    for (auto& node : pool.nodes) {
      if (node.beyond || !node.volume_id.empty() || node.asked) continue;
      if (draft.backing_off("CreateVolume", node.name)) continue;
      node.asked = draft.act(
          create_call(draft, pool, node), pool.spec->name, {node.name},
          node.name + " has no volume" +
              (node.zone_reason.empty() ? "" : "; " + node.zone + ": " + node.zone_reason),
          node.zone);
    }
  }
}

}  // namespace warmroot::core
