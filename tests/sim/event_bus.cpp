// See the header.
#include "tests/sim/event_bus.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>

namespace warmroot::sim {

namespace {

std::string seconds_of(Instant time) {
  std::string text = to_iso8601(time);
  if (const auto point = text.find('.'); point != std::string::npos) text.erase(point, 4);
  return text;
}

/// Source: Auto Scaling user guide, "EventBridge event reference", terminate lifecycle action.
std::string lifecycle_envelope(const Region& region, const InstanceEvent& event,
                               const std::string& id) {
  const auto& [name, account] = std::tie(region.catalog().region, region.catalog().account_id);
  const nlohmann::json envelope = {
      {"version", "0"},
      {"id", id},
      {"detail-type", "EC2 Instance-terminate Lifecycle Action"},
      {"source", "aws.autoscaling"},
      {"account", account},
      {"time", seconds_of(event.time)},
      {"region", name},
      {"resources",
       {"arn:aws:autoscaling:" + name + ":" + account + ":autoScalingGroup:" + id +
        ":autoScalingGroupName/" + event.group}},
      {"detail",
       {{"LifecycleActionToken", id},
        {"AutoScalingGroupName", event.group},
        {"LifecycleHookName", "warmroot"},
        {"EC2InstanceId", event.instance_id},
        {"LifecycleTransition", "autoscaling:EC2_INSTANCE_TERMINATING"},
        {"Origin", "AutoScalingGroup"},
        {"Destination", "EC2"}}}};
  return envelope.dump();
}

}  // namespace

std::string envelope_of(const Region& region, const InstanceEvent& event, const std::string& id) {
  nlohmann::json detail = {{"instance-id", event.instance_id}};
  std::string type, place = region.catalog().region, account = region.catalog().account_id;
  switch (event.kind) {
    case InstanceEvent::Kind::interruption:
      type = "EC2 Spot Instance Interruption Warning";
      detail["instance-action"] = "terminate";
      break;
    case InstanceEvent::Kind::rebalance:
      type = "EC2 Instance Rebalance Recommendation";
      break;
    case InstanceEvent::Kind::state_change:
      type = "EC2 Instance State-change Notification";
      detail["state"] = to_string(event.state);
      break;
    case InstanceEvent::Kind::group_ends:
      return lifecycle_envelope(region, event, id);
  }
  if (event.kind != InstanceEvent::Kind::state_change) {
    // EC2's samples of these two have the zone in the Region's place and no account.
    place = event.zone;
    account.clear();
  }
  const nlohmann::json envelope = {
      {"version", "0"},
      {"id", id},
      {"detail-type", type},
      {"source", "aws.ec2"},
      {"account", region.catalog().account_id},
      {"time", seconds_of(event.time)},
      {"region", region.catalog().region},
      {"resources", {"arn:aws:ec2:" + place + ":" + account + ":instance/" + event.instance_id}},
      {"detail", detail}};
  return envelope.dump();
}

EventBus::EventBus(Region& region, Sqs& sqs, std::uint64_t seed)
    : region_(region), sqs_(sqs), random_(seed) {
  region_.on_instance_event = [this](const InstanceEvent& event) { publish(event); };
}

EventBus::~EventBus() {
  region_.on_instance_event = nullptr;
}

double EventBus::drawn() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

void EventBus::publish(const InstanceEvent& event) {
  if (queue_.empty()) return;
  if (knobs.missing > 0 && drawn() < knobs.missing) {
    ++dropped;
    return;
  }
  char id[40];
  std::snprintf(id, sizeof id, "00000000-0000-4000-b000-%012llx",
                static_cast<unsigned long long>(++last_id_));
  const std::string body = envelope_of(region_, event, id);
  const int copies = knobs.doubled > 0 && drawn() < knobs.doubled ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    ++sent;
    Milliseconds way = knobs.late;
    if (knobs.spread > Milliseconds{0})
      way += Milliseconds(
          static_cast<std::int64_t>(drawn() * static_cast<double>(knobs.spread.count())));
    if (way <= Milliseconds{0})
      sqs_.send(queue_, body);
    else
      region_.later(way, [this, body, queue = queue_] { sqs_.send(queue, body); });
  }
}

}  // namespace warmroot::sim
