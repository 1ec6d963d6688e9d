// The manager's one clock. Everything that waits is measured by it: a wall clock that somebody
// sets, or that NTP steps, would let a stuck attach look an hour old, or a back-off last one.
#pragma once

#include "bootstrap/base/units.hpp"

namespace warmroot::manager {

/// The wall clock at the process's first call, and the time that has passed since (suspended time
/// included). Never steps.
Instant wall_clock();

/// What the system's clock says, which may be set: only for times that others have stamped.
Instant calendar_clock();

}  // namespace warmroot::manager
