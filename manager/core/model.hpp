// The words of the manager's core as plain data: what the spec asks (spec), what EC2 showed
// (observed), what we remember (remembered), and what to do about it (plan). The reconciler fills
// the first three and carries out the last; the rules of planner.hpp stand between them. Here: how
// nodes, stock and the ledger's counters are called.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "manager/core/observed.hpp"
#include "manager/core/plan.hpp"
#include "manager/core/remembered.hpp"
#include "manager/core/spec.hpp"

namespace warmroot::core {

/// "imagenet-3".
std::string node_name(std::string_view pool, int index);

/// What a create of stock is for, where other calls name nodes: "p/spare/us-east-1a". Never a
/// node's name, which has no slash.
struct StockSubject {
  std::string pool;
  VolumeRole role = VolumeRole::spare;
  std::string zone;
};
std::string to_string(const StockSubject& subject);
std::optional<StockSubject> stock_subject_from(std::string_view text);

/// Keys of LedgerView::failures and LedgerView::generations: action name and node (or other
/// resource).
std::string failure_key(std::string_view action, std::string_view resource);
std::string generation_key(std::string_view action, std::string_view node);

}  // namespace warmroot::core
