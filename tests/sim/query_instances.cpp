// The instance actions of the Query front.
#include "tests/sim/query_instances.hpp"

#include <algorithm>

#include "tests/sim/query_actions.hpp"

namespace warmroot::sim {

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

ApiError bad_value(const std::string& value, const std::string& parameter) {
  return {400, "InvalidParameterValue", "Invalid value '" + value + "' for " + parameter + "."};
}

Answer<void> check_word(const Form& form, const std::string& name,
                        const std::vector<std::string>& words) {
  const std::string value = form.text(name);
  if (value.empty() || contains(words, value)) return {};
  return tl::unexpected(bad_value(value, name));
}

/// Market, metadata and shutdown options.
Answer<void> parse_options(const Form& form, RunInstancesArgs& args) {
  const std::string spot = "InstanceMarketOptions.SpotOptions.";
  const std::pair<std::string, std::vector<std::string>> choices[] = {
      {"InstanceMarketOptions.MarketType", {"spot"}},
      {spot + "SpotInstanceType", {"one-time", "persistent"}},
      {spot + "InstanceInterruptionBehavior", {"terminate", "stop", "hibernate"}},
      {"InstanceInitiatedShutdownBehavior", {"stop", "terminate"}},
      {"MetadataOptions.HttpTokens", {"optional", "required"}},
      {"MetadataOptions.HttpEndpoint", {"enabled", "disabled"}},
      {"MetadataOptions.InstanceMetadataTags", {"enabled", "disabled"}}};
  for (const auto& [name, words] : choices)
    if (auto checked = check_word(form, name, words); !checked) return checked;
  args.spot = form.text("InstanceMarketOptions.MarketType") == "spot";
  if (form.text(spot + "SpotInstanceType") == "persistent" ||
      (form.has(spot + "InstanceInterruptionBehavior") &&
       form.text(spot + "InstanceInterruptionBehavior") != "terminate"))
    return refuse("UnsupportedOperation",
                  "Persistent spot requests and other interruption behaviours than terminate are "
                  "not modelled by the simulated region");
  args.max_price = form.text(spot + "MaxPrice");
  if (!args.max_price.empty() && std::atof(args.max_price.c_str()) <= 0.001)
    return tl::unexpected(bad_value(args.max_price, "spotPrice"));
  args.terminate_on_shutdown = form.text("InstanceInitiatedShutdownBehavior") == "terminate";
  const auto monitored = form.boolean("Monitoring.Enabled");
  if (!monitored) return tl::unexpected(monitored.error());
  args.monitored = *monitored;
  args.metadata_tags = form.text("MetadataOptions.InstanceMetadataTags") == "enabled";
  return {};
}

/// The root's size and deletion; other devices of the image may be left out, as it has none.
Answer<void> parse_mappings(const Region& region, const Form& form, RunInstancesArgs& args) {
  const ImageRecord* source = region.image(args.image_id);
  for (const auto& element : form.elements("BlockDeviceMapping")) {
    if (form.has(element + ".NoDevice") || form.has(element + ".VirtualName")) continue;
    const std::string device = form.text(element + ".DeviceName");
    if (device.empty())
      return refuse("MissingParameter", "The request must contain the parameter DeviceName");
    if (source != nullptr && device_label(device) != device_label(source->root_device))
      return refuse("UnsupportedOperation",
                    "New data volumes at launch are not modelled by the simulated region");
    const auto size = form.integer(element + ".Ebs.VolumeSize");
    if (!size) return tl::unexpected(size.error());
    args.root_size_gib = *size;
    const auto doomed = form.boolean(element + ".Ebs.DeleteOnTermination", true);
    if (!doomed) return tl::unexpected(doomed.error());
    args.root_delete_on_termination = *doomed;
  }
  return {};
}

Answer<void> parse_network(const Form& form, RunInstancesArgs& args) {
  args.subnet_id = form.text("SubnetId");
  args.security_groups = form.list("SecurityGroupId");
  const auto cards = form.elements("NetworkInterface");
  if (cards.empty()) return {};
  if (!args.subnet_id.empty() || !args.security_groups.empty())
    return refuse("InvalidParameterCombination",
                  "Network interfaces and an instance-level subnet ID may not be specified on the "
                  "same request");
  args.subnet_id = form.text(cards.front() + ".SubnetId");
  args.security_groups = form.list(cards.front() + ".SecurityGroupId");
  return {};
}

Answer<RunInstancesArgs> parse_run(const Region& region, const Form& form) {
  RunInstancesArgs args;
  args.image_id = form.text("ImageId");
  if (auto checked = check_id(region, args.image_id, "ImageId"); !checked)
    return tl::unexpected(checked.error());
  args.type = form.text("InstanceType");
  args.key_name = form.text("KeyName");
  args.instance_profile = form.text("IamInstanceProfile.Name");
  if (const auto arn = form.text("IamInstanceProfile.Arn"); !arn.empty())
    args.instance_profile = arn.substr(arn.rfind('/') + 1);
  args.client_token = form.text("ClientToken");
  if (args.client_token.size() > 64)
    return refuse("InvalidParameterValue", "The client token must be at most 64 characters long");
  args.fingerprint = form.fingerprint();
  for (const auto& [name, target] :
       {std::pair<const char*, int*>{"MinCount", &args.min_count}, {"MaxCount", &args.max_count}}) {
    const auto value = form.integer(name);
    if (!value) return tl::unexpected(value.error());
    *target = value->value_or(0);
    if (*target < 1) return tl::unexpected(bad_value(std::to_string(*target), name));
  }
  if (args.min_count > args.max_count)
    return refuse("InvalidParameterCombination", "minCount must not be greater than maxCount");
  const auto zone = parse_zone(region, form, "Placement.");
  if (!zone) return tl::unexpected(zone.error());
  args.zone = *zone;
  const auto data = base64_decode(form.text("UserData"));
  if (!data) return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
  args.user_data = *data;
  for (const auto& parsed :
       {parse_network(form, args), parse_options(form, args), parse_mappings(region, form, args)})
    if (!parsed) return tl::unexpected(parsed.error());
  const std::vector<std::string> taggable = {"instance", "volume", "spot-instances-request",
                                             "network-interface"};
  for (const auto& [type, target] : {std::pair<const char*, Tags*>{"instance", &args.instance_tags},
                                     {"volume", &args.volume_tags}}) {
    const auto tags = form.tag_specification(type, taggable);
    if (!tags) return tl::unexpected(tags.error());
    *target = *tags;
  }
  return args;
}

std::string check_status(Region& region, const InstanceRecord& guest) {
  if (guest.state != GuestState::running) return "not-applicable";
  if (guest.impaired || region.zone_impaired(guest.zone)) return "impaired";
  return region.hardware().machine_state(guest.id) == MachineState::booting ? "initializing" : "ok";
}

void write_check(XmlWriter& xml, std::string_view element, const std::string& status) {
  xml.open(element);
  xml.text("status", status);
  if (status != "not-applicable") {
    xml.open("details");
    xml.open("item");
    xml.text("name", "reachability");
    xml.text("status", status == "ok" ? "passed" : status == "impaired" ? "failed" : status);
    xml.close();
    xml.close();
  }
  xml.close();
}

/// Instances by `InstanceId.N` and filters; refuses unknown ids.
Answer<std::vector<InstanceView>> select(const Region& region, const std::vector<std::string>& ids,
                                         const std::vector<FilterClause>& filters) {
  std::vector<InstanceView> all = instance_views(region), out;
  std::vector<std::string> unknown;
  for (const auto& id : ids)
    if (std::none_of(all.begin(), all.end(),
                     [&](const InstanceView& view) { return view.guest->id == id; }))
      unknown.push_back(id);
  if (!unknown.empty()) return instance_not_found(unknown);
  for (const auto& id : ids)
    if (region.zone_impaired(region.instances().at(id).zone)) return zone_unreachable(id);
  for (auto& view : all)
    if ((ids.empty() || contains(ids, view.guest->id)) &&
        passes(filters,
               [&](const std::string& name) { return instance_filter(region, view, name); }))
      out.push_back(std::move(view));
  return out;
}

struct Listing {
  std::vector<InstanceView> items;
  PageRequest page;
};

Answer<Listing> list_instances(const Region& region, const Form& form) {
  const auto ids = parse_ids(region, form, "InstanceId");
  if (!ids) return tl::unexpected(ids.error());
  const InstanceRecord nobody;
  const auto filters = parse_filters(form, [&](const std::string& name) {
    return instance_filter(region, {&nobody, {}}, name);
  });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "instancesSet", *ids);
  if (!page) return tl::unexpected(page.error());
  auto items = select(region, *ids, *filters);
  if (!items) return tl::unexpected(items.error());
  return Listing{std::move(*items), *page};
}

