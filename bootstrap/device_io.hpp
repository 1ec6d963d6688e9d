// The effects behind device: reading sysfs, kernel uevents, asking the opened device who it is,
// queue limits.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/ebs_statistics.hpp"

namespace warmroot::bootstrap {

/// Whole disks below `sys_root` ("/sys"), sorted by name; loop, RAM and device-mapper disks are
/// left out. A disk holds the base when one of `mounted` ("259:1") is it or one of its partitions,
/// or when something is stacked on it.
std::vector<DiskFacts> scan_disks(const std::string& sys_root, const std::set<std::string>& mounted,
                                  const std::set<std::string>& present_at_start);

/// All of them now, by what this process sees mounted, with the names that EC2 gave those which do
/// not hold the base.
std::vector<DiskFacts> named_disks(const std::string& sys_root,
                                   const std::set<std::string>& present_at_start);

/// As the disk is now.
DiskIdentity identify_disk(const std::string& sys_root, const std::string& disk_name);

/// Whether the disk was taken away: what is mounted of it answers errors only, also when it is
/// attached again, as another disk. Looks twice, with `pause` in between, and a look that fails for
/// another reason (no memory, something mounted over /sys) counts for nothing: sessions end without
/// a warning for it. False when `pause` answers that it was cut short.
bool disk_has_gone(const std::string& sys_root, const DiskIdentity& disk,
                   const std::function<bool()>& pause);

/// Whether these are numbers of the disk and of its partitions, and it is known to be the one that
/// it was, as from Linux 5.15 on. Those of file systems that have none of a disk's (a btrfs) do not
/// count.
bool are_of_disk(const std::string& sys_root, const DiskIdentity& disk,
                 std::span<const dev_t> devices);

/// The kernel's own uevents. Open it before scanning sysfs, or a disk that appears in between is
/// missed.
class UeventSocket {
 public:
  static Result<UeventSocket> open();
  /// Waits until a block device event came, the limit passed, or something unreadable was lost; the
  /// caller rescans in any case.
  void wait(std::chrono::milliseconds limit) const;

 private:
  explicit UeventSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// What an NVMe controller says of itself (identify controller, reference ec2.md 2.6).
struct NvmeIdentity {
  std::string serial;
  std::string mapped_name;  ///< EBS puts EC2's device name there; empty elsewhere
};

/// Errors: errno's; gone when the descriptor is no NVMe device.
Result<NvmeIdentity> identify_nvme(int fd);

/// EBS' own counters of an attached volume. Errors: errno's; refused by devices that keep none.
Result<EbsStatistics> read_ebs_statistics(const std::string& disk_node);

/// Opens the disk and reads its serial again from the opened device, because names and links can
/// point at another disk by now. Errors: refused when it is not the disk that was chosen.
Result<UniqueFd> open_verified(const std::string& sys_root, const DiskFacts& disk);

/// Requests of a cold volume can stall for longer than the 30 s after which the NVMe driver resets
/// the controller: sets the time limit to the value of EC2's own udev rules. Errors: gone when the
/// driver has no such limit.
Ok raise_io_timeout(const std::string& sys_root, const std::string& disk_name);

}  // namespace warmroot::bootstrap
