#include "bootstrap/container_plan.hpp"

#include <algorithm>
#include <charconv>

#include "bootstrap/paths.hpp"
#include "bootstrap/unit_plan.hpp"

namespace warmroot::bootstrap {
namespace {

/// Units of the volume that must not run beside the base's: they would want its port or its
/// console, or do once more what the instance's user-data has done (start a bootstrap).
constexpr const char* kMasked[] = {"ssh.service",
                                   "ssh.socket",
                                   "sshd.service",
                                   "sshd.socket",
                                   "cloud-init.service",
                                   "cloud-init-local.service",
                                   "cloud-init-main.service",
                                   "cloud-config.service",
                                   "cloud-final.service",
                                   "console-getty.service",
                                   "systemd-resolved.service",
                                   "systemd-networkd.service",
                                   "systemd-networkd.socket",
                                   "networking.service",
                                   "NetworkManager.service",
                                   "amazon-ssm-agent.service"};

constexpr const char* kShared[] = {"nvidia",     "dri",    "kfd",  "neuron",
                                   "infiniband", "gdrdrv", "fuse", "kvm"};

/// Where init finds the unit of the container's sshd.
std::string sshd_unit_inside() {
  return std::string("/run/systemd/system/") + kContainerSshd;
}

bool is_at_or_in(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

/// A word of an Exec line: systemd would expand % and $ in it. Source: systemd.service(5).
std::string exec_word(std::string_view word) {
  std::string text = "\"";
  for (const char byte : word) {
    if (byte == '"' || byte == '\\') text += '\\';
    if (byte == '%' || byte == '$') text += byte;
    text += byte;
  }
  return text + "\"";
}

}  // namespace

std::string container_sshd_unit(const OwnSshdWishes& wishes) {
  std::string command;
  for (const auto& word : own_sshd_command(wishes))
    command += (command.empty() ? word : " " + exec_word(word));
  return "[Unit]\n"
         "Description=OpenSSH server that has the port of the instance\n"
         // Before it pam_nologin keeps people out; without logind a session is none of its own.
         "After=systemd-user-sessions.service systemd-logind.service dbus.service\n"
         "StartLimitIntervalSec=0\n"
         "[Service]\n"
         "ExecStart=" +
         command +
         "\n"
         "ExecReload=/bin/kill -HUP $MAINPID\n"
         "KillMode=process\n"
         "Restart=always\n"
         "RestartSec=1\n"
         "RuntimeDirectory=sshd\n"
         "RuntimeDirectoryMode=0755\n"
         "RuntimeDirectoryPreserve=yes\n"
         "StandardError=journal+console\n";
}

std::vector<std::string> devices_to_share(const std::vector<std::string>& names) {
  std::vector<std::string> devices;
  for (const auto& name : names)
    if (std::any_of(std::begin(kShared), std::end(kShared),
                    [&](const std::string_view start) { return name.starts_with(start); }))
      devices.push_back("/dev/" + name);
  std::sort(devices.begin(), devices.end());
  return devices;
}

bool takes_resolv_conf(std::string_view path) {
  // Colons part the words of --bind, and a backslash is an escape there.
  if (!path.starts_with("/run/") || path.find_first_of(":\\") != path.npos) return false;
  const std::string unit = sshd_unit_inside();
  for (const std::string_view ours : {std::string_view(unit), std::string_view(kRunDirectory)})
    if (is_at_or_in(path, ours) || is_at_or_in(ours, path)) return false;
  return true;
}

std::vector<std::string> container_command(const ContainerFacts& facts) {
  std::vector<std::string> words{
      facts.nspawn, "--quiet", "--boot", std::string("--directory=") + kVolumePoint,
      // Its files stay the volume's: what the base has was bound in before.
      "--resolv-conf=off", "--timezone=off", "--link-journal=no",
      // What stands here is all that counts, and no file of the container's name.
      "--settings=no",
      // The unit around it is ours; machined is asked for nothing.
      "--keep-unit", "--register=no", "--machine=warmroot-volume",
      "--bind-ro=" + facts.sshd_unit + ":" + sshd_unit_inside(),
      // Not what is mounted in it: the volume.
      std::string("--bind-ro=") + kRunDirectory + ":" + kRunDirectory + ":norbind"};
  if (!facts.resolv_conf.empty())
    words.push_back(std::string("--bind-ro=") + kResolvConf + ":" + facts.resolv_conf);
  for (const auto& device : facts.devices) words.push_back("--bind=" + device);
  words.insert(words.end(), {"systemd.unit=multi-user.target", "systemd.show_status=error",
                             "systemd.firstboot=off", "cloud-init=disabled",
                             std::string("systemd.wants=") + kContainerSshd});
  for (const char* masked : kMasked) words.push_back(std::string("systemd.mask=") + masked);
  if (facts.systemd_run.empty()) return words;
  return in_scope({facts.systemd_run,
                   kContainerUnit,
                   "warmroot: the system of the volume",
                   {"Delegate=yes", "TasksMax=infinity", std::string("Before=") + kOwnUnit,
                    "TimeoutStopSec=30"}},
                  words);
}

bool in_sshd_unit(std::string_view cgroups) {
  constexpr std::string_view kUnit = "/system.slice/";
  const std::string end = std::string(kUnit) + kContainerSshd;
  while (!cgroups.empty()) {
    const std::string_view line = cgroups.substr(0, cgroups.find('\n'));
    if (line.ends_with(end)) return true;
    cgroups.remove_prefix(std::min(line.size() + 1, cgroups.size()));
  }
  return false;
}

bool in_session(std::string_view cgroups, bool is_sshd) {
  const std::size_t session = cgroups.find("/session-");
  if (session != std::string_view::npos)
    return cgroups.find(".scope", session) != std::string_view::npos;
  // A volume without libpam-systemd leaves them with its sshd.
  return !is_sshd && in_sshd_unit(cgroups);
}

int innermost_pid(std::string_view status) {
  constexpr std::string_view kKey = "\nNSpid:";
  const std::size_t key = status.find(kKey);
  if (key == std::string_view::npos) return 0;
  const std::string_view line = status.substr(key + 1, status.find('\n', key + 1) - key - 1);
  const std::size_t last = line.find_last_of(" \t") + 1;
  int pid = 0;
  std::from_chars(line.data() + last, line.data() + line.size(), pid);
  return pid;
}

}  // namespace warmroot::bootstrap
