// Rule 1: who is who. Which volume is a node's own, which instances belong to a pool, what was
// recorded and is not shown, what carries our tags without a record; and the freeze when too much
// is gone at once.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Fills nodes' volumes and pools' instances, adopts what is provably ours, and sets Draft::frozen.
void take_census(Draft& draft);

/// The index in "imagenet-3" of pool "imagenet"; nullopt when `node` is no node name of that pool.
std::optional<int> node_index(const std::string& pool, const std::string& node);

}  // namespace warmroot::core
