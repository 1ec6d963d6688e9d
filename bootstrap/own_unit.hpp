// Where init is systemd the bootstrap is a unit of its own. What a boothook starts belongs to
// cloud-init.service otherwise: it hears SIGTERM whenever that is restarted, and at a shutdown only
// after the sessions were ended, while systemd unmounts the volume beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// systemd's name for what the bootstrap and its children are.
inline constexpr char kOwnUnit[] = "warmroot-bootstrap.scope";
/// What `up --in-unit` ends with when it failed; systemd-run itself ends with 1.
inline constexpr int kFailedInUnit = 3;

struct UnitFile {
  std::string path;  ///< below /run/systemd/system
  std::string text;
};
/// Drop-ins that put sessions and the volume's mounts before our unit: at a shutdown they are ended
/// and unmounted after it.
std::vector<UnitFile> unit_order();

/// The command that runs `command` in our unit. None of the units after which it comes may wait for
/// cloud-init, or the boot would wait for ever.
std::vector<std::string> in_own_unit(const std::string& systemd_run,
                                     const std::vector<std::string>& command);

/// Runs this program's `up --in-unit` as our unit, and returns how that went; nullopt where there
/// is no systemd or it refuses.
std::optional<Ok> up_in_own_unit(const std::string& ticket_path);

}  // namespace warmroot::bootstrap
