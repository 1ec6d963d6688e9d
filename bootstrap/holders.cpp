#include "bootstrap/holders.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "bootstrap/base/detached.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kNamedHolders = 4;
/// Usually below 200 bytes; an inotify or epoll descriptor lists what it watches.
constexpr std::size_t kMaxFdinfo = 4 * 1024 * 1024;

/// Majors of /dev/pts/N. Source: Documentation/admin-guide/devices.txt.
constexpr unsigned kFirstTerminal = 136, kLastTerminal = 143;
constexpr std::chrono::milliseconds kWarnLimit{1000};

using MountIds = std::set<std::string>;

bool below_volume(const std::string& path) {
  const std::string point = kVolumePoint;
  return path == point || path.rfind(point + "/", 0) == 0;
}

std::string link_text(const std::string& path) {
  char text[4096];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
  return length <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

std::string mount_id_of(const std::string& fdinfo) {
  constexpr std::string_view kKey = "mnt_id:";
  const std::string text = read_file(fdinfo, kMaxFdinfo).value_or("");
  std::size_t at = text.find(kKey);
  if (at == std::string::npos) return {};
  at = text.find_first_of("0123456789", at);
  return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at) - at);
}

bool on_device(const std::string& path, dev_t device) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && facts.st_dev == device;
}

/// Tells by names and mount ids. A stat(2) of every open file would wait for ever for the one on an
/// NFS server that hangs.
class Search {
 public:
  explicit Search(dev_t device)
      : device_(device),
        namespace_(link_text("/proc/self/ns/mnt")),
        numbers_{device_number(device)} {
    const auto own = mounts_of("/proc/self");
    // A btrfs has another number there than its files have.
    for (const auto& mount : own)
      if (mount.point == kVolumePoint) numbers_.insert(mount.device);
    mounts_ = mounts_of_devices(own, numbers_);
  }

  bool held_by(const std::string& process) const {
    const bool ours = link_text(process + "/ns/mnt") == namespace_;
    const MountIds theirs = ours ? MountIds{} : mounts_of_devices(mounts_of(process), numbers_);
    const MountIds& ids = ours ? mounts_ : theirs;
    if (ids.empty()) return false;
    // A container of the volume sees other paths; its links are looked at, and only its.
    for (const char* link : {"/root", "/cwd", "/exe"})
      if (below_volume(link_text(process + link)) || (!ours && on_device(process + link, device_)))
        return true;
    for (const auto& fd : list_directory(process + "/fdinfo"))
      if (ids.count(mount_id_of(process + "/fdinfo/" + fd)) != 0) return true;
    return false;
  }

 private:
  static std::vector<MountRow> mounts_of(const std::string& process) {
    return parse_mount_table(read_file(process + "/mountinfo", kMaxMountinfo).value_or(""));
  }

  const dev_t device_;
  const std::string namespace_;
  std::set<std::string> numbers_;
  MountIds mounts_;
};

std::optional<ProcessStat> stat_of(const std::string& process) {
  return parse_process_stat(read_attribute(process + "/stat"));
}

/// Where proc shows what a process holds. One whose first thread has ended shows it by the others
/// alone; until the last has, it is there.
std::string living_part(const std::string& process) {
  const auto lives = [](const std::string& path) {
    const auto stat = stat_of(path);
    return stat && stat->state != 'Z' && stat->state != 'X';
  };
  if (lives(process)) return process;
  for (const auto& thread : list_directory(process + "/task"))
    if (const std::string path = process + "/task/" + thread; lives(path)) return path;
  return process;
}

template <typename Predicate>
std::vector<Holder> processes_that(Predicate predicate) {
  std::vector<Holder> holders;
  for (const auto& name : list_directory("/proc")) {
    char* end = nullptr;
    const long pid = std::strtol(name.c_str(), &end, 10);
    if (pid <= 1 || *end != '\0' || pid == ::getpid()) continue;
    const std::string process = living_part("/proc/" + name);
    if (predicate(process))
      holders.push_back({static_cast<pid_t>(pid), read_attribute(process + "/comm"),
                         stat_of(process).value_or(ProcessStat{}).state == 'D'});
  }
  return holders;
}

/// What is no terminal is not opened.
bool write_to_terminal(const std::string& path, const std::string& text) {
  const UniqueFd place(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!place || ::fstat(place.get(), &facts) != 0 || !S_ISCHR(facts.st_mode) ||
      major(facts.st_rdev) < kFirstTerminal || major(facts.st_rdev) > kLastTerminal)
    return false;
  const UniqueFd terminal(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(),
                                 O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  return terminal && ::write(terminal.get(), text.data(), text.size()) > 0;
}

}  // namespace

std::vector<Holder> holders_of(dev_t device) {
  const Search search(device);
  return processes_that([&](const std::string& process) { return search.held_by(process); });
}

std::vector<Holder> namespaces_holding(dev_t device) {
  const std::string pattern = " " + device_number(device) + " ";
  const std::string own = read_file("/proc/self/mountinfo", kMaxMountinfo).value_or("");
  return processes_that([&](const std::string& process) {
    const std::string mounts = read_file(process + "/mountinfo", kMaxMountinfo).value_or("");
    return mounts != own && mounts.find(pattern) != std::string::npos;
  });
}

std::string holders_text(const std::vector<Holder>& holders) {
  std::string text;
  for (std::size_t i = 0; i < holders.size() && i < kNamedHolders; ++i)
    text += (i > 0 ? ", " : "") + holders[i].command + " (" + std::to_string(holders[i].pid) +
            (holders[i].stuck ? ", waits in the kernel)" : ")");
  if (holders.size() > kNamedHolders)
    text += " and " + std::to_string(holders.size() - kNamedHolders) + " more";
  return text;
}

void signal_all(const std::vector<Holder>& holders, int signal_number) {
  for (const auto& holder : holders) ::kill(holder.pid, signal_number);
}

std::size_t warn_terminals(const std::vector<Holder>& holders, const std::string& message) {
  const std::string own = link_text("/proc/self/ns/mnt");
  std::map<std::pair<std::string, unsigned>, std::string> paths;  // by namespace and number
  for (const auto& holder : holders) {
    const std::string process = "/proc/" + std::to_string(holder.pid);
    const auto stat = stat_of(process);
    if (!stat || !stat->terminal) continue;
    // In a container it is one of the container's.
    const std::string space = link_text(process + "/ns/mnt");
    paths[{space, *stat->terminal}] =
        (space == own ? "" : process + "/root") + "/dev/pts/" + std::to_string(*stat->terminal);
  }
  const auto warned = std::make_shared<std::atomic<std::size_t>>(0);
  std::packaged_task<void()> task([paths, warned, text = "\r\n*** " + message + "\r\n"] {
    for (const auto& [terminal, path] : paths) *warned += write_to_terminal(path, text);
  });
  // What stands at such a path in a container is the volume's to say, and may not answer.
  const auto done = task.get_future();
  run_detached(std::move(task));
  done.wait_for(kWarnLimit);
  return *warned;
}

}  // namespace warmroot::bootstrap
