// What a bootstrap has to give back: filled by bring_up and volume_root step by step, read by all
// that serves the volume, undone by release, or by a bring_up that failed. Of one that was killed
// the record of its HeldVolume is left.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/dirty_bound.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {

/// What this instance holds of the volume at the moment.
struct Assignment : HeldVolume {
  std::vector<PartitionFacts> partitions;  ///< all of the disk
  DirtyBound dirty_bound;
  std::shared_ptr<Entry> entry = chroot_entry();  ///< how sessions get in; never null
  std::string instead;   ///< of which entry, and why; empty: it is the one that was asked for
  bool mounted = false;  ///< something may be mounted at kVolumePoint
  /// What a release does on the volume, in a thread that may outlive the attempt.
  std::shared_future<void> write_back;
  /// The same, about what of it the kernel uses; what that was is the work's until it has ended.
  std::shared_future<void> kernel_work;
  std::shared_ptr<std::vector<std::string>> kernel_users =
      std::make_shared<std::vector<std::string>>();
  /// And about its mounts.
  std::shared_ptr<VolumeUnmount> unmounting = std::make_shared<VolumeUnmount>();
  bool host_keys = false;  ///< sshd may show the volume's
};

}  // namespace warmroot::bootstrap
