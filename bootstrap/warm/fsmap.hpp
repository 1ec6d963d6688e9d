// Asks a mounted file system which bytes of its device are free (FS_IOC_GETFSMAP: ext4, xfs;
// Linux 4.12). Called by the warmer. Records of what is *used* are not offered on purpose: ext4's
// have gaps, see needed_blocks.hpp.
#pragma once

#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

/// Free ranges relative to the file system's start. On a cold ext4 the kernel reads every block
/// bitmap, one after the other: read them before.
/// Errors: refused when this file system cannot say; otherwise the ioctl's.
Result<std::vector<ByteRange>> free_ranges(int mount_fd);

}  // namespace warmroot::warm
