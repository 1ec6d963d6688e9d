// What libblkid and then mount(2) read of a cold ext2/3/4 or xfs file system one block after the
// other, worked out from the device's own bytes, so that it can be read in parallel before they
// ask. Called by early_reads, which does the reading, and by read_partitions. Pure; content is
// untrusted, offsets are on the whole device.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/ext_super.hpp"

namespace warmroot::warm {

/// Reads that do not wait for each other.
struct MountRound {
  std::vector<ByteRange> contents;  ///< wanted back, in this order
  std::vector<ByteRange> touches;   ///< wanted present, nothing more
  std::vector<ByteRange> head;      ///< a guess at where the next rounds read
  std::vector<ByteRange> later;     ///< not by the mount itself, but by the first lookups after it

  bool empty() const {
    return contents.empty() && touches.empty() && head.empty() && later.empty();
  }
};

/// How much of a disk's start partitions_of wants.
inline constexpr std::uint64_t kPartitionTablesBytes = 32 * 1024;

/// Where libblkid looks, one place after the other, for what a partition or a whole disk holds:
/// superblocks of all kinds at its start and end, and some further in.
/// In no order; they may overlap. Source: strace of libblkid 2.38.
std::vector<ByteRange> probed_places(ByteRange place);

/// The partitions of a GPT or an MBR (logical ones left out), of a disk without either the disk
/// itself; at most 128, none that leaves the disk. A hint for reading ahead: what is mounted is
/// decided by libblkid.
std::vector<ByteRange> partitions_of(std::string_view first_bytes, std::uint64_t device_bytes);

/// Sizes that keep a damaged or hostile superblock from asking for the whole volume.
inline constexpr std::uint64_t kMostMountTouch = 128 * 1024 * 1024;
inline constexpr std::uint64_t kMostAgs = 512;
/// Of one file system, what is read after its mount has asked.
inline constexpr std::uint64_t kMostLater = std::uint64_t{32} << 30;

class MountReads {
 public:
  /// `file_system` is its place on the device: a partition, or all of it.
  explicit MountReads(ByteRange file_system) : file_system_(file_system) {}

  /// The next round; `contents` are those of the round before, empty where they could not be read.
  /// ext: superblock, head; descriptors, journal; inodes of root, journal, quotas and orphans, and
  /// later all inode tables and bitmaps; blocks of those inodes. xfs: the same first; headers of
  /// the allocation groups, root inode, samples of the log; the log where its cycle changes. Empty
  /// when nothing is left, or of what it has read nothing makes sense.
  MountRound next(std::span<const std::string> contents);

 private:
  enum class Step { superblock, parse, inodes, inode_blocks, xfs_log, done };

  MountRound after_superblock(const std::string& first_bytes);
  MountRound after_xfs_superblock(std::string_view super);
  MountRound inodes_of(const std::string& descriptors);
  MountRound blocks_of(std::span<const std::string> inodes);
  MountRound log_around_head(std::span<const std::string> samples);
  /// On the device, cut at the file system's end and at kMostMountTouch.
  void add(std::vector<ByteRange>& ranges, ByteRange in_fs) const;

  ByteRange file_system_;
  Step step_ = Step::superblock;
  ExtSuper ext_;
  std::string first_bytes_;
  std::vector<std::uint64_t> inodes_;
  std::vector<ByteRange> log_samples_;  // in the file system
  ByteRange log_;                       // in the file system
};

}  // namespace warmroot::warm
