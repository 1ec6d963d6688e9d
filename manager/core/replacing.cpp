// Only instances that report can hand over; one that is silent is left alone until it is
// interrupted.
#include "manager/core/replacing.hpp"

#include "manager/core/launching.hpp"
#include "manager/core/leasing.hpp"

namespace warmroot::core {

namespace {

bool acts_on_hints(const Draft& draft, const PoolDraft& pool) {
  return pool.spec->launch && pool.spec->launch->replace_on_rebalance &&
         !draft.observed.rebalance.empty();
}

int unavailable(Draft& draft, const PoolDraft& pool) {
  int count = 0;
  for (const auto& node : pool.nodes)
    if (node.wanted && !serving_lease(draft, node)) ++count;
  return count;
}

/// Running instances of each zone that nobody waits for.
std::map<std::string, int> standing_by(Draft& draft, const PoolDraft& pool) {
  std::map<std::string, int> spare;
  for (const auto& id : pool.instances)
    if (const auto& instance = draft.instances.at(id);
        instance.running && unassigned(draft, instance))
      ++spare[instance.zone];
  for (const auto& node : pool.nodes)
    if (node.wanted && !node.replacing && !serving_lease(draft, node) &&
        !waiting_lease(draft, node))
      --spare[node.zone];
  return spare;
}

}  // namespace

void mark_replaced(Draft& draft) {
  for (auto& pool : draft.pools) {
    if (!acts_on_hints(draft, pool)) continue;
    int room = pool.spec->rollout.max_unavailable - unavailable(draft, pool);
    for (auto& node : pool.nodes) {
      if (room <= 0) break;
      const auto* lease = node.wanted ? serving_lease(draft, node) : nullptr;
      if (!lease || !draft.observed.rebalance.contains(lease->instance_id) ||
          !draft.fresh_report_of(lease->instance_id))
        continue;
      node.replacing = true;
      --room;
    }
  }
}

void hand_over(Draft& draft) {
  for (auto& pool : draft.pools) {
    if (!acts_on_hints(draft, pool)) continue;
    auto spare = standing_by(draft, pool);
    for (const auto& node : pool.nodes) {
      if (!node.replacing || spare[node.zone] <= 0) continue;
      --spare[node.zone];
      if (const auto* lease = serving_lease(draft, node))
        draft.plan.drains[lease->instance_id] =
            "EC2 recommends to replace it, and a replacement stands by";
    }
  }
}

}  // namespace warmroot::core
