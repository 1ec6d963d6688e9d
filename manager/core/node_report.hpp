// What a bootstrap said last, as the planner sees it. Reports make things faster and visible; the
// planner never needs one to be right.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/node_stage.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::core {

struct NodeReport {
  std::string instance_id;
  std::string volume_id;  ///< empty before disk_seen
  NodeStage stage = NodeStage::hello;
  std::string message;  ///< one sentence, with stage failed or draining
  Instant received{};
  std::string status_json;  ///< the bootstrap's whole status document, passed through to /status
  std::string reason;       ///< one word, for us: kUncleanBeyondRepair or what a release is due to
  /// Share of the needed blocks that its volume holds, 0 to 1.
  std::optional<double> warmth = std::nullopt;
  bool rebalance = false;  ///< EC2 recommends to replace the instance
};

/// It has its volume, for sessions to land in.
inline bool says_mounted(const NodeReport& report) {
  using enum NodeStage;
  return report.stage == mounted || report.stage == ready || report.stage == warming ||
         report.stage == warm;
}

}  // namespace warmroot::core
