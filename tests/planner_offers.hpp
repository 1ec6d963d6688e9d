// What EC2 refuses and what it costs, for tests of the planner that buy instances.
#pragma once

#include <algorithm>
#include <string>

#include "manager/core/offers.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {

inline constexpr MicroUsd kUsd = 1'000'000;

inline RefusedOffer refused(Milliseconds ago,
                            const std::string& code = "InsufficientInstanceCapacity",
                            Milliseconds since = Milliseconds{0}) {
  return {kNow - std::max(ago, since), kNow - ago, 30, code, "no capacity there"};
}

}  // namespace warmroot::core
