// A process' table of mounts as /proc/PID/mountinfo shows it: which devices are mounted, and which
// mounts are a device's, with all that is mounted inside them. Pure: the text is an argument, and
// may be another namespace's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace warmroot::bootstrap {

/// A line comes to some 150 bytes; a host of many containers has tens of thousands.
constexpr std::size_t kMaxMountinfo = 16 << 20;

struct MountRow {
  std::string id, parent;
  std::string device;      ///< "major:minor"
  std::string point;       ///< with octal escapes
  std::string filesystem;  ///< "ext4", "fuse.sshfs"; empty in a line that ends before it
};

/// "major:minor", as the table names a device.
std::string device_number(dev_t device);

/// Lines that are none are left out. Source: proc(5), /proc/pid/mountinfo.
std::vector<MountRow> parse_mount_table(const std::string& mountinfo);

/// "major:minor" of everything that is mounted.
std::set<std::string> mounted_devices(const std::string& mountinfo);

/// Ids of the mounts of these devices, and of what is mounted inside them. Not by path: another
/// mount namespace may have another volume there.
std::set<std::string> mounts_of_devices(const std::vector<MountRow>& mounts,
                                        const std::set<std::string>& devices);

}  // namespace warmroot::bootstrap
