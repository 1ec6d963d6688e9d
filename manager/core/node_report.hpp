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
  /// Since it last said that it drains or has released its volume it goes on with the key that it
  /// said so with: people have run `up` again, and no boot is between the two.
  bool up_again = false;
};

/// It has its volume, for sessions to land in.
inline bool says_mounted(const NodeReport& report) {
  using enum NodeStage;
  return report.stage == mounted || report.stage == ready || report.stage == warming ||
         report.stage == warm;
}

/// It is about to give its volume back, or has done so.
inline bool says_goes(const NodeReport& report) {
  return report.stage == NodeStage::draining || report.stage == NodeStage::released;
}

}  // namespace warmroot::core
