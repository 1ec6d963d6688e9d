// Checks of a pool against what EC2 knows; every sentence ends with what the operator can do.
#include "manager/core/pool_source.hpp"

namespace warmroot::core {

namespace {

template <typename T>
const T* find_or_complain(const std::map<std::string, Lookup<T>>& lookups, const std::string& id,
                          const std::string& what, std::vector<std::string>& problems) {
  const auto found = lookups.find(id);
  if (found == lookups.end()) {
    problems.push_back(what + " " + id + " has not been looked up yet");
    return nullptr;
  }
  if (!found->second.found) {
    problems.push_back(found->second.error);
    return nullptr;
  }
  return &*found->second.found;
}

void check_image_state(const aws::Image& image, std::vector<std::string>& problems) {
  if (image.state != "available")
    problems.push_back("AMI " + image.image_id + " is " + image.state +
                       ", not available: wait for it or name another one");
}

void find_root(const PoolSpec& pool, const Observed& observed, PoolSource& source) {
  if (pool.ami.empty()) {
    source.snapshot_id = pool.snapshot;
    return;
  }
  const auto* image = find_or_complain(observed.images, pool.ami, "AMI", source.problems);
  if (!image) return;
  check_image_state(*image, source.problems);
  source.architecture = image->architecture;
  source.snapshot_id = root_snapshot_of(*image);
  if (source.snapshot_id.empty())
    source.problems.push_back("AMI " + pool.ami +
                              " has no root snapshot: name an AMI whose root is an EBS volume");
}

void check_snapshot(const PoolSpec& pool, const Observed& observed, PoolSource& source) {
  if (source.snapshot_id.empty()) return;
  const auto* snapshot =
      find_or_complain(observed.snapshots, source.snapshot_id, "snapshot", source.problems);
  if (!snapshot) return;
  if (snapshot->state != "completed")
    source.problems.push_back("snapshot " + source.snapshot_id + " is " + snapshot->state +
                              ", not completed: wait for it or name another one");
  if (pool.volumes.size_gib != 0 && pool.volumes.size_gib < snapshot->volume_size_gib)
    source.problems.push_back("volumes.size_gib = " + std::to_string(pool.volumes.size_gib) +
                              " is smaller than snapshot " + source.snapshot_id + " (" +
                              std::to_string(snapshot->volume_size_gib) +
                              " GiB): raise it or leave it out");
}

std::string listed(const std::map<std::string, aws::AvailabilityZone>& zones) {
  std::string text;
  for (const auto& [name, zone] : zones) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void check_zones(const PoolSpec& pool, const Observed& observed, PoolSource& source) {
  if (observed.zones.empty()) return;
  for (const auto& zone : pool.zones)
    if (!observed.zones.contains(zone))
      source.problems.push_back("zone " + zone + " is not in this Region, which has " +
                                listed(observed.zones) + ": correct `zones` or --region");
}

void check_subnet(const std::string& zone, const std::string& subnet_id, const Observed& observed,
                  PoolSource& source) {
  const auto* subnet = find_or_complain(observed.subnets, subnet_id, "subnet", source.problems);
  if (subnet && subnet->availability_zone != zone)
    source.problems.push_back("subnet " + subnet_id + " is in " + subnet->availability_zone +
                              ", but the spec gives it for " + zone +
                              ": name a subnet of that zone");
}

void check_launch(const PoolSpec& pool, const Observed& observed, PoolSource& source) {
  if (!pool.launch) return;
  const auto* base =
      find_or_complain(observed.images, pool.launch->base_ami, "base AMI", source.problems);
  if (base) {
    check_image_state(*base, source.problems);
    if (!source.architecture.empty() && !base->architecture.empty() &&
        base->architecture != source.architecture)
      source.problems.push_back("the volumes of AMI " + pool.ami + " are " + source.architecture +
                                ", but base AMI " + pool.launch->base_ami + " is " +
                                base->architecture + ": name a base AMI of the same architecture");
  }
  for (const auto& zone : pool.zones)
    if (const auto subnet = pool.launch->subnets.find(zone); subnet != pool.launch->subnets.end())
      check_subnet(zone, subnet->second, observed, source);
  if (const auto text = observed.user_data.find(pool.name);
      text != observed.user_data.end() && !text->second.found)
    source.problems.push_back(text->second.error);
  if (const auto check = observed.launch_checks.find(pool.name);
      check != observed.launch_checks.end() && !check->second.error.empty())
    source.problems.push_back(check->second.error);
  for (const auto& type : pool.launch->instance_types)
    if (const auto offered = observed.market.offered.find(type);
        offered != observed.market.offered.end() && offered->second.empty())
      source.problems.push_back("no zone of this Region offers instance type " + type +
                                ": correct `instance_types`");
}

}  // namespace

std::string root_snapshot_of(const aws::Image& image) {
  for (const auto& mapping : image.mappings)
    if (mapping.device_name == image.root_device_name) return mapping.snapshot_id;
  return {};
}

PoolSource find_source(const PoolSpec& pool, const Observed& observed) {
  PoolSource source;
  find_root(pool, observed, source);
  check_snapshot(pool, observed, source);
  const std::size_t of_volumes = source.problems.size();
  check_zones(pool, observed, source);
  check_launch(pool, observed, source);
  source.may_launch = source.problems.size() == of_volumes;
  return source;
}

bool shows_a_source(const Observed& observed) {
  const auto found = [](const auto& each) { return each.second.found.has_value(); };
  return std::any_of(observed.images.begin(), observed.images.end(), found) ||
         std::any_of(observed.snapshots.begin(), observed.snapshots.end(), found);
}

}  // namespace warmroot::core
