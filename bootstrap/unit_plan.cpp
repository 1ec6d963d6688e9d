#include "bootstrap/unit_plan.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace warmroot::bootstrap {

std::vector<UnitFile> unit_order() {
  const std::string text =
      "# Written by warmroot-bootstrap: at a shutdown it gives the volume back before.\n"
      "[Unit]\nBefore=" +
      std::string(kOwnUnit) + "\n";
  // By the names' beginnings: of every session, of what is mounted at kVolumePoint and below.
  std::vector<UnitFile> files;
  for (const char* unit : {"session-.scope", "run-warmroot-private-volume.mount",
                           "run-warmroot-private-volume-.mount"})
    files.push_back({std::string(unit) + ".d/50-warmroot.conf", text});
  return files;
}

std::vector<std::string> in_scope(const ScopeFacts& facts,
                                  const std::vector<std::string>& command) {
  std::vector<std::string> all{facts.systemd_run,
                               "--scope",
                               "--quiet",
                               "--collect",
                               "--unit=" + facts.unit,
                               "--description=" + facts.description};
  // The boothook comes before the targets that a unit follows by default.
  std::vector<std::string> properties{"DefaultDependencies=no", "Conflicts=shutdown.target",
                                      "Before=shutdown.target"};
  properties.insert(properties.end(), facts.properties.begin(), facts.properties.end());
  for (auto& property : properties) {
    all.push_back("-p");
    all.push_back(std::move(property));
  }
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::vector<std::string> before_sshd(const std::string& systemd_run,
                                     const std::vector<std::string>& command) {
  // Not ssh.socket: what waits for sockets is half the system. The service that it starts waits,
  // unless that is one for each connection.
  // Where the volume did not come nothing of the system has failed.
  std::vector<std::string> all{systemd_run,
                               "--quiet",
                               "--no-block",
                               "--collect",
                               "--unit=warmroot-logins.service",
                               "--description=warmroot: logins wait for the volume",
                               "--service-type=oneshot",
                               "-p",
                               "DefaultDependencies=no",
                               "-p",
                               "Conflicts=shutdown.target",
                               "-p",
                               "Before=ssh.service sshd.service shutdown.target",
                               "-p",
                               "SuccessExitStatus=1"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::vector<std::string> in_own_unit(const std::string& systemd_run,
                                     const std::vector<std::string>& command) {
  // The reports need the network to the last. 80 s are planned for a shutdown (release_plan.cpp).
  // Sessions of the volume's own sshd may be in it: what they use up must not end it. A scope that
  // is not delegated ends with its first program that ran out of memory (systemd 253).
  return in_scope({systemd_run,
                   kOwnUnit,
                   "warmroot: the volume of this instance",
                   {"After=systemd-networkd.service networking.service NetworkManager.service "
                    "network.service wicked.service",
                    "TimeoutStopSec=90", "Delegate=yes", "TasksMax=infinity"}},
                  command);
}

MachinePlan plan_by_jobs(std::string_view jobs) {
  constexpr std::array kReboots{"reboot.target", "kexec.target"};
  constexpr std::array kEnds{"shutdown.target", "poweroff.target", "halt.target", "exit.target"};
  MachinePlan plan = MachinePlan::stays;
  std::istringstream lines{std::string(jobs)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, unit, type;
    words >> number >> unit >> type;
    if (type != "start") continue;
    if (std::find(kReboots.begin(), kReboots.end(), unit) != kReboots.end())
      return MachinePlan::reboots;
    if (unit == "soft-reboot.target") plan = MachinePlan::soft_reboots;
    // Each of the others comes with shutdown.target.
    if (plan == MachinePlan::stays && std::find(kEnds.begin(), kEnds.end(), unit) != kEnds.end())
      plan = MachinePlan::shuts_down;
  }
  return plan;
}

}  // namespace warmroot::bootstrap
