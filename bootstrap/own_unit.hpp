// Where init is systemd the bootstrap is a unit of its own. What a boothook starts belongs to
// cloud-init.service otherwise: it hears SIGTERM whenever that is restarted, and at a shutdown only
// after the sessions were ended, while systemd unmounts the volume beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/unit_plan.hpp"

namespace warmroot::bootstrap {

/// systemd-run, where the base's init is systemd; empty elsewhere.
std::string systemd_run_program();
/// The same of systemctl.
std::string systemctl_program();

/// What `up --in-unit` ends with when it failed; systemd-run itself ends with 1.
inline constexpr int kFailedInUnit = 3;

/// What the base's unit gives its sshd beside the configuration; nothing where init is not systemd.
/// Errors: refused, where that could not be done by another sshd.
Result<std::vector<std::string>> sshd_unit_options();

/// Has the base's sshd wait for the first session in the volume, so
/// many seconds at most. Requires that it is yet to be started. For after `up`. What hinders it is
/// a line in the log: logins then land on the base until the volume is there, as they do without
/// systemd.
void have_logins_wait(unsigned seconds);

/// Runs this program's `up --in-unit` as our unit, and returns how that went; nullopt where there
/// is no systemd or it refuses.
std::optional<Ok> up_in_own_unit(const std::string& ticket_path);

}  // namespace warmroot::bootstrap
