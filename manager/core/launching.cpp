// Counts what is there, what is coming and what was asked for, and launches the rest. A node is
// launched for only when its volume was made, so that a refused volume does not leave an instance
// that is paid for nothing.
#include "manager/core/launching.hpp"

#include <algorithm>

#include "manager/core/leasing.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {

namespace {

/// One call's share of EC2's bucket of instances (1,000); smaller calls fail less as a whole.
constexpr std::size_t kMostPerLaunch = 100;

bool without_instance(Draft& draft, const NodeDraft& node) {
  return node.wanted && !serving_lease(draft, node) && !waiting_lease(draft, node);
}

int instances_coming(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  int count = 0;
  for (const auto& id : pool.instances) {
    const auto& instance = draft.instances.at(id);
    if (instance.zone == zone && unassigned(draft, instance)) ++count;
  }
  for (const auto& intent : draft.ledger.intents)
    if (intent.call.action == "RunInstances" && intent.pool == pool.spec->name &&
        intent.zone == zone)
      count += static_cast<int>(intent.nodes.size());
  return count;
}

aws::Tags instance_tags(const Draft& draft, const PoolSpec& pool) {
  aws::Tags tags = pool.launch->tags;
  tags[kTagDeployment] = draft.desired.deployment;
  tags[kTagPool] = pool.name;
  tags.try_emplace("Name", "warmroot " + pool.name);
  return tags;
}

/// The next type after each refusal, so that one without capacity does not hold the pool up.
std::string pick_type(const Draft& draft, const LaunchSpec& launch, const std::string& node) {
  const auto failure = draft.ledger.failures.find(failure_key("RunInstances", node));
  const int count = failure == draft.ledger.failures.end() ? 0 : failure->second.count;
  return launch.instance_types[static_cast<std::size_t>(count) % launch.instance_types.size()];
}

aws::RunInstances launch_call(const Draft& draft, const PoolSpec& pool, const std::string& zone,
                              const std::vector<std::string>& nodes) {
  const auto& spec = *pool.launch;
  aws::RunInstances call;
  call.image_id = spec.base_ami;
  call.instance_type = pick_type(draft, spec, nodes.front());
  call.min_count = 1;
  call.max_count = static_cast<int>(nodes.size());
  if (const auto subnet = spec.subnets.find(zone); subnet != spec.subnets.end())
    call.subnet_id = subnet->second;
  else
    call.availability_zone = zone;
  call.security_group_ids = spec.security_groups;
  call.key_name = spec.key_name;
  call.instance_profile = spec.instance_profile;
  call.max_price = spec.max_price;
  if (const auto text = draft.observed.user_data.find(pool.name);
      text != draft.observed.user_data.end() && text->second.found)
    call.user_data = *text->second.found;
  call.instance_tags = instance_tags(draft, pool);
  call.volume_tags = spec.tags;  // ours would make the base's root look like a pool volume
  std::string subject;
  for (const auto& node : nodes)
    subject += node + ":" + std::to_string(draft.generation("RunInstances", node)) + " ";
  call.client_token = client_token(
      {draft.desired.deployment, "RunInstances", pool.name, subject + call.instance_type, 0, zone});
  return call;
}

std::string why_launched(const std::vector<std::string>& nodes) {
  std::string names;
  for (const auto& node : nodes) names += (names.empty() ? "" : ", ") + node;
  return names + (nodes.size() == 1 ? " has" : " have") + " no instance";
}

void launch_in_zone(Draft& draft, PoolDraft& pool, const std::string& zone) {
  int coming = instances_coming(draft, pool, zone);
  std::vector<NodeDraft*> missing;
  for (auto& node : pool.nodes) {
    if (node.zone != zone || node.volume_id.empty() || !without_instance(draft, node)) continue;
    if (coming > 0) {
      node.covered = true;
      --coming;
    } else if (!draft.backing_off("RunInstances", node.name)) {
      missing.push_back(&node);
    }
  }
  if (missing.empty() || !pool.source.problems.empty() || draft.young_ledger()) return;
  if (!pool.spec->launch) {
    for (const auto* node : missing)
      draft.note(NoteKind::nobody_launched, pool.spec->name, node->name,
                 "no running instance tagged " + std::string(kTagPool) + "=" + pool.spec->name +
                     " in " + zone + " is free: launch one",
                 true);
    return;
  }
  for (std::size_t first = 0; first < missing.size(); first += kMostPerLaunch) {
    const auto last = std::min(missing.size(), first + kMostPerLaunch);
    std::vector<std::string> names;
    for (auto i = first; i < last; ++i) names.push_back(missing[i]->name);
    if (!draft.act(launch_call(draft, *pool.spec, zone, names), pool.spec->name, names,
                   why_launched(names), zone))
      return;
    for (auto i = first; i < last; ++i) missing[i]->covered = true;
  }
}

}  // namespace

bool unassigned(Draft& draft, const InstanceDraft& instance) {
  return (instance.running || instance.pending) && instance.departing.empty() && !instance.ending &&
         !draft.lease_on(instance.id);
}

int nodes_without_instance(Draft& draft, const PoolDraft& pool, const std::string& zone) {
  int count = 0;
  for (const auto& node : pool.nodes)
    if (node.zone == zone && without_instance(draft, node)) ++count;
  return count;
}

void count_coming(Draft& draft) {
  for (auto& pool : draft.pools) {
    std::map<std::string, int> coming;
    for (auto& node : pool.nodes) {
      if (node.volume_id.empty() || !without_instance(draft, node)) continue;
      const auto [left, is_new] = coming.try_emplace(node.zone, 0);
      if (is_new) left->second = instances_coming(draft, pool, node.zone);
      node.covered = left->second-- > 0;
    }
  }
}

void launch(Draft& draft) {
  for (auto& pool : draft.pools) {
    std::set<std::string> zones;
    for (const auto& node : pool.nodes)
      if (node.wanted) zones.insert(node.zone);
    for (const auto& zone : zones) launch_in_zone(draft, pool, zone);
  }
}

}  // namespace warmroot::core
