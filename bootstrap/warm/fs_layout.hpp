// Where ext2/3/4 and xfs keep their own metadata, from the bytes of superblock and group
// descriptors. The warmer needs the file system's end (the partition may be larger), its bitmaps
// (GETFSMAP reads them one after the other) and the order "metadata first, never-written inode
// tables last". Pure; offsets are relative to the file system's start. Source:
// Documentation/filesystems/ext4 (super, group_descr), xfs_sb in the kernel's xfs_format.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/ext_super.hpp"

namespace warmroot::warm {

/// The superblocks of both families lie within the first 4 KiB.
inline constexpr std::uint64_t kSuperblockBytes = 4096;

struct FsSummary {
  std::uint64_t size_bytes =
      0;  ///< the file system's end; 0 when the superblock is of no known kind
  /// ext's group descriptors, to be read and given to ext_metadata; empty for others (meta_bg
  /// included), and where they are more than any volume has.
  ByteRange descriptors;
  std::vector<ByteRange>
      journal;  ///< ext, where the superblock's copy of the journal inode says it
};

/// Ranges in the order in which they should be read.
struct FsMetadata {
  std::vector<ByteRange> bitmaps;        ///< block and inode bitmaps that were ever written
  std::vector<ByteRange> inode_tables;   ///< the parts of inode tables that hold inodes
  std::vector<ByteRange> unused_tables;  ///< the parts never used: of interest last
};

/// Reads an ext or xfs superblock out of the file system's first kSuperblockBytes. Never fails:
/// nonsense gives an empty summary, and the warmer does without.
FsSummary summarise_superblock(std::string_view first_bytes);

/// Where a group's bitmaps are; empty where they were never written.
struct ExtBitmaps {
  ByteRange blocks, inodes;
};

/// Of the group with this descriptor. What leaves the file system is empty.
ExtBitmaps ext_bitmaps(const ExtSuper& ext, std::string_view descriptor);

/// Reads the group descriptors of an ext file system. Ranges that leave the file system are
/// dropped.
FsMetadata ext_metadata(std::string_view first_bytes, std::string_view descriptors);

}  // namespace warmroot::warm
