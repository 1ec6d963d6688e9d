#include "bootstrap/unmount.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/detached.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {

/// What the thread of an umount2(2) shares with whoever waits for it.
struct UnmountCall {
  std::mutex mutex;
  UniqueFd parent;  ///< the directory that the mount point is in, while it is called
  bool given_up = false;
};

namespace {

/// Of a round that begins now; a release has so long at most.
constexpr std::int64_t kUnmountLimitMs = 30'000, kForceAfterMs = 2'000;
/// Each call has it, and each round for calls that succeed, however late it is: most take
/// microseconds.
constexpr std::int64_t kLeastUnmountMs = 500;
constexpr std::size_t kMostOfPoint = 200;

template <typename Answer>
bool ends_by(const std::future<Answer>& work, std::int64_t end_ms) {
  const Milliseconds left(std::max<std::int64_t>(0, end_ms - boottime_ms()));
  return work.wait_for(left) == std::future_status::ready;
}

std::string mount_text(const TreeMount& mount) {
  return without_controls(shortened(mount.point, kMostOfPoint) + " (" + mount.filesystem + ")");
}

Error hanging_error(const TreeMount& mount) {
  return {ErrorKind::retry_later,
          "unmounting " + mount_text(mount) + " hangs in the kernel" +
              (mount.of_disk ? ": the disk may not answer" : ""),
          {},
          {}};
}

/// Of a table longer than what is read there are more.
Error left_error(const UnmountRound& order, std::size_t left) {
  return {ErrorKind::retry_later,
          "not all that is mounted at " + order.point +
              " could be unmounted in time, mounts left: " + std::to_string(left),
          {},
          {}};
}

/// Everything at the point and below. Of a table longer than what is read the first: the others
/// come into view as those go.
Result<std::vector<TreeMount>> mounts_there(const UnmountRound& order) {
  const std::string table = read_lines("/proc/self/mountinfo", kMaxMountinfo);
  if (table.empty()) return fail(ErrorKind::broken, "the table of mounts cannot be read");
  std::set<std::string> disk;
  for (const dev_t device : order.devices) disk.insert(device_number(device));
  return unmount_order(parse_mount_table(table), order.point, std::move(disk));
}

std::vector<TreeMount> mounts_to_take(std::vector<TreeMount> there, const UnmountRound& order) {
  if (order.keep_top)
    std::erase_if(there, [&](const TreeMount& each) { return each.point == order.point; });
  return there;
}

bool is_among(const std::vector<TreeMount>& mounts, const TreeMount& mount) {
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const TreeMount& each) { return each.id == mount.id; });
}

/// errno of an open_parent or umount2(2) by a path of the mount table: something else is there than
/// the table said.
bool is_not_there(int error_number) {
  return error_number == EINVAL || error_number == ENOENT || error_number == ENOTDIR ||
         error_number == ELOOP;
}

/// 0, or errno.
int call_umount(UnmountCall& call, const std::string& point, int flags) {
  UniqueFd parent = open_parent(point);
  if (!parent) return errno;
  const std::string place =
      "/proc/self/fd/" + std::to_string(parent.get()) + point.substr(point.rfind('/'));
  {
    const std::lock_guard lock(call.mutex);
    if (call.given_up) return EAGAIN;
    call.parent = std::move(parent);
  }
  const int error_number = ::umount2(place.c_str(), flags) == 0 ? 0 : errno;
  const std::lock_guard lock(call.mutex);
  call.parent.reset();
  return error_number;
}

PendingUnmount begin_umount(const TreeMount& mount, bool forced) {
  int flags = UMOUNT_NOFOLLOW;
  if (forced) flags |= MNT_FORCE;
  auto call = std::make_shared<UnmountCall>();
  std::packaged_task<int()> task(
      [call, point = mount.point, flags] { return call_umount(*call, point, flags); });
  auto error_number = task.get_future();
  run_detached(std::move(task));
  return {mount, forced, std::move(call), std::move(error_number)};
}

/// Its mount is in no table any more. The directory would keep the mount that it is in busy. Its
/// descriptor's number stays taken: the call may have to look it up still, and must not find
/// another directory there.
void mark_detached(PendingUnmount& pending) {
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  UnmountCall& call = *pending.call;
  const std::lock_guard lock(call.mutex);
  call.given_up = true;
  if (call.parent) ::dup3(nothing.get(), call.parent.get(), O_CLOEXEC);
  pending.is_detached = true;
}

}  // namespace

UnmountRound round_from_now(std::string point, std::vector<dev_t> devices) {
  const std::int64_t now_ms = boottime_ms();
  return {std::move(point), std::move(devices), now_ms + kForceAfterMs, now_ms + kUnmountLimitMs};
}

Ok VolumeUnmount::round(const UnmountRound& order) {
  const std::int64_t stop_ms = std::max(order.end_ms, boottime_ms() + kLeastUnmountMs);
  std::optional<Error> held;
  // Propagation takes copies away while we go, and more may be mounted meanwhile: look again.
  for (bool tried = false;; tried = true) {
    forget_ended();
    TRY_ASSIGN(const std::vector<TreeMount> there, mounts_there(order));
    let_go_of_gone(there);
    const std::vector<TreeMount> mounts = mounts_to_take(there, order);
    if (mounts.empty()) return wait_for_disk(order.end_ms);
    if (tried && boottime_ms() >= stop_ms)
      return fail(held ? std::move(*held) : left_error(order, mounts.size()));
    const bool done = unmount_each(mounts, order, stop_ms, held);
    if (held && !done) return fail(std::move(*held));
    if (done || boottime_ms() >= stop_ms) continue;
    // One over whose parent another was mounted, or moved, is not at its path before that has gone.
    TRY_ASSIGN(const std::vector<TreeMount> after, mounts_there(order));
    if (there == after)
      return fail(ErrorKind::broken,
                  "no path leads to what is mounted at " + mount_text(mounts.front()));
  }
}

