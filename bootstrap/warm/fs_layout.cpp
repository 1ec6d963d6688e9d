#include "bootstrap/warm/fs_layout.hpp"

#include <algorithm>

#include "bootstrap/warm/xfs_super.hpp"

namespace warmroot::warm {
namespace {

constexpr std::uint16_t kInodeTableUninit = 1;
constexpr std::uint16_t kBlockBitmapUninit = 2;
/// 64 TiB in groups of 128 MiB have 32 MiB; whoever reads them has them in memory.
constexpr std::uint64_t kMostDescriptorBytes = std::uint64_t{128} << 20;

/// The journal's extents from the copy of its inode's i_block that mke2fs leaves in the superblock.
std::vector<ByteRange> journal_ranges(std::string_view super, const ExtSuper& ext) {
  constexpr std::size_t kCopyAt = 0x10C;
  constexpr std::size_t kCopyBytes = 60;
  constexpr std::uint64_t kHoldsCopy = 1;
  constexpr std::size_t kDepthAt = 6;
  if (little(super, 0xFD, 1) != kHoldsCopy || little(super, kCopyAt + kDepthAt, 2) != 0) return {};
  return ext_extents(super.substr(kCopyAt, kCopyBytes), ext);
}

}  // namespace

FsSummary summarise_superblock(std::string_view first_bytes) {
  FsSummary summary;
  if (first_bytes.size() < kSuperblockBytes) return summary;
  summary.size_bytes = parse_xfs(first_bytes).size_bytes;
  if (summary.size_bytes > 0) return summary;
  const ExtSuper ext = parse_ext(first_bytes);
  if (ext.groups == 0) return summary;
  summary.size_bytes = ext.blocks * ext.block_bytes;
  summary.journal = journal_ranges(first_bytes.substr(kExtSuperAt, kExtSuperBytes), ext);
  if (!ext.meta_bg) {
    const std::uint64_t offset = ext.descriptor(0).offset;
    const std::uint64_t length = ext.groups * ext.descriptor_bytes;
    if (offset + length <= summary.size_bytes && length <= kMostDescriptorBytes)
      summary.descriptors = {offset, length};
  }
  return summary;
}

namespace {

/// The block whose number is in two halves of the descriptor; the file system's end when it leaves
/// it.
std::uint64_t byte_named(const ExtSuper& ext, std::string_view descriptor, std::size_t low,
                         std::size_t high) {
  const std::uint64_t block =
      little(descriptor, low, 4) | (ext.wide ? little(descriptor, high, 4) << 32 : 0);
  return block < ext.blocks ? block * ext.block_bytes : ext.end_bytes();
}

std::uint64_t uninit_flags(const ExtSuper& ext, std::string_view descriptor) {
  return ext.lazy_tables ? little(descriptor, 0x12, 2) : 0;
}

}  // namespace

ExtBitmaps ext_bitmaps(const ExtSuper& ext, std::string_view descriptor) {
  if (descriptor.size() < ext.descriptor_bytes) return {};
  const std::uint64_t flags = uninit_flags(ext, descriptor);
  const auto bitmap = [&](std::uint64_t uninit, std::size_t low, std::size_t high) {
    const std::uint64_t at = byte_named(ext, descriptor, low, high);
    const bool is_there = (flags & uninit) == 0 && at < ext.end_bytes();
    return is_there ? ByteRange{at, ext.block_bytes} : ByteRange{};
  };
  return {bitmap(kBlockBitmapUninit, 0x00, 0x20), bitmap(kInodeTableUninit, 0x04, 0x24)};
}

FsMetadata ext_metadata(std::string_view first_bytes, std::string_view descriptors) {
  FsMetadata metadata;
  const ExtSuper ext = parse_ext(first_bytes);
  const std::uint64_t end = ext.blocks * ext.block_bytes;
  std::vector<ByteRange> inode_bitmaps;
  for (std::uint64_t group = 0; group < ext.groups; ++group) {
    if ((group + 1) * ext.descriptor_bytes > descriptors.size()) break;
    const std::string_view descriptor = descriptors.substr(group * ext.descriptor_bytes);
    const std::uint64_t flags = uninit_flags(ext, descriptor);
    std::uint64_t unused = 0;
    if (ext.lazy_tables)
      unused = little(descriptor, 0x1C, 2) | (ext.wide ? little(descriptor, 0x32, 2) << 16 : 0);
    if ((flags & kInodeTableUninit) != 0) unused = ext.inodes_per_group;
    unused = std::min(unused, ext.inodes_per_group);
    const std::uint64_t used_bytes = (ext.inodes_per_group - unused) * ext.inode_bytes;
    const std::uint64_t table = byte_named(ext, descriptor, 0x08, 0x28);
    const ExtBitmaps bitmaps = ext_bitmaps(ext, descriptor);
    append_range(metadata.bitmaps, bitmaps.blocks, end);
    append_range(inode_bitmaps, bitmaps.inodes, end);
    append_range(metadata.inode_tables, {table, used_bytes}, end);
    append_range(metadata.unused_tables, {table + used_bytes, unused * ext.inode_bytes}, end);
  }
  metadata.bitmaps.insert(metadata.bitmaps.end(), inode_bitmaps.begin(), inode_bitmaps.end());
  return metadata;
}

}  // namespace warmroot::warm
