// Launching by the Query front: what a RunInstances form says, and the reservation it answers with.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_instances.hpp"

namespace warmroot::sim {

namespace {

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
Answer<void> parse_options(const Region& region, const Form& form, RunInstancesArgs& args) {
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
  for (const auto& [name, target] :
       {std::pair<const char*, bool*>{"DisableApiTermination", &args.api_termination_disabled},
        {"DisableApiStop", &args.api_stop_disabled},
        {"EbsOptimized", &args.ebs_optimized}}) {
    const auto value = form.boolean(name);
    if (!value) return tl::unexpected(value.error());
    *target = *value;
  }
  if (args.spot && args.api_termination_disabled && !region.knobs.spot_termination_protection)
    return refuse("UnsupportedOperation",
                  "Termination protection is not supported for Spot Instances");
  return {};
}

template <typename T>
Answer<void> take(const Answer<T>& parsed, T& target) {
  if (!parsed) return tl::unexpected(parsed.error());
  target = *parsed;
  return {};
}

/// One `BlockDeviceMapping.N` as a disk of the launch.
Answer<LaunchDisk> parse_mapping(const Form& form, const std::string& element) {
  LaunchDisk disk;
  disk.device = form.text(element + ".DeviceName");
  if (disk.device.empty())
    return refuse("MissingParameter", "The request must contain the parameter DeviceName");
  disk.none = form.has(element + ".NoDevice");
  disk.virtual_name = form.text(element + ".VirtualName");
  const std::string ebs = element + ".Ebs.";
  CreateVolumeArgs& made = disk.volume;
  made.snapshot_id = form.text(ebs + "SnapshotId");
  made.type = form.text(ebs + "VolumeType");
  made.kms_key = form.text(ebs + "KmsKeyId");
  const std::pair<const char*, std::optional<int>*> numbers[] = {
      {"VolumeSize", &made.size_gib},
      {"Iops", &made.iops},
      {"Throughput", &made.throughput},
      {"VolumeInitializationRate", &made.initialization_rate}};
  for (const auto& [name, target] : numbers)
    if (auto taken = take(form.integer(ebs + name), *target); !taken)
      return tl::unexpected(taken.error());
  if (auto taken = take(form.boolean(ebs + "Encrypted"), made.encrypted); !taken)
    return tl::unexpected(taken.error());
  if (form.has(ebs + "DeleteOnTermination")) {
    const auto doomed = form.boolean(ebs + "DeleteOnTermination");
    if (!doomed) return tl::unexpected(doomed.error());
    disk.delete_on_termination = *doomed;
  }
  return disk;
}

/// The root's size and deletion, and what the launch makes beside it.
Answer<void> parse_mappings(const Region& region, const Form& form, RunInstancesArgs& args) {
  const ImageRecord* source = region.image(args.image_id);
  for (const auto& element : form.elements("BlockDeviceMapping")) {
    auto disk = parse_mapping(form, element);
    if (!disk) return tl::unexpected(disk.error());
    const bool of_root =
        source != nullptr && device_label(disk->device) == device_label(source->root_device);
    if (!of_root) {
      args.disks.push_back(std::move(*disk));
    } else {
      args.root_size_gib = disk->volume.size_gib;
      args.root_delete_on_termination = disk->delete_on_termination.value_or(true);
    }
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

}  // namespace

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
  for (const auto& parsed : {parse_network(form, args), parse_options(region, form, args),
                             parse_mappings(region, form, args)})
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

namespace {

/// The groups of a numbered list, each under the value of its `key` member.
std::map<std::string, std::map<std::string, std::string>> groups_of(
    const std::map<std::string, std::string>& values, const std::string& list,
    const std::string& key) {
  const Form form = Form::of(values);
  std::map<std::string, std::map<std::string, std::string>> out;
  for (const auto& element : form.elements(list)) {
    auto& group = out[form.text(element + "." + key)];
    const std::string start = element + ".";
    for (auto at = values.lower_bound(start); at != values.end() && at->first.starts_with(start);
         ++at)
      group[at->first.substr(start.size())] = at->second;
  }
  return out;
}

bool within(const std::string& name, const std::string& parameter) {
  return name == parameter || name.starts_with(parameter + ".");
}

}  // namespace

std::map<std::string, std::string> over_template(const std::map<std::string, std::string>& data,
                                                 const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> out = own;
  for (const auto& [name, value] : data) {
    const std::string parameter = name.substr(0, name.find('.'));
    if (parameter == "BlockDeviceMapping" || parameter == "TagSpecification") continue;
    const auto begin = own.lower_bound(parameter);
    if (begin == own.end() || !within(begin->first, parameter)) out[name] = value;
  }
  for (const auto& [list, key] : {std::pair("BlockDeviceMapping", "DeviceName"),
                                  std::pair("TagSpecification", "ResourceType")}) {
    std::erase_if(out, [&, list = list](const auto& entry) { return within(entry.first, list); });
    auto groups = groups_of(data, list, key);
    for (auto& [name, group] : groups_of(own, list, key)) groups[name] = group;
    int number = 0;
    for (const auto& [name, group] : groups) {
      const std::string start = std::string(list) + "." + std::to_string(++number) + ".";
      for (const auto& [member, value] : group) out[start + member] = value;
    }
  }
  // A place given beside a template's network interface belongs to that interface.
  if (out.contains("NetworkInterface.1.DeviceIndex") && out.contains("SubnetId")) {
    out["NetworkInterface.1.SubnetId"] = out["SubnetId"];
    out.erase("SubnetId");
  }
  return out;
}

Answer<void> check_run_instances(Region& region, const Form& form) {
  const auto args = parse_run(region, form);
  if (!args) return tl::unexpected(args.error());
  return region.check_launch(*args);
}

Answer<void> run_instances_action(Region& region, const Form& form, XmlWriter& xml) {
  auto values = form.values();
  Tags by_ec2;
  if (!form.text("LaunchTemplate.LaunchTemplateId").empty() ||
      !form.text("LaunchTemplate.LaunchTemplateName").empty()) {
    const auto named =
        find_template(region, form, "LaunchTemplate.", form.text("LaunchTemplate.Version"));
    if (!named) return tl::unexpected(named.error());
    values = over_template(named->version->data, values);
    by_ec2 = {{"aws:ec2launchtemplate:id", named->record->id},
              {"aws:ec2launchtemplate:version", std::to_string(named->version->number)}};
  }
  for (const char* needed : {"ImageId", "InstanceType"})
    if (values[needed].empty())
      return refuse("MissingParameter",
                    std::string("The request must contain the parameter ") + needed);
  auto args = parse_run(region, Form::of(std::move(values)));
  if (!args) return tl::unexpected(args.error());
  args->fingerprint = form.fingerprint();
  const auto made = region.run_instances(*args);
  if (!made) return tl::unexpected(made.error());
  if (!by_ec2.empty())
    for (const auto& guest : *made) region.tag_by_ec2(guest.id, by_ec2);
  write_reservation(region, xml, made->front());
  xml.open("instancesSet");
  for (const auto& guest : *made) {
    xml.open("item");
    // No devices yet in this answer, as on EC2; but the tags that EC2 has given itself.
    write_instance(region, xml, {region.instance(guest.id), {}});
    xml.close();
  }
  xml.close();
  return {};
}

}  // namespace warmroot::sim
