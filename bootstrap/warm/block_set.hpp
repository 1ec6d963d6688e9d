// The grid of hydration blocks over a whole device, and sets of its blocks. Used by the map, the
// needed set and the plan. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace warmroot::warm {

/// A run of bytes on the whole device.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  bool operator==(const ByteRange&) const = default;
};

/// EBS brings data from S3 in blocks of 512 KiB, aligned to the device, not to the partition.
/// Source: EBS direct APIs' block size; unproven for volumes, so the warmer probes it at run time.
inline constexpr std::uint64_t kGridBytes = 512 * 1024;

/// Number of a grid block. 32 bits reach 2 EiB.
using Block = std::uint32_t;

/// How many grid blocks a device of `device_bytes` has; the last may be cut short.
constexpr Block grid_blocks(std::uint64_t device_bytes) {
  return static_cast<Block>((device_bytes + kGridBytes - 1) / kGridBytes);
}

/// Every block below `size` that shares a byte with the range, ascending.
std::vector<Block> blocks_of(ByteRange range, Block size);

/// A set of the blocks 0 .. size-1, one bit each: 256 KiB for a device of 1 TiB.
class BlockSet {
 public:
  BlockSet() = default;
  explicit BlockSet(Block size) : size_(size), words_((size + std::uint64_t{63}) / 64) {}

  Block size() const { return size_; }
  /// How many blocks are in the set; a popcount over all words.
  Block count() const;
  /// Requires block < size().
  bool contains(Block block) const { return (words_[block / 64] >> (block % 64)) & 1U; }
  void insert(Block block) { words_[block / 64] |= std::uint64_t{1} << (block % 64); }
  void erase(Block block) { words_[block / 64] &= ~(std::uint64_t{1} << (block % 64)); }
  void clear() { words_.assign(words_.size(), 0); }

  /// Whether each block that shares a byte with the range is in the set, or beyond it.
  bool contains_range(ByteRange range) const;

  /// Inserts every block that shares a byte with the range; what lies beyond the set is left out.
  void insert_range(ByteRange range);

  /// Inserts the other set's blocks. Requires equal sizes.
  void insert_all(const BlockSet& other);

  /// The sets' common blocks. Requires equal sizes.
  BlockSet intersection(const BlockSet& other) const;
  /// Blocks of this set that `other` lacks. Requires equal sizes.
  BlockSet difference(const BlockSet& other) const;

  /// The members in ascending order.
  std::vector<Block> members() const;

  const std::vector<std::uint64_t>& words() const { return words_; }
  /// Replaces the content; bits at and beyond size() are dropped. Requires as many words as words()
  /// has.
  void assign_words(std::vector<std::uint64_t> words);

  bool operator==(const BlockSet&) const = default;

 private:
  Block size_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace warmroot::warm
