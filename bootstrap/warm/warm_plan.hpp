// The order in which absent blocks are read: a recorded hot list first, then what every path walk
// needs, then the rest. Called by the warmer once the needed set is known. Pure.
#pragma once

#include <span>
#include <vector>

#include "bootstrap/warm/block_set.hpp"

namespace warmroot::warm {

struct PlanInput {
  const BlockSet* needed = nullptr;
  const BlockSet* present = nullptr;  ///< read already
  std::span<const Block> hot;  ///< in first-use order; read even where not needed, if on the device
  std::span<const ByteRange> metadata;  ///< on the device, in reading order
  std::span<const ByteRange>
      last;                        ///< on the device; blocks that hold nothing else come at the end
  const BlockSet* used = nullptr;  ///< where given, needed blocks outside it come last of all
};

/// Every needed or hot block that is not present, once each: hot in its order, then metadata in its
/// order, then ascending, then those that lie entirely in `last`, then those that nobody uses.
/// Requires sets of one size.
std::vector<Block> plan_reads(const PlanInput& input);

}  // namespace warmroot::warm
