// See the header.
#include "tests/sim/control.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

namespace warmroot::sim {

namespace {

using nlohmann::json;
using Parameter = std::function<std::string(const std::string&)>;

json or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json instance_json(Region& region, const InstanceRecord& guest) {
  return {{"instance_id", guest.id},
          {"state", to_string(guest.state)},
          {"zone", guest.zone},
          {"instance_type", guest.type},
          {"ssh_port", guest.powered ? region.hardware().ssh_port(guest.id) : 0},
          {"imds_port", guest.imds_port},
          {"console_log", region.hardware().console_log(guest.id)},
          {"spot", guest.spot()},
          {"interrupted_at",
           guest.interrupted_at ? json(to_iso8601(*guest.interrupted_at)) : json(nullptr)},
          {"machine",
           guest.powered
               ? (region.hardware().machine_state(guest.id) == MachineState::up ? "up" : "booting")
               : "off"}};
}

json volume_json(Region& region, const VolumeRecord& disk) {
  const VolumeCounters counters = region.hardware().volume_counters(disk.id);
  return {{"volume_id", disk.id},
          {"state", to_string(disk.state)},
          {"attachment_state", disk.link ? json(to_string(disk.link->state)) : json(nullptr)},
          {"snapshot_id", or_null(disk.snapshot_id)},
          {"zone", disk.zone},
          {"instance_id", disk.link ? json(disk.link->instance_id) : json(nullptr)},
          {"first_touches_total", counters.first_touches_total},
          {"first_touches_since_attach", counters.first_touches_since_attach},
          {"present_blocks", counters.present_blocks},
          {"fetched_bytes", counters.fetched_bytes}};
}

ControlReply state(Region& region) {
  json out = {{"instances", json::array()}, {"volumes", json::array()}};
  for (const auto& [id, guest] : region.instances())
    out["instances"].push_back(instance_json(region, guest));
  // Roots of instances have no disk of the region's; they would only hide the pool's volumes.
  for (const auto& [id, disk] : region.volumes())
    if (!disk.root) out["volumes"].push_back(volume_json(region, disk));
  return {200, out.dump(2) + "\n"};
}

ControlReply error(int status, const std::string& text) {
  return {status, json{{"error", text}}.dump() + "\n"};
}

ControlReply outcome(const Answer<void>& done) {
  if (done) return {200, "{}\n"};
  const bool absent = done.error().code == "InvalidInstanceID.NotFound";
  return error(absent ? 404 : 409, done.error().message);
}

std::optional<FaultKind> fault_kind(const std::string& name) {
  static const std::map<std::string, FaultKind> kKinds = {{"unreachable", FaultKind::unreachable},
                                                          {"lost_before", FaultKind::lost_before},
                                                          {"lost_after", FaultKind::lost_after},
                                                          {"throttled", FaultKind::throttled},
                                                          {"internal", FaultKind::internal},
                                                          {"unavailable", FaultKind::unavailable},
                                                          {"html", FaultKind::html},
                                                          {"truncated", FaultKind::truncated}};
  const auto found = kKinds.find(name);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

int number(const Parameter& parameter, const std::string& name, int otherwise) {
  const std::string text = parameter(name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

ControlReply inject(QueryFront& front, const Parameter& parameter) {
  const auto kind = fault_kind(parameter("kind"));
  if (!kind) return error(400, "unknown kind of fault '" + parameter("kind") + "'");
  const std::string action = parameter("action");
  front.inject({action.empty() ? "*" : action, *kind, number(parameter, "count", 1),
                number(parameter, "after", 0)});
  return {200, "{}\n"};
}

ControlReply set_capacity(Region& region, const Parameter& parameter) {
  const std::pair pool(parameter("type"), parameter("zone"));
  if (pool.first.empty() || region.zone(pool.second) == nullptr)
    return error(400, "capacity needs type= and the zone= of this region");
  const int count = number(parameter, "count", -1);
  if (count < 0)
    region.knobs.capacity.erase(pool);
  else
    region.knobs.capacity[pool] = count;
  return {200, "{}\n"};
}

}  // namespace

ControlReply control(Region& region, QueryFront& front, const std::string& method,
                     const std::string& path, const Parameter& parameter) {
  if (path == "/_control/state")
    return method == "GET" ? state(region) : error(405, "state is read with GET");
  const std::string what = path.substr(std::string("/_control/").size());
  if (method != "POST") return error(405, what + " wants POST");
  const std::string instance = parameter("instance");
  if (what == "interrupt") return outcome(region.interrupt(instance));
  if (what == "crash")
    return outcome(parameter("mode") == "impaired" ? region.impair(instance)
                                                   : region.crash(instance));
  if (what == "fault") return inject(front, parameter);
  if (what == "capacity") return set_capacity(region, parameter);
  return error(404, "there is no control '" + what + "'");
}

}  // namespace warmroot::sim
