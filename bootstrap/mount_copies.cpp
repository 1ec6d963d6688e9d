#include "bootstrap/mount_copies.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::chrono::seconds kCopiesLimit{2};

std::string number_text(dev_t device) {
  return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

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

/// Runs on a thread that ends afterwards: it stays in the other namespace.
bool unmount_there(int proc, int space, const std::string& device) {
  if (::unshare(CLONE_FS) != 0 || ::setns(space, CLONE_NEWNS) != 0) return false;
  const std::vector<MountRow> mounts = parse_mount_table(own_mounts(proc));
  const std::set<std::string> copies = mounts_of_devices(mounts, {device});  // with what is in them
  bool some = false;
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount)
    if (copies.count(mount->id) != 0)
      some |= ::umount2(without_octal_escapes(mount->point).c_str(), UMOUNT_NOFOLLOW) == 0;
  return some;
}

}  // namespace

std::string unmount_copies(dev_t device) {
  const auto until = std::chrono::steady_clock::now() + kCopiesLimit;
  std::vector<std::string> whose;
  std::set<std::string> seen;
  for (const Holder& each : namespaces_holding(device)) {
    const std::string path = "/proc/" + std::to_string(each.pid) + "/ns/mnt";
    UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    char name[64] = {};
    if (!space || !proc || ::readlink(path.c_str(), name, sizeof name - 1) <= 0) continue;
    if (!seen.insert(name).second) continue;
    std::packaged_task<bool()> task(
        [space = std::move(space), proc = std::move(proc), number = number_text(device)] {
          return unmount_there(proc.get(), space.get(), number);
        });
    auto done = task.get_future();
    try {  // never on this thread, which has to stay where it is
      std::thread(std::move(task)).detach();
    } catch (const std::system_error&) {
      break;
    }
    if (done.wait_until(until) == std::future_status::ready && done.get())
      whose.push_back(each.command + " (" + std::to_string(each.pid) + ")");
  }
  return joined(whose, ", ");
}

}  // namespace warmroot::bootstrap
