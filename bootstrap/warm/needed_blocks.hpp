// Which grid blocks of a device a root needs: its partition minus what its file system calls free.
// Called by the warmer. Pure; fsmap asks the kernel.
#pragma once

#include <span>
#include <vector>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

struct RootGeometry {
  std::uint64_t device_bytes = 0;
  ByteRange partition;  ///< on the device; what lies outside the device is ignored
  std::uint64_t fs_bytes =
      0;  ///< the file system's own size where known: a partition may be larger; 0: all of it
};

/// A partition table and boot loader: what lies before the first partition, but no more than 1 MiB.
inline constexpr std::uint64_t kBeforePartitionsBytes = 1024 * 1024;

/// Adds the next free record of a file system that tells them in order. Millions of small ones on a
/// disk that is old and large: what frees no whole block of the grid is left out once it has ended.
void add_free(std::vector<ByteRange>& free, ByteRange range);

/// Every block that holds a byte of the root that is not in `free`, and the partition table. `free`
/// is relative to the partition, in any order, and may overlap. Without free ranges the whole
/// partition is needed. Asking for what is not free, instead of adding up what is used, is on
/// purpose: ext4's used records leave gaps (7 % of used data), its free records do not.
BlockSet needed_blocks(const RootGeometry& geometry, std::span<const ByteRange> free);

}  // namespace warmroot::warm
