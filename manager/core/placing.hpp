// Which zone a node without a volume gets its volume in: where warm free volumes are, then where
// instances are cheap, then where capacity is. Nodes that have a volume are where it is.
#pragma once

#include <string>
#include <vector>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Zones this close in price are equal: spreading nodes is worth more than a few per cent.
inline constexpr int kPriceTolerancePercent = 10;
/// Placement scores this close are equal: they change by one or two from hour to hour.
inline constexpr int kScoreTolerance = 2;

/// Sets the zone of every node that has no volume and for which none was asked.
void place(Draft& draft);

/// Where each of these nodes of the pool would get its volume if it had none.
std::vector<std::string> zones_for(Draft& draft, const PoolDraft& pool,
                                   const std::vector<const NodeDraft*>& nodes);

}  // namespace warmroot::core
