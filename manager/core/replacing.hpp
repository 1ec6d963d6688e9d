// EC2's rebalance recommendation, for pools that ask to act on it: a replacement is launched first,
// and only when it runs is the old instance asked to hand over, so many at a time as a rollout may
// interrupt. By default nobody acts: a recommendation often never becomes an interruption.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Marks the nodes that want a replacement (NodeDraft::replacing). Before launching counts.
void mark_replaced(Draft& draft);

/// Asks the instances of marked nodes to drain for which a replacement stands by. After leasing.
void hand_over(Draft& draft);

}  // namespace warmroot::core
