// A process' table of mounts as /proc/PID/mountinfo shows it: which devices are mounted, and which
// mounts hold a volume, with all that is mounted inside them. Pure: the text is an argument, and
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
  std::string root;        ///< what of its file system is there; of a namespace's file "mnt:[...]"
  std::string point;       ///< with octal escapes
  std::string filesystem;  ///< "ext4", "fuse.sshfs"; empty in a line that ends before it
  std::string options;     ///< the file system's own, with octal escapes
};

/// "major:minor", as the table names a device.
std::string device_number(dev_t device);

/// Lines that are none are left out. Source: proc(5), /proc/pid/mountinfo.
std::vector<MountRow> parse_mount_table(const std::string& mountinfo);

/// "major:minor" of everything that is mounted.
std::set<std::string> mounted_devices(const std::string& mountinfo);

/// Directories that an overlay consists of, as whoever mounted it has named them: from a root of
/// theirs, or from where they were. Source: show_options of the kernel's fs/overlayfs.
std::vector<std::string> overlay_layers(const std::string& options);

/// What tells a volume's mounts in a table.
struct VolumeSigns {
  std::set<std::string> devices;  ///< "major:minor" of its file systems
  /// Where it is mounted. An overlay with a layer that is named there holds it, too.
  std::string point{};
  /// "major:minor" of what `point` is in. Where a table has the same there, so does whatever is
  /// mounted at `point`: it is the root of somebody who began in the volume. Empty: that is left
  /// out.
  std::string parent_device{};
};

/// Ids of the volume's mounts, and of what is mounted inside them. Not by path alone: another mount
/// namespace may have another volume there.
std::set<std::string> mounts_of_volume(const std::vector<MountRow>& mounts,
                                       const VolumeSigns& signs);

}  // namespace warmroot::bootstrap
