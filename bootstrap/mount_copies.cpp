#include "bootstrap/mount_copies.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/mount_namespaces.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCopiesLimit{2}, kKeepersLimit{1};
constexpr std::chrono::seconds kCopiesPause{1};
constexpr int kMostTries = 3;
constexpr std::size_t kNamedKeepers = 4;

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

/// Runs in the namespace.
bool unmount_there(int proc, const VolumeSigns& signs) {
  const std::vector<MountRow> mounts = parse_mount_table(whole_mount_table(proc));
  const std::set<std::string> copies = mounts_of_volume(mounts, signs);
  bool some = false;
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
    const std::string point = without_octal_escapes(mount->point);
    if (copies.count(mount->id) != 0) some |= unmount_one(point, mount->id);
  }
  return some;
}

}  // namespace

MountCopies::MountCopies(const std::vector<dev_t>& devices)
    : signs_{{}, kVolumePoint, volume_parent_device()} {
  for (const dev_t device : devices)
    if (major(device) != 0) signs_.devices.insert(device_number(device));
}

std::string MountCopies::take() {
  if (SteadyClock::now() < next_) return {};
  const auto until = SteadyClock::now() + kCopiesLimit;
  const auto is_over = [until] { return SteadyClock::now() >= until; };
  std::vector<std::string> whose;
  each_mount_namespace(is_over, [&](MountNamespace& space) {
    int& tries = tries_[space.name];
    if (tries >= kMostTries || is_over()) return;
    ++tries;
    const auto gone = in_mount_namespace(
        std::move(space.file), [signs = signs_](int proc) { return unmount_there(proc, signs); },
        until);
    if (!gone) tries = kMostTries;
    if (gone.value_or(false)) whose.push_back(space.kept_by);
  });
  next_ = SteadyClock::now() + kCopiesPause;
  return joined(whose, ", ");
}

std::string MountCopies::keepers() const {
  const auto until = SteadyClock::now() + kKeepersLimit;
  const auto is_over = [until] { return SteadyClock::now() >= until; };
  std::vector<std::string> who;
  each_mount_namespace(is_over, [&](MountNamespace& space) {
    if (is_over()) return;
    const auto table = whole_mount_table(std::move(space.file), until);
    if (table && !mounts_of_volume(parse_mount_table(*table), signs_).empty())
      who.push_back(space.kept_by);
  });
  const std::size_t more = who.size() - std::min(who.size(), kNamedKeepers);
  who.resize(who.size() - more);
  return joined(who, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

}  // namespace warmroot::bootstrap
