#include "bootstrap/mount_table.hpp"

#include <sys/sysmacros.h>

#include <map>
#include <sstream>
#include <utility>

namespace warmroot::bootstrap {

std::string device_number(dev_t device) {
  return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

std::vector<MountRow> parse_mount_table(const std::string& mountinfo) {
  std::vector<MountRow> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    MountRow mount;
    std::string root;
    if (!(fields >> mount.id >> mount.parent >> mount.device >> root >> mount.point)) continue;
    // Behind the options, and some fields that a single "-" ends.
    for (std::string field; mount.filesystem.empty() && fields >> field;)
      if (field == "-") fields >> mount.filesystem;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::set<std::string> mounted_devices(const std::string& mountinfo) {
  std::set<std::string> devices;
  for (auto& mount : parse_mount_table(mountinfo)) devices.insert(std::move(mount.device));
  return devices;
}

/// A mount may be listed before the one that it is in, and a hundred thousand of them are allowed.
std::set<std::string> mounts_of_devices(const std::vector<MountRow>& mounts,
                                        const std::set<std::string>& devices) {
  std::multimap<std::string, const MountRow*> inside;
  std::vector<const MountRow*> next;
  for (const auto& mount : mounts) {
    inside.emplace(mount.parent, &mount);
    if (devices.contains(mount.device)) next.push_back(&mount);
  }
  std::set<std::string> ids;
  while (!next.empty()) {
    const MountRow* mount = next.back();
    next.pop_back();
    if (!ids.insert(mount->id).second) continue;
    const auto [first, last] = inside.equal_range(mount->id);
    for (auto child = first; child != last; ++child) next.push_back(child->second);
  }
  return ids;
}

}  // namespace warmroot::bootstrap
