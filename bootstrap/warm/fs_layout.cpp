#include "bootstrap/warm/fs_layout.hpp"

#include <algorithm>

namespace warmroot::warm {
namespace {

constexpr std::size_t kExtSuperAt = 1024;
constexpr std::uint16_t kExtMagic = 0xEF53;
constexpr std::uint32_t kIncompatMetaBg = 0x10;
constexpr std::uint32_t kIncompat64Bit = 0x80;
constexpr std::uint32_t kRoCompatGdtChecksum = 0x10;
constexpr std::uint32_t kRoCompatMetadataChecksum = 0x400;
constexpr std::uint16_t kInodeTableUninit = 1;
constexpr std::uint16_t kBlockBitmapUninit = 2;
constexpr std::uint16_t kExtentMagic = 0xF30A;
constexpr std::uint64_t kMaxGroups = 1U << 22;  // 512 TiB at 128 MiB a group; more is damage

std::uint64_t little(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

std::uint64_t big(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct ExtSuper {
  std::uint64_t blocks = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t first_data_block = 0;
  std::uint64_t blocks_per_group = 0;
  std::uint64_t inodes_per_group = 0;
  std::uint64_t inode_bytes = 0;
  std::uint64_t descriptor_bytes = 0;
  std::uint64_t groups = 0;
  bool wide = false;         // 64-bit block numbers
  bool meta_bg = false;      // descriptors are spread over the device
  bool lazy_tables = false;  // the uninit flags mean something
};

/// Zero groups when these bytes hold no sane ext superblock.
ExtSuper parse_ext(std::string_view first_bytes) {
  if (first_bytes.size() < kSuperblockBytes) return {};
  const std::string_view super = first_bytes.substr(kExtSuperAt, 1024);
  if (little(super, 0x38, 2) != kExtMagic || little(super, 0x18, 4) > 6) return {};
  ExtSuper ext;
  const std::uint64_t incompat = little(super, 0x60, 4);
  const std::uint64_t ro_compat = little(super, 0x64, 4);
  ext.wide = (incompat & kIncompat64Bit) != 0;
  ext.meta_bg = (incompat & kIncompatMetaBg) != 0;
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

/// Keeps lists short (neighbouring bitmaps become one range) and inside the file system.
void append(std::vector<ByteRange>& ranges, ByteRange range, std::uint64_t end) {
  if (range.length == 0 || range.offset >= end || range.length > end - range.offset) return;
  if (!ranges.empty() && ranges.back().offset + ranges.back().length == range.offset)
    ranges.back().length += range.length;
  else
    ranges.push_back(range);
}

/// The journal's extents from the copy of its inode's i_block that mke2fs leaves in the superblock.
std::vector<ByteRange> journal_ranges(std::string_view super, const ExtSuper& ext) {
  constexpr std::size_t kCopyAt = 0x10C;
  constexpr std::uint64_t kHoldsCopy = 1;
  std::vector<ByteRange> ranges;
  if (little(super, 0xFD, 1) != kHoldsCopy || little(super, kCopyAt, 2) != kExtentMagic ||
      little(super, kCopyAt + 6, 2) != 0)
    return ranges;
  const std::uint64_t entries = std::min<std::uint64_t>(little(super, kCopyAt + 2, 2), 4);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::size_t at = kCopyAt + 12 + 12 * i;
    const std::uint64_t start = little(super, at + 8, 4) | little(super, at + 6, 2) << 32;
    if (start >= ext.blocks) continue;
    append(ranges, {start * ext.block_bytes, little(super, at + 4, 2) * ext.block_bytes},
           ext.blocks * ext.block_bytes);
  }
  return ranges;
}

}  // namespace

FsSummary summarise_superblock(std::string_view first_bytes) {
  FsSummary summary;
  if (first_bytes.size() < kSuperblockBytes) return summary;
  if (first_bytes.substr(0, 4) == "XFSB") {
    const std::uint64_t block_bytes = big(first_bytes, 4, 4);
    const std::uint64_t blocks = big(first_bytes, 8, 8);
    if (block_bytes >= 512 && block_bytes <= 65536 && blocks < UINT64_MAX / block_bytes)
      summary.size_bytes = blocks * block_bytes;
    return summary;
  }
  const ExtSuper ext = parse_ext(first_bytes);
  if (ext.groups == 0) return summary;
  summary.size_bytes = ext.blocks * ext.block_bytes;
  summary.journal = journal_ranges(first_bytes.substr(kExtSuperAt, 1024), ext);
  if (!ext.meta_bg) {
    const std::uint64_t offset = (ext.first_data_block + 1) * ext.block_bytes;
    const std::uint64_t length = ext.groups * ext.descriptor_bytes;
    if (offset + length <= summary.size_bytes) summary.descriptors = {offset, length};
  }
  return summary;
}

FsMetadata ext_metadata(std::string_view first_bytes, std::string_view descriptors) {
  FsMetadata metadata;
  const ExtSuper ext = parse_ext(first_bytes);
  const std::uint64_t end = ext.blocks * ext.block_bytes;
  std::vector<ByteRange> inode_bitmaps;
  for (std::uint64_t group = 0; group < ext.groups; ++group) {
    if ((group + 1) * ext.descriptor_bytes > descriptors.size()) break;
    const std::string_view descriptor = descriptors.substr(group * ext.descriptor_bytes);
    const auto block_at = [&](std::size_t low, std::size_t high) {
      const std::uint64_t block =
          little(descriptor, low, 4) | (ext.wide ? little(descriptor, high, 4) << 32 : 0);
      return block < ext.blocks ? block * ext.block_bytes : end;
    };
    const std::uint64_t flags = ext.lazy_tables ? little(descriptor, 0x12, 2) : 0;
    std::uint64_t unused = 0;
    if (ext.lazy_tables)
      unused = little(descriptor, 0x1C, 2) | (ext.wide ? little(descriptor, 0x32, 2) << 16 : 0);
    if ((flags & kInodeTableUninit) != 0) unused = ext.inodes_per_group;
    unused = std::min(unused, ext.inodes_per_group);
    const std::uint64_t used_bytes = (ext.inodes_per_group - unused) * ext.inode_bytes;
    const std::uint64_t table = block_at(0x08, 0x28);
    if ((flags & kBlockBitmapUninit) == 0)
      append(metadata.bitmaps, {block_at(0x00, 0x20), ext.block_bytes}, end);
    if ((flags & kInodeTableUninit) == 0)
      append(inode_bitmaps, {block_at(0x04, 0x24), ext.block_bytes}, end);
    append(metadata.inode_tables, {table, used_bytes}, end);
    append(metadata.unused_tables, {table + used_bytes, unused * ext.inode_bytes}, end);
  }
  metadata.bitmaps.insert(metadata.bitmaps.end(), inode_bitmaps.begin(), inode_bitmaps.end());
  return metadata;
}

}  // namespace warmroot::warm
