// The calls that launch: what of the spec goes into them, and the words for why. Deterministic: the
// same wish gives the same bytes and the same token.
#pragma once

#include <string>
#include <vector>

#include "manager/core/draft.hpp"
#include "manager/core/offers.hpp"

namespace warmroot::core {

/// One RunInstances of `offer` for these nodes.
aws::RunInstances run_call(const Draft& draft, const PoolSpec& pool, const Offer& offer,
                           const std::vector<std::string>& nodes);

/// "p-0, p-1 have no instance; g5.xlarge costs 0.41 USD an hour".
std::string why_launched(const std::vector<std::string>& nodes, const ZoneOffers& offers);

}  // namespace warmroot::core
