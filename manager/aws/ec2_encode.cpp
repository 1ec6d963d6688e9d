// Requests into form bodies: singular list names, 1-based, no `.member.`; empty lists not sent,
// empty tag values sent.
#include <openssl/evp.h>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/form.hpp"

namespace warmroot::aws {
namespace {

/// Collects parameters in order; `put_set` leaves out what is not set.
class Body {
 public:
  explicit Body(std::string_view action) {
    put("Action", action);
    put("Version", kEc2Version);
  }
  void put(std::string name, std::string_view value) {
    form_.emplace_back(std::move(name), std::string(value));
  }
  void put(std::string name, int value) { put(std::move(name), std::to_string(value)); }
  void put_set(std::string name, std::string_view value) {
    if (!value.empty()) put(std::move(name), value);
  }
  void put_list(const std::string& name, const std::vector<std::string>& values) {
    int n = 0;
    for (const std::string& value : values) put(name + "." + std::to_string(++n), value);
  }
  void put_tags(const std::string& prefix, const Tags& tags) {
    int n = 0;
    for (const auto& [key, value] : tags) {
      const std::string tag = prefix + "." + std::to_string(++n);
      put(tag + ".Key", key);
      put(tag + ".Value", value);
    }
  }
  void put_tag_specification(std::string_view resource_type, const Tags& tags) {
    if (tags.empty()) return;
    const std::string name = "TagSpecification." + std::to_string(++tag_specifications_);
    put(name + ".ResourceType", resource_type);
    put_tags(name + ".Tag", tags);
  }
  void put_filters(const std::vector<Filter>& filters) {
    int n = 0;
    for (const Filter& filter : filters) {
      const std::string name = "Filter." + std::to_string(++n);
      put(name + ".Name", filter.name);
      put_list(name + ".Value", filter.values);
    }
  }
  std::string text() const { return encode_form(form_); }

