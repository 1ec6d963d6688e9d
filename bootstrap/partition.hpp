// Partitions of the assigned disk, what they contain, and which may hold the root. The choice is
// pure; reading goes through libblkid, which this folder includes in partition.cpp alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

struct PartitionFacts {
  int number = 0;  ///< 0: the whole disk, without a partition table
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::string content;  ///< libblkid's TYPE: "ext4", "vfat", "crypto_LUKS"; empty when unknown
  std::string node;     ///< "/dev/nvme1n1p1"; empty until ensure_node
  std::string table{};  ///< of which it is a part: "gpt", "dos"; empty for the whole disk
  std::string uuid{}, label{};            ///< the file system's
  std::string part_uuid{}, part_label{};  ///< the table's; empty where it has none
};

/// Whether libblkid's TYPE is a file system that can hold a root.
inline bool is_mountable(std::string_view content) {
  for (const char* known : {"ext4", "ext3", "ext2", "xfs", "btrfs"})
    if (content == known) return true;
  return false;
}

/// "partition 1 (ext4, 8191 MiB)", "the whole disk (xfs, 20480 MiB)".
std::string describe(const PartitionFacts& partition);

/// Partitions that can hold a root file system, the likeliest (largest) first. Errors: refused, one
/// sentence that lists what is there and says why it cannot be used (LUKS, LVM, no Linux file
/// system).
Result<std::vector<PartitionFacts>> root_candidates(std::span<const PartitionFacts> partitions);

/// What to do about a disk without a usable root, by what else is on it: "; LVM is not ...". Empty
/// where it does not tell.
std::string root_remedy(std::span<const PartitionFacts> partitions);

/// Why this one of `candidates` Linux file systems is the root: for the timeline and `status`.
/// `refused` says of each that was tried before why it is none.
std::string root_choice(const PartitionFacts& chosen, std::size_t candidates,
                        std::span<const std::string> refused);

/// Reads the partition table (or the bare file system) of an open disk; no node is needed or made.
Result<std::vector<PartitionFacts>> read_partitions(int disk_fd);

/// Name of the partition's device node; adds the partition to the kernel where the kernel has not
/// parsed the table.
Result<std::string> ensure_node(const std::string& sys_root, const std::string& disk_name,
                                int disk_fd, const PartitionFacts& partition);

/// Tells the kernel the size that the partition has now; it may be mounted. Errors: the kernel's.
Ok resize_partition(int disk_fd, const PartitionFacts& partition);

/// What an ext2/3/4 superblock says about how the file system was left.
struct ExtState {
  bool needs_recovery = false;  ///< the journal has to be replayed
  bool has_errors = false;      ///< the kernel recorded an error
  bool cleanly_unmounted = true;
};

/// `superblock` is the 1024 bytes at offset 1024. Errors: broken when it is no ext superblock.
Result<ExtState> parse_ext_superblock(std::string_view superblock);

/// The same, read from the disk at a partition's offset.
Result<ExtState> read_ext_state(int disk_fd, std::uint64_t offset_bytes);

}  // namespace warmroot::bootstrap
