// Rule 5: instances that serve no wish are drained and ended, if we launched them. Volumes stay:
// they survive the termination of an instance, because an attach leaves DeleteOnTermination false.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

void retire(Draft& draft);

}  // namespace warmroot::core
