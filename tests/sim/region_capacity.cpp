// What runs out in the simulated region: addresses of a subnet, capacity of a zone, vCPUs of an
// account.
#include <algorithm>
#include <cstdio>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"
#include "tests/sim/region_types.hpp"

namespace warmroot::sim {

namespace {

/// AWS keeps the first four addresses of a subnet and its last.
constexpr std::uint32_t kFirstAddress = 4;

struct AddressRange {
  std::uint32_t base = 0;
  std::uint32_t size = 0;
};

AddressRange parse_cidr(const std::string& cidr) {
  unsigned a = 0, b = 0, c = 0, d = 0, bits = 24;
  if (std::sscanf(cidr.c_str(), "%u.%u.%u.%u/%u", &a, &b, &c, &d, &bits) != 5 || bits < 16 ||
      bits > 28)
    return {};
  return {a << 24 | b << 16 | c << 8 | d, 1U << (32 - bits)};
}

std::string address_text(std::uint32_t address) {
  return std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
         std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255);
}

}  // namespace

// ---- addresses ----

Region::Addresses& Region::addresses_of(const SubnetRecord& net) {
  const auto found = addresses_.find(net.id);
  if (found != addresses_.end()) return found->second;
  const AddressRange range = parse_cidr(net.cidr);
  Addresses all;
  all.next = range.base + std::min(kFirstAddress, range.size);
  all.end = range.size == 0 ? all.next : range.base + range.size - 1;
  return addresses_.emplace(net.id, std::move(all)).first->second;
}

int Region::free_addresses(const std::string& subnet_id) const {
  const SubnetRecord* net = subnet(subnet_id);
  if (net == nullptr) return 0;
  const auto found = addresses_.find(subnet_id);
  if (found == addresses_.end())
    return static_cast<int>(parse_cidr(net->cidr).size) - static_cast<int>(kFirstAddress) - 1;
  return static_cast<int>(found->second.end - found->second.next + found->second.given_back.size());
}

std::string Region::take_address(const SubnetRecord& net) {
  Addresses& all = addresses_of(net);
  if (!all.given_back.empty())
    return address_text(all.given_back.extract(all.given_back.begin()).value());
  return all.next < all.end ? address_text(all.next++) : std::string();
}

void Region::give_address_back(InstanceRecord& guest) {
  const AddressRange one = parse_cidr(guest.private_ip + "/28");
  const auto found = addresses_.find(guest.subnet_id);
  if (!guest.private_ip.empty() && found != addresses_.end())
    found->second.given_back.insert(one.base);
  guest.private_ip.clear();
}

// ---- capacity ----

void Region::occupy(InstanceRecord& guest, bool on) {
  if (guest.occupies == on) return;
  guest.occupies = on;
  const int sign = on ? 1 : -1;
  occupied_[{guest.type, guest.zone}] += sign;
  const auto facts = type_facts(guest.type);
  vcpus_used_[{guest.spot(), quota_class(guest.type, guest.spot())}] +=
      sign * (facts ? facts->vcpus : 0);
}

int Region::room(const std::string& type, const std::string& where) const {
  if (zone_impaired(where)) return 0;
  int least = kUnlimited;
  for (const auto& [pool, most] : knobs.capacity) {
    const auto within = [&pool = pool](const std::string& a_type, const std::string& a_zone) {
      return (pool.first == "*" || pool.first == a_type) &&
             (pool.second == "*" || pool.second == a_zone);
    };
    if (!within(type, where)) continue;
    int used = 0;
    for (const auto& [place, count] : occupied_)
      if (within(place.first, place.second)) used += count;
    least = std::min(least, std::max(0, most - used));
  }
  return least;
}

Answer<void> Region::take_placement_question(const std::string& configuration) {
  constexpr std::chrono::hours kPeriod{24};
  std::erase_if(placement_questions_,
                [&](const auto& each) { return now() - each.second >= kPeriod; });
  const int most = knobs.placement_configurations;
  if (most > 0 && !placement_questions_.contains(configuration) &&
      placement_questions_.size() >= static_cast<std::size_t>(most))
    return refuse("MaxConfigLimitExceeded",
                  "You have exceeded your maximum allowed Spot placement configurations. You can "
                  "retry configurations that you used within the last 24 hours, or wait for 24 "
                  "hours before specifying a new configuration.");
  placement_questions_.insert_or_assign(configuration, now());
  return {};
}

bool Region::offered(const std::string& type, const std::string& where) const {
  if (knobs.not_offered.contains({type, where})) return false;
  for (std::size_t index = 0; index < catalog_.zones.size(); ++index)
    if (catalog_.zones[index].name == where) return !offering_hole(type, index);
  return false;
}

Answer<int> Region::vcpu_room(const std::string& type, bool spot) const {
  const auto& quotas = spot ? knobs.spot_vcpu_quota : knobs.on_demand_vcpu_quota;
  const auto quota = quotas.find(quota_class(type, spot));
  const auto facts = type_facts(type);
  if (quota == quotas.end() || !facts) return kUnlimited;
  const auto used = vcpus_used_.find({spot, quota_class(type, spot)});
  const int left = quota->second - (used == vcpus_used_.end() ? 0 : used->second);
  if (left >= facts->vcpus) return left / facts->vcpus;
  if (spot) return refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded");
  return refuse("VcpuLimitExceeded",
                "You have requested more vCPU capacity than your current vCPU limit of " +
                    std::to_string(quota->second) +
                    " allows for the instance bucket that the specified instance type belongs to. "
                    "Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
                    "adjustment to this limit.");
}

}  // namespace warmroot::sim
