// What a bootstrap has to give back: filled by bring_up and volume_root step by step, read by all
// that serves the volume, undone by release, or by a bring_up that failed. In memory only: what a
// killed bootstrap left is found anew (clear_leftovers).
#pragma once

#include <sys/types.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/device.hpp"
#include "bootstrap/dirty_bound.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/partition.hpp"

namespace warmroot::bootstrap {

/// What this instance holds of the volume at the moment.
struct Assignment {
  std::string disk_node;  ///< "/dev/nvme1n1"; empty before the disk was found
  DiskIdentity disk;      ///< the one that was found, right before it was opened
  std::string partition_node;
  PartitionFacts partition;                ///< the root's
  std::vector<PartitionFacts> partitions;  ///< all of the disk
  std::vector<std::string> also_mounted;   ///< what else of it, relative to the root
  std::vector<dev_t> other_devices;        ///< numbers of its partitions among those
  std::string volume_id;
  DirtyBound dirty_bound;
  std::shared_ptr<Entry> entry = chroot_entry();  ///< how sessions get in; never null
  std::string instead;    ///< of which entry, and why; empty: it is the one that was asked for
  bool mounted = false;   ///< something may be mounted at kVolumePoint
  dev_t root_device = 0;  ///< st_dev of the volume's root, to know it again; 0: not known
  /// What a release does on the volume, in a thread that may outlive the attempt.
  std::shared_future<void> write_back;
  /// The same, about what of it the kernel uses; what that was is the work's until it has ended.
  std::shared_future<void> kernel_work;
  std::shared_ptr<std::vector<std::string>> kernel_users =
      std::make_shared<std::vector<std::string>>();
  bool host_keys = false;  ///< sshd may show the volume's
};

}  // namespace warmroot::bootstrap
