// In which order a release unmounts what is mounted in the volume, and what of that may keep it
// waiting. Pure; unmount does it.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {

struct TreeMount {
  std::string id;
  std::string point;       ///< as open(2) takes it
  std::string filesystem;  ///< its type
  bool of_disk = false;    ///< the volume is not free before it has been unmounted to the end
  /// A server answers for it, as for NFS and FUSE, or does not; nobody outside the tree uses it, so
  /// that it may be told to fail whatever waits for that (MNT_FORCE).
  bool forcible = false;

  bool operator==(const TreeMount&) const = default;
};

/// What is mounted at `point` and below: first what is forcible, because those who wait there hold
/// the rest; each time the last mounted first. The disk's are `disk` ("major:minor") and what was
/// the first at `point`.
std::vector<TreeMount> unmount_order(const std::vector<MountRow>& mounts, const std::string& point,
                                     std::set<std::string> disk);

/// How long one of the disk's mounts that hangs is waited for, of the time that is `left` for all,
/// before the next is tried beside it. 5 s at most, and so that a third of the time is left for the
/// last one whichever of the others hang. `file_systems`: how many of the disk are mounted.
Milliseconds time_for_one(Milliseconds left, std::size_t file_systems);

}  // namespace warmroot::bootstrap
