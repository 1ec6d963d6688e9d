// The calls that may wait in the kernel for ever when a volume is given back: to unmount, and to
// open its disk. Each has a thread of its own, and is given up and named when its time is over.
// Unmounting takes the paths that the kernel reports for the mounts themselves, and is never lazy.
// Called by release, which keeps the time, and by whoever undoes a mount.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/unmount_order.hpp"

namespace warmroot::bootstrap {

struct UnmountCall;

/// One that may not have ended.
struct PendingUnmount {
  TreeMount mount;
  bool forced = false;
  std::shared_ptr<UnmountCall> call;
  std::future<int> error_number;  ///< 0, or errno
  bool is_detached = false;       ///< in no mount table any more
};

/// Times are by boottime_ms().
struct UnmountRound {
  std::string point;
  std::vector<dev_t> devices;  ///< of the disk, beside that of what was mounted at `point` first
  std::int64_t force_ms = 0;   ///< until then nothing is forced
  std::int64_t end_ms = 0;
  bool keep_top = false;  ///< what is mounted at `point` itself stays
};

/// One that begins now and is no release's, where nobody sets an end: 30 s, and nothing is forced
/// in the first two.
UnmountRound round_from_now(std::string point, std::vector<dev_t> devices = {});

/// Kept over the attempts of a release: what waits is waited for, and not called once more.
class VolumeUnmount {
 public:
  /// Unmounts everything at the point and below; no symbolic link leads it out of there. One that
  /// hangs leaves time for the others, which are tried beside it. Success: nothing is mounted there
  /// any more, and of the disk's mounts none is still on its way out. Another's that is may stay
  /// so, because it holds nothing of the volume. Behind the end no more than one is begun that
  /// hangs, and half a second later no other, so that somebody may mount as much as they like.
  /// Errors: errno's of what is held, forcible ones first; retry_later, naming what hangs in the
  /// kernel, or with how many mounts are left.
  Ok round(const UnmountRound& order);
  /// One of the disk's mounts is in no mount table any more, and has not been unmounted to the end.
  bool is_under_way() const;
  /// For the timeline, behind `first`, which may be empty: what was forced, and what hangs although
  /// nothing is mounted any more.
  std::string remarks(const std::string& first) const;
  /// check_device_free. Errors: its, or retry_later where the disk does not answer.
  Ok check_free(const std::string& node, std::int64_t end_ms);

 private:
  void forget_ended();
  void let_go_of_gone(const std::vector<TreeMount>& there);
  Ok wait_for_disk(std::int64_t end_ms);
  bool unmount_each(const std::vector<TreeMount>& mounts, const UnmountRound& order,
                    std::int64_t stop_ms, std::optional<Error>& held);
  Result<bool> unmount(const TreeMount& mount, const UnmountRound& order);

  std::vector<PendingUnmount> pending_;
  std::vector<std::string> forced_;
  std::future<Ok> opened_;  ///< check_free's
};

/// Unmounts everything below `point`, and then `point` itself unless `keep_top`, in one round that
/// begins now. Nothing mounted there is success. Errors: VolumeUnmount::round's.
Ok unmount_tree(const std::string& point, bool keep_top = false);

/// The directory that a path of the mount table is in, O_PATH; invalid, with errno, where a
/// symbolic link is on the way. Those of the table have none: one that stands there by now is the
/// volume's, and would lead elsewhere.
UniqueFd open_parent(const std::string& path);

/// Succeeds when nothing in any mount namespace holds the device (umount reports success while
/// another namespace still has it mounted). Errors: refused (EBUSY).
Ok check_device_free(const std::string& node);

}  // namespace warmroot::bootstrap
