// The check of a file system that was not left clean, before it is mounted to stay: no session
// opens on a doubtful one. Called by volume_root and volume_fstab.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

/// Of an error that says that the file system itself is damaged, as the kernel's "structure needs
/// cleaning" does: what people have to repair, and no next attempt mounts.
inline constexpr std::string_view kDamaged = "EUCLEAN";
inline bool is_damage(const Error& error) {
  return error.code == kDamaged;
}

/// Looks at a partition of the open disk, and repairs at its `node` what e2fsck does by itself;
/// says in words what was done. Errors: misconfigured when people have to repair it (is_damage
/// where that is what e2fsck says of it), or the base lacks the program; retry_later when a stop is
/// requested. An e2fsck that had to be given up (wait_child) has the device open exclusively for as
/// long as it may write: mounting says EBUSY until then, and so does check_device_free.
Result<std::string> check_filesystem(const PartitionFacts& partition, const std::string& node,
                                     int disk_fd, const StopRequest& stop);

}  // namespace warmroot::bootstrap
