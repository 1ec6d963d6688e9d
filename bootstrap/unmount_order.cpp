#include "bootstrap/unmount_order.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "bootstrap/base/octal_escapes.hpp"

namespace warmroot::bootstrap {
namespace {

/// Of a disk that answers most unmounts take microseconds; one that writes goes on with that while
/// the next is tried.
constexpr Milliseconds kMostForOne{5'000};

/// Those with an umount_begin, which is what MNT_FORCE calls; the others do not heed it. Source:
/// Linux, fs/*/super.c.
bool has_server(std::string_view filesystem) {
  constexpr std::array<std::string_view, 10> kServed{"9p",      "afs",    "ceph", "cifs", "fuse",
                                                     "fuseblk", "lustre", "nfs",  "nfs4", "smb3"};
  const std::string_view type = filesystem.substr(0, filesystem.find('.'));  // of "fuse.sshfs"
  return std::find(kServed.begin(), kServed.end(), type) != kServed.end();
}

}  // namespace

std::vector<TreeMount> unmount_order(const std::vector<MountRow>& mounts, const std::string& point,
                                     std::set<std::string> disk) {
  std::vector<std::pair<const MountRow*, std::string>> inside;
  std::set<std::string> outside;
  bool is_first = true;
  for (const auto& mount : mounts) {
    std::string place = without_octal_escapes(mount.point);
    if (place != point && !place.starts_with(point + "/")) {
      outside.insert(mount.device);
      continue;
    }
    if (place == point && std::exchange(is_first, false)) disk.insert(mount.device);
    inside.emplace_back(&mount, std::move(place));
  }
  std::vector<TreeMount> order;
  for (auto mount = inside.rbegin(); mount != inside.rend(); ++mount) {
    const MountRow& row = *mount->first;
    const bool of_disk = disk.contains(row.device);
    order.push_back({row.id, mount->second, row.filesystem, of_disk,
                     !of_disk && has_server(row.filesystem) && !outside.contains(row.device)});
  }
  std::stable_partition(order.begin(), order.end(),
                        [](const TreeMount& mount) { return mount.forcible; });
  return order;
}

Milliseconds time_for_one(Milliseconds left, std::size_t file_systems) {
  const auto parts = static_cast<std::int64_t>(file_systems) + 1;
  return std::clamp(left / parts, Milliseconds{0}, kMostForOne);
}

}  // namespace warmroot::bootstrap
