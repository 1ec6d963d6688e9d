// What mount namespaces have of the volume once it is unmounted at its place. A container or a
// service that takes the base's mounts as private (docker's default of a bind of "/",
// MountFlags=private) keeps the disk busy then, without a file open in it; so does a bind mount
// elsewhere on the base, and a namespace that nobody lives in any more and somebody has kept.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {

/// One release's search for them.
class MountCopies {
 public:
  /// Of the volume whose file systems have these numbers.
  explicit MountCopies(const std::vector<dev_t>& devices);

  /// Unmounts what any mount namespace has of it, plainly: where a process uses a copy, it stays.
  /// Whoever lives there loses the copy, and what they have mounted in it, alone. Requires that the
  /// volume is unmounted at its place, and the numbers are its own still. Of a btrfs, whose numbers
  /// are nobody's once they are free, what is at the volume's place in another namespace alone.
  /// Returns whose copies have gone, for the timeline. Once a second at most, each namespace three
  /// times; waits two seconds at most.
  std::string take();
  /// Who keeps the namespaces that have some of it, for people; empty for nobody. Waits a second at
  /// most.
  std::string keepers() const;

 private:
  VolumeSigns signs_;
  std::map<std::string, int> tries_;  ///< by namespace
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace warmroot::bootstrap
