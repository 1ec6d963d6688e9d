// CreateFleet of type instant: each override laid over its launch template is one RunInstances
// form, tried in the order of the allocation strategy. What could not be launched is told inside
// HTTP 200.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_instances.hpp"

namespace warmroot::sim {

namespace {

/// One override as a launch.
struct Candidate {
  FleetPart part;
  std::optional<RunInstancesArgs> args;  ///< nothing: `part` says what is wrong with it
  double priority = 0;
};

struct FleetWish {
  int spot = 0, on_demand = 0;
  std::string spot_strategy, on_demand_strategy;
};

Answer<void> check_words(const Form& form) {
  const std::pair<const char*, std::vector<std::string>> choices[] = {
      {"Type", {"instant", "request", "maintain"}},
      {"TargetCapacitySpecification.DefaultTargetCapacityType", {"spot", "on-demand"}},
      {"SpotOptions.AllocationStrategy",
       {"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized",
        "price-capacity-optimized"}},
      {"SpotOptions.InstanceInterruptionBehavior", {"terminate", "stop", "hibernate"}},
      {"OnDemandOptions.AllocationStrategy", {"lowest-price", "prioritized"}}};
  for (const auto& [name, words] : choices)
    if (const auto value = form.text(name);
        !value.empty() && std::find(words.begin(), words.end(), value) == words.end())
      return refuse("InvalidParameterValue", "Invalid value '" + value + "' for " + name + ".");
  // Left out, the type is "maintain".
  if (form.text("Type") != "instant")
    return refuse("UnsupportedOperation",
                  "Only fleets of type instant are modelled by the simulated region");
  if (form.has("SpotOptions.InstanceInterruptionBehavior") &&
      form.text("SpotOptions.InstanceInterruptionBehavior") != "terminate")
    return refuse("UnsupportedOperation",
                  "Interruption behaviours other than terminate are not modelled by the simulated "
                  "region");
  return {};
}

Answer<FleetWish> parse_wish(const Form& form) {
  if (auto checked = check_words(form); !checked) return tl::unexpected(checked.error());
  const std::string start = "TargetCapacitySpecification.";
  const auto total = form.integer(start + "TotalTargetCapacity");
  const auto spot = form.integer(start + "SpotTargetCapacity");
  const auto on_demand = form.integer(start + "OnDemandTargetCapacity");
  for (const auto* number : {&total, &spot, &on_demand})
    if (!*number) return tl::unexpected(number->error());
  if (**total < 0 || spot->value_or(0) + on_demand->value_or(0) > **total)
    return refuse("InvalidParameterValue", "The target capacities do not add up");
  FleetWish wish;
  wish.spot = spot->value_or(0);
  wish.on_demand = on_demand->value_or(0);
  const int rest = **total - wish.spot - wish.on_demand;
  const bool rest_is_spot = form.text(start + "DefaultTargetCapacityType") == "spot";
  (rest_is_spot ? wish.spot : wish.on_demand) += rest;
  wish.spot_strategy = form.text("SpotOptions.AllocationStrategy");
  wish.on_demand_strategy = form.text("OnDemandOptions.AllocationStrategy");
  return wish;
}

/// The override's own parameters in RunInstances' words.
std::map<std::string, std::string> as_launch(const FleetPart& part) {
  std::map<std::string, std::string> own;
  for (const auto& [name, value] : part.override_members) {
    if (name == "AvailabilityZone" || name == "AvailabilityZoneId")
      own["Placement." + name] = value;
    else if (name != "MaxPrice" && name != "Priority")
      own[name] = value;
  }
  own["MinCount"] = own["MaxCount"] = "1";
  if (!part.spot) return own;
  own["InstanceMarketOptions.MarketType"] = "spot";
  if (const auto price = part.override_members.find("MaxPrice");
      price != part.override_members.end())
    own["InstanceMarketOptions.SpotOptions.MaxPrice"] = price->second;
  return own;
}

Answer<RunInstancesArgs> launch_of(const Region& region, const TemplateVersion& version,
                                   const FleetPart& part) {
  // The console's help says so of fleets; the code is assumed.
  for (const auto& [name, value] : version.data)
    if (name.starts_with("InstanceMarketOptions."))
      return refuse("InvalidParameterCombination",
                    "A launch template with InstanceMarketOptions cannot be used by a fleet");
  const auto values = over_template(version.data, as_launch(part));
  for (const char* needed : {"ImageId", "InstanceType"})
    if (!values.contains(needed))
      return refuse("MissingParameter",
                    std::string("The request must contain the parameter ") + needed);
  return parse_run(region, Form::of(values));
}

void name_place(const Region& region, Candidate& candidate) {
  if (!candidate.args) return;
  FleetPart& part = candidate.part;
  part.type = candidate.args->type;
  part.subnet_id = candidate.args->subnet_id;
  part.zone = candidate.args->zone;
  if (const SubnetRecord* net = region.subnet(part.subnet_id)) part.zone = net->zone;
}

/// All overrides of all configurations; a configuration without any is one candidate.
Answer<std::vector<Candidate>> parse_candidates(const Region& region, const Form& form, bool spot) {
  std::vector<Candidate> out;
  for (const auto& config : form.elements("LaunchTemplateConfigs")) {
    const std::string named_by = config + ".LaunchTemplateSpecification.";
    const std::string version = form.text(named_by + "Version");
    if (version.empty())
      return refuse("MissingParameter", "The request must contain the parameter Version");
    const auto named = find_template(region, form, named_by, version);
    if (!named) return tl::unexpected(named.error());
    auto elements = form.elements(config + ".Overrides");
    if (elements.empty()) elements.push_back(config + ".Overrides.0");
    for (const auto& element : elements) {
      Candidate candidate;
      candidate.part.template_id = named->record->id;
      candidate.part.version = std::to_string(named->version->number);
      candidate.part.spot = spot;
      const std::string start = element + ".";
      for (const auto& [name, value] : form.values())
        if (name.starts_with(start))
          candidate.part.override_members[name.substr(start.size())] = value;
      auto args = launch_of(region, *named->version, candidate.part);
      if (args) {
        candidate.args = std::move(*args);
      } else {
        candidate.part.error_code = args.error().code;
        candidate.part.error_message = args.error().message;
      }
      constexpr double kNoPriority = 1e9;
      const auto priority = form.text(start + "Priority");
      candidate.priority = priority.empty() ? kNoPriority : std::atof(priority.c_str());
      name_place(region, candidate);
      out.push_back(std::move(candidate));
    }
  }
  return out;
}

void fail_part(FleetPart& part, const ApiError& error) {
  part.error_code = error.code;
  part.error_message = error.message;
}

/// Launches up to `count` instances of one candidate; how many came.
int launch_some(Region& region, Candidate& candidate, int count, const Tags& instance_tags,
                const Tags& volume_tags, const Tags& by_ec2) {
  if (region.knobs.fleet_throttles > 0) {
    --region.knobs.fleet_throttles;
    fail_part(candidate.part, {503, "RequestLimitExceeded", "Request limit exceeded."});
    return 0;
  }
  RunInstancesArgs args = *candidate.args;
  args.max_count = count;
  for (const auto& [tags, target] :
       {std::pair(&instance_tags, &args.instance_tags), std::pair(&volume_tags, &args.volume_tags)})
    for (const auto& [key, value] : *tags) (*target)[key] = value;
  const auto made = region.run_instances(args);
  if (!made) {
    fail_part(candidate.part, made.error());
    return 0;
  }
  for (const auto& guest : *made) {
    region.tag_by_ec2(guest.id, by_ec2);
    candidate.part.ids.push_back(guest.id);
  }
  if (static_cast<int>(made->size()) < count)
    fail_part(candidate.part,
              {500, "InsufficientInstanceCapacity",
               candidate.part.spot
                   ? "There is no Spot capacity available that matches your request."
                   : "We currently do not have sufficient capacity in the Availability Zone you "
                     "requested."});
  return static_cast<int>(made->size());
}

/// Tries the candidates until `wanted` instances run; only those tried can have errors.
void fill(Region& region, std::vector<Candidate>& candidates, int wanted,
          const std::string& strategy, const Tags& instance_tags, const Tags& volume_tags,
          const std::string& fleet_id) {
  std::vector<FleetPool> pools;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    const Candidate& candidate = candidates[index];
    if (!candidate.args) continue;
    const FleetPart& part = candidate.part;
    const int price = part.spot ? region.spot_price(part.type, part.zone)
                                : static_cast<int>(Region::on_demand_price(part.type));
    pools.push_back({index, price, region.room(part.type, part.zone), candidate.priority});
  }
  pools = fleet_order(strategy, std::move(pools), wanted);
  int left = wanted;
  for (std::size_t at = 0; at < pools.size() && left > 0; ++at) {
    Candidate& candidate = candidates[pools[at].index];
    const auto others = static_cast<int>(pools.size() - at);
    const int share = strategy == "diversified" ? (left + others - 1) / others : left;
    const Tags by_ec2 = {{"aws:ec2:fleet-id", fleet_id},
                         {"aws:ec2launchtemplate:id", candidate.part.template_id},
                         {"aws:ec2launchtemplate:version", candidate.part.version}};
    left -= launch_some(region, candidate, share, instance_tags, volume_tags, by_ec2);
  }
}

void write_choice(const Region& region, XmlWriter& xml, const FleetPart& part) {
  xml.open("launchTemplateAndOverrides");
  xml.open("launchTemplateSpecification");
  xml.text("launchTemplateId", part.template_id);
  xml.text("version", part.version);
  xml.close();
  xml.open("overrides");
  std::map<std::string, std::string> shown = part.override_members;
  if (region.knobs.fleet_names_zones && !part.zone.empty() && !shown.contains("AvailabilityZoneId"))
    shown["AvailabilityZone"] = part.zone;
  for (const auto& [name, value] : shown) {
    std::string member = name;
    member[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(member[0])));
    xml.text(member, value);
  }
  xml.close();
  xml.close();
  xml.text("lifecycle", part.spot ? "spot" : "on-demand");
}

