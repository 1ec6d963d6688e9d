#include "bootstrap/warm/warm_plan.hpp"

#include "bootstrap/base/result.hpp"

namespace warmroot::warm {
namespace {

/// Blocks of which every byte lies in the (ascending, merged) ranges.
BlockSet covered_blocks(Block size, std::span<const ByteRange> ranges) {
  BlockSet covered(size);
  for (const ByteRange& range : ranges) {
    const std::uint64_t first = (range.offset + kGridBytes - 1) / kGridBytes * kGridBytes;
    const std::uint64_t end = (range.offset + range.length) / kGridBytes * kGridBytes;
    if (end > first) covered.insert_range({first, end - first});
  }
  return covered;
}

}  // namespace

std::vector<Block> plan_reads(const PlanInput& input) {
  CHECK(input.needed != nullptr && input.present != nullptr);
  const Block size = input.needed->size();
  std::vector<Block> order;
  BlockSet taken = *input.present;
  for (const Block block : input.hot) {
    if (block >= size || taken.contains(block)) continue;
    order.push_back(block);
    taken.insert(block);
  }
  BlockSet left = input.needed->difference(taken);
  order.reserve(order.size() + left.count());
  const BlockSet unused = input.used != nullptr ? left.difference(*input.used) : BlockSet(size);
  left = left.difference(unused);
  for (const ByteRange& range : input.metadata) {
    if (range.length == 0) continue;
    const std::uint64_t last = (range.offset + range.length - 1) / kGridBytes;
    for (std::uint64_t block = range.offset / kGridBytes; block <= last && block < size; ++block) {
      if (!left.contains(static_cast<Block>(block))) continue;
      order.push_back(static_cast<Block>(block));
      left.erase(static_cast<Block>(block));
    }
  }
  const BlockSet covered = covered_blocks(size, input.last);
  for (const Block block : left.difference(covered).members()) order.push_back(block);
  for (const Block block : left.intersection(covered).members()) order.push_back(block);
  for (const Block block : unused.members()) order.push_back(block);
  return order;
}

}  // namespace warmroot::warm
