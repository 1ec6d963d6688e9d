#include "manager/core/lacking.hpp"

#include <string_view>
#include <unordered_map>

#include "manager/core/draft.hpp"

namespace warmroot::core {

std::set<std::string> lacking_pools(const Desired& desired, const Observed& observed) {
  std::unordered_map<std::string_view, int> volumes;
  std::unordered_map<std::string_view, int> instances;
  for (const auto& [id, volume] : observed.volumes)
    if (has_tag(volume.tags, kTagNode)) ++volumes[tag_of(volume.tags, kTagPool)];
  for (const auto& [id, instance] : observed.instances)
    if (instance.state == aws::InstanceState::pending ||
        instance.state == aws::InstanceState::running)
      ++instances[tag_of(instance.tags, kTagPool)];
  std::set<std::string> lacking;
  for (const auto& pool : desired.pools)
    if (volumes[pool.name] < pool.nodes || instances[pool.name] < pool.running)
      lacking.insert(pool.name);
  return lacking;
}

}  // namespace warmroot::core
