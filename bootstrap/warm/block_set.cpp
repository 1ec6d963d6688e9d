#include "bootstrap/warm/block_set.hpp"

#include <algorithm>
#include <bit>

#include "bootstrap/base/result.hpp"

namespace warmroot::warm {

Block BlockSet::count() const {
  Block total = 0;
  for (const std::uint64_t word : words_) total += static_cast<Block>(std::popcount(word));
  return total;
}

std::vector<Block> blocks_of(ByteRange range, Block size) {
  std::vector<Block> blocks;
  if (range.length == 0) return blocks;
  const std::uint64_t last =
      range.length - 1 > UINT64_MAX - range.offset ? UINT64_MAX : range.offset + (range.length - 1);
  for (std::uint64_t block = range.offset / kGridBytes; block <= last / kGridBytes && block < size;
       ++block)
    blocks.push_back(static_cast<Block>(block));
  return blocks;
}

bool BlockSet::contains_range(ByteRange range) const {
  return std::ranges::all_of(blocks_of(range, size_),
                             [this](Block block) { return contains(block); });
}

void BlockSet::insert_range(ByteRange range) {
  if (range.length == 0) return;
  const std::uint64_t last_byte =
      range.length - 1 > UINT64_MAX - range.offset ? UINT64_MAX : range.offset + (range.length - 1);
  const std::uint64_t first = range.offset / kGridBytes;
  const std::uint64_t end = std::min<std::uint64_t>(last_byte / kGridBytes + 1, size_);
  for (std::uint64_t block = first; block < end; ++block) insert(static_cast<Block>(block));
}

void BlockSet::insert_all(const BlockSet& other) {
  CHECK(other.size_ == size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

BlockSet BlockSet::intersection(const BlockSet& other) const {
  CHECK(size_ == other.size_);
  BlockSet result = *this;
  for (std::size_t i = 0; i < words_.size(); ++i) result.words_[i] &= other.words_[i];
  return result;
}

BlockSet BlockSet::difference(const BlockSet& other) const {
  CHECK(size_ == other.size_);
  BlockSet result = *this;
  for (std::size_t i = 0; i < words_.size(); ++i) result.words_[i] &= ~other.words_[i];
  return result;
}

std::vector<Block> BlockSet::members() const {
  std::vector<Block> blocks;
  blocks.reserve(count());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
      blocks.push_back(static_cast<Block>(i * 64 + static_cast<unsigned>(std::countr_zero(word))));
  }
  return blocks;
}

void BlockSet::assign_words(std::vector<std::uint64_t> words) {
  CHECK(words.size() == words_.size());
  words_ = std::move(words);
  if (size_ % 64 != 0) words_.back() &= (std::uint64_t{1} << (size_ % 64)) - 1;
}

}  // namespace warmroot::warm
