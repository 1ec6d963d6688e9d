// Which pools still lack what their spec wants: the cheap question before dear ones are asked of
// EC2.
#pragma once

#include <set>
#include <string>

#include "manager/core/model.hpp"

namespace warmroot::core {

/// Names of the pools that show fewer volumes than nodes or fewer instances, coming up or running,
/// than are to run. By tags alone, so it may count too much: a hint, never a plan.
std::set<std::string> lacking_pools(const Desired& desired, const Observed& observed);

}  // namespace warmroot::core
