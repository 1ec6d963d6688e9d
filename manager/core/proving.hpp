// Whether launches come to anything: each fresh instance is judged once, and failures in a row open
// its pool's breaker (launch_limits). A bootstrap that always fails must not cost money for ever.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// An instance that holds its volume for so long has proved itself, also when nobody reports.
inline constexpr Milliseconds kProvedAfter{600'000};

/// Records the fate of fresh instances that EC2 or their reports tell, and what it says of their
/// offers. What was reclaimed, or ended by people or by us, is no failure.
void judge_launches(Draft& draft);

}  // namespace warmroot::core
