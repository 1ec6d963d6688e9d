#include "bootstrap/mount_table.hpp"

#include <sys/sysmacros.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "bootstrap/base/octal_escapes.hpp"

namespace warmroot::bootstrap {
namespace {

bool is_at_or_below(const std::string& path, const std::string& point) {
  return path == point || path.starts_with(point + "/");
}

/// Those between colons; a colon behind a backslash is one of a name.
void add_paths(const std::string& text, std::vector<std::string>& paths) {
  std::string path;
  const auto end_path = [&] {
    if (!path.empty()) paths.push_back(std::exchange(path, {}));
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ':') {
      end_path();
      continue;
    }
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    path += text[at];
  }
  end_path();
}

bool has_layer_at(const MountRow& mount, const std::string& point) {
  if (mount.filesystem != "overlay" || point.empty()) return false;
  const auto layers = overlay_layers(mount.options);
  return std::any_of(layers.begin(), layers.end(),
                     [&](const std::string& layer) { return is_at_or_below(layer, point); });
}

}  // namespace

std::string device_number(dev_t device) {
  return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

std::vector<MountRow> parse_mount_table(const std::string& mountinfo) {
  std::vector<MountRow> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    MountRow mount;
    if (!(fields >> mount.id >> mount.parent >> mount.device >> mount.root >> mount.point))
      continue;
    // Behind a number of optional fields; a source may be empty.
    std::string word;
    while (fields >> word && word != "-") {
    }
    fields >> mount.filesystem;
    while (fields >> word) mount.options = word;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::set<std::string> mounted_devices(const std::string& mountinfo) {
  std::set<std::string> devices;
  for (auto& mount : parse_mount_table(mountinfo)) devices.insert(std::move(mount.device));
  return devices;
}

std::vector<std::string> overlay_layers(const std::string& options) {
  constexpr std::string_view kKeys[] = {
      "lowerdir=", "lowerdir+=", "datadir+=", "upperdir=", "workdir="};
  std::vector<std::string> layers;
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');)
    for (const std::string_view key : kKeys)
      if (word.starts_with(key)) add_paths(without_octal_escapes(word.substr(key.size())), layers);
  return layers;
}

/// A mount may be listed before the one that it is in, and a hundred thousand of them are allowed.
std::set<std::string> mounts_of_volume(const std::vector<MountRow>& mounts,
                                       const VolumeSigns& signs) {
  std::multimap<std::string, const MountRow*> inside;
  std::set<std::string> parents;
  for (const auto& mount : mounts) {
    inside.emplace(mount.parent, &mount);
    if (mount.device == signs.parent_device) parents.insert(mount.id);
  }
  std::vector<const MountRow*> next;
  for (const auto& mount : mounts)
    if (signs.devices.contains(mount.device) || has_layer_at(mount, signs.point) ||
        (mount.point == signs.point && parents.contains(mount.parent)))
      next.push_back(&mount);
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
