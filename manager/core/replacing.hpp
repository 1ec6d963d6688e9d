// EC2's rebalance recommendation, for pools that ask to act on it: a replacement is launched first,
// and only when it runs is the old instance asked to hand over (retiring), so many at a time as a
// rollout may interrupt. By default nobody acts: a recommendation often never becomes an
// interruption.
#pragma once

#include <set>
#include <string>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// The instances that are replaced now because of a hint, the earliest hints first. Requires: the
/// draft's pools.
std::set<std::string> replaced_now(Draft& draft);

}  // namespace warmroot::core
