// Bounds what of the volume may be dirty in memory, so that it can be written back in the time that
// a release always keeps. Set on the volume's own backing device (/sys/class/bdi), so that no other
// disk is touched; where the kernel has no such bound (before 6.2), on all disks together. Called
// by bring_up (set), the daemon (keep) and release (remove).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {

/// Where the kernel shows itself; tests have folders of their own.
struct KernelFiles {
  std::string sys = "/sys";
  std::string vmstat = "/proc/vmstat";
  std::string vm = "/proc/sys/vm";
  std::string before = kVmBefore;  ///< what of vm was set before us
};

class DirtyBound {
 public:
  /// No bound: keep and remove do nothing.
  DirtyBound() = default;

  /// The backing device of a mounted root on `disk` ("nvme1n1") or one of its partitions; btrfs has
  /// one of its own. Errors: gone when the kernel shows none.
  static Result<DirtyBound> find(const std::string& disk, const std::string& filesystem,
                                 KernelFiles files = {});

  /// Sets the bound; returns it in words. From Linux 6.2 on of the device, in bytes and strict;
  /// before as vm.dirty_bytes, because a device's percentage (max_ratio) is heeded only while more
  /// is dirty altogether than half of a limit that grows with the memory. Where the kernel's own
  /// limit for everything is lower already, nothing is changed. Errors: errno's; keep tries again
  /// then.
  Result<std::string> set(std::uint64_t bytes);

  /// The kernel keeps the bound as a share of its own limit, which moves with the memory that is
  /// free: sets it again once it has moved by more than a tenth, or is needed now. What somebody
  /// else has set for all disks since stays. Returns what holds from now on, in words, where that
  /// is not what was said last. Cheap.
  std::optional<std::string> keep();

  /// The kernel's defaults again, also where a process that is gone has set the bound.
  Ok remove();

 private:
  Ok change(const char* attribute, const std::string& value) const;
  bool has_strict_bytes() const;
  bool is_ours_of_all_disks(std::uint64_t bytes) const;
  Result<std::string> apply(std::uint64_t bytes) const;
  Result<std::string> set_of_all_disks(std::uint64_t bytes) const;
  Ok restore_of_all_disks() const;
  std::uint64_t kernel_limit_bytes() const;

  KernelFiles files_;
  std::string folder_;              ///< empty: none
  std::uint64_t wanted_bytes_ = 0;  ///< 0: nothing
  std::string said_;                ///< what holds, in words; empty: nothing does
};

}  // namespace warmroot::bootstrap
