#include "bootstrap/warm/allocated_bitmaps.hpp"

#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/fs_layout.hpp"

namespace warmroot::warm {

std::optional<AllocatedBitmaps> AllocatedBitmaps::of_disk(const std::string& node,
                                                          std::uint64_t offset) {
  const auto device = BlockDevice::open(node);
  const auto first_bytes = device ? device->read({offset, kSuperblockBytes}) : std::string();
  if (!first_bytes || first_bytes->size() < kSuperblockBytes) return std::nullopt;
  const ExtSuper ext = parse_ext(*first_bytes);
  if (ext.groups == 0 || ext.inodes_per_group == 0 || ext.meta_bg) return std::nullopt;
  return AllocatedBitmaps(node, offset, ext);
}

std::optional<std::uint64_t> AllocatedBitmaps::new_group(const TracedAllocation& allocation) const {
  const bool is_inode = allocation.what == TracedAllocation::What::inode;
  const std::uint64_t first = is_inode ? 1 : ext_.first_data_block;
  if (allocation.number < first) return std::nullopt;
  const std::uint64_t group =
      (allocation.number - first) / (is_inode ? ext_.inodes_per_group : ext_.blocks_per_group);
  if (group >= ext_.groups || known_.contains({allocation.what, group})) return std::nullopt;
  return group;
}

ByteRange AllocatedBitmaps::bitmap_of(TracedAllocation::What what, std::uint64_t group) {
  const auto device = BlockDevice::open(node_);
  ByteRange place = ext_.descriptor(group);
  place.offset += offset_;
  const auto descriptor = device ? device->read(place) : std::string();
  if (!descriptor) return {};
  known_.emplace(what, group);
  const ExtBitmaps bitmaps = ext_bitmaps(ext_, *descriptor);
  return what == TracedAllocation::What::inode ? bitmaps.inodes : bitmaps.blocks;
}

}  // namespace warmroot::warm
