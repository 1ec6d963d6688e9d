// EventBridge's envelopes of events of EC2 and of Auto Scaling, pure. Source: reference ec2.md 5.2
// and 5.3 (user guides, aws-node-termination-handler). Used by events.hpp.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::manager {

enum class EventKind {
  interruption,
  rebalance,
  state_change,
  group_ends,  ///< an Auto Scaling group ends the instance, and its hook makes it wait first
  other
};

struct CloudEvent {
  EventKind kind = EventKind::other;
  std::string id;           ///< of the envelope: doubles share it
  std::string instance_id;  ///< empty for `other`
  std::string state;        ///< of state_change, in EC2's words
  Instant time{};           ///< when it happened, by EC2
};

/// What a message's body says. An event of another kind is `other`; a body that SNS wrapped is
/// unwrapped. Errors: broken, when it is no envelope, or one of ours without its members.
Result<CloudEvent> parse_envelope(std::string_view body);

}  // namespace warmroot::manager
