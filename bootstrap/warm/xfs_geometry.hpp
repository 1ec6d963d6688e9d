// How xfs numbers its blocks and inodes: what the kernel tells of a mounted one, and where an inode
// lies by its number. For file_places, which asks, and volume_grow. Pure. Source:
// fs/xfs/libxfs/xfs_fs.h (not in the kernel's exported headers), XFS_INO_TO_FSB in xfs_mount.h.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>
#include <optional>

namespace warmroot::warm {

/// The ioctl's first version, which every kernel knows.
struct XfsGeometry {
  std::uint32_t blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct;
  std::uint64_t datablocks, rtblocks, rtextents, logstart;
  unsigned char uuid[16];
  std::uint32_t sunit, swidth;
  std::int32_t version;
  std::uint32_t flags, logsectsize, rtsectsize, dirblocksize;
};
static_assert(sizeof(XfsGeometry) == 112);
inline constexpr unsigned long kXfsGeometry = _IOR('X', 100, XfsGeometry);

/// The most that xfs reads at once for an inode: a cluster of 32.
inline constexpr std::uint64_t kMostXfsInodeRead = 64 * 1024;

/// The inode's first byte, from the file system's start; nullopt where numbers and geometry do not
/// fit. The number of groups is not looked at: xfs grows while it is mounted.
std::optional<std::uint64_t> xfs_inode_byte(const XfsGeometry& xfs, std::uint64_t inode);

}  // namespace warmroot::warm
