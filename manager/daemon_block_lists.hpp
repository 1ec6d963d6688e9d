// Whose lists the daemon keeps: block lists of the pools' snapshots, which it fetches from EBS
// direct, and hot lists of the lineages in use.
#pragma once

#include <set>
#include <string>

#include "manager/aws/http_transport.hpp"
#include "manager/block_lists.hpp"
#include "manager/config.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// Lists with the connection's credentials and endpoint, and logs what came of it. `connection`
/// outlives it.
BlockListHooks ebs_block_lists(const aws::Connection& connection);

/// The snapshots that the pools' volumes are made from, as far as they are known: of pools that
/// warm, and do not say block_list = false.
std::set<std::string> snapshots_to_list(const Config& config, const core::Observed& observed);

/// The lineages of the volumes that there are, and those that the pools' next ones will have.
std::set<std::string> lineages_in_use(const Config& config, const core::Observed& observed);

}  // namespace warmroot::manager
