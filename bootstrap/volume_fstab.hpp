// Mounts inside the volume's root what its own fstab asks for of the same disk (fstab_plan
// decides), each checked before. Called by bring_up once the root is mounted and before anything of
// the base is bound into it; unmounted with the rest of the tree, the last mounted first.
#pragma once

#include <string>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

/// What is mounted is remembered in `assignment`, for writing it back. A line that cannot be
/// honoured keeps nobody out: it is a remark there. Errors: of a line that fails_volume, naming the
/// mount point (is_damage where people have to repair its file system); retry_later when a stop is
/// requested. What was mounted before stays mounted.
Ok mount_volume_fstab(const std::string& disk_name, int disk_fd, Assignment& assignment,
                      StatusBook& book, const StopRequest& stop);

}  // namespace warmroot::bootstrap
