// What EBS accepts for a volume's type, size, IOPS and throughput, so that a spec is refused before
// EC2 refuses it. Called by config.cpp. Source of the figures: the EBS user guide as of 2026; older
// Regions may allow less, which EC2 then says itself.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "manager/core/spec.hpp"

namespace warmroot::manager {

/// The largest figures of any type; what exceeds them is wrong for every type.
inline constexpr int kMaxVolumeGib = 65536;
inline constexpr int kMaxVolumeIops = 256000;
inline constexpr int kMaxVolumeThroughputMibS = 2000;

/// All disagreements of `spec` with its volume type, as (key, what is wrong and what to write).
std::vector<std::pair<std::string, std::string>> volume_mistakes(const core::VolumeSpec& spec);

}  // namespace warmroot::manager
