// Copies of the volume's mounts in the mount namespaces of others. A container or a service that
// takes the base's mounts as private (docker's default of a bind of "/", MountFlags=private) keeps
// the disk busy after we have unmounted it, without a file open in it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

namespace warmroot::bootstrap {

/// One release's search for them.
class MountCopies {
 public:
  /// Unmounts what other mount namespaces have of `device`, plainly: where a process uses a copy,
  /// it stays. Whoever lives there loses the copy, and what they have mounted in it, alone.
  /// Requires that the number is still the volume's. Not for btrfs, whose numbers are nobody's once
  /// they are free. Returns whose copies have gone, for the timeline. Once a second at most, each
  /// namespace three times; waits two seconds at most.
  std::string take(dev_t device);

 private:
  std::map<std::string, int> tries_;  ///< by namespace
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace warmroot::bootstrap
