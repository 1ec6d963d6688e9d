// Zone fallback, for pools that allow it: a node whose zone has had no capacity for a while leaves
// its volume there, detached and kept under the tag warmroot:parked, and gets another in a zone
// that has. It comes back to a parked volume of its own before it gets a cold one.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// A zone must have had nothing for so long before a node gives its warm volume up. Source:
/// capacity that is refused once is often there a minute later (our guess; a move costs hours of
/// warming).
inline constexpr Milliseconds kMoveAfter{60'000};

/// After the census and before places are chosen.
void move_nodes(Draft& draft);

/// True for a volume that its node left behind; one that is attached is in use whatever its tag
/// says.
bool is_parked(const aws::Volume& volume);

}  // namespace warmroot::core
