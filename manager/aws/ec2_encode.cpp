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
  std::string_view id_list;
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
  }
  return {"DescribeVolumes", "VolumeId"};
}

EncodedCall encode_one(const RunInstances& request) {
  Body body("RunInstances");
  body.put("ImageId", request.image_id);
  body.put("InstanceType", request.instance_type);
  body.put("MinCount", request.min_count);
  body.put("MaxCount", request.max_count);
  body.put_set("SubnetId", request.subnet_id);
  if (request.subnet_id.empty())
    body.put_set("Placement.AvailabilityZone", request.availability_zone);
  body.put_list("SecurityGroupId", request.security_group_ids);
  body.put_set("KeyName", request.key_name);
  const bool is_arn = request.instance_profile.starts_with("arn:");
  body.put_set(is_arn ? "IamInstanceProfile.Arn" : "IamInstanceProfile.Name",
               request.instance_profile);
  if (!request.user_data.empty()) body.put("UserData", base64(request.user_data));
  body.put_set("ClientToken", request.client_token);
  // A node that has let go of its volume ends itself by powering off; "stop" would keep
  // attachments.
  body.put("InstanceInitiatedShutdownBehavior", "terminate");
  body.put("MetadataOptions.HttpTokens", "required");
  body.put("MetadataOptions.HttpPutResponseHopLimit", 1);
  // Explicit, because an account-level default applies when it is absent.
  body.put("MetadataOptions.InstanceMetadataTags", "enabled");
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

EncodedCall encode_one(const CreateVolume& request) {
  Body body("CreateVolume");
  body.put("AvailabilityZone", request.availability_zone);
  body.put_set("SnapshotId", request.snapshot_id);
  if (request.size_gib > 0) body.put("Size", request.size_gib);
  body.put("VolumeType", request.volume_type);
  if (request.iops) body.put("Iops", *request.iops);
  if (request.throughput_mib_s) body.put("Throughput", *request.throughput_mib_s);
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
  for (const char* list :
       {"InstanceId", "VolumeId", "ResourceId", "SnapshotId", "ImageId", "SubnetId"}) {
    const std::string names = names_in(form, list);
    if (!names.empty()) return (std::string_view(list) == "ResourceId" ? "on " : "") + names;
  }
  return {};
}

}  // namespace

std::string encode(Describe what, const DescribeRequest& request) {
  const DescribeNames names = names_of(what);
  Body body(names.action);
  body.put_list(std::string(names.id_list), request.ids);
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

EncodedCall encode(const Mutation& mutation) {
  return std::visit([](const auto& request) { return encode_one(request); }, mutation);
}

std::string summary_of(std::string_view body) {
  const Form form = parse_form(body);
  const std::string_view action = form_value(form, "Action");
  const std::string what = what_of(action, form);
  return std::string(action) + (what.empty() ? "" : " " + what);
}

bool is_read(std::string_view action) {
  return action.starts_with("Describe");
}

}  // namespace warmroot::aws
