#include "bootstrap/mount_copies.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCopiesLimit{2};
constexpr std::chrono::seconds kCopiesPause{1};
constexpr int kMostTries = 3;

/// The text of /proc/thread-self/mountinfo by the proc of the namespace that we came from.
std::string own_mounts(int proc) {
  const UniqueFd file(::openat(proc, "thread-self/mountinfo", O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[65536];
  for (ssize_t size;
       file && text.size() < kMaxMountinfo && (size = ::read(file.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(size));
  return text;
}

/// A path may lead to what somebody has mounted over it meanwhile.
bool leads_to(const std::string& point, const std::string& mount_id) {
  struct statx facts {};
  if (::statx(AT_FDCWD, point.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MNT_ID,
              &facts) != 0)
    return false;
  return (facts.stx_mask & STATX_MNT_ID) == 0 || std::to_string(facts.stx_mnt_id) == mount_id;
}

/// From the directory that it is in, to which no link led. "/" cannot be unmounted.
bool unmount_one(const std::string& point, const std::string& mount_id) {
  const UniqueFd parent = open_parent(point);
  const std::string name = point.substr(point.rfind('/') + 1);
  if (!parent || name.empty() || ::fchdir(parent.get()) != 0) return false;
  const bool gone = leads_to(name, mount_id) && ::umount2(name.c_str(), UMOUNT_NOFOLLOW) == 0;
  return ::chdir("/") == 0 && gone;  // else it would keep the one below busy
}

/// Runs on a thread that ends afterwards: it stays in the other namespace.
bool unmount_there(int proc, int space, const std::string& device) {
  if (::unshare(CLONE_FS) != 0 || ::setns(space, CLONE_NEWNS) != 0) return false;
  const std::vector<MountRow> mounts = parse_mount_table(own_mounts(proc));
  const std::set<std::string> copies = mounts_of_devices(mounts, {device});  // with what is in them
  bool some = false;
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
    const std::string point = without_octal_escapes(mount->point);
    if (copies.count(mount->id) != 0) some |= unmount_one(point, mount->id);
  }
  return some;
}

/// Of the process' first thread, or where that has ended of another.
UniqueFd namespace_of(const std::string& process) {
  UniqueFd space(::open((process + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  for (const auto& thread : list_directory(process + "/task"))
    if (!space)
      space.reset(::open((process + "/task/" + thread + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  return space;
}

/// nullopt: it has not ended in time, and may never.
std::optional<bool> unmount_beside(UniqueFd space, const std::string& device,
                                   SteadyClock::time_point until) {
  UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::packaged_task<bool()> task([space = std::move(space), proc = std::move(proc), device] {
    return unmount_there(proc.get(), space.get(), device);
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

}  // namespace

std::string MountCopies::take(dev_t device) {
  if (major(device) == 0 || SteadyClock::now() < next_) return {};
  const auto until = SteadyClock::now() + kCopiesLimit;
  const std::string number = device_number(device);
  std::vector<std::string> whose;
  std::set<std::string> seen;
  const auto looked = until - kCopiesLimit / 2;
  for (const Holder& each :
       namespaces_holding(device, [looked] { return SteadyClock::now() >= looked; })) {
    UniqueFd space = namespace_of("/proc/" + std::to_string(each.pid));
    struct stat facts {};
    if (!space || ::fstat(space.get(), &facts) != 0) continue;
    const std::string name = std::to_string(facts.st_ino);
    if (!seen.insert(name).second || tries_[name] >= kMostTries) continue;
    ++tries_[name];
    const auto gone = unmount_beside(std::move(space), number, until);
    if (!gone) tries_[name] = kMostTries;
    if (gone.value_or(false)) whose.push_back(each.command + " (" + std::to_string(each.pid) + ")");
  }
  next_ = SteadyClock::now() + kCopiesPause;
  return joined(whose, ", ");
}

}  // namespace warmroot::bootstrap
