#include "manager/core/orphans.hpp"

#include <algorithm>
#include <tuple>

#include "manager/core/census.hpp"

namespace warmroot::core {

namespace {

std::string why_without_use(const Desired& desired, const VolumeRow& row) {
  const auto pool = std::find_if(desired.pools.begin(), desired.pools.end(),
                                 [&](const PoolSpec& each) { return each.name == row.pool; });
  if (row.pool.empty()) return "it names no pool";
  if (pool == desired.pools.end()) return "pool " + row.pool + " is not in the spec";
  const auto index = node_index(row.pool, row.node);
  if (!index) return "its tags name no node of " + row.pool;
  if (*index >= pool->nodes) return row.node + " is beyond nodes = " + std::to_string(pool->nodes);
  return row.node + " has another volume";
}

}  // namespace

std::string orphan_key(const std::string& volume_id) {
  return "unclaimed/" + volume_id;
}

std::vector<Orphan> find_orphans(const Desired& desired, const LedgerView& ledger,
                                 const Plan& plan) {
  std::vector<Orphan> orphans;
  for (const auto& row : plan.volumes) {
    if (row.condition != VolumeCondition::unclaimed) continue;
    const bool leased =
        std::any_of(ledger.leases.begin(), ledger.leases.end(),
                    [&](const Lease& lease) { return lease.volume_id == row.volume_id; });
    if (leased) continue;
    Orphan orphan{
        row.volume_id, row.pool, row.zone, row.size_gib, why_without_use(desired, row), {}, true};
    if (const auto watch = ledger.watches.find(orphan_key(row.volume_id));
        watch != ledger.watches.end())
      orphan.since = watch->second.since;
    if (const auto* record = ledger.volumes.get(row.volume_id); record)
      orphan.maybe_used = record->ever_used;
    orphans.push_back(std::move(orphan));
  }
  std::sort(orphans.begin(), orphans.end(), [](const Orphan& left, const Orphan& right) {
    const auto age = [](const Orphan& of) {
      return std::make_tuple(of.since.value_or(Instant::max()), of.volume_id);
    };
    return age(left) < age(right);
  });
  return orphans;
}

}  // namespace warmroot::core
