#include "bootstrap/holders.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "bootstrap/base/detached.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_namespaces.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/processes.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kNamedHolders = 4;
/// "pos", "flags" and "mnt_id" come first; then an inotify or epoll descriptor lists what it
/// watches.
constexpr std::size_t kFdinfoStart = 256;
/// More than nearly every program has. Looking at one costs some microseconds.
constexpr std::size_t kFewDescriptors = 4096;

/// Majors of /dev/pts/N. Source: Documentation/admin-guide/devices.txt.
constexpr unsigned kFirstTerminal = 136, kLastTerminal = 143;
constexpr std::chrono::milliseconds kWarnLimit{1000};
/// For the table of one namespace.
constexpr std::chrono::milliseconds kTableLimit{200};

using MountIds = std::set<std::string>;

bool below_volume(const std::string& path) {
  const std::string point = kVolumePoint;
  return path == point || path.rfind(point + "/", 0) == 0;
}

std::string mount_id_of(const std::string& fdinfo) {
  constexpr std::string_view kKey = "mnt_id:";
  const UniqueFd file(::open(fdinfo.c_str(), O_RDONLY | O_CLOEXEC));
  char start[kFdinfoStart];
  const ssize_t got = file ? ::read(file.get(), start, sizeof start) : -1;
  const std::string text(start, got > 0 ? static_cast<std::size_t>(got) : 0);
  std::size_t at = text.find(kKey);
  if (at == std::string::npos) return {};
  at = text.find_first_of("0123456789", at);
  return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at) - at);
}

bool is_over(const Cancelled& over) {
  return over && over();
}

/// Tells by names and mount ids. A stat(2) of every open file would wait for ever for the one on an
/// NFS server that hangs.
class Search {
 public:
  explicit Search(dev_t device)
      : device_(device),
        namespace_(link_text("/proc/self/ns/mnt")),
        signs_{{device_number(device)}, kVolumePoint, {}} {
    const auto own = mounts_of("/proc/self");
    // A btrfs has another number there than its files have.
    for (const auto& mount : own)
      if (mount.point == kVolumePoint) signs_.devices.insert(mount.device);
    mounts_ = mounts_of_volume(own, signs_);
  }

  /// By its root, working directory or program.
  bool linked_by(const std::string& process) const {
    const bool ours = is_ours(process);
    const MountIds theirs = ours ? MountIds{} : volume_mounts_of(process);
    if (ours ? mounts_.empty() : theirs.empty()) return !ours && began_in_volume(process);
    // A container of the volume sees other paths; its links are looked at, and only its.
    for (const char* link : {"/root", "/cwd", "/exe"})
      if (below_volume(link_text(process + link)) || (!ours && lies_on(process + link, theirs)))
        return true;
    return false;
  }

  enum class Open { nothing, something, not_all_seen };
  /// By its first descriptors, so many.
  Open opened_by(const std::string& process, std::size_t most, const Cancelled& over) const {
    const bool ours = is_ours(process);
    const MountIds theirs = ours ? MountIds{} : volume_mounts_of(process);
    const MountIds& ids = ours ? mounts_ : theirs;
    if (ids.empty()) return Open::nothing;
    Open open = Open::nothing;
    std::size_t seen = 0;
    each_name(process + "/fdinfo", [&](const char* name) {
      if (seen++ == most || is_over(over))
        open = Open::not_all_seen;
      else if (ids.count(mount_id_of(process + "/fdinfo/" + name)) != 0)
        open = Open::something;
      return open == Open::nothing;
    });
    return open;
  }

 private:
  bool is_ours(const std::string& process) const {
    return link_text(process + "/ns/mnt") == namespace_;
  }
  static std::vector<MountRow> mounts_of(const std::string& process) {
    return parse_mount_table(read_lines(process + "/mountinfo", kMaxMountinfo));
  }
  MountIds volume_mounts_of(const std::string& process) const {
    return mounts_of_volume(mounts_of(process), signs_);
  }

  /// By what the kernel knows: a server in user space may be the person's own, and never answer.
  bool lies_on(const std::string& path, const MountIds& mounts) const {
    struct statx facts {};
    return ::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
                   STATX_TYPE | STATX_MNT_ID, &facts) == 0 &&
           (makedev(facts.stx_dev_major, facts.stx_dev_minor) == device_ ||
            ((facts.stx_mask & STATX_MNT_ID) != 0 &&
             mounts.contains(std::to_string(facts.stx_mnt_id))));
  }

  /// A container that was started in a session has an overlay of the volume's directories as its
  /// root, and sees nothing of the volume. That root is where the session's was; with a service of
  /// the base, also one that has a copy of the volume's mount, it is not.
  bool began_in_volume(const std::string& process) const {
    if (!below_volume(link_text(process + "/root"))) return false;
    const auto [known, is_new] = at_our_place_.try_emplace(link_text(process + "/ns/mnt"), false);
    if (!is_new) return known->second;
    const auto table = whole_mount_table(open_mount_namespace(process + "/ns/mnt"),
                                         std::chrono::steady_clock::now() + kTableLimit);
    VolumeSigns signs = signs_;
    signs.parent_device = volume_parent_device();
    known->second = table && !mounts_of_volume(parse_mount_table(*table), signs).empty();
    return known->second;
  }

  const dev_t device_;
  const std::string namespace_;
  VolumeSigns signs_;  ///< without the place: another volume may be there in another namespace
  MountIds mounts_;
  mutable std::map<std::string, bool> at_our_place_;  ///< by namespace
};

