#include "bootstrap/volume_root.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/mount_plan.hpp"
#include "bootstrap/partition.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/root_mount.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxOsRelease = 64 * 1024;
constexpr char kBusy[] = "EBUSY";

class RootSearch {
 public:
  RootSearch(const RootOrder& order, Assignment& assignment, StatusBook& book,
             const StopRequest& stop)
      : order_(order), assignment_(assignment), book_(book), stop_(stop) {}

  Ok run() {
    TRY(book_.timed("read the partitions", [&] { return read_table(); }));
    return mount_root();
  }

 private:
  Result<std::string> read_table() {
    TRY_ASSIGN(assignment_.partitions, read_partitions(order_.disk_fd));
    const auto& partitions = assignment_.partitions;
    if (order_.read) order_.read();
    TRY_ASSIGN(candidates_, root_candidates(partitions));
    std::string found;
    for (const auto& partition : partitions)
      found += (found.empty() ? "" : ", ") + describe(partition);
    return found + ": " + std::to_string(candidates_.size()) + " may hold the root";
  }

  /// The largest candidate that turns out to be a root.
  Ok mount_root() {
    for (const auto& candidate : candidates_) {
      TRY(stop_.check());
      assignment_.partition = candidate;
      TRY_ASSIGN(assignment_.partition_node,
                 ensure_node("/sys", order_.disk_name, order_.disk_fd, candidate));
      const Ok mounted = try_candidate();
      if (mounted) return {};
      if (mounted.error().kind != ErrorKind::refused) return mounted;
      refused_.push_back(describe(candidate) + ": " + mounted.error().message());
      damaged_ = damaged_ || is_damage(mounted.error());
    }
    std::string reasons;
    for (const auto& reason : refused_) reasons += (reasons.empty() ? "" : "; ") + reason;
    return fail(ErrorKind::refused,
                "the volume has no usable root file system: " + reasons +
                    root_remedy(assignment_.partitions),
                damaged_ ? std::string(kDamaged) : std::string());
  }

  /// Errors: refused when it is none, and the next one may be.
  Ok try_candidate() {
    if (!order_.confirmed() && !is_clean(assignment_.partition))
      TRY(book_.timed("look without writing", [&] { return prove(); }));
    // One that may be the root and cannot be repaired ends the search: an older root beside it
    // would be served in its place.
    TRY(book_.timed("check " + assignment_.partition.content, [&] {
      return check_filesystem(assignment_.partition, assignment_.partition_node, order_.disk_fd,
                              stop_);
    }));
    if (!std::exchange(told_checked_, true)) order_.checked();
    TRY(book_.timed("mount the root", [&] { return mount_candidate(); }));
    return {};
  }

  /// Neither a repair nor a replay would write to it.
  bool is_clean(const PartitionFacts& partition) const {
    if (partition.content.rfind("ext", 0) != 0) return false;
    const auto state = read_ext_state(order_.disk_fd, partition.offset_bytes);
    return state && state->cleanly_unmounted && !state->has_errors && !state->needs_recovery;
  }

  /// A disk that nobody vouched for has to be a root before a repair or a replay writes to it. A
  /// confirmed one may be half a root until its journal was replayed, and is ours to repair.
  Result<std::string> prove() {
    const std::string& type = assignment_.partition.content;
    TRY(make_volume_point());
    TRY(mount_at_point(untouched_mount_options(type)));
    assignment_.mounted = true;
    auto accepted = accept_root();
    TRY(unmount_candidate());
    if (!accepted) return fail(std::move(accepted).error().within(assignment_.partition_node));
    return "a root, " + assignment_.volume_os;
  }

  Ok mount_at_point(const std::string& options) const {
    const PartitionFacts& partition = assignment_.partition;
    TRY(renew_mount_group(kRunDirectory));
    return mount_root_filesystem(assignment_.partition_node, order_.disk_fd, partition.offset_bytes,
                                 kVolumePoint, partition.content, options);
  }

  /// One that hangs is known to whoever undoes the rest. Errors: round's, and retry_later where
  /// somebody has it open, so that no other is mounted over it.
  Ok unmount_candidate() {
    if (Ok gone = assignment_.unmounting->round(round_from_now(kVolumePoint)); !gone) {
      Error error = std::move(gone).error();
      if (error.code == kBusy) error.kind = ErrorKind::retry_later;
      return fail(std::move(error));
    }
    assignment_.mounted = false;
    return {};
  }

