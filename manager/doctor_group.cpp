// A pool whose instances come from an Auto Scaling group: whether what the group has launched can
// be served. A launch template without our tag is a mistake that nobody else would notice.
#include <algorithm>

#include "manager/aws/paging.hpp"
#include "manager/core/token.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

std::string tag_of(const aws::Instance& instance, const char* key) {
  const auto found = instance.tags.find(key);
  return found == instance.tags.end() ? std::string() : found->second;
}

std::string text_of(const std::vector<std::string>& ids) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < ids.size() && i < kShown; ++i) text += (i ? ", " : "") + ids[i];
  if (ids.size() > kShown) text += " and " + std::to_string(ids.size() - kShown) + " more";
  return text;
}

}  // namespace

void check_group(aws::Ec2& ec2, const DoctorFacts& facts, const core::PoolSpec& pool,
                 std::vector<Finding>& findings) {
  const std::string group = "Auto Scaling group " + pool.auto_scaling_group;
  const auto unknown = [&](const std::string& text, const std::string& remedy) {
    findings.push_back(Finding::unknown("group", pool.name, text, remedy));
  };
  const auto wrong = [&](const std::string& text, const std::string& remedy) {
    findings.push_back(Finding::wrong("group", pool.name, text, remedy));
  };
  aws::DescribeRequest request;
  request.filters = {{std::string("tag:") + core::kTagGroup, {pool.auto_scaling_group}},
                     {"instance-state-name", {"pending", "running"}}};
  const auto instances = aws::collect_all(ec2, &aws::Ec2::describe_instances, request);
  if (!instances)
    return unknown(group + " cannot be seen: " + instances.error().message(),
                   remedy_of(instances.error()));
  if (instances->empty())
    return unknown(group + " has no instance",
                   std::string("run doctor again when it has one; its launch template must tag "
                               "instances ") +
                       core::kTagPool + "=" + pool.name);
  std::vector<std::string> untagged, elsewhere;
  for (const auto& instance : *instances) {
    const auto deployment = tag_of(instance, core::kTagDeployment);
    const bool ours = deployment.empty() || deployment == facts.desired.deployment;
    if (!ours || tag_of(instance, core::kTagPool) != pool.name)
      untagged.push_back(instance.instance_id);
    else if (std::find(pool.zones.begin(), pool.zones.end(), instance.availability_zone) ==
             pool.zones.end())
      elsewhere.push_back(instance.instance_id + " (" + instance.availability_zone + ")");
  }
  if (!untagged.empty())
    wrong(text_of(untagged) + " of " + group + " will get no volume",
          std::string("tag them, and instances in the launch template, ") + core::kTagPool + "=" +
              pool.name + " and " + core::kTagDeployment + "=" + facts.desired.deployment);
  if (!elsewhere.empty())
    wrong(text_of(elsewhere) + " of " + group + " will get no volume",
          "give the group subnets in the pool's zones only, or add the zone to `zones`");
  const auto fit = instances->size() - untagged.size() - elsewhere.size();
  if (fit > 0)
    findings.push_back(
        Finding::ok("group", pool.name,
                    std::to_string(fit) + (fit == 1 ? " instance of " : " instances of ") + group +
                        " can be served; the pool has " + std::to_string(pool.running) +
                        (pool.running == 1 ? " node" : " nodes") + " for them"));
}

}  // namespace warmroot::manager
