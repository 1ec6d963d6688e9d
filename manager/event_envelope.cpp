// See the header.
#include "manager/event_envelope.hpp"

#include <nlohmann/json.hpp>

#include "bootstrap/base/nesting.hpp"
#include "manager/aws/json_error.hpp"

namespace warmroot::manager {
namespace {

using aws::text_of;
using nlohmann::json;

/// EventBridge's entries are at most 256 KiB, SQS's messages 1 MiB.
constexpr std::size_t kMaxBody = 1 << 20;

EventKind kind_of(const std::string& source, const std::string& detail_type) {
  if (source == "aws.autoscaling")
    return detail_type == "EC2 Instance-terminate Lifecycle Action" ? EventKind::group_ends
                                                                    : EventKind::other;
  if (source != "aws.ec2") return EventKind::other;
  if (detail_type == "EC2 Spot Instance Interruption Warning") return EventKind::interruption;
  if (detail_type == "EC2 Instance Rebalance Recommendation") return EventKind::rebalance;
  if (detail_type == "EC2 Instance State-change Notification") return EventKind::state_change;
  return EventKind::other;
}

constexpr int kDeepest = 16;

json parse_shallow(std::string_view text) {
  return nests_deeper(text, kDeepest) ? json() : json::parse(text, nullptr, false);
}

bool is_instance_id(const std::string& id) {
  return id.starts_with("i-") && id.size() <= 32 &&
         id.find_first_not_of("0123456789abcdef", 2) == std::string::npos && id.size() > 2;
}

}  // namespace

Result<CloudEvent> parse_envelope(std::string_view body) {
  const auto broken = [](const char* why) { return fail(ErrorKind::broken, why); };
  if (body.size() > kMaxBody) return broken("the message is too long");
  json envelope = parse_shallow(body);
  if (envelope.is_object() && text_of(envelope, "Type") == "Notification")
    envelope = parse_shallow(text_of(envelope, "Message"));  // by way of SNS without raw delivery
  if (!envelope.is_object()) return broken("the message is no JSON object");
  CloudEvent event;
  event.id = text_of(envelope, "id");
  const std::string type = text_of(envelope, "detail-type");
  if (type.empty()) return broken("the message is no EventBridge envelope");
  event.kind = kind_of(text_of(envelope, "source"), type);
  if (event.kind == EventKind::other) return event;
  const auto detail = envelope.find("detail");
  if (detail == envelope.end() || !detail->is_object()) return broken("the event has no detail");
  event.instance_id =
      text_of(*detail, event.kind == EventKind::group_ends ? "EC2InstanceId" : "instance-id");
  if (!is_instance_id(event.instance_id)) return broken("the event names no instance");
  event.state = text_of(*detail, "state");
  const auto time = parse_iso8601(text_of(envelope, "time"));
  if (!time) return broken("the event has no time");
  event.time = *time;
  return event;
}

}  // namespace warmroot::manager
