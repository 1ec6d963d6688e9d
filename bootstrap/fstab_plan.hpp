// Which lines of the volume's own fstab are honoured: file systems and subvolumes on the same disk,
// named by what they carry and not by what another machine called them. Pure, and the text is not
// trusted; volume_fstab performs the plan.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// More than any system has; what is longer is not read.
inline constexpr std::size_t kMaxFstab = 64 * 1024;

struct FstabEntry {
  std::string what;     ///< "UUID=...", "/dev/xvda2", "tmpfs"
  std::string point;    ///< "/home", "none"
  std::string type;     ///< "ext4", "swap", "auto"
  std::string options;  ///< "defaults,nofail"
};

/// The lines with at least three fields, their escapes (\040) resolved; the first 64 of them.
std::vector<FstabEntry> parse_fstab(std::string_view text);

struct FstabMount {
  PartitionFacts partition;
  std::string target;   ///< relative to the volume's root, without "." and ".."
  std::string options;  ///< for mount(2): never devices, never discard, nothing that is not known
};

struct FstabLeft {
  std::string text;  ///< "/data (LABEL=data) is not mounted: no partition of this disk is it"
  bool for_people = false;  ///< somebody may look for files there
};

struct FstabPlan {
  std::vector<FstabMount> mounts;  ///< what holds others first
  std::vector<FstabLeft> left;     ///< all the other lines but the root's, and why
};

/// `partitions` are the disk's, `root` the one that is mounted as the volume's root.
FstabPlan plan_fstab(std::string_view text, std::span<const PartitionFacts> partitions,
                     const PartitionFacts& root);

}  // namespace warmroot::bootstrap
