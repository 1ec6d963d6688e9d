#include "bootstrap/warm/ext_super.hpp"

#include <algorithm>

#include "bootstrap/warm/fs_layout.hpp"

namespace warmroot::warm {
namespace {

constexpr std::uint16_t kExtMagic = 0xEF53;
constexpr std::uint32_t kIncompatRecover = 0x4;
constexpr std::uint32_t kIncompatMetaBg = 0x10;
constexpr std::uint32_t kIncompat64Bit = 0x80;
constexpr std::uint32_t kRoCompatGdtChecksum = 0x10;
constexpr std::uint32_t kRoCompatMetadataChecksum = 0x400;
constexpr std::uint64_t kMaxGroups = 1U << 22;  // 512 TiB at 128 MiB a group; more is damage
constexpr std::uint64_t kExtentBytes = 12;
/// Lengths above are of extents that are allocated and not written.
constexpr std::uint64_t kLongestExtent = 32768;

}  // namespace

ExtSuper parse_ext(std::string_view first_bytes) {
  if (first_bytes.size() < kSuperblockBytes) return {};
  const std::string_view super = first_bytes.substr(kExtSuperAt, kExtSuperBytes);
  if (little(super, 0x38, 2) != kExtMagic || little(super, 0x18, 4) > 6) return {};
  ExtSuper ext;
  const std::uint64_t incompat = little(super, 0x60, 4);
  const std::uint64_t ro_compat = little(super, 0x64, 4);
  ext.wide = (incompat & kIncompat64Bit) != 0;
  ext.meta_bg = (incompat & kIncompatMetaBg) != 0;
  ext.recover = (incompat & kIncompatRecover) != 0;
  ext.lazy_tables = (ro_compat & (kRoCompatGdtChecksum | kRoCompatMetadataChecksum)) != 0;
  ext.block_bytes = std::uint64_t{1024} << little(super, 0x18, 4);
  ext.blocks = little(super, 0x04, 4) | (ext.wide ? little(super, 0x150, 4) << 32 : 0);
  ext.first_data_block = little(super, 0x14, 4);
  ext.blocks_per_group = little(super, 0x20, 4);
  ext.inodes_per_group = little(super, 0x28, 4);
  ext.inode_bytes = little(super, 0x4C, 4) == 0 ? 128 : little(super, 0x58, 2);
  ext.descriptor_bytes = ext.wide ? little(super, 0xFE, 2) : 32;
  const bool sane = ext.blocks_per_group != 0 && ext.blocks > ext.first_data_block &&
                    ext.blocks < UINT64_MAX / ext.block_bytes && ext.descriptor_bytes >= 32 &&
                    ext.descriptor_bytes <= 1024 && (!ext.wide || ext.descriptor_bytes >= 64);
  if (!sane) return {};
  const std::uint64_t groups =
      (ext.blocks - ext.first_data_block + ext.blocks_per_group - 1) / ext.blocks_per_group;
  if (groups <= kMaxGroups) ext.groups = groups;
  return ext;
}

std::vector<ByteRange> ext_extents(std::string_view i_block, const ExtSuper& ext) {
  std::vector<ByteRange> ranges;
  if (i_block.size() < 12 || little(i_block, 0, 2) != kExtentMagic) return ranges;
  const bool index = little(i_block, 6, 2) != 0;
  const std::uint64_t entries =
      std::min<std::uint64_t>(little(i_block, 2, 2), (i_block.size() - 12) / kExtentBytes);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::size_t at = 12 + kExtentBytes * i;
    const std::uint64_t start = index
                                    ? little(i_block, at + 4, 4) | little(i_block, at + 8, 2) << 32
                                    : little(i_block, at + 8, 4) | little(i_block, at + 6, 2) << 32;
    const std::uint64_t length = index ? 1 : little(i_block, at + 4, 2);
    if (start >= ext.blocks || length > kLongestExtent) continue;
    append_range(ranges, {start * ext.block_bytes, length * ext.block_bytes}, ext.end_bytes());
  }
  return ranges;
}

void append_range(std::vector<ByteRange>& ranges, ByteRange range, std::uint64_t end) {
  if (range.length == 0 || range.offset >= end || range.length > end - range.offset) return;
  if (!ranges.empty() && ranges.back().offset + ranges.back().length == range.offset)
    ranges.back().length += range.length;
  else
    ranges.push_back(range);
}

}  // namespace warmroot::warm