void VolumeUnmount::forget_ended() {
  std::erase_if(pending_, [](const auto& each) { return ends_by(each.error_number, 0); });
}

/// What has left the table only after its call was given up.
void VolumeUnmount::let_go_of_gone(const std::vector<TreeMount>& there) {
  for (auto& each : pending_)
    if (!each.is_detached && !is_among(there, each.mount)) mark_detached(each);
}

/// Nothing is mounted any more: what is on its way out is nowhere to be seen, and may still write
/// to the disk.
Ok VolumeUnmount::wait_for_disk(std::int64_t end_ms) {
  for (const auto& each : pending_)
    if (each.mount.of_disk && !ends_by(each.error_number, end_ms))
      return fail(hanging_error(each.mount));
  forget_ended();
  return {};
}

/// True where one of them has gone; `held` is why another has not, if anything is. Not looked anew
/// in between: somebody may have mounted so much that the table alone takes the time. None but the
/// first is begun from `stop_ms` on.
bool VolumeUnmount::unmount_each(const std::vector<TreeMount>& mounts, const UnmountRound& order,
                                 std::int64_t stop_ms, std::optional<Error>& held) {
  held.reset();
  bool done = false;
  for (const auto& mount : mounts) {
    auto gone = unmount(mount, order);
    if (gone) {
      done = done || *gone;
      if (boottime_ms() >= stop_ms) break;
      continue;
    }
    // What is mounted in one that is forcible may be what holds it, and one that hangs says nothing
    // of the others. Behind the end each of many that hang would take its least time.
    const bool goes_on = mount.forcible || gone.error().kind == ErrorKind::retry_later;
    if (!held) held = std::move(gone).error();
    if (!goes_on || boottime_ms() >= order.end_ms) break;
  }
  return done;
}

/// False where something else is at its path. True also of one that goes on out of the table.
Result<bool> VolumeUnmount::unmount(const TreeMount& mount, const UnmountRound& order) {
  const std::int64_t now_ms = boottime_ms();
  const bool forced = mount.forcible && now_ms >= order.force_ms;
  for (const auto& each : pending_)
    if (each.mount.id == mount.id && each.forced == forced) return fail(hanging_error(mount));
  PendingUnmount pending = begin_umount(mount, forced);
  const Milliseconds left(order.end_ms - now_ms);
  const std::int64_t end_ms = mount.of_disk
                                  ? now_ms + time_for_one(left, order.devices.size() + 1).count()
                                  : std::min(order.force_ms, order.end_ms);
  if (ends_by(pending.error_number, std::max(end_ms, now_ms + kLeastUnmountMs))) {
    const int error_number = pending.error_number.get();
    if (error_number == 0 && forced) forced_.push_back(mount_text(mount));
    if (error_number == 0) return true;
    if (is_not_there(error_number)) return false;
    return fail(errno_error("unmounting " + mount_text(mount), error_number));
  }
  const auto there = mounts_there(order);
  const bool is_there = !there || is_among(*there, mount);
  if (!is_there) mark_detached(pending);
  pending_.push_back(std::move(pending));
  if (is_there || boottime_ms() >= order.end_ms) return fail(hanging_error(mount));
  return true;
}

bool VolumeUnmount::is_under_way() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& each) {
    return each.mount.of_disk && each.is_detached && !ends_by(each.error_number, 0);
  });
}

std::string VolumeUnmount::remarks(const std::string& first) const {
  std::vector<std::string> told;
  if (!first.empty()) told.push_back(first);
  for (const auto& mount : forced_)
    told.push_back("forced: " + mount + ", what was not written there is lost");
  for (const auto& each : pending_)
    if (!ends_by(each.error_number, 0))
      told.push_back("unmounting " + mount_text(each.mount) +
                     " hangs, and holds nothing of the volume");
  return joined(told, "; ");
}

Ok VolumeUnmount::check_free(const std::string& node, std::int64_t end_ms) {
  // An answer from before tells nothing of now.
  if (opened_.valid() && ends_by(opened_, 0)) std::ignore = opened_.get();
  if (!opened_.valid()) {
    std::packaged_task<Ok()> task([node] { return check_device_free(node); });
    opened_ = task.get_future();
    run_detached(std::move(task));
  }
  if (!ends_by(opened_, std::max(end_ms, boottime_ms() + kLeastUnmountMs)))
    return fail(ErrorKind::retry_later,
                "opening " + node + " hangs in the kernel: the disk may not answer");
  return opened_.get();
}

Ok unmount_tree(const std::string& point, bool keep_top) {
  UnmountRound order = round_from_now(point);
  order.keep_top = keep_top;
  return VolumeUnmount().round(order);
}

UniqueFd open_parent(const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const std::string parent = path.substr(0, path.rfind('/') + 1);
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, parent.c_str(), &how, sizeof how)));
}

Ok check_device_free(const std::string& node) {
  const UniqueFd device(::open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (!device) return fail_errno("opening " + node + " for us alone");
  return {};
}

}  // namespace warmroot::bootstrap
