// What may go when a pool that the spec does not name any more is deleted, and what keeps it.
// `warmroot pool delete` asks it. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "manager/core/model.hpp"
#include "manager/core/plan.hpp"

namespace warmroot::manager {

struct PoolEnd {
  std::vector<std::string> free;
  /// Volumes that are attached or leased, and to which instance: also those that wait for one, or
  /// whose attachment EC2 does not show yet.
  std::map<std::string, std::string> leased;
};

/// `ledger` and `plan` of the same look: a lease that the plan ends is over.
PoolEnd end_of_pool(const std::string& pool, const core::Observed& observed,
                    const core::LedgerView& ledger, const core::Plan& plan);

}  // namespace warmroot::manager