  Result<std::string> mount_candidate() {
    const std::string& type = assignment_.partition.content;
    TRY(make_volume_point());
    // The kernel forgets more of what it has read where nobody has the partition open.
    const UniqueFd open(::open(assignment_.partition_node.c_str(), O_RDONLY | O_CLOEXEC));
    // Read-only until it has proved to be a root: another system's data partition is left as it is.
    TRY(mount_at_point(root_mount_options(type, false)));
    assignment_.mounted = true;
    if (auto accepted = accept_root(); !accepted) {
      TRY(unmount_candidate());
      Error error = std::move(accepted).error();
      return fail(std::move(error).within(assignment_.partition_node));
    }
    if (auto writable = make_writable(); !writable) {
      Error error = std::move(writable).error();
      // It is the root: an older one beside it would be served in its place.
      if (error.kind == ErrorKind::refused) error.kind = ErrorKind::misconfigured;
      return fail(std::move(error).within(assignment_.partition_node));
    }
    assignment_.root_device = mounted_root().value_or(0);
    ::unlink(kHooksRun);  // of an earlier volume
    assignment_.root_choice = root_choice(assignment_.partition, candidates_.size(), refused_);
    book_.update([&](Status& status) {
      status.filesystem = type;
      status.root = assignment_.root_choice;
      status.volume_os = assignment_.volume_os;
      status.message.clear();
    });
    return assignment_.partition_node + ", " + assignment_.volume_os + ": " +
           assignment_.root_choice;
  }

  /// Other options of an ext4 take the kernel 10 to 15 ms, and its unmount behind that as long;
  /// to mount it anew takes half a millisecond and four reads. Where somebody looks into it just
  /// then, or another mount namespace has got a copy of the mount, it stays, read-only without
  /// that.
  Ok make_writable() {
    const std::string& type = assignment_.partition.content;
    const std::string options = root_mount_options(type, true);
    if (type.rfind("ext", 0) != 0) return remount(kVolumePoint, options);
    const Ok gone = unmount_candidate();
    if (!gone && gone.error().code != kBusy) return gone;
    if (gone) {
      Ok mounted = mount_at_point(options);
      assignment_.mounted = static_cast<bool>(mounted);
      if (mounted) return check_writable();
      if (mounted.error().code != kBusy) return mounted;
      TRY(mount_at_point(root_mount_options(type, false)));
      assignment_.mounted = true;
    }
    return remount(kVolumePoint, options);
  }

  /// A file system may be read-only by a feature of its own, which the kernel takes for a success.
  static Ok check_writable() {
    struct statvfs facts {};
    if (::statvfs(kVolumePoint, &facts) != 0) return fail_errno("looking at the mounted root");
    if ((facts.f_flag & ST_RDONLY) != 0) return fail(errno_error("mounting it writable", EROFS));
    return {};
  }

  Ok accept_root() {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    if (Ok accepted = check_is_root(root); !accepted) {
      Error error = std::move(accepted).error();
      if (assignment_.partition.content == "btrfs") error.context += subvolume_hint(root);
      return fail(std::move(error));
    }
    TRY(check_chroot_path(kVolumePoint));
    auto release = root.read("etc/os-release", kMaxOsRelease);
    if (!release) release = root.read("usr/lib/os-release", kMaxOsRelease);
    assignment_.volume_os = pretty_name(release.value_or(""));
    return {};
  }

  const RootOrder& order_;
  Assignment& assignment_;
  StatusBook& book_;
  const StopRequest& stop_;
  std::vector<PartitionFacts> candidates_;
  bool told_checked_ = false;
  std::vector<std::string> refused_;  ///< which candidate is no root, and why
  bool damaged_ = false;              ///< one of them may be, once it is repaired
};

}  // namespace

Ok make_volume_point() {
  TRY(make_directory(kVolumeParent, 0700));
  return make_directory(kVolumePoint, 0755);
}

Ok mount_volume_root(const RootOrder& order, Assignment& assignment, StatusBook& book,
                     const StopRequest& stop) {
  return RootSearch(order, assignment, book, stop).run();
}

std::optional<dev_t> mounted_root(dev_t known) {
  const auto listed = device_mounted_at(kVolumePoint);
  if (!listed) return std::nullopt;
  // By what the kernel knows: what somebody has mounted over it may be served by nobody.
  struct statx root {};
  struct stat base {};
  // An xfs that has shut down says EIO.
  if (::statx(AT_FDCWD, kVolumePoint, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &root) != 0)
    return known != 0 ? known : *listed;
  const dev_t device = makedev(root.stx_dev_major, root.stx_dev_minor);
  if (::stat(kRunDirectory, &base) == 0 && device == base.st_dev) return std::nullopt;
  return device;
}

}  // namespace warmroot::bootstrap
