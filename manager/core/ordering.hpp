// Carries out what an operator ordered by hand (attach, release, quarantine, return, delete): the
// same plan, the same safety, the same dry run as everything else. An order stays open until what
// it asks for is seen at EC2, or is refused in one sentence.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// An order that was not met for this long is refused: nobody waits for it any more.
inline constexpr Milliseconds kOrderExpires{15 * 60'000};

/// After the leases are settled and before anything else decides, so that an instance that was
/// released by hand is replaced in the same plan.
void obey(Draft& draft);

/// With Limits::orders_only: gives each instance that an attach order names the volume that it is
/// to have. Otherwise leasing does that.
void lease_as_ordered(Draft& draft);

}  // namespace warmroot::core
