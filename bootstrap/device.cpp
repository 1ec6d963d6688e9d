#include "bootstrap/device.hpp"

#include <algorithm>

namespace warmroot::bootstrap {
namespace {

constexpr std::string_view kInstanceStoreModel = "Amazon EC2 NVMe Instance Storage";

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_xen(std::string_view name) {
  return name.substr(0, 3) == "xvd";
}

bool mapped_at_launch(const DiskFacts& disk, std::span<const std::string> launch_names) {
  const auto same = [&](std::string_view name) {
    return !name.empty() && contains(launch_names, name);
  };
  if (same(disk.mapped_name)) return true;
  // Xen types: no serial, and /dev/xvdf may be called sdf in the mapping.
  return is_xen(disk.name) && (same(disk.name) || same("sd" + disk.name.substr(3)));
}

bool is_candidate(const DiskFacts& disk, std::span<const std::string> launch_names) {
  if (disk.holds_base || disk.size_bytes == 0 || disk.model == kInstanceStoreModel) return false;
  if (mapped_at_launch(disk, launch_names)) return false;
  // On Xen a volume may have been attached before `up` began: what the launch mapping does not list
  // is new all the same.
  return disk.volume_id() || is_xen(disk.name);
}

bool may_be(const DiskFacts& disk, const EarlierVolume& volume) {
  return may_be_same({disk.volume_id().value_or(""), disk.name}, volume);
}

bool is_known_as(const DiskFacts& disk, const EarlierVolume& volume) {
  if (const auto id = disk.volume_id()) return *id == volume.volume_id;
  return is_xen(disk.name) && disk.name == volume.disk_name;
}

/// nullptr: it is not there, or nobody can take it.
const DiskFacts* disk_of(std::span<const DiskFacts> disks, const EarlierVolume& volume) {
  for (const auto& disk : disks)
    if (!disk.holds_base && disk.size_bytes != 0 && is_known_as(disk, volume)) return &disk;
  return nullptr;
}

std::string name_of(const EarlierVolume& volume) {
  return volume.volume_id.empty() ? "the volume that was /dev/" + volume.disk_name
                                  : volume.volume_id;
}

}  // namespace

/// A Xen disk has no serial, and is feared to be the one where it has its name, which is EC2's and
/// so the same in each boot. What is on it tells less: all volumes of a snapshot have its UUIDs.
bool may_be_same(const EarlierVolume& one, const EarlierVolume& other) {
  if (one.is_none() || other.is_none()) return false;
  if (!one.volume_id.empty() && !other.volume_id.empty()) return one.volume_id == other.volume_id;
  const bool have_names = is_xen(one.disk_name) && is_xen(other.disk_name);
  return !have_names || one.disk_name == other.disk_name;
}

bool can_be_known(const EarlierVolume& volume) {
  if (!volume.volume_id.empty()) return volume_id_of_serial(volume.volume_id) == volume.volume_id;
  const auto is_of_name = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return is_xen(volume.disk_name) && std::ranges::all_of(volume.disk_name, is_of_name);
}

std::optional<std::string> volume_id_of_serial(std::string_view serial) {
  if (serial.substr(0, 3) != "vol") return std::nullopt;
  serial.remove_prefix(3);
  if (!serial.empty() && serial.front() == '-') serial.remove_prefix(1);
  if (serial.empty() || serial.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  return "vol-" + std::string(serial);
}

std::optional<std::string> DiskFacts::volume_id() const {
  return volume_id_of_serial(serial);
}

DiskChoice choose_disk(std::span<const DiskFacts> disks, std::span<const std::string> launch_names,
                       const std::optional<std::string>& confirmed, const EarlierVolume& given_away,
                       const EarlierVolume& served) {
  // A launch may bring its volume along: then it is in the mapping, and only the manager's word
  // tells it from the other disks there.
  if (confirmed)
    for (const auto& disk : disks)
      if (!disk.holds_base && disk.size_bytes != 0 && disk.volume_id() == confirmed)
        return {disk, {}};
  std::vector<DiskFacts> candidates;
  for (const auto& disk : disks)
    if (is_candidate(disk, launch_names)) candidates.push_back(disk);
  if (confirmed) {
    // A Xen disk has no serial to compare: the one that there is is what the manager means.
    if (candidates.size() == 1 && !candidates.front().volume_id()) return {candidates.front(), {}};
    std::vector<DiskFacts> newcomers;
    for (const auto& disk : candidates)
      if (!disk.volume_id() && !disk.present_at_start) newcomers.push_back(disk);
    if (newcomers.size() == 1) return {newcomers.front(), {}};
    const DiskFacts* const same = *confirmed == served.volume_id ? disk_of(disks, served) : nullptr;
    if (same != nullptr) return {*same, {}};
    for (const auto& disk : disks)
      if (disk.holds_base && disk.volume_id() == confirmed)
        return {std::nullopt, disk.name + " is " + *confirmed +
                                  ", and the base uses it already, as a part of its LVM or RAID or "
                                  "mounted: see lsblk"};
    return {std::nullopt, "waiting for the disk of " + *confirmed};
  }
  if (const DiskFacts* const disk = disk_of(disks, served)) return {*disk, {}};
  const bool held_back =
      std::any_of(candidates.begin(), candidates.end(),
                  [&](const DiskFacts& disk) { return may_be(disk, given_away); });
  if (held_back)
    return {std::nullopt,
            name_of(given_away) +
                " was given back before this machine booted; waiting for the manager to say that "
                "it is to be served again, or for its detach",
            true};
  if (!served.is_none())
    return {std::nullopt, "waiting for the disk of " + name_of(served) +
                              ", which was served before this machine booted"};
  if (candidates.size() == 1) return {candidates.front(), {}};
  if (candidates.empty()) return {std::nullopt, "waiting for a volume to be attached"};
  std::string names;
  for (const auto& disk : candidates) names += (names.empty() ? "" : ", ") + disk.name;
  return {std::nullopt, "several disks were not there at launch (" + names +
                            "); waiting for the manager to say which one is meant"};
}

bool GivenAway::is_over(std::span<const DiskFacts> disks, std::span<const std::string> launch_names,
                        const std::optional<std::string>& confirmed, Milliseconds since_up) {
  if (volume_.is_none()) return false;
  // Also where nobody would choose it as it is: the base's LVM may let go of it yet.
  const bool is_there = std::any_of(disks.begin(), disks.end(), [&](const DiskFacts& disk) {
    return disk.volume_id() == volume_.volume_id ||
           (is_candidate(disk, launch_names) && may_be(disk, volume_));
  });
  seen_ = seen_ || is_there;
  const bool is_detached = !is_there && (seen_ || since_up >= kLatestDisk);
  const bool is_given_again =
      confirmed && (volume_.volume_id.empty() || *confirmed == volume_.volume_id);
  if (!is_given_again && !is_detached) return false;
  volume_ = {};
  return true;
}

bool ServedBefore::is_over(std::span<const DiskFacts> disks,
                           const std::optional<std::string>& confirmed, Milliseconds since_up) {
  if (volume_.is_none()) return false;
  const bool is_another_named = confirmed && *confirmed != volume_.volume_id;
  const bool is_detached = since_up >= kLatestDisk && disk_of(disks, volume_) == nullptr;
  if (!is_another_named && !is_detached) return false;
  volume_ = {};
  return true;
}

std::optional<Uevent> parse_uevent(std::string_view message) {
  // udev's messages on the same socket family begin with "libudev".
  const std::size_t header = message.find('\0');
  if (header == std::string_view::npos ||
      message.substr(0, header).find('@') == std::string_view::npos)
    return std::nullopt;
  Uevent event;
  message.remove_prefix(header + 1);
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\0'), message.size());
    const std::string_view pair = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = pair.substr(0, equals);
    const std::string value(pair.substr(equals + 1));
    if (key == "ACTION")
      event.action = value;
    else if (key == "SUBSYSTEM")
      event.subsystem = value;
    else if (key == "DEVTYPE")
      event.device_type = value;
    else if (key == "DEVNAME")
      event.device_name = value;
  }
  if (event.action.empty() || event.subsystem.empty()) return std::nullopt;
  return event;
}

}  // namespace warmroot::bootstrap
