// What somebody may mount in a session so that the kernel's table is longer than what is read of
// it.
#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>

#include "bootstrap/mount_table.hpp"

namespace warmroot::bootstrap {

/// Everything is mounted at one path below the point, one over another. Each blank of a path, and
/// of a mount's name, takes four bytes in the table.
class LongMountTable {
 public:
  explicit LongMountTable(const std::string& point) : place_(point) {
    constexpr std::size_t kPart = 250, kMostPath = 3800, kName = 4000;
    while (place_.size() + kPart < kMostPath) place_.append("/").append(kPart, ' ');
    std::filesystem::create_directories(place_);
    const std::string name(kName, ' ');
    const std::size_t of_each = 4 * (place_.size() - point.size()) + 4 * kName;
    for (std::size_t size = 0; size < kMaxMountinfo + kMaxMountinfo / 4; size += of_each)
      if (::mount(name.c_str(), place_.c_str(), "tmpfs", 0, nullptr) == 0) ++mounts_;
  }
  /// False where one of them is not mounted any more.
  bool unmount() {
    while (mounts_ > 0 && ::umount2(place_.c_str(), UMOUNT_NOFOLLOW) == 0) --mounts_;
    return mounts_ == 0;
  }

 private:
  std::string place_;
  int mounts_ = 0;
};

}  // namespace warmroot::bootstrap
