#include "bootstrap/warm/list_reader.hpp"

#include <algorithm>

#include "bootstrap/warm/warm_plan.hpp"

namespace warmroot::warm {

Result<ReadPump::End> ListReader::read(std::span<const Block> order,
                                       const ReadPump::Enough& enough) {
  return pump_.read(order, stop_, enough);
}

std::vector<Block> ListReader::absent_of(std::span<const ByteRange> ranges) const {
  BlockSet blocks(presence_.size());
  for (const ByteRange& range : ranges) blocks.insert_range(range);
  return plan_reads({&blocks, &presence_.present(), {}, ranges, {}});
}

bool ListReader::have_ended(std::span<const Block> blocks) const {
  return std::ranges::all_of(
      blocks, [this](Block block) { return presence_.contains(block) || !asked_.contains(block); });
}

bool ListReader::is_wanted(Block block) {
  if (presence_.contains(block) || asked_.contains(block)) return false;
  asked_.insert(block);
  return true;
}

}  // namespace warmroot::warm
