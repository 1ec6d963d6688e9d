// Rule 6: every node of a pool gets its volume, whether an instance runs for it or not; nodes of a
// rollout get their next one; golden and spare volumes are made ahead of need.
#pragma once

#include <string>
#include <vector>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Runs before leasing: a node without a usable volume takes a spare of its zone.
void take_spares(Draft& draft);

/// Runs last: asks for what is missing.
void stock(Draft& draft);

/// Gives the best fit spare of the node's zone to the node: the ledger first, then its tag. Returns
/// it, or nullptr when there is none or the call may not be made now.
const aws::Volume* take_spare(Draft& draft, PoolDraft& pool, const NodeDraft& node,
                              const std::string& why);

/// The spares of the zone that may be given away now, in the order in which take_spare takes them.
std::vector<std::string> spares_in(Draft& draft, const PoolDraft& pool, const std::string& zone);

/// A spare that is the node's by our record and not yet by its tag: nobody may attach it before.
bool awaits_its_tag(const aws::Volume& volume);

/// All spares and golden volumes that the spec asks for are there or coming.
bool stock_settled(const PoolDraft& pool);
/// The same for one subject, e.g. of a refused create.
bool stock_settled(const PoolDraft& pool, const StockSubject& subject);

}  // namespace warmroot::core
