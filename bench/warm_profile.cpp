#include "bench/warm_profile.hpp"

#include <toml++/toml.h>
#include <cmath>
#include <optional>
#include <variant>

namespace warmroot::bench {
namespace {

using sim::VolumeProfile;

struct Key {
  std::string_view name;
  std::variant<double VolumeProfile::*, unsigned VolumeProfile::*, bool VolumeProfile::*> member;
  double most = 1e9;
};

constexpr Key kKeys[] = {
    {"latency_median_ms", &VolumeProfile::latency_median_ms},
    {"latency_sigma", &VolumeProfile::latency_sigma, 5},
    {"tail_probability", &VolumeProfile::tail_probability, 1},
    {"tail_mean_ms", &VolumeProfile::tail_mean_ms},
    {"stall_probability", &VolumeProfile::stall_probability, 1},
    {"stall_ms", &VolumeProfile::stall_ms},
    {"fetch_bandwidth_mib_s", &VolumeProfile::fetch_bandwidth_mib_s},
    {"fetch_slots", &VolumeProfile::fetch_slots, 65536},
    {"hydration_unit_kib", &VolumeProfile::hydration_unit_kib, 65536},
    {"background_mib_s", &VolumeProfile::background_mib_s},
    {"guest_iops", &VolumeProfile::guest_iops},
    {"guest_bandwidth_mib_s", &VolumeProfile::guest_bandwidth_mib_s},
    {"charge_hydration", &VolumeProfile::charge_hydration},
    {"warm_latency_ms", &VolumeProfile::warm_latency_ms},
};

/// Why the value is refused, or nothing.
std::optional<std::string> set(VolumeProfile& profile, const Key& key, const toml::node& node) {
  if (const auto* flag = std::get_if<bool VolumeProfile::*>(&key.member)) {
    const auto value = node.value<bool>();
    if (!value || !node.is_boolean()) return "must be true or false";
    profile.** flag = *value;
    return {};
  }
  const auto value = node.value<double>();
  if (!value || !node.is_number() || !(*value >= 0 && *value <= key.most))
    return "must be a number from 0 to " + std::to_string(static_cast<long long>(key.most));
  if (const auto* real = std::get_if<double VolumeProfile::*>(&key.member)) {
    profile.** real = *value;
    return {};
  }
  if (*value != std::floor(*value)) return "must be a whole number";
  profile.*std::get<unsigned VolumeProfile::*>(key.member) = static_cast<unsigned>(*value);
  return {};
}

}  // namespace

Result<VolumeProfile> parse_profile(std::string_view text) {
  VolumeProfile profile;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [name, node] : table) {
      const std::string where =
          "line " + std::to_string(node.source().begin.line) + ": " + std::string(name.str());
      const Key* known = nullptr;
      for (const Key& key : kKeys)
        if (key.name == name.str()) known = &key;
      if (known == nullptr) return fail(ErrorKind::misconfigured, where + ": no such key");
      if (const auto why = set(profile, *known, node))
        return fail(ErrorKind::misconfigured, where + " " + *why);
    }
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::misconfigured, "line " + std::to_string(error.source().begin.line) +
                                              ": " + std::string(error.description()));
  }
  if (profile.hydration_unit_kib == 0 || profile.latency_median_ms <= 0)
    return fail(ErrorKind::misconfigured,
                "hydration_unit_kib and latency_median_ms must be more than 0");
  return profile;
}

}  // namespace warmroot::bench