Holder as_holder(pid_t pid, const std::string& process) {
  return {pid, read_attribute(process + "/comm"),
          stat_in(process).value_or(ProcessStat{}).state == 'D'};
}

/// A process, whoever gets its number afterwards.
class ProcessHandle {
 public:
  explicit ProcessHandle(pid_t pid)
      : pid_(pid),
        fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
        error_(fd_ ? 0 : errno) {}
  /// False for a thread, too, that is not its process's first.
  bool is_there() const { return error_ == 0; }
  bool is_gone() const { return error_ == ESRCH || error_ == ENOENT || error_ == EINVAL; }
  /// Before Linux 5.3, and where there is no descriptor to be had, by its number.
  void signal(int number) const {
    if (fd_)
      ::syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0);
    else if (!is_gone())
      ::kill(pid_, number);
  }

 private:
  const pid_t pid_;
  const UniqueFd fd_;
  const int error_;
};

/// The process that was made last. Of a program that forks and ends without a pause each one is
/// gone when a walk through /proc gets to its number, but the next one has the newest.
class Newest {
 public:
  /// nullopt when it was met already. Source: proc(5), the fifth field of loadavg.
  std::optional<pid_t> next() const {
    char text[128];
    const ssize_t got = ::pread(file_.get(), text, sizeof text - 1, 0);
    if (got <= 0) return std::nullopt;
    text[got] = '\0';
    const char* last = std::strrchr(text, ' ');
    const pid_t pid = last == nullptr ? 0 : static_cast<pid_t>(std::strtol(last, nullptr, 10));
    return pid <= 1 || pid == met_ || pid == ::getpid() ? std::nullopt : std::optional(pid);
  }
  void met(pid_t pid) { met_ = pid; }

 private:
  const UniqueFd file_{::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)};
  pid_t met_ = 0;
};

/// One search, which signals whom it finds.
class Hunt {
 public:
  Hunt(dev_t device, const Cancelled& over, std::vector<int> signals)
      : search_(device), over_(over), signals_(std::move(signals)) {}

  void by_links() {
    Newest newest;
    complete_ = each_process(over_, [&](pid_t pid) {
      look_at_links(pid);
      const auto last = newest.next();
      if (!last) return;
      const ProcessHandle process(*last);
      if (!process.is_there()) return;
      newest.met(*last);
      if (const std::string place = place_of(*last); search_.linked_by(place))
        take(process, *last, place);
    });
  }

  void by_descriptors() {
    for (const std::size_t most : {kFewDescriptors, std::numeric_limits<std::size_t>::max()})
      for (const pid_t pid : std::exchange(others_, {})) {
        if (is_over(over_)) {
          complete_ = false;
          return;
        }
        look_at_descriptors(pid, most);
      }
    complete_ = complete_ && others_.empty();
  }

  /// Whom it has stopped. One that was on its way out of the volume goes on.
  void kill_found() const {
    for (const auto& [pid, holder] : found_) {
      const ProcessHandle process(pid);
      process.signal(search_.linked_by(place_of(pid)) ? SIGKILL : SIGCONT);
    }
  }

  HolderSearch result() const {
    HolderSearch result{{}, complete_};
    for (const auto& [pid, holder] : found_) result.found.push_back(holder);
    return result;
  }

 private:
  void look_at_links(pid_t pid) {
    const ProcessHandle process(pid);
    if (process.is_gone()) return;
    if (const std::string place = place_of(pid); search_.linked_by(place))
      take(process, pid, place);
    else
      others_.push_back(pid);
  }

  void look_at_descriptors(pid_t pid, std::size_t most) {
    const ProcessHandle process(pid);
    const std::string place = place_of(pid);
    const auto open = search_.opened_by(place, most, over_);
    if (open == Search::Open::something) take(process, pid, place);
    if (open == Search::Open::not_all_seen) others_.push_back(pid);
  }

  void take(const ProcessHandle& process, pid_t pid, const std::string& place) {
    // Met before as the newest: to some programs a second SIGTERM means not to save anything.
    if (found_.contains(pid)) return;
    for (const int number : signals_) process.signal(number);
    found_.emplace(pid, as_holder(pid, place));
  }

  const Search search_;
  const Cancelled& over_;
  const std::vector<int> signals_;
  std::map<pid_t, Holder> found_;
  std::vector<pid_t> others_;  ///< whose descriptors have not all been looked at
  bool complete_ = true;
};

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

HolderSearch search_holders(dev_t device, const Cancelled& over, const std::vector<int>& signals) {
  Hunt hunt(device, over, signals);
  hunt.by_links();
  hunt.by_descriptors();
  return hunt.result();
}

std::vector<Holder> holders_of(dev_t device) {
  return search_holders(device, {}).found;
}

HolderSearch kill_holders(dev_t device, const Cancelled& over) {
  Hunt hunt(device, over, {SIGSTOP});
  hunt.by_links();
  // At once: where there are very many processes, another search would not come this far in time.
  hunt.kill_found();
  HolderSearch all = search_holders(device, over, {SIGKILL});
  if (all.complete || !all.found.empty()) return all;
  return {hunt.result().found, false};
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

std::size_t warn_terminals(const std::vector<Holder>& holders, const std::string& message) {
  const std::string own = link_text("/proc/self/ns/mnt");
  std::map<std::pair<std::string, unsigned>, std::string> paths;  // by namespace and number
  for (const auto& holder : holders) {
    const std::string process = "/proc/" + std::to_string(holder.pid);
    const auto stat = stat_in(process);
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
