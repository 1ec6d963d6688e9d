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

/// What all instances of the pool have in common: everything but count, zone, type, price, token
/// and tags.
aws::RunInstances launch_contents(const Observed& observed, const PoolSpec& pool);

/// One instance of the pool's first type in its first zone, for a dry run: it has no token. Its
/// tags are a real launch's, because IAM policies ask for them.
aws::RunInstances probe_call(const Observed& observed, const std::string& deployment,
                             const PoolSpec& pool);

/// Where the pool's spec has it launched in that zone.
void set_zone(aws::RunInstances& call, const LaunchSpec& spec, const std::string& zone);

/// Each instance of the call comes with a new volume of the pool, which no node has yet.
void add_volume(aws::RunInstances& call, const std::string& deployment, const PoolSpec& pool,
                const std::string& snapshot_id);

/// run_call(), and each instance comes with a new volume of the pool.
aws::RunInstances run_call_with_volumes(const Draft& draft, const PoolDraft& pool,
                                        const Offer& offer, const std::vector<std::string>& nodes);

/// One CreateFleet for these nodes, in which EC2 chooses among `offers`.
aws::CreateFleet fleet_call(const Draft& draft, const PoolSpec& pool,
                            const std::string& template_id, const std::vector<PricedOffer>& offers,
                            const std::vector<std::string>& nodes);

/// "p-0, p-1 have no instance; g5.xlarge costs 0.41 USD an hour".
std::string why_launched(const std::vector<std::string>& nodes, const ZoneOffers& offers);

}  // namespace warmroot::core
