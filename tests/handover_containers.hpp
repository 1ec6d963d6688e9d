// Containers over the volume's own directories, for tests of what a release does with them.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "bootstrap/holders.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/volume_root.hpp"
#include "tests/handover.hpp"

namespace warmroot::bootstrap {

/// Of an overlay each; two must not share what they write to.
inline constexpr char kContainers[] =
    "for n in 1 2 3; do for d in lower upper work merged; do mkdir -p $t/c$n/$d; done; done\n";

class Containers : public Handover {
 protected:
  void SetUp() override {
    Handover::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (shell("grep -qw overlay /proc/filesystems || modprobe overlay")) return;
    if (must_run()) FAIL() << "cannot run: no overlay";
    GTEST_SKIP() << "SKIPPED, not tested: no overlay";
  }
};

/// The root of a container, of directories below `of`; at the one that is meant for it, or at `at`.
inline bool mount_overlay(const std::string& of, const std::string& at = {}) {
  const std::string layers =
      "lowerdir=" + of + "/lower,upperdir=" + of + "/upper,workdir=" + of + "/work";
  return ::mount("overlay", at.empty() ? (of + "/merged").c_str() : at.c_str(), "overlay", 0,
                 layers.c_str()) == 0;
}

inline bool own_mounts_alone() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

inline bool enter_volume() {
  return ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0;
}

/// As runc and crun do it; nothing of the old root is left in the namespace.
inline bool pivot_into(const std::string& root) {
  return ::chdir(root.c_str()) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0 &&
         ::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0;
}

/// As they do it without pivot_root, which the kernel refuses below a shared mount.
inline bool move_into(const std::string& root) {
  return ::chdir(root.c_str()) == 0 && ::mount(root.c_str(), "/", nullptr, MS_MOVE, nullptr) == 0 &&
         ::chroot(".") == 0 && ::chdir("/") == 0;
}

inline bool has_ended(pid_t child) {
  return ::waitpid(child, nullptr, WNOHANG) == child;
}

inline bool holds(pid_t child) {
  const auto holders = holders_of(*mounted_root());
  return std::any_of(holders.begin(), holders.end(),
                     [&](const Holder& holder) { return holder.pid == child; });
}

}  // namespace warmroot::bootstrap
