#include "bootstrap/holders.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>

#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kNamedHolders = 4;
constexpr std::size_t kMaxMountinfo = 16 * 1024 * 1024;

bool on_device(const std::string& path, dev_t device) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && facts.st_dev == device;
}

bool holds(const std::string& process, dev_t device) {
  for (const char* link : {"/root", "/cwd", "/exe"})
    if (on_device(process + link, device)) return true;
  for (const auto& fd : list_directory(process + "/fd"))
    if (on_device(process + "/fd/" + fd, device)) return true;
  return false;
}

template <typename Predicate>
std::vector<Holder> processes_that(Predicate predicate) {
  std::vector<Holder> holders;
  for (const auto& name : list_directory("/proc")) {
    char* end = nullptr;
    const long pid = std::strtol(name.c_str(), &end, 10);
    if (pid <= 1 || *end != '\0' || pid == ::getpid()) continue;
    const std::string process = "/proc/" + name;
    if (predicate(process))
      holders.push_back({static_cast<pid_t>(pid), read_attribute(process + "/comm")});
  }
  return holders;
}

}  // namespace

std::vector<Holder> holders_of(dev_t device) {
  return processes_that([&](const std::string& process) { return holds(process, device); });
}

std::vector<Holder> namespaces_holding(dev_t device) {
  const std::string pattern =
      " " + std::to_string(major(device)) + ":" + std::to_string(minor(device)) + " ";
  const std::string own = read_file("/proc/self/mountinfo", kMaxMountinfo).value_or("");
  return processes_that([&](const std::string& process) {
    const std::string mounts = read_file(process + "/mountinfo", kMaxMountinfo).value_or("");
    return mounts != own && mounts.find(pattern) != std::string::npos;
  });
}

std::string holders_text(const std::vector<Holder>& holders) {
  std::string text;
  for (std::size_t i = 0; i < holders.size() && i < kNamedHolders; ++i)
    text += (i > 0 ? ", " : "") + holders[i].command + " (" + std::to_string(holders[i].pid) + ")";
  if (holders.size() > kNamedHolders)
    text += " and " + std::to_string(holders.size() - kNamedHolders) + " more";
  return text;
}

void signal_all(const std::vector<Holder>& holders, int signal_number) {
  for (const auto& holder : holders) ::kill(holder.pid, signal_number);
}

void warn_terminals(const std::string& message) {
  const std::string text = "\r\n*** " + message + "\r\n";
  for (const auto& name : list_directory("/dev/pts")) {
    if (name == "ptmx") continue;
    const UniqueFd terminal(
        ::open(("/dev/pts/" + name).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (terminal) [[maybe_unused]]
      const auto put = ::write(terminal.get(), text.data(), text.size());
  }
}

}  // namespace warmroot::bootstrap