void write_fleet(const Region& region, XmlWriter& xml, const FleetRecord& fleet) {
  xml.text("fleetId", fleet.id);
  xml.open("errorSet");
  for (const auto& part : fleet.parts) {
    if (part.error_code.empty()) continue;
    xml.open("item");
    write_choice(region, xml, part);
    xml.text("errorCode", part.error_code);
    xml.text("errorMessage", part.error_message);
    xml.close();
  }
  xml.close();
  xml.open("fleetInstanceSet");
  for (const auto& part : fleet.parts) {
    if (part.ids.empty()) continue;
    xml.open("item");
    write_choice(region, xml, part);
    xml.open("instanceIds");
    for (const auto& id : part.ids) xml.text("item", id);
    xml.close();
    xml.text("instanceType", part.type);
    xml.close();
  }
  xml.close();
}

}  // namespace

Answer<void> create_fleet_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto wish = parse_wish(form);
  if (!wish) return tl::unexpected(wish.error());
  const std::string token = form.text("ClientToken"), fingerprint = form.fingerprint();
  constexpr std::size_t kMaxToken = 64;
  if (token.size() > kMaxToken)
    return refuse("InvalidParameterValue", "The client token must be at most 64 characters long");
  const auto before = region.fleet_of_token(token, fingerprint);
  if (!before) return tl::unexpected(before.error());
  if (*before != nullptr) {
    write_fleet(region, xml, **before);
    return {};
  }
  const std::vector<std::string> taggable = {"fleet", "instance", "volume", "network-interface",
                                             "spot-instances-request"};
  Tags tags, instance_tags, volume_tags;
  for (const auto& [type, target] :
       {std::pair("fleet", &tags), std::pair("instance", &instance_tags),
        std::pair("volume", &volume_tags)}) {
    const auto parsed = form.tag_specification(type, taggable);
    if (!parsed) return tl::unexpected(parsed.error());
    if (auto checked = check_tags(*parsed); !checked) return checked;
    *target = *parsed;
  }
  FleetRecord fleet;
  fleet.id = "fleet-" + region.new_id("");
  fleet.tags = tags;
  for (const bool spot : {true, false}) {
    const int wanted = spot ? wish->spot : wish->on_demand;
    if (wanted == 0) continue;
    auto candidates = parse_candidates(region, form, spot);
    if (!candidates) return tl::unexpected(candidates.error());
    fill(region, *candidates, wanted, spot ? wish->spot_strategy : wish->on_demand_strategy,
         instance_tags, volume_tags, fleet.id);
    for (auto& candidate : *candidates) fleet.parts.push_back(std::move(candidate.part));
  }
  write_fleet(region, xml, region.keep_fleet(std::move(fleet), token, fingerprint));
  return {};
}

}  // namespace warmroot::sim
