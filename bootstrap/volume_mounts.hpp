// What sessions need mounted in the volume's root beside its own file systems: mount_plan's steps,
// each timed into the book. Called by bring_up.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

/// At kVolumePoint. `sftp_server`: the absolute path that the base's sshd starts; empty: none.
/// Errors: of a required step; what was mounted inside is unmounted then.
Ok mount_inside(const std::string& sftp_server, StatusBook& book);

}  // namespace warmroot::bootstrap
