// See the header.
#include "tests/sim/control.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

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
  json tags = json::object();
  for (const auto& [key, value] : disk.tags) tags[key] = value;
  return {{"volume_id", disk.id},
          {"tags", std::move(tags)},
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
  const bool absent = done.error().code.ends_with(".NotFound");
  return error(absent ? 404 : 409, done.error().message);
}

int number(const Parameter& parameter, const std::string& name, int otherwise) {
  const std::string text = parameter(name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

double fraction(const Parameter& parameter, const std::string& name, double otherwise) {
  const std::string text = parameter(name);
  return text.empty() ? otherwise : std::atof(text.c_str());
}

/// `kind=late&action=CreateVolume&count=2&after=1&share=0.5&delay_ms=30000&for_s=60&containing=..`;
/// of a `refused` also `status=`, `code=` and `message=`. A count of 0 is "always".
ControlReply inject(Region& region, QueryFront& front, const Parameter& parameter) {
  const auto kind = fault_kind(parameter("kind"));
  if (!kind) return error(400, "unknown kind of fault '" + parameter("kind") + "'");
  const std::string action = parameter("action");
  Fault fault{action.empty() ? "*" : action, *kind, number(parameter, "count", 1),
              number(parameter, "after", 0)};
  if (fault.count == 0) fault.count = Fault::kAlways;
  fault.share = fraction(parameter, "share", 1);
  fault.delay = Milliseconds(number(parameter, "delay_ms", 0));
  if (const int span = number(parameter, "for_s", 0); span > 0)
    fault.until = region.now() + std::chrono::seconds(span);
  fault.containing = parameter("containing");
  fault.status = number(parameter, "status", 400);
  fault.code = parameter("code");
  fault.message = parameter("message");
  if (*kind == FaultKind::refused && fault.code.empty()) return error(400, "refused wants code=");
  front.inject(std::move(fault));
  return {200, "{}\n"};
}

/// DetachVolume with Force by somebody else than the manager: the guest is not asked.
ControlReply vanish(Region& region, const std::string& volume_id) {
  const auto done = region.detach_volume(volume_id, "", "", true);
  return outcome(done ? Answer<void>{} : tl::unexpected(done.error()));
}

std::set<std::string> words(const std::string& text) {
  std::istringstream parts(text);
  std::set<std::string> out;
  for (std::string word; std::getline(parts, word, ',');)
    if (!word.empty()) out.insert(word);
  return out;
}

/// One of the region's knobs: `name=stuck_attaches&value=2`; lists are separated by commas.
ControlReply set_knob(Region& region, const Parameter& parameter) {
  RegionKnobs& knobs = region.knobs;
  const std::string name = parameter("name");
  const std::map<std::string, int*> numbers = {
      {"page_cap", &knobs.page_cap},
      {"stuck_attaches", &knobs.stuck_attaches},
      {"attachment_limit", &knobs.attachment_limit},
      {"volume_limit", &knobs.volume_limit},
      {"pending_for_ever", &knobs.pending_for_ever},
      {"failing_launches", &knobs.failing_launches},
      {"reclaimed_while_detaching", &knobs.reclaimed_while_detaching},
      {"failing_creates", &knobs.failing_creates},
      {"vanishing_creates", &knobs.vanishing_creates},
      {"init_rate_quota", &knobs.init_rate_quota},
      {"copies_per_region", &knobs.copies_per_region},
      {"fsr_quota", &knobs.fsr_quota},
      {"placement_target_limit", &knobs.placement_target_limit},
      {"placement_configurations", &knobs.placement_configurations},
      {"fleet_throttles", &knobs.fleet_throttles}};
  const std::map<std::string, bool*> flags = {
      {"empty_first_page", &knobs.empty_first_page},
      {"reused_device_sticks", &knobs.reused_device_sticks},
      {"launch_disks_die_with_instance", &knobs.launch_disks_die_with_instance},
      {"spot_termination_protection", &knobs.spot_termination_protection},
      {"ids_count_as_filtered", &knobs.ids_count_as_filtered},
      {"copies_need_encryption", &knobs.copies_need_encryption},
      {"few_types_score_low", &knobs.few_types_score_low},
      {"fleet_names_zones", &knobs.fleet_names_zones}};
  const std::map<std::string, std::set<std::string>*> sets = {{"revoked_keys", &knobs.revoked_keys},
                                                              {"ami_devices", &knobs.ami_devices}};
  if (const auto found = numbers.find(name); found != numbers.end())
    *found->second = number(parameter, "value", 1);
  else if (const auto flag = flags.find(name); flag != flags.end())
    *flag->second = number(parameter, "value", 1) != 0;
  else if (const auto set = sets.find(name); set != sets.end())
    *set->second = words(parameter("value"));
  else if (name == "launch_failure")
    knobs.launch_failure = parameter("value");
  else
    return error(400, "there is no knob '" + name + "'");
  return {200, "{}\n"};
}

/// `ages_ms=0,3000&visibility_ms=2000&seed=1`: one replica for each age.
ControlReply set_replicas(QueryFront& front, const Parameter& parameter) {
  std::vector<Replica> replicas;
  for (const auto& age : words(parameter("ages_ms")))
    replicas.push_back({Milliseconds(std::atoi(age.c_str())),
                        Milliseconds(number(parameter, "visibility_ms", 0))});
  front.set_replicas(std::move(replicas), static_cast<std::uint64_t>(number(parameter, "seed", 1)));
  return {200, "{}\n"};
}

ControlReply set_capacity(Region& region, const Parameter& parameter) {
  const std::pair pool(parameter("type"), parameter("zone"));
  if (pool.first.empty() || (pool.second != "*" && region.zone(pool.second) == nullptr))
    return error(400, "capacity needs type= and the zone= of this region");
  const int count = number(parameter, "count", -1);
  if (count < 0)
    region.knobs.capacity.erase(pool);
  else
    region.knobs.capacity[pool] = count;
  return {200, "{}\n"};
}

/// `type=&zone=&usd=`: the spot price of a pool; without usd the usual one.
ControlReply set_price(Region& region, const Parameter& parameter) {
  const std::pair pool(parameter("type"), parameter("zone"));
  if (pool.first.empty() || region.zone(pool.second) == nullptr)
    return error(400, "price needs type= and the zone= of this region");
  constexpr double kPerDollar = 1e5;
  if (parameter("usd").empty())
    region.knobs.spot_prices.erase(pool);
  else
    region.knobs.spot_prices[pool] =
        static_cast<int>(std::atof(parameter("usd").c_str()) * kPerDollar + 0.5);
  return {200, "{}\n"};
}

/// `type=&zone=&state=missing|offered`
ControlReply set_offering(Region& region, const Parameter& parameter) {
  const std::pair pool(parameter("type"), parameter("zone"));
  if (pool.first.empty() || region.zone(pool.second) == nullptr)
    return error(400, "offering needs type= and the zone= of this region");
  if (parameter("state") == "missing")
    region.knobs.not_offered.insert(pool);
  else
    region.knobs.not_offered.erase(pool);
  return {200, "{}\n"};
}

/// `right=ec2:RunInstances&by=implicit|policy|organisation|nobody`
ControlReply set_denial(Region& region, const Parameter& parameter) {
  const std::map<std::string, Denial> kinds = {{"implicit", Denial::implicit},
                                               {"policy", Denial::policy},
                                               {"organisation", Denial::organisation}};
  const std::string right = parameter("right"), by = parameter("by");
  if (right.empty()) return error(400, "deny wants right=");
  const auto kind = kinds.find(by);
  if (kind != kinds.end())
    region.knobs.denied[right] = kind->second;
  else if (by == "nobody")
    region.knobs.denied.erase(right);
  else
    return error(400, "deny wants by=implicit, policy, organisation or nobody");
  return {200, "{}\n"};
}

/// `market=spot|on-demand&class=g&vcpus=8`; -1: unlimited.
ControlReply set_quota(Region& region, const Parameter& parameter) {
  auto& quotas = parameter("market") == "spot" ? region.knobs.spot_vcpu_quota
                                               : region.knobs.on_demand_vcpu_quota;
  const int vcpus = number(parameter, "vcpus", -1);
  if (vcpus < 0)
    quotas.erase(parameter("class"));
  else
    quotas[parameter("class")] = vcpus;
  return {200, "{}\n"};
}

/// `group=&image=&type=[&subnet=&zone=&key=&spot=1&user_data=&tags=key:value,...]`; a tag's key
/// ends at its last colon.
ControlReply launch_in_group(Region& region, const Parameter& parameter) {
  RunInstancesArgs args;
  args.image_id = parameter("image");
  args.type = parameter("type");
  args.subnet_id = parameter("subnet");
  args.zone = parameter("zone");
  args.key_name = parameter("key");
  args.spot = parameter("spot") == "1";
  args.user_data = parameter("user_data");
  args.metadata_tags = true;
  for (const auto& tag : words(parameter("tags"))) {
    const auto colon = tag.rfind(':');
    if (colon == std::string::npos) return error(400, "tags are key:value");
    args.instance_tags[tag.substr(0, colon)] = tag.substr(colon + 1);
  }
  const auto made = region.launch_in_group(parameter("group"), args);
  if (!made) return error(409, made.error().code + ": " + made.error().message);
  return {200, json{{"instance_id", made->id}}.dump() + "\n"};
}

}  // namespace

ControlReply control(const Controlled& controlled, const std::string& method,
                     const std::string& path, const Parameter& parameter) {
  auto& [region, front, sqs, events] = controlled;
  if (path == "/_control/state")
    return method == "GET" ? state(region) : error(405, "state is read with GET");
  const std::string what = path.substr(std::string("/_control/").size());
  if (method != "POST") return error(405, what + " wants POST");
  const std::string instance = parameter("instance");
  if (what == "interrupt") return outcome(region.interrupt(instance));
  if (what == "crash")
    return outcome(parameter("mode") == "impaired" ? region.impair(instance)
                                                   : region.crash(instance));
  if (what == "end") return outcome(region.end_now(instance));
  if (what == "power_off") return outcome(region.power_itself_off(instance));
  if (what == "stop") return outcome(region.stop(instance));
  if (what == "zone")
    return outcome(region.impair_zone(parameter("zone"), parameter("state") == "impaired"));
  if (what == "volume") return outcome(region.impair_volume(parameter("volume")));
  if (what == "vanish") return vanish(region, parameter("volume"));
  if (what == "rebalance") return outcome(region.recommend_rebalance(instance));
  if (what == "queue") {
    const std::string name = parameter("name");
    if (name.empty()) return error(400, "queue wants name=");
    events.set_queue(name);
    return {200, json{{"queue_url", sqs.create_queue(name)}}.dump() + "\n"};
  }
  if (what == "events") {
    events.knobs.missing = fraction(parameter, "missing", 0);
    events.knobs.doubled = fraction(parameter, "doubled", 0);
    events.knobs.late = Milliseconds(number(parameter, "late_ms", 0));
    events.knobs.spread = Milliseconds(number(parameter, "spread_ms", 0));
    return {200, "{}\n"};
  }
  if (what == "fault") return inject(region, front, parameter);
  if (what == "price") return set_price(region, parameter);
  if (what == "offering") return set_offering(region, parameter);
  if (what == "deny") return set_denial(region, parameter);
  if (what == "quota") return set_quota(region, parameter);
  if (what == "group") return launch_in_group(region, parameter);
  if (what == "group_end")
    return outcome(region.end_in_group(instance, Milliseconds(number(parameter, "hook_ms", 0))));
  if (what == "knob") return set_knob(region, parameter);
  if (what == "replicas") return set_replicas(front, parameter);
  if (what == "neighbour") {
    front.set_neighbour(fraction(parameter, "share", 0));
    return {200, "{}\n"};
  }
  if (what == "capacity") return set_capacity(region, parameter);
  return error(404, "there is no control '" + what + "'");
}

}  // namespace warmroot::sim
