#include "bootstrap/warm/xfs_geometry.hpp"

#include <bit>

namespace warmroot::warm {

/// An inode's number is that of its block, and its place in there; a block's that of its group, and
/// its place in there.
std::optional<std::uint64_t> xfs_inode_byte(const XfsGeometry& xfs, std::uint64_t inode) {
  if (!std::has_single_bit(xfs.blocksize) || !std::has_single_bit(xfs.inodesize) ||
      xfs.inodesize > xfs.blocksize || xfs.agblocks < 2)
    return std::nullopt;
  const std::uint64_t per_block = xfs.blocksize / xfs.inodesize;
  const std::uint64_t block = inode / per_block;
  const int group_bits = std::bit_width(xfs.agblocks - 1);
  const std::uint64_t within = block & ((std::uint64_t{1} << group_bits) - 1);
  if (within >= xfs.agblocks) return std::nullopt;
  return ((block >> group_bits) * xfs.agblocks + within) * xfs.blocksize +
         inode % per_block * xfs.inodesize;
}

}  // namespace warmroot::warm
