#include "bootstrap/warm/xfs_super.hpp"

#include <algorithm>

#include "bootstrap/warm/fs_layout.hpp"

namespace warmroot::warm {

std::uint64_t big(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

XfsSuper parse_xfs(std::string_view first_bytes) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 63;
  XfsSuper xfs;
  if (first_bytes.size() < kSuperblockBytes || !first_bytes.starts_with("XFSB")) return xfs;
  const std::uint64_t blocks = big(first_bytes, 8, 8);
  xfs.block_bytes = big(first_bytes, 4, 4);
  if (xfs.block_bytes < 512 || xfs.block_bytes > 65536 || blocks > kMostBytes / xfs.block_bytes)
    return xfs;
  xfs.size_bytes = blocks * xfs.block_bytes;
  xfs.log_start = big(first_bytes, 48, 8);
  xfs.root_inode = big(first_bytes, 56, 8);
  xfs.group_blocks = big(first_bytes, 84, 4);
  xfs.log_blocks = big(first_bytes, 96, 4);
  xfs.sector_bytes = big(first_bytes, 102, 2);
  xfs.inodes_per_block_log = static_cast<unsigned>(big(first_bytes, 123, 1));
  xfs.group_blocks_log = static_cast<unsigned>(big(first_bytes, 124, 1));
  const bool sane = xfs.group_blocks > 0 && xfs.inodes_per_block_log <= 8 &&
                    xfs.group_blocks_log > 0 && xfs.group_blocks_log <= 31 &&
                    xfs.group_blocks <= 1ULL << xfs.group_blocks_log;
  if (sane)
    xfs.groups =
        std::min(big(first_bytes, 88, 4), (blocks + xfs.group_blocks - 1) / xfs.group_blocks);
  return xfs;
}

}  // namespace warmroot::warm
