// Which lines of the volume's own fstab are honoured: file systems and subvolumes on the same disk,
// named by what they carry and not by what another machine called them. Pure, and the text is not
// trusted; volume_fstab performs the plan.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
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
  /// Read-write, and no machine that boots on the volume comes up without it: what people wrote in
  /// its place would be hidden below it later.
  bool required = false;
};

/// What was done for a line when it failed.
enum class FstabStep { check, mount };

/// Whether the volume is not served because of that, like one whose root is so: of a required
/// line, a check that failed, or a mount by which the kernel says that the file system is damaged
/// or cannot be read. What else fails is the line's own, or the base's: that keeps nobody out.
bool fails_volume(const FstabMount& mount, FstabStep failed, const Error& error);

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
