#include "bootstrap/kernel_users.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/octal_escapes.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxSwaps = 64 * 1024;
constexpr std::size_t kMostOfPath = 200;

/// For files of a subvolume of btrfs, which has a device number of its own.
bool is_below_volume(const std::string& path) {
  return path.starts_with(std::string(kVolumePoint) + "/");
}

std::set<dev_t> file_systems_of(dev_t device, const std::vector<std::string>& places) {
  std::set<dev_t> devices{device};
  const auto root = RootDirectory::open(kVolumePoint);
  if (!root) return devices;
  for (const auto& place : places) {
    struct stat facts {};
    const auto there = root->open_inside(place, O_PATH | O_DIRECTORY);
    if (there && ::fstat(there->get(), &facts) == 0) devices.insert(facts.st_dev);
  }
  return devices;
}

/// In user space's encoding; the kernel tells it as huge_encode_dev does.
dev_t backing_device(std::uint64_t told) {
  return makedev((told >> 8) & 0xfff, (told & 0xff) | ((told >> 12) & 0xfff00));
}

std::string path_text(const std::string& path) {
  return without_controls(shortened(path, kMostOfPath));
}

/// Nothing where it was done, else ": why", by errno.
std::string ending(bool done) {
  return done ? std::string() : std::string(": ") + std::strerror(errno);
}

}  // namespace

std::vector<std::string> swap_files(std::string_view swaps) {
  std::vector<std::string> files;
  while (!swaps.empty()) {
    const std::size_t end = std::min(swaps.find('\n'), swaps.size());
    const std::string_view line = swaps.substr(0, end);
    swaps.remove_prefix(std::min(end + 1, swaps.size()));
    const std::size_t name_end = line.find_first_of(" \t");
    if (name_end == std::string_view::npos || !line.starts_with('/')) continue;
    const std::size_t type = line.find_first_not_of(" \t", name_end);
    if (type != std::string_view::npos && line.substr(type).starts_with("file"))
      files.push_back(without_octal_escapes(line.substr(0, name_end)));
  }
  return files;
}

std::vector<std::string> end_kernel_users(dev_t device, const std::vector<std::string>& places) {
  const std::set<dev_t> devices = file_systems_of(device, places);
  std::vector<std::string> ended;
  for (const auto& file : swap_files(read_file("/proc/swaps", kMaxSwaps).value_or(""))) {
    struct stat facts {};
    const bool is_there = ::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
    if (is_there && (devices.contains(facts.st_dev) || is_below_volume(file))) {
      const bool done = ::swapoff(file.c_str()) == 0;
      ended.push_back("swap file " + path_text(file) + ending(done));
    } else if (!is_there && is_below_volume(file)) {
      ended.push_back("swap file " + path_text(file) + ": its name is gone, only a reboot ends it");
    }
  }
  for (const auto& name : list_directory("/sys/class/block")) {
    const std::string file = read_attribute("/sys/class/block/" + name + "/loop/backing_file");
    if (file.empty()) continue;
    const UniqueFd loop(::open(("/dev/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    loop_info64 info{};
    if (!loop || ::ioctl(loop.get(), LOOP_GET_STATUS64, &info) != 0 ||
        !(devices.contains(backing_device(info.lo_device)) || is_below_volume(file)))
      continue;
    const bool done = ::ioctl(loop.get(), LOOP_CLR_FD) == 0;
    ended.push_back(name + " over " + path_text(file) + ending(done));
  }
  return ended;
}

}  // namespace warmroot::bootstrap
