// The volume's root file system at kVolumePoint: which partition of the assigned disk it is, the
// proof that it is a root, the check of one that was not left clean, and the mount. Called by
// bring_up once the disk is found; how each type of file system is mounted is root_mount's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

struct RootOrder {
  std::string disk_name;            ///< "nvme1n1"
  int disk_fd = -1;                 ///< the whole disk
  std::function<bool()> confirmed;  ///< the manager says that this disk is the pool's
  std::function<void()> checked;    ///< called once, before the first mount to stay
  std::function<void()> read{};     ///< called once the partitions are known
};

/// Makes kVolumePoint, behind a directory that only root may enter: sshd, probes and containers
/// enter the volume as root, and sessions in it do not pass there. Requires: nothing is mounted.
Ok make_volume_point();

/// Mounts the largest partition that turns out to be a root, writable, and remembers it in
/// `assignment`. Unless the disk is confirmed, nothing is written to a partition that is no root.
/// Errors: refused, one sentence, when there is no usable
/// root; misconfigured when it needs a repair that people or a program the base lacks have to do;
/// retry_later when a stop is requested, or where one that is no root is not unmounted in time.
/// Whether something may still be mounted then, `assignment` says.
Ok mount_volume_root(const RootOrder& order, Assignment& assignment, StatusBook& book,
                     const StopRequest& stop);

/// st_dev of the volume's root mounted at kVolumePoint; nullopt where nothing is mounted there. A
/// file system that has shut down does not tell: then it is `known`, or else the number that the
/// kernel lists.
std::optional<dev_t> mounted_root(dev_t known = 0);

}  // namespace warmroot::bootstrap
