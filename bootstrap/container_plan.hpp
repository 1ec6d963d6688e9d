// How a volume is booted as a container by the base's systemd-nspawn, and what its init is told.
// Pure; volume_container does it. Nothing is written to the volume for it: what has to be otherwise
// than on a machine of its own stands on init's command line and in a /run that goes with the
// container.
// Source: systemd-nspawn(1), systemd(1) (in a container its arguments are the kernel's command
// line), systemd-debug-generator(8).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/own_sshd_plan.hpp"

namespace warmroot::bootstrap {

/// The container's sshd, a unit of the volume's init.
inline constexpr char kContainerSshd[] = "warmroot-sshd.service";
/// What the container's processes are for the base's systemd.
inline constexpr char kContainerUnit[] = "warmroot-volume.scope";

/// The text of kContainerSshd: people's sessions outlive it, and it comes back when it dies.
std::string container_sshd_unit(const OwnSshdWishes& wishes);

/// What of the base is shown in the container's /dev beside the usual: GPUs and other accelerators,
/// and what FUSE and KVM need. `names` are those of the base's /dev.
std::vector<std::string> devices_to_share(const std::vector<std::string>& names);

/// Whether the base's resolv.conf may be bound in at this path of the volume's: one of its /run
/// that neither takes the place of what else is bound in there nor is more than a path to nspawn.
bool takes_resolv_conf(std::string_view path);

struct ContainerFacts {
  std::string nspawn;                ///< the program
  std::string systemd_run;           ///< empty: the base's init is not systemd
  std::vector<std::string> devices;  ///< "/dev/nvidia0"
  std::string sshd_unit;             ///< the file with the unit's text
  std::string resolv_conf;  ///< where the volume's resolv.conf leads to, which takes_resolv_conf;
                            ///< empty: it is a file
};
/// Words of the command line that boots kVolumePoint. The container has the base's network, and
/// may not configure it.
std::vector<std::string> container_command(const ContainerFacts& facts);

/// Whether a process with this /proc/PID/cgroup is in the unit of the container's sshd, which is
/// init's and nobody's of the same name.
bool in_sshd_unit(std::string_view cgroups);

/// Whether a process of the container belongs to somebody's session and not to what init runs, by
/// its /proc/PID/cgroup. `is_sshd`: it is the sshd that listens.
bool in_session(std::string_view cgroups, bool is_sshd);

/// The process's id in the innermost namespace, of its /proc/PID/status; 0 when it is not told.
int innermost_pid(std::string_view status);

}  // namespace warmroot::bootstrap
