// An ext2/3/4 superblock's fields, and the few helpers for reading on-disk numbers. For fs_layout
// and mount_reads, which draw the conclusions. Pure. Source: Documentation/filesystems/ext4/super.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/little_endian.hpp"

namespace warmroot::warm {

inline constexpr std::size_t kExtSuperAt = 1024;
inline constexpr std::uint64_t kExtSuperBytes = 1024;
inline constexpr std::uint16_t kExtentMagic = 0xF30A;

struct ExtSuper {
  std::uint64_t blocks = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t first_data_block = 0;
  std::uint64_t blocks_per_group = 0;
  std::uint64_t inodes_per_group = 0;
  std::uint64_t inode_bytes = 0;
  std::uint64_t descriptor_bytes = 0;
  std::uint64_t groups = 0;
  bool wide = false;         // 64-bit block numbers
  bool meta_bg = false;      // descriptors are spread over the device
  bool lazy_tables = false;  // the uninit flags mean something
  bool recover = false;      // the journal has to be replayed

  std::uint64_t end_bytes() const { return blocks * block_bytes; }
  /// A group's descriptor. Requires group < groups and no meta_bg.
  ByteRange descriptor(std::uint64_t group) const {
    // Behind the superblock; with bigalloc first_data_block is 0 wherever that is.
    const std::uint64_t first = block_bytes == kExtSuperBytes ? 2 : 1;
    return {first * block_bytes + group * descriptor_bytes, descriptor_bytes};
  }
};

/// From a file system's first 4 KiB; zero groups when they hold no sane ext superblock.
ExtSuper parse_ext(std::string_view first_bytes);

/// The extents in an inode's i_block, or in a copy of it (60 bytes), where the tree has one level;
/// of a deeper one its index blocks. What leaves the file system is left out.
std::vector<ByteRange> ext_extents(std::string_view i_block, const ExtSuper& ext);

/// Keeps lists short (neighbours become one range) and before `end`: drops what is empty or leaves
/// it.
void append_range(std::vector<ByteRange>& ranges, ByteRange range, std::uint64_t end);

}  // namespace warmroot::warm
