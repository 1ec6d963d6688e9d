// Performs mounts with libmount: the only file that includes it. Targets inside the volume are
// opened in its root and passed as /proc/self/fd/N, so that links in the volume cannot redirect a
// mount onto the base. Unmounting is unmount's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/mount_plan.hpp"

namespace warmroot::bootstrap {

/// Mounts a block device at a directory of the base that we made ourselves. What is to be writable
/// and cannot be is an error, unless the file system itself says that it is read-only.
Ok mount_device(const std::string& node, const std::string& point, const std::string& filesystem,
                const std::string& options);
/// Makes the directory a mount whose events reach only the mount namespaces that are copied from
/// ours from now on. A service with a namespace of its own that runs already would otherwise get
/// the volume, too, and keep it: the copies that it gets of a bound tree follow the base's tree,
/// not our unmounts. Requires: nothing is mounted inside.
Ok renew_mount_group(const std::string& directory);

/// Changes options of a mounted file system, e.g. from read-only to writable.
Ok remount(const std::string& point, const std::string& options);

/// Performs one step inside the root mounted at `point`. What was mounted is undone by
/// unmount_tree(point).
Ok perform(const MountStep& step, const std::string& point);

/// Performs all steps; `on_step` hears the outcome of each (an error of an optional step too). On a
/// required step's failure everything done before is undone in reverse order and the step's error
/// returned.
Ok perform_all(const std::vector<MountStep>& steps, const std::string& point,
               const std::function<void(const MountStep&, const Ok&)>& on_step);

/// Mount points at or below `point` in this namespace, in mount order.
std::vector<std::string> mounts_at(const std::string& point);

/// Device number of what was mounted last at `point` itself, as the kernel lists it; asks nothing
/// of the file system. For btrfs it is not the st_dev of a file.
std::optional<dev_t> device_mounted_at(const std::string& point);

}  // namespace warmroot::bootstrap
