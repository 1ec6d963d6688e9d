// What a pool's spec means in this account and Region: its root snapshot, sizes and architectures,
// or the reasons why it cannot be served. Called by the planner for each pool, from looked-up
// facts.
#pragma once

#include <string>
#include <vector>

#include "manager/core/model.hpp"

namespace warmroot::core {

struct PoolSource {
  std::string snapshot_id;   ///< empty: unknown, see problems
  std::string architecture;  ///< of the volumes' system; empty for a bare snapshot
  /// Each one sentence that names the remedy. Any of them stops creates of the pool; volumes and
  /// instances that are there go on being served.
  std::vector<std::string> problems;
  bool may_launch = true;  ///< none of them stops launches for nodes that have their volumes
};

PoolSource find_source(const PoolSpec& pool, const Observed& observed);

/// The root snapshot of an image: the mapping whose device name is the root's. Empty when the image
/// has none.
std::string root_snapshot_of(const aws::Image& image);

/// EC2 shows some image or snapshot that the spec names. With another account's credentials it
/// shows an empty world without error, and none of them either.
bool shows_a_source(const Observed& observed);

}  // namespace warmroot::core
