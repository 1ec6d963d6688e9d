#include "manager/config_volumes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace warmroot::manager {
namespace {

/// Zero in the IOPS or throughput columns: the key is not allowed for the type.
struct TypeLimits {
  std::string_view type;
  int least_gib, most_gib;
  int least_iops, most_iops, iops_per_gib;
  int least_mib_s, most_mib_s;
  bool needs_iops;
};

constexpr TypeLimits kTypes[] = {
    {"gp3", 1, 65536, 3000, 80000, 500, 125, 2000, false},
    {"gp2", 1, 16384, 0, 0, 0, 0, 0, false},
    {"io1", 4, 16384, 100, 64000, 50, 0, 0, true},
    {"io2", 4, 65536, 100, 256000, 1000, 0, 0, true},
    {"st1", 125, 16384, 0, 0, 0, 0, 0, false},
    {"sc1", 125, 16384, 0, 0, 0, 0, 0, false},
    {"standard", 1, 1024, 0, 0, 0, 0, 0, false},
};
/// gp3 gives at most 0.25 MiB/s for each IOPS.
constexpr int kIopsPerMibS = 4;
constexpr int kGp3BaselineIops = 3000;

using Mistakes = std::vector<std::pair<std::string, std::string>>;

void check_iops(const core::VolumeSpec& spec, const TypeLimits& limits, Mistakes& mistakes) {
  if (!spec.iops) {
    if (limits.needs_iops)
      mistakes.emplace_back("iops", fmt::format("{} volumes need it, write iops = {} to {}",
                                                spec.type, limits.least_iops, limits.most_iops));
    return;
  }
  if (limits.most_iops == 0) {
    mistakes.emplace_back(
        "iops",
        fmt::format("{} volumes take none, remove it or choose type gp3, io1 or io2", spec.type));
  } else if (*spec.iops < limits.least_iops || *spec.iops > limits.most_iops) {
    mistakes.emplace_back(
        "iops", fmt::format("{} is out of range for {}, write {} to {}", *spec.iops, spec.type,
                            limits.least_iops, limits.most_iops));
  } else if (spec.size_gib > 0 &&
             *spec.iops > std::max(limits.least_iops, limits.iops_per_gib * spec.size_gib)) {
    mistakes.emplace_back(
        "iops",
        fmt::format("{} is too much for {} GiB of {}, which allows {} for each GiB; lower it "
                    "or raise size_gib",
                    *spec.iops, spec.size_gib, spec.type, limits.iops_per_gib));
  }
}

void check_throughput(const core::VolumeSpec& spec, const TypeLimits& limits, Mistakes& mistakes) {
  if (!spec.throughput_mib_s) return;
  const int wanted = *spec.throughput_mib_s;
  const int iops = spec.iops.value_or(kGp3BaselineIops);
  if (limits.most_mib_s == 0) {
    mistakes.emplace_back(
        "throughput_mib_s",
        fmt::format("{} volumes take none, remove it or choose type gp3", spec.type));
  } else if (wanted < limits.least_mib_s || wanted > limits.most_mib_s) {
    mistakes.emplace_back("throughput_mib_s",
                          fmt::format("{} is out of range for {}, write {} to {}", wanted,
                                      spec.type, limits.least_mib_s, limits.most_mib_s));
  } else if (wanted * kIopsPerMibS > iops) {
    mistakes.emplace_back("throughput_mib_s",
                          fmt::format("{} MiB/s needs iops = {} or more, {} are set", wanted,
                                      wanted * kIopsPerMibS, iops));
  }
}

}  // namespace

Mistakes volume_mistakes(const core::VolumeSpec& spec) {
  Mistakes mistakes;
  const auto* limits = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const TypeLimits& each) { return each.type == spec.type; });
  if (limits == std::end(kTypes)) {
    mistakes.emplace_back(
        "type",
        fmt::format("\"{}\" is not a volume type, write gp3, io2, io1, gp2, st1, sc1 or standard",
                    spec.type));
    return mistakes;
  }
  if (spec.size_gib != 0 && (spec.size_gib < limits->least_gib || spec.size_gib > limits->most_gib))
    mistakes.emplace_back(
        "size_gib",
        fmt::format("{} is out of range for {}, write {} to {}, or leave it out for the "
                    "snapshot's size",
                    spec.size_gib, spec.type, limits->least_gib, limits->most_gib));
  check_iops(spec, *limits, mistakes);
  check_throughput(spec, *limits, mistakes);
  if (!spec.kms_key.empty() && !spec.encrypted)
    mistakes.emplace_back("kms_key",
                          "a key is of use only for encrypted volumes, write encrypted = true too");
  return mistakes;
}

}  // namespace warmroot::manager
