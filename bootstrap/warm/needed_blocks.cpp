#include "bootstrap/warm/needed_blocks.hpp"

#include <algorithm>

namespace warmroot::warm {

void add_free(std::vector<ByteRange>& free, ByteRange range) {
  if (!free.empty() && free.back().offset + free.back().length == range.offset) {
    free.back().length += range.length;
    return;
  }
  if (!free.empty() && free.back().length < kGridBytes) free.pop_back();
  free.push_back(range);
}

BlockSet needed_blocks(const RootGeometry& geometry, std::span<const ByteRange> free) {
  BlockSet needed(grid_blocks(geometry.device_bytes));
  const std::uint64_t start = std::min(geometry.partition.offset, geometry.device_bytes);
  const std::uint64_t partition_bytes =
      std::min(geometry.partition.length, geometry.device_bytes - start);
  const std::uint64_t size =
      geometry.fs_bytes == 0 ? partition_bytes : std::min(geometry.fs_bytes, partition_bytes);
  needed.insert_range({0, std::min(start, kBeforePartitionsBytes)});

  std::vector<ByteRange> sorted(free.begin(), free.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  std::uint64_t reached = 0;  // everything before it is accounted for
  for (const ByteRange& range : sorted) {
    if (range.offset >= size) break;
    if (range.offset > reached) needed.insert_range({start + reached, range.offset - reached});
    const std::uint64_t end = range.offset + std::min(range.length, size - range.offset);
    reached = std::max(reached, end);
  }
  if (reached < size) needed.insert_range({start + reached, size - reached});
  return needed;
}

}  // namespace warmroot::warm