 private:
  Form form_;
  int tag_specifications_ = 0;
};

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

struct DescribeNames {
  std::string_view action;
  std::string_view id_list;  ///< empty: the call takes no ids
};

DescribeNames names_of(Describe what) {
  switch (what) {
    case Describe::volumes:
      return {"DescribeVolumes", "VolumeId"};
    case Describe::instances:
      return {"DescribeInstances", "InstanceId"};
    case Describe::instance_status:
      return {"DescribeInstanceStatus", "InstanceId"};
    case Describe::snapshots:
      return {"DescribeSnapshots", "SnapshotId"};
    case Describe::images:
      return {"DescribeImages", "ImageId"};
    case Describe::subnets:
      return {"DescribeSubnets", "SubnetId"};
    case Describe::instance_type_offerings:
      return {"DescribeInstanceTypeOfferings", ""};
    case Describe::instance_types:
      return {"DescribeInstanceTypes", "InstanceType"};
    case Describe::volume_status:
      return {"DescribeVolumeStatus", "VolumeId"};
    case Describe::fast_snapshot_restores:
      return {"DescribeFastSnapshotRestores", ""};
    case Describe::launch_templates:
      return {"DescribeLaunchTemplates", "LaunchTemplateId"};
  }
  return {"DescribeVolumes", "VolumeId"};
}

void put_block_devices(Body& body, const std::string& prefix,
                       const std::vector<NewBlockDevice>& devices) {
  int n = 0;
  for (const NewBlockDevice& device : devices) {
    const std::string name = prefix + "BlockDeviceMapping." + std::to_string(++n);
    const std::string ebs = name + ".Ebs.";
    body.put(name + ".DeviceName", device.device_name);
    body.put_set(ebs + "SnapshotId", device.snapshot_id);
    if (device.size_gib > 0) body.put(ebs + "VolumeSize", device.size_gib);
    body.put_set(ebs + "VolumeType", device.volume_type);
    if (device.iops) body.put(ebs + "Iops", *device.iops);
    if (device.throughput_mib_s) body.put(ebs + "Throughput", *device.throughput_mib_s);
    if (device.initialization_rate)
      body.put(ebs + "VolumeInitializationRate", *device.initialization_rate);
    if (device.encrypted) body.put(ebs + "Encrypted", "true");
    body.put_set(ebs + "KmsKeyId", device.kms_key);
    // Explicit: user guide and API text disagree on the default.
    body.put(ebs + "DeleteOnTermination", device.delete_on_termination ? "true" : "false");
  }
}

/// What RunInstances and a launch template have in common, under `prefix` ("" or
/// "LaunchTemplateData.").
void put_launch(Body& body, const std::string& prefix, const RunInstances& request) {
  body.put(prefix + "ImageId", request.image_id);
  body.put_list(prefix + "SecurityGroupId", request.security_group_ids);
  body.put_set(prefix + "KeyName", request.key_name);
  const bool is_arn = request.instance_profile.starts_with("arn:");
  body.put_set(prefix + (is_arn ? "IamInstanceProfile.Arn" : "IamInstanceProfile.Name"),
               request.instance_profile);
  if (!request.user_data.empty()) body.put(prefix + "UserData", base64(request.user_data));
  put_block_devices(body, prefix, request.block_devices);
  // A node that has let go of its volume ends itself by powering off; "stop" would keep
  // attachments.
  body.put(prefix + "InstanceInitiatedShutdownBehavior",
           request.stop_on_shutdown ? "stop" : "terminate");
  body.put(prefix + "MetadataOptions.HttpTokens", "required");
  body.put(prefix + "MetadataOptions.HttpPutResponseHopLimit", 1);
  // Explicit, because an account-level default applies when it is absent.
  body.put(prefix + "MetadataOptions.InstanceMetadataTags", "enabled");
}

EncodedCall encode_one(const RunInstances& request) {
  Body body("RunInstances");
  put_launch(body, "", request);
  body.put("InstanceType", request.instance_type);
  body.put("MinCount", request.min_count);
  body.put("MaxCount", request.max_count);
  body.put_set("SubnetId", request.subnet_id);
  if (request.subnet_id.empty())
    body.put_set("Placement.AvailabilityZone", request.availability_zone);
  body.put_set("ClientToken", request.client_token);
  if (request.spot) {
    body.put("InstanceMarketOptions.MarketType", "spot");
    body.put_set("InstanceMarketOptions.SpotOptions.MaxPrice", request.max_price);
    body.put("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time");
    body.put("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate");
  }
  body.put_tag_specification("instance", request.instance_tags);
  body.put_tag_specification("volume", request.volume_tags);
  return {"RunInstances", body.text()};
}

void put_override(Body& body, const std::string& name, const FleetOverride& request) {
  body.put(name + ".InstanceType", request.instance_type);
  body.put_set(name + ".SubnetId", request.subnet_id);
  // Also beside a subnet, which implies it: EC2's errors repeat the override, and only so they
  // name the zone. Source: Karpenter's instance provider.
  body.put_set(name + ".AvailabilityZone", request.availability_zone);
  body.put_set(name + ".MaxPrice", request.max_price);
}

EncodedCall encode_one(const CreateFleet& request) {
  Body body("CreateFleet");
  body.put("Type", "instant");  // the default, maintain, would launch again by itself
  const std::string config = "LaunchTemplateConfigs.1.";
  body.put(config + "LaunchTemplateSpecification.LaunchTemplateId", request.launch_template_id);
  body.put(config + "LaunchTemplateSpecification.Version", request.launch_template_version);
  int n = 0;
  for (const FleetOverride& one : request.overrides)
    put_override(body, config + "Overrides." + std::to_string(++n), one);
  body.put("TargetCapacitySpecification.TotalTargetCapacity", request.target_capacity);
  body.put("TargetCapacitySpecification.DefaultTargetCapacityType",
           request.spot ? "spot" : "on-demand");
  if (request.spot) {
    body.put("SpotOptions.AllocationStrategy", "price-capacity-optimized");
    body.put("SpotOptions.InstanceInterruptionBehavior", "terminate");
  } else {
    body.put("OnDemandOptions.AllocationStrategy", "lowest-price");
  }
  body.put_set("ClientToken", request.client_token);
  body.put_tag_specification("fleet", request.fleet_tags);
  body.put_tag_specification("instance", request.instance_tags);
  body.put_tag_specification("volume", request.volume_tags);
  return {"CreateFleet", body.text()};
}

EncodedCall encode_one(const CreateLaunchTemplate& request) {
  Body body("CreateLaunchTemplate");
  body.put("LaunchTemplateName", request.name);
  put_launch(body, "LaunchTemplateData.", request.launch);
  body.put_set("ClientToken", request.client_token);
  body.put_tag_specification("launch-template", request.tags);
  return {"CreateLaunchTemplate", body.text()};
}

EncodedCall encode_one(const DeleteLaunchTemplate& request) {
  Body body("DeleteLaunchTemplate");
  body.put("LaunchTemplateId", request.launch_template_id);
  return {"DeleteLaunchTemplate", body.text()};
}

EncodedCall encode_one(const ModifyInstanceAttribute& request) {
  Body body("ModifyInstanceAttribute");
  body.put("InstanceId", request.instance_id);
  if (request.delete_on_termination) {
    body.put("BlockDeviceMapping.1.DeviceName", request.device_name);
    // A mapping without the flag would set it to true.
    body.put("BlockDeviceMapping.1.Ebs.DeleteOnTermination",
             *request.delete_on_termination ? "true" : "false");
  } else if (request.disable_api_termination) {
    body.put("DisableApiTermination.Value", *request.disable_api_termination ? "true" : "false");
  }
  return {"ModifyInstanceAttribute", body.text()};
}

EncodedCall encode_one(const CopyVolumes& request) {
  Body body("CopyVolumes");
  body.put("SourceVolumeId", request.source_volume_id);
  if (request.size_gib > 0) body.put("Size", request.size_gib);
  body.put("VolumeType", request.volume_type);
  if (request.iops) body.put("Iops", *request.iops);
  if (request.throughput_mib_s) body.put("Throughput", *request.throughput_mib_s);
  body.put_set("ClientToken", request.client_token);
  body.put_tag_specification("volume", request.tags);
  return {"CopyVolumes", body.text()};
}

EncodedCall encode_one(const CreateSnapshot& request) {
  Body body("CreateSnapshot");
  body.put("VolumeId", request.volume_id);
  body.put_set("Description", request.description);
  body.put_tag_specification("snapshot", request.tags);
  return {"CreateSnapshot", body.text()};
}

EncodedCall encode_one(const StopInstances& request) {
  Body body("StopInstances");
  body.put_list("InstanceId", request.instance_ids);
  return {"StopInstances", body.text()};
}

EncodedCall encode_one(const CreateVolume& request) {
  Body body("CreateVolume");
  body.put("AvailabilityZone", request.availability_zone);
  body.put_set("SnapshotId", request.snapshot_id);
  if (request.size_gib > 0) body.put("Size", request.size_gib);
  body.put("VolumeType", request.volume_type);
  if (request.iops) body.put("Iops", *request.iops);
  if (request.throughput_mib_s) body.put("Throughput", *request.throughput_mib_s);
  if (request.initialization_rate)
    body.put("VolumeInitializationRate", *request.initialization_rate);
  if (request.encrypted) body.put("Encrypted", "true");
  body.put_set("KmsKeyId", request.kms_key);
  body.put_set("ClientToken", request.client_token);
  body.put_tag_specification("volume", request.tags);
  return {"CreateVolume", body.text()};
}

EncodedCall encode_one(const AttachVolume& request) {
  Body body("AttachVolume");
  body.put("VolumeId", request.volume_id);
  body.put("InstanceId", request.instance_id);
  body.put("Device", request.device);
  return {"AttachVolume", body.text()};
}

EncodedCall encode_one(const DetachVolume& request) {
  Body body("DetachVolume");
  body.put("VolumeId", request.volume_id);
  body.put("InstanceId", request.instance_id);
  body.put_set("Device", request.device);
  return {"DetachVolume", body.text()};
}

EncodedCall encode_one(const DeleteVolume& request) {
  Body body("DeleteVolume");
  body.put("VolumeId", request.volume_id);
  return {"DeleteVolume", body.text()};
}

EncodedCall encode_one(const TerminateInstances& request) {
  Body body("TerminateInstances");
  body.put_list("InstanceId", request.instance_ids);
  return {"TerminateInstances", body.text()};
}

EncodedCall encode_one(const CreateTags& request) {
  Body body("CreateTags");
  body.put_list("ResourceId", request.resource_ids);
  body.put_tags("Tag", request.tags);
  return {"CreateTags", body.text()};
}

EncodedCall encode_one(const DeleteTags& request) {
  Body body("DeleteTags");
  body.put_list("ResourceId", request.resource_ids);
  int n = 0;
  // Without a Value the tag goes whatever its value is; an empty Value would match only empty ones.
  for (const std::string& key : request.keys) body.put("Tag." + std::to_string(++n) + ".Key", key);
  return {"DeleteTags", body.text()};
}

/// "vol-1", "vol-1, vol-2" or "vol-1 and 4 more".
std::string names_in(const Form& form, const std::string& list) {
  std::vector<std::string_view> names;
  for (std::string_view name;
       !(name = form_value(form, list + "." + std::to_string(names.size() + 1))).empty();)
    names.push_back(name);
  std::string out;
  const std::size_t shown = names.size() > 3 ? 1 : names.size();
  for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + std::string(names[i]);
  if (names.size() > shown) out += " and " + std::to_string(names.size() - shown) + " more";
  return out;
}

/// "3 of g5.xlarge in us-east-1a" or "3 of 4 types and zones".
std::string fleet_of(const Form& form) {
  const auto at = [&form](int n, const char* member) {
    return std::string(
        form_value(form, "LaunchTemplateConfigs.1.Overrides." + std::to_string(n) + "." + member));
  };
  int overrides = 0;
  while (!at(overrides + 1, "InstanceType").empty()) ++overrides;
  const std::string count(form_value(form, "TargetCapacitySpecification.TotalTargetCapacity"));
  if (overrides != 1) return count + " of " + std::to_string(overrides) + " types and zones";
  const std::string zone = at(1, "AvailabilityZone");
  return count + " of " + at(1, "InstanceType") + " in " +
         (zone.empty() ? at(1, "SubnetId") : zone);
}

std::string what_of(std::string_view action, const Form& form) {
  const auto value = [&form](std::string_view key) { return std::string(form_value(form, key)); };
  if (action == "AttachVolume") return value("VolumeId") + " to " + value("InstanceId");
  if (action == "DetachVolume") return value("VolumeId") + " from " + value("InstanceId");
  if (action == "DeleteVolume") return value("VolumeId");
  if (action == "CreateVolume") {
    const std::string snapshot = value("SnapshotId");
    return (snapshot.empty() ? "" : "from " + snapshot + " ") + "in " + value("AvailabilityZone");
  }
  if (action == "RunInstances") {
    const std::string subnet = value("SubnetId");
    return value("InstanceType") + " from " + value("ImageId") + " in " +
           (subnet.empty() ? value("Placement.AvailabilityZone") : subnet);
  }
  if (action == "CopyVolumes") return "of " + value("SourceVolumeId");
  if (action == "CreateFleet") return fleet_of(form);
  for (const char* single : {"VolumeId", "InstanceId", "LaunchTemplateId", "LaunchTemplateName"})
    if (!value(single).empty()) return value(single);
  for (const char* list : {"InstanceId", "VolumeId", "ResourceId", "SnapshotId", "ImageId",
                           "SubnetId", "InstanceType", "LaunchTemplateId"}) {
    const std::string names = names_in(form, list);
    if (!names.empty()) return (std::string_view(list) == "ResourceId" ? "on " : "") + names;
  }
  return {};
}

}  // namespace

std::string encode(Describe what, const DescribeRequest& request) {
  const DescribeNames names = names_of(what);
  Body body(names.action);
  CHECK(request.ids.empty() || !names.id_list.empty());
  body.put_list(std::string(names.id_list), request.ids);
  if (what == Describe::instance_type_offerings) body.put("LocationType", "availability-zone");
  if (what == Describe::snapshots || what == Describe::images)
    body.put_list("Owner", request.owners);
  body.put_filters(request.filters);
  if (request.max_results > 0) body.put("MaxResults", request.max_results);
  body.put_set("NextToken", request.next_token);
  if (what == Describe::instance_status && request.include_all_instances)
    body.put("IncludeAllInstances", "true");
  return body.text();
}

std::string encode_describe_availability_zones() {
  return Body("DescribeAvailabilityZones").text();
}

std::string encode(const DescribeSpotPrices& request) {
  Body body("DescribeSpotPriceHistory");
  body.put_list("InstanceType", request.instance_types);
  body.put_list("ProductDescription", {"Linux/UNIX"});
  body.put_set("AvailabilityZone", request.availability_zone);
  body.put("StartTime", to_iso8601(request.start_time));
  if (request.max_results > 0) body.put("MaxResults", request.max_results);
  body.put_set("NextToken", request.next_token);
  return body.text();
}

std::string encode(const GetSpotPlacementScores& request) {
  Body body("GetSpotPlacementScores");
  body.put_list("InstanceType", request.instance_types);
  body.put("TargetCapacity", request.target_capacity);
  body.put("TargetCapacityUnitType", "units");
  body.put("SingleAvailabilityZone", "true");
  body.put_list("RegionName", {request.region});
  return body.text();
}

EncodedCall encode(const Mutation& mutation) {
  return std::visit([](const auto& request) { return encode_one(request); }, mutation);
}

std::string encode_dry_run(const Mutation& mutation) {
  return encode(mutation).body + "&DryRun=true";
}

std::string summary_of(std::string_view body) {
  const Form form = parse_form(body);
  const std::string_view action = form_value(form, "Action");
  const std::string what = what_of(action, form);
  return (form_value(form, "DryRun") == "true" ? "dry run of " : "") + std::string(action) +
         (what.empty() ? "" : " " + what);
}

bool is_read(std::string_view action) {
  return action.starts_with("Describe") || action.starts_with("Get");
}

}  // namespace warmroot::aws
