// The manager's brain: one pure function from what is wished, seen and remembered to what to do
// next. `warmroot plan` prints its answer, the reconciler carries it out; a dry run is no second
// code path.
#pragma once

#include "manager/core/model.hpp"

namespace warmroot::core {

/// Total and deterministic: equal arguments give equal plans, and what cannot be done becomes a
/// note with its reason. An incomplete observation gives no actions and no records. The rules run
/// in the order of the design, each on what the one before left: census, orders by hand, healing,
/// leasing, launching, retiring, stocking; `limits` cut each call as it is added.
Plan plan(const Desired& desired, const Observed& observed, const LedgerView& ledger, Instant now,
          const Limits& limits);

}  // namespace warmroot::core
