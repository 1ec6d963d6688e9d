// See the header.
#include "manager/pool_end.hpp"

#include <utility>

namespace warmroot::manager {
namespace {

using LeaseKey = std::pair<std::string, std::string>;  ///< volume, instance

/// Those that are open once the plan's records are written.
std::map<LeaseKey, core::LeaseState> open_leases(const core::LedgerView& ledger,
                                                 const core::Plan& plan) {
  std::map<LeaseKey, core::LeaseState> leases;
  for (const auto& lease : ledger.leases)
    leases[{lease.volume_id, lease.instance_id}] = lease.state;
  for (const auto& record : plan.records)
    if (const auto* change = std::get_if<core::RecordLease>(&record))
      leases[{change->lease.volume_id, change->lease.instance_id}] = change->lease.state;
  std::erase_if(leases, [](const auto& each) { return each.second == core::LeaseState::ended; });
  return leases;
}

}  // namespace

PoolEnd end_of_pool(const std::string& pool, const core::Observed& observed,
                    const core::LedgerView& ledger, const core::Plan& plan) {
  PoolEnd end;
  std::map<std::string, std::string> users;
  for (const auto& [key, state] : open_leases(ledger, plan)) users[key.first] = key.second;
  for (const auto& [id, volume] : observed.volumes) {
    const auto tag = volume.tags.find(core::kTagPool);
    if (tag == volume.tags.end() || tag->second != pool) continue;
    if (!volume.attachments.empty())
      end.leased[id] = volume.attachments.front().instance_id;
    else if (const auto user = users.find(id); user != users.end())
      end.leased[id] = user->second;
    else
      end.free.push_back(id);
  }
  return end;
}

}  // namespace warmroot::manager
