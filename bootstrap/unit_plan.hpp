// What init is asked for where it is systemd: the bootstrap as a unit of its own, the volume's
// system as another, and the order of their ends; and what it says that it is about to do. Pure;
// own_unit, volume_container and reboot do it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warmroot::bootstrap {

/// systemd's name for what the bootstrap and its children are.
inline constexpr char kOwnUnit[] = "warmroot-bootstrap.scope";

struct UnitFile {
  std::string path;  ///< below /run/systemd/system
  std::string text;
};
/// Drop-ins that put sessions and the volume's mounts before our unit: at a shutdown they are ended
/// and unmounted after it.
std::vector<UnitFile> unit_order();

/// A command that runs in a unit, a scope: nothing is started by systemd, and it waits for nothing
/// but what `properties` name.
struct ScopeFacts {
  std::string systemd_run;
  std::string unit;
  std::string description;
  std::vector<std::string> properties;  ///< beside those that let it begin early and end late
};
std::vector<std::string> in_scope(const ScopeFacts& facts, const std::vector<std::string>& command);

/// The command that has `command` (which ends soon) run in a unit of its own, before which no sshd
/// is started: a start that is queued already waits, too. It returns at once.
std::vector<std::string> before_sshd(const std::string& systemd_run,
                                     const std::vector<std::string>& command);

/// The command that runs `command` in our unit. None of the units after which it comes may wait for
/// cloud-init, or the boot would wait for ever.
std::vector<std::string> in_own_unit(const std::string& systemd_run,
                                     const std::vector<std::string>& command);

/// What init is about to do with this machine.
enum class MachinePlan {
  stays,  ///< nothing: whoever is told to end was a unit that somebody stops
  shuts_down,
  soft_reboots,  ///< only its user space begins anew: the kernel goes on, and /run with it
  reboots,       ///< firmware or kernel first
};
/// By what `systemctl list-jobs --no-legend --plain` prints: number, unit, type and state in a
/// line.
MachinePlan plan_by_jobs(std::string_view jobs);

}  // namespace warmroot::bootstrap
