// What cloud-init, which started us, still does on the base.
#pragma once

#include <chrono>
#include <string_view>

#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {

/// Whether cloud-init, whose `status` this is (/run/cloud-init/status.json), is in the stage that
/// runs boothooks and then makes the base's users, and has not ended it.
bool cloud_init_makes_users(std::string_view status);

/// Until it has made them, or sshd runs, which starts after that stage (and may wait for us: the
/// ticket's login_wait_s); returns how long that took.
/// What we add to the base's accounts would be the base's own to it: its user (often of the same
/// name or uid as the volume's) would not be made, and nobody of the base be left once ours are
/// taken away. No session waits for this.
std::chrono::milliseconds wait_for_cloud_init_users(const Cancelled& cancelled);

}  // namespace warmroot::bootstrap
