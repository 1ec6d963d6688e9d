// Asks a mounted file system which bytes of its device are free (FS_IOC_GETFSMAP: ext4, xfs;
// Linux 4.12). Called by the warmer. Records of what is *used* are not offered on purpose: ext4's
// have gaps, see needed_blocks.hpp.
#pragma once

#include <atomic>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

/// Free ranges relative to the file system's start; those shorter than a block of the grid may be
/// left out. On a cold ext4 the kernel reads every block bitmap, on a cold xfs each group's tree of
/// free space, one block after the other: read them before. The calling thread lacks CAP_SYS_ADMIN
/// meanwhile. Errors: refused when this file system cannot say; retry_later once `unwanted` (may be
/// null) is set, which may take some seconds on a cold one; otherwise the ioctl's.
Result<std::vector<ByteRange>> free_ranges(int mount_fd,
                                           const std::atomic<bool>* unwanted = nullptr);

}  // namespace warmroot::warm
