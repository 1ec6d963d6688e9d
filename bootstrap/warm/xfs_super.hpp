// An xfs superblock's fields, and the helper for reading xfs's numbers, which are big-endian. For
// fs_layout, mount_reads and xfs_free_trees, which draw the conclusions. Pure. Source: struct
// xfs_dsb in the kernel's xfs_format.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warmroot::warm {

/// The big-endian number of `width` bytes at `at`. Requires them inside `bytes`.
std::uint64_t big(std::string_view bytes, std::size_t at, std::size_t width);

struct XfsSuper {
  std::uint64_t size_bytes = 0;  ///< at most 2^63; 0 where it makes no sense
  std::uint64_t block_bytes = 0;
  std::uint64_t sector_bytes = 0;  ///< whatever it says
  std::uint64_t group_blocks = 0;
  std::uint64_t groups = 0;     ///< none begins behind the end
  std::uint64_t log_start = 0;  ///< as byte_of takes it; 0: the log is elsewhere
  std::uint64_t log_blocks = 0;
  std::uint64_t root_inode = 0;
  unsigned inodes_per_block_log = 0;
  unsigned group_blocks_log = 0;  ///< bits of a block number below its group's

  /// Where a block of a group lies; of one beyond the group UINT64_MAX. Requires group < groups.
  std::uint64_t byte_in(std::uint64_t group, std::uint64_t block) const {
    return block < group_blocks ? (group * group_blocks + block) * block_bytes : UINT64_MAX;
  }
  /// Of a block number with the group in its high bits; of one beyond the groups UINT64_MAX.
  std::uint64_t byte_of(std::uint64_t block) const {
    const std::uint64_t group = block >> group_blocks_log;
    return group < groups ? byte_in(group, block & ((1ULL << group_blocks_log) - 1)) : UINT64_MAX;
  }
};

/// From a file system's first 4 KiB; no size where they are no xfs's, no groups where theirs make
/// no sense.
XfsSuper parse_xfs(std::string_view first_bytes);

}  // namespace warmroot::warm
