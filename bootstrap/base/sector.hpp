// The unit of block layer and partition tables.
#pragma once

#include <cstdint>

namespace warmroot {

/// Bytes of a sector as sysfs, bios and partition tables count, whatever the device's own are.
inline constexpr std::uint64_t kSector = 512;

}  // namespace warmroot
