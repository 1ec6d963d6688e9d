// Rule 6: every node of a pool gets its volume, whether an instance runs for it or not.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

void stock(Draft& draft);

}  // namespace warmroot::core
