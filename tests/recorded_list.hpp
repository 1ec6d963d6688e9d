// A recording as a node sends it, for tests of what the manager makes of it.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/warm/hot_list.hpp"

namespace warmroot::manager {

inline std::string recording(const std::vector<warm::Block>& blocks) {
  warm::HotList list{"snap-ffff", "", 64 * warm::kGridBytes, 16, {}};
  for (const auto block : blocks)
    list.ranges.push_back({{block * warm::kGridBytes, 4096}, "", 0, 1000});
  return warm::encode_hot_list(list);
}

}  // namespace warmroot::manager
