#include "bootstrap/warm/fsmap.hpp"

#include <linux/capability.h>
#include <linux/fsmap.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bootstrap/base/free_deleter.hpp"
#include "bootstrap/warm/needed_blocks.hpp"

namespace warmroot::warm {
namespace {

/// Between two calls somebody may not want to know any more: with cold bitmaps the kernel takes a
/// first touch for each group of 128 MiB. Where it answers fast, more are asked for at a time, as
/// it lists all groups at each call.
constexpr unsigned kFirstRecords = 128, kMostRecords = 8192;
constexpr auto kFastCall = std::chrono::milliseconds(50);

/// The kernel's own encoding of device numbers (new_encode_dev), as GETFSMAP returns them.
std::uint32_t encoded_device(dev_t device) {
  const std::uint32_t low = minor(device);
  return (low & 0xff) | (static_cast<std::uint32_t>(major(device)) << 8) | ((low & ~0xffU) << 12);
}

/// The calling thread without CAP_SYS_ADMIN, to whose bearers xfs tells owners: it would walk its
/// tree of those, which is many times as large as that of what is free. Where this fails, the
/// answer only takes longer.
class WithoutSysAdmin {
 public:
  WithoutSysAdmin() {
    if (::syscall(SYS_capget, &header_, before_) != 0) return;
    __user_cap_data_struct without[_LINUX_CAPABILITY_U32S_3] = {before_[0], before_[1]};
    without[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective &= ~CAP_TO_MASK(CAP_SYS_ADMIN);
    changed_ = ::syscall(SYS_capset, &header_, without) == 0;
  }
  ~WithoutSysAdmin() {
    if (changed_) ::syscall(SYS_capset, &header_, before_);
  }
  WithoutSysAdmin(const WithoutSysAdmin&) = delete;
  WithoutSysAdmin& operator=(const WithoutSysAdmin&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[_LINUX_CAPABILITY_U32S_3] = {};
  bool changed_ = false;
};

}  // namespace

Result<std::vector<ByteRange>> free_ranges(int mount_fd, const std::atomic<bool>* unwanted) {
  struct stat status {};
  if (::fstat(mount_fd, &status) != 0) return fail_errno("looking at the mount");
  const std::unique_ptr<fsmap_head, FreeDeleter> head(
      static_cast<fsmap_head*>(std::calloc(1, fsmap_sizeof(kMostRecords))));
  if (!head) return fail(ErrorKind::broken, "no memory for the free list");
  head->fmh_count = kFirstRecords;
  // All ones but the length: xfs answers EINVAL to a high key with a length.
  fsmap& high = head->fmh_keys[1];
  std::memset(&high, 0xff, sizeof high);
  high.fmr_length = 0;
  std::memset(high.fmr_reserved, 0, sizeof high.fmr_reserved);

  const WithoutSysAdmin plain;
  std::vector<ByteRange> free;
  for (;;) {
    if (unwanted != nullptr && *unwanted) return fail(ErrorKind::retry_later, "asked to stop");
    const auto asked = std::chrono::steady_clock::now();
    if (::ioctl(mount_fd, FS_IOC_GETFSMAP, head.get()) != 0) {
      if (errno == ENOTTY || errno == EOPNOTSUPP)
        return fail(ErrorKind::refused, "the file system does not say what is free");
      return fail_errno("FS_IOC_GETFSMAP");
    }
    const bool has_numbers = (head->fmh_oflags & FMH_OF_DEV_T) != 0;
    bool last = head->fmh_entries == 0;
    for (unsigned i = 0; i < head->fmh_entries; ++i) {
      const fsmap& record = head->fmh_recs[i];
      last = last || (record.fmr_flags & FMR_OF_LAST) != 0;
      if ((record.fmr_flags & FMR_OF_SPECIAL_OWNER) == 0 || record.fmr_owner != FMR_OWN_FREE)
        continue;
      // An external log or real-time device has records, too.
      if (has_numbers && record.fmr_device != encoded_device(status.st_dev)) continue;
      add_free(free, {record.fmr_physical, record.fmr_length});
    }
    if (last) return free;
    fsmap_advance(head.get());
    if (std::chrono::steady_clock::now() - asked < kFastCall)
      head->fmh_count = std::min(2 * head->fmh_count, kMostRecords);
  }
}

}  // namespace warmroot::warm
