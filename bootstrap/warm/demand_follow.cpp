#include "bootstrap/warm/demand_follow.hpp"

#include <algorithm>

namespace warmroot::warm {
namespace {

/// Files that a session is in at a time.
constexpr std::size_t kStreams = 16;
/// Of the span, what lies before the missed block: pages of a program are not touched in order.
constexpr Block kBeforePart = 4;

}  // namespace

std::vector<Block> DemandFollow::missed(Block block, const BlockSet& present,
                                        const BlockSet& wanted, Block most) {
  Block span = std::min(kLeast, most);
  const auto same = std::find_if(streams_.begin(), streams_.end(), [block](const Stream& stream) {
    return block + stream.span >= stream.next && block <= stream.next + kLeast;
  });
  if (same != streams_.end()) {
    span = std::min(2 * same->span, most);
    streams_.erase(same);
  }
  if (streams_.size() == kStreams) streams_.erase(streams_.begin());
  std::vector<Block> blocks;
  const auto add = [&](std::uint64_t at) {
    if (at >= present.size() || present.contains(static_cast<Block>(at))) return;
    if (wanted.size() > at && !wanted.contains(static_cast<Block>(at))) return;
    blocks.push_back(static_cast<Block>(at));
  };
  for (std::uint64_t i = 1; i <= span; ++i) {
    add(std::uint64_t{block} + i);
    if (i <= span / kBeforePart && i <= block) add(block - i);
  }
  streams_.push_back({block + span, span});
  return blocks;
}

}  // namespace warmroot::warm
