// What a new source does to nodes that have a volume of the old one. With policy "replace" each
// gets, in turn, a volume of the new source; the commit point is the tag warmroot:retired on the
// old one, which stays, detached. The state of a rollout is the volumes and their tags: it goes on
// after any crash, and setting the old source again takes the retired volumes back.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Runs before leasing: chooses the nodes that move now, within the disruption budget, and hands
/// those over whose old volume is free. Says what it means for the data.
void roll_out(Draft& draft);

}  // namespace warmroot::core
