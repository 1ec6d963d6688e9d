#include "bootstrap/mount_namespaces.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/detached.hpp"
#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/processes.hpp"

namespace warmroot::bootstrap {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// More descriptors than nearly every program has.
constexpr std::size_t kSeenDescriptors = 4096;
constexpr std::chrono::milliseconds kOpenLimit{200};
constexpr std::size_t kMostOfPlace = 200;

bool names_mount_namespace(std::string_view link) {
  return link.starts_with("mnt:[");
}

/// As proc has it; of a file that is mounted proc tells the mount's path.
std::string name_of(const UniqueFd& file) {
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) return {};
  return "mnt:[" + std::to_string(facts.st_ino) + "]";
}

/// A path of the table may lead through a file system whose server does not answer.
UniqueFd open_in_time(const std::string& path) {
  std::packaged_task<UniqueFd()> task([path] { return open_mount_namespace(path); });
  auto opened = task.get_future();
  run_detached(std::move(task));
  if (opened.wait_for(kOpenLimit) != std::future_status::ready) return {};
  return opened.get();
}

class NamespaceWalk {
 public:
  using Show = std::function<void(MountNamespace&)>;

  NamespaceWalk(const Cancelled& over, const Show& show) : over_(over), show_(show) {}

  void add_own() { add(open_mount_namespace("/proc/self/ns/mnt"), "the base"); }

  void add_of_processes() {
    each_process(over_, [this](pid_t pid) {
      const std::string process = place_of(pid), path = process + "/ns/mnt";
      if (is_new(link_text(path))) add(open_mount_namespace(path), named(pid, process));
    });
  }

  void add_mounted() {
    for (const MountRow& mount :
         parse_mount_table(read_lines("/proc/self/mountinfo", kMaxMountinfo))) {
      if (mount.filesystem != "nsfs" || !is_new(mount.root) || is_over()) continue;
      const std::string point = without_octal_escapes(mount.point);
      add(open_in_time(point), "a mount at " + without_controls(shortened(point, kMostOfPlace)));
    }
  }

  void add_open() {
    each_process(over_, [this](pid_t pid) {
      const std::string process = place_of(pid);
      std::size_t seen = 0;
      each_name(process + "/fd", [&](const char* name) {
        const std::string path = process + "/fd/" + name;
        if (is_new(link_text(path)))
          add(open_mount_namespace(path), "a descriptor of " + named(pid, process));
        return ++seen < kSeenDescriptors && !is_over();
      });
    });
  }

 private:
  bool is_over() const { return over_ && over_(); }
  bool is_new(const std::string& name) const {
    return names_mount_namespace(name) && !names_.contains(name);
  }
  static std::string named(pid_t pid, const std::string& process) {
    return read_attribute(process + "/comm") + " (" + std::to_string(pid) + ")";
  }
  void add(UniqueFd file, std::string kept_by) {
    MountNamespace found{name_of(file), std::move(kept_by), std::move(file)};
    if (!is_new(found.name)) return;
    names_.insert(found.name);
    show_(found);
  }

  const Cancelled& over_;
  const Show& show_;
  std::set<std::string> names_;
};

}  // namespace

void each_mount_namespace(const Cancelled& over, const std::function<void(MountNamespace&)>& show) {
  NamespaceWalk walk(over, show);
  walk.add_own();
  walk.add_of_processes();
  walk.add_mounted();
  walk.add_open();
}

UniqueFd open_mount_namespace(const std::string& path) {
  const UniqueFd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct statfs facts {};
  if (!place || ::fstatfs(place.get(), &facts) != 0 || facts.f_type != NSFS_MAGIC) return {};
  const std::string there = "/proc/self/fd/" + std::to_string(place.get());
  UniqueFd file(::open(there.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::ioctl(file.get(), NS_GET_NSTYPE) != CLONE_NEWNS) return {};
  return file;
}

std::optional<bool> in_mount_namespace(UniqueFd file, std::function<bool(int proc)> work,
                                       SteadyTime until) {
  UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  UniqueFd own = open_mount_namespace("/proc/thread-self/ns/mnt");
  std::packaged_task<bool()> task([file = std::move(file), proc = std::move(proc),
                                   own = std::move(own), work = std::move(work)]() mutable {
    const bool done =
        ::unshare(CLONE_FS) == 0 && ::setns(file.get(), CLONE_NEWNS) == 0 && work(proc.get());
    // Whoever waits for the result must not find the namespace kept by a thread that is ending.
    file.reset();
    std::ignore = ::setns(own.get(), CLONE_NEWNS);
    return done;
  });
  auto done = task.get_future();
  try {  // never on this thread, which has to stay where it is
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    return false;
  }
  if (done.wait_until(until) != std::future_status::ready) return std::nullopt;
  return done.get();
}

std::string whole_mount_table(int proc) {
  const UniqueFd file(::openat(proc, "thread-self/mountinfo", O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[65536];
  for (ssize_t size;
       file && text.size() < kMaxMountinfo && (size = ::read(file.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> whole_mount_table(UniqueFd file, SteadyTime until) {
  const auto text = std::make_shared<std::string>();
  const auto keep = [text](int proc) {
    *text = whole_mount_table(proc);
    return !text->empty();
  };
  if (!in_mount_namespace(std::move(file), keep, until).value_or(false)) return std::nullopt;
  return *text;
}

std::string volume_parent_device() {
  struct stat parent {};
  return ::stat(kVolumeParent, &parent) == 0 ? device_number(parent.st_dev) : std::string();
}

}  // namespace warmroot::bootstrap
