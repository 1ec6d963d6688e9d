// A disk of the base's that may stop to answer, where the bootstrap keeps what outlives a boot.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <string>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/boot_namespace.hpp"

namespace warmroot::bootstrap {

/// Mounted over the tests' /var/lib, and away again at its end.
class BaseDisk {
 public:
  static constexpr char kPlace[] = "/var/lib";

  BaseDisk()
      : loop_(shell("truncate -s 16M /run/base-disk; mke2fs -q -F -t ext4 /run/base-disk "
                    ">/dev/null 2>&1; losetup -f --show /run/base-disk; rm /run/base-disk")
                  .value_or("no loop device")),
        is_mounted_(bool{shell("mount " + loop_ + " " + kPlace)}) {}
  ~BaseDisk() {
    EXPECT_TRUE(shell("umount " + std::string(kPlace) + "; losetup -d " + loop_)) << loop_;
  }
  BaseDisk(const BaseDisk&) = delete;
  BaseDisk& operator=(const BaseDisk&) = delete;
  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string loop_;
  const bool is_mounted_;
};

/// A file system in which whoever writes waits, as on a disk that does not answer.
class Frozen {
 public:
  explicit Frozen(const char* place)
      : top_(::open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        is_frozen_(top_ && ::ioctl(top_.get(), kFreeze, 0) == 0) {}
  ~Frozen() {
    if (is_frozen_) ::ioctl(top_.get(), kThaw, 0);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;
  bool is_frozen() const { return is_frozen_; }

 private:
  /// FIFREEZE and FITHAW. Their header, linux/fs.h, and sys/mount.h exclude each other.
  static constexpr unsigned long kFreeze = _IOWR('X', 119, int), kThaw = _IOWR('X', 120, int);
  const UniqueFd top_;
  const bool is_frozen_;
};

}  // namespace warmroot::bootstrap