std::string key_of(const InstanceView& view) {
  return view.guest->id;
}

}  // namespace

Answer<void> run_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto args = parse_run(region, form);
  if (!args) return tl::unexpected(args.error());
  const auto made = region.run_instances(*args);
  if (!made) return tl::unexpected(made.error());
  write_reservation(region, xml, made->front());
  xml.open("instancesSet");
  for (const auto& guest : *made) {
    xml.open("item");
    write_instance(region, xml, {&guest, {}});  // no devices yet in this answer, as on EC2
    xml.close();
  }
  xml.close();
  return {};
}

Answer<void> describe_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  auto listing = list_instances(region, form);
  if (!listing) return tl::unexpected(listing.error());
  auto [items, next] = cut_page(region, form, listing->page, listing->items, key_of);
  // One reservation for each launch call, as far as the page holds its instances.
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return a.guest->reservation_id < b.guest->reservation_id;
  });
  xml.open("reservationSet");
  for (std::size_t at = 0; at < items.size();) {
    xml.open("item");
    const InstanceRecord& first = *items[at].guest;
    write_reservation(region, xml, first);
    xml.open("instancesSet");
    for (; at < items.size() && items[at].guest->reservation_id == first.reservation_id; ++at) {
      xml.open("item");
      write_instance(region, xml, items[at]);
      xml.close();
    }
    xml.close();
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> describe_instance_status_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto everything = form.boolean("IncludeAllInstances");
  if (!everything) return tl::unexpected(everything.error());
  auto listing = list_instances(region, form);
  if (!listing) return tl::unexpected(listing.error());
  if (!*everything)
    std::erase_if(listing->items, [](const InstanceView& view) {
      return view.guest->state != GuestState::running;
    });
  const auto [items, next] = cut_page(region, form, listing->page, listing->items, key_of);
  xml.open("instanceStatusSet");
  for (const auto& view : items) {
    xml.open("item");
    xml.text("instanceId", view.guest->id);
    xml.text("availabilityZone", view.guest->zone);
    write_state(xml, "instanceState", view.guest->state);
    const std::string status = check_status(region, *view.guest);
    write_check(xml, "systemStatus", status);
    write_check(xml, "instanceStatus", status);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> terminate_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "InstanceId");
  if (!ids) return tl::unexpected(ids.error());
  for (const char* name : {"Force", "SkipOsShutdown"})
    if (auto checked = form.boolean(name); !checked) return tl::unexpected(checked.error());
  const auto changes = region.terminate_instances(*ids);
  if (!changes) return tl::unexpected(changes.error());
  xml.open("instancesSet");
  for (const auto& change : *changes) {
    xml.open("item");
    xml.text("instanceId", change.instance_id);
    write_state(xml, "currentState", change.after);
    write_state(xml, "previousState", change.before);
    xml.close();
  }
  xml.close();
  return {};
}

}  // namespace warmroot::sim
