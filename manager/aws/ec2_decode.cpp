// XML answers into structs. Element order is no contract, unknown elements are skipped, a list may
// be empty or absent. An item without its id is an error: a view with holes must not look complete.
#include <charconv>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/ec2_xml.hpp"

namespace warmroot::aws {
namespace {

using xml::child;
using xml::Element;
using xml::text;
using xml::text_of;

/// An element that is being read, and where to say what is wrong inside it.
struct Item {
  const Element* element;
  std::string* mistake;

  operator const Element*() const { return element; }
  Item inside(const char* name) const { return {child(element, name), mistake}; }
  /// The first mistake counts.
  void wrong(const char* name, const std::string& found) const {
    if (mistake->empty()) *mistake = std::string(name) + " \"" + found.substr(0, 40) + "\"";
  }
};

/// Absent and empty are no number; anything else that is none is a mistake.
template <typename Number = int>
std::optional<Number> number(const Item& parent, const char* name) {
  const std::string digits = text(parent, name);
  if (digits.empty()) return std::nullopt;
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc{} && end == digits.data() + digits.size()) return value;
  parent.wrong(name, digits);
  return std::nullopt;
}

/// Absent and empty are false; a flag that is neither true nor false is a mistake.
bool flag(const Item& parent, const char* name) {
  const std::string word = text(parent, name);
  if (!word.empty() && word != "true" && word != "false") parent.wrong(name, word);
  return word == "true";
}

std::optional<Instant> instant(const Item& parent, const char* name) {
  return parse_iso8601(text(parent, name));
}

/// Calls `each` for every <item> of the list; none for an absent list.
template <typename Each>
void for_items(const Item& parent, const char* list, Each each) {
  for (const Element* item = child(child(parent, list), "item"); item != nullptr;
       item = item->NextSiblingElement("item"))
    each(Item{item, parent.mistake});
}

Tags tags_of(const Item& parent) {
  Tags tags;
  for_items(parent, "tagSet",
            [&tags](const Item& item) { tags[text(item, "key")] = text(item, "value"); });
  return tags;
}

Attachment attachment_of(const Item& item) {
  Attachment out;
  out.volume_id = text(item, "volumeId");
  out.instance_id = text(item, "instanceId");
  out.device = text(item, "device");
  out.state = attachment_state(text(item, "status"));
  out.attach_time = instant(item, "attachTime");
  out.delete_on_termination = flag(item, "deleteOnTermination");
  return out;
}

Volume volume_of(const Item& item) {
  Volume out;
  out.volume_id = text(item, "volumeId");
  out.snapshot_id = text(item, "snapshotId");
  out.availability_zone = text(item, "availabilityZone");
  out.volume_type = text(item, "volumeType");
  out.size_gib = number(item, "size").value_or(0);
  out.iops = number(item, "iops");
  out.throughput_mib_s = number(item, "throughput");
  out.encrypted = flag(item, "encrypted");
  out.kms_key_id = text(item, "kmsKeyId");
  out.source_volume_id = text(item, "sourceVolumeId");
  out.initialization_rate = number(item, "volumeInitializationRate");
  out.state = volume_state(text(item, "status"));
  out.create_time = instant(item, "createTime");
  for_items(item, "attachmentSet",
            [&out](const Item& entry) { out.attachments.push_back(attachment_of(entry)); });
  out.tags = tags_of(item);
  return out;
}

Instance instance_of(const Item& item) {
  Instance out;
  out.instance_id = text(item, "instanceId");
  out.image_id = text(item, "imageId");
  out.instance_type = text(item, "instanceType");
  out.state = instance_state(text(child(item, "instanceState"), "name"));
  out.state_reason_code = text(child(item, "stateReason"), "code");
  // A launch answers with {pending, pending}: no reason yet.
  if (out.state_reason_code == "pending") out.state_reason_code.clear();
  out.availability_zone = text(child(item, "placement"), "availabilityZone");
  out.subnet_id = text(item, "subnetId");
  out.private_ip = text(item, "privateIpAddress");
  out.public_ip = text(item, "ipAddress");
  out.root_device_name = text(item, "rootDeviceName");
  out.client_token = text(item, "clientToken");
  out.spot = text(item, "instanceLifecycle") == "spot";
  out.launch_time = instant(item, "launchTime");
  for_items(item, "blockDeviceMapping", [&out](const Item& entry) {
    const Item ebs = entry.inside("ebs");
    if (ebs.element == nullptr) return;
    out.block_devices.push_back({text(entry, "deviceName"), text(ebs, "volumeId"),
                                 attachment_state(text(ebs, "status")),
                                 flag(ebs, "deleteOnTermination")});
  });
  out.tags = tags_of(item);
  return out;
}

InstanceStatus status_of(const Item& item) {
  return {text(item, "instanceId"), instance_state(text(child(item, "instanceState"), "name")),
          text(child(item, "systemStatus"), "status"),
          text(child(item, "instanceStatus"), "status")};
}

Snapshot snapshot_of(const Item& item) {
  return {text(item, "snapshotId"),
          text(item, "status"),
          text(item, "ownerId"),
          number(item, "volumeSize").value_or(0),
          flag(item, "encrypted"),
          tags_of(item),
          number<std::int64_t>(item, "fullSnapshotSizeInBytes").value_or(0)};
}

Image image_of(const Item& item) {
  Image out;
  out.image_id = text(item, "imageId");
  out.state = text(item, "imageState");
  out.name = text(item, "name");
  out.architecture = text(item, "architecture");
  out.root_device_name = text(item, "rootDeviceName");
  out.owner_id = text(item, "imageOwnerId");
  for_items(item, "productCodes",
            [&out](const Item& entry) { out.product_codes.push_back(text(entry, "productCode")); });
  for_items(item, "blockDeviceMapping", [&out](const Item& entry) {
    const Item ebs = entry.inside("ebs");
    if (ebs.element == nullptr) return;
    out.mappings.push_back({text(entry, "deviceName"), text(ebs, "snapshotId"),
                            number(ebs, "volumeSize").value_or(0),
                            flag(ebs, "deleteOnTermination")});
  });
  return out;
}

AvailabilityZone zone_of(const Item& item) {
  return {text(item, "zoneName"), text(item, "zoneId"), text(item, "zoneState")};
}

Subnet subnet_of(const Item& item) {
  return {text(item, "subnetId"), text(item, "vpcId"), text(item, "availabilityZone"),
          number(item, "availableIpAddressCount").value_or(0)};
}

SpotPrice price_of(const Item& item) {
  return {text(item, "instanceType"), text(item, "availabilityZone"), text(item, "spotPrice"),
          instant(item, "timestamp")};
}

InstanceTypeOffering offering_of(const Item& item) {
  return {text(item, "instanceType"), text(item, "location")};
}

InstanceType type_of(const Item& item) {
  InstanceType out;
  out.instance_type = text(item, "instanceType");
  for_items(item.inside("processorInfo"), "supportedArchitectures",
            [&out](const Item& entry) { out.architectures.push_back(text_of(entry)); });
  out.hypervisor = text(item, "hypervisor");
  out.vcpus = number(item.inside("vCpuInfo"), "defaultVCpus").value_or(0);
  out.burstable = flag(item, "burstablePerformanceSupported");
  out.max_attachments = number(item.inside("ebsInfo"), "maximumEbsAttachments");
  return out;
}

VolumeStatus volume_status_of(const Item& item) {
  VolumeStatus out;
  out.volume_id = text(item, "volumeId");
  const Item status = item.inside("volumeStatus");
  out.status = text(status, "status");
  for_items(status, "details", [&out](const Item& entry) {
    if (text(entry, "name") == "initialization-state")
      out.initialization_state = text(entry, "status");
  });
  const Item initialization = item.inside("initializationStatusDetails");
  out.initialization_type = text(initialization, "initializationType");
  out.initialization_percent = number(initialization, "progress");
  return out;
}

FastSnapshotRestore restore_of(const Item& item) {
  return {text(item, "snapshotId"), text(item, "availabilityZone"), text(item, "state")};
}

LaunchTemplate template_of(const Item& item) {
  return {text(item, "launchTemplateId"), text(item, "launchTemplateName"), tags_of(item)};
}

SpotPlacementScore score_of(const Item& item) {
  return {text(item, "availabilityZoneId"), number(item, "score").value_or(0)};
}

/// The root of a successful answer to `action`; the document owns it.
Result<const Element*> open_answer(std::string_view action, const HttpReply& reply,
                                   tinyxml2::XMLDocument& document) {
  if (reply.status < 200 || reply.status >= 300) return fail(refused(action, reply));
  if (!xml::parse(document, reply.body)) return fail(refused(action, reply));
  const Element* root = document.RootElement();
  if (root == nullptr || root->Name() != std::string(action) + "Response")
    return fail(refused(action, reply));
  return root;
}

Error without_id(std::string_view action, const char* id) {
  const ErrorKind kind = is_read(action) ? ErrorKind::broken : ErrorKind::unknown_outcome;
  return {kind, "the answer has an item without " + std::string(id) + ".", {}, {}};
}

/// A listing that says what cannot be must not be acted upon. (A mutation that answers so has
/// happened all the same; the next look shows what it made.)
Error of_wrong_type(const std::string& mistake) {
  return {ErrorKind::broken, "the answer has " + mistake + ", which cannot be.", {}, {}};
}

/// One page of `list`; `id` is the member no item may lack.
template <typename T>
Result<Page<T>> decode_page(std::string_view action, const HttpReply& reply, const char* list,
                            const char* id, T (*decode)(const Item&)) {
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* opened, open_answer(action, reply, document));
  std::string mistake;
  const Item root{opened, &mistake};
  Page<T> page;
  bool complete = true;
  for_items(root, list, [&](const Item& item) {
    complete = complete && !text(item, id).empty();
    page.items.push_back(decode(item));
  });
  if (!complete) return fail(without_id(action, id));
  if (!mistake.empty()) return fail(of_wrong_type(mistake));
  page.next_token = text(root, "nextToken");
  return page;
}

Result<std::vector<Instance>> launched(std::string_view action, const Item& root) {
  std::vector<Instance> instances;
  bool complete = true;
  for_items(root, "instancesSet", [&](const Item& item) {
    Instance instance = instance_of(item);
    if (child(item, "currentState") != nullptr)
      instance.state = instance_state(text(child(item, "currentState"), "name"));
    complete = complete && !instance.instance_id.empty();
    instances.push_back(std::move(instance));
  });
  if (!complete) return fail(without_id(action, "instanceId"));
  return instances;
}

Result<FleetAnswer> fleet_of(std::string_view action, const Item& root) {
  FleetAnswer fleet;
  fleet.fleet_id = text(root, "fleetId");
  bool complete = true;
  for_items(root, "fleetInstanceSet", [&](const Item& item) {
    const Element* used = child(child(item, "launchTemplateAndOverrides"), "overrides");
    Instance instance;
    instance.instance_type = text(item, "instanceType");
    instance.state = InstanceState::pending;
    instance.spot = text(item, "lifecycle") == "spot";
    instance.availability_zone = text(item, "availabilityZone");
    if (instance.availability_zone.empty())
      instance.availability_zone = text(used, "availabilityZone");
    instance.subnet_id = text(used, "subnetId");
    const std::size_t before = fleet.instances.size();
    for_items(item, "instanceIds", [&](const Item& id) {
      instance.instance_id = text_of(id);
      complete = complete && !instance.instance_id.empty();
      fleet.instances.push_back(instance);
    });
    complete = complete && fleet.instances.size() > before;
  });
  if (!complete) return fail(without_id(action, "instanceId"));
  for_items(root, "errorSet", [&fleet](const Item& item) {
    const Element* used = child(child(item, "launchTemplateAndOverrides"), "overrides");
    fleet.errors.push_back({std::string(bare_code(text(item, "errorCode"))),
                            text(item, "errorMessage"), text(used, "instanceType"),
                            text(used, "availabilityZone"), text(used, "subnetId")});
  });
  return fleet;
}

/// EC2 answers with a list that holds the one copy.
Result<Volume> copied(std::string_view action, const Item& root) {
  std::vector<Volume> volumes;
  for_items(root, "volumeSet",
            [&volumes](const Item& item) { volumes.push_back(volume_of(item)); });
  if (volumes.size() != 1 || volumes.front().volume_id.empty())
    return fail(without_id(action, "volumeId"));
  return std::move(volumes.front());
}

}  // namespace

Result<Page<Volume>> decode_volumes(const HttpReply& reply) {
  return decode_page("DescribeVolumes", reply, "volumeSet", "volumeId", volume_of);
}

Result<Page<Instance>> decode_instances(const HttpReply& reply) {
  constexpr std::string_view kAction = "DescribeInstances";
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* opened, open_answer(kAction, reply, document));
  std::string mistake;
  const Item root{opened, &mistake};
  Page<Instance> page;
  bool complete = true;
  for_items(root, "reservationSet", [&](const Item& reservation) {
    for_items(reservation, "instancesSet", [&](const Item& item) {
      complete = complete && !text(item, "instanceId").empty();
      page.items.push_back(instance_of(item));
    });
  });
  if (!complete) return fail(without_id(kAction, "instanceId"));
  if (!mistake.empty()) return fail(of_wrong_type(mistake));
  page.next_token = text(root, "nextToken");
  return page;
}

Result<Page<InstanceStatus>> decode_instance_status(const HttpReply& reply) {
  return decode_page("DescribeInstanceStatus", reply, "instanceStatusSet", "instanceId", status_of);
}

Result<Page<Snapshot>> decode_snapshots(const HttpReply& reply) {
  return decode_page("DescribeSnapshots", reply, "snapshotSet", "snapshotId", snapshot_of);
}

Result<Page<Image>> decode_images(const HttpReply& reply) {
  return decode_page("DescribeImages", reply, "imagesSet", "imageId", image_of);
}

Result<std::vector<AvailabilityZone>> decode_availability_zones(const HttpReply& reply) {
  TRY_ASSIGN(auto page, decode_page("DescribeAvailabilityZones", reply, "availabilityZoneInfo",
                                    "zoneName", zone_of));
  return std::move(page.items);
}

Result<Page<Subnet>> decode_subnets(const HttpReply& reply) {
  return decode_page("DescribeSubnets", reply, "subnetSet", "subnetId", subnet_of);
}

Result<Page<SpotPrice>> decode_spot_prices(const HttpReply& reply) {
  return decode_page("DescribeSpotPriceHistory", reply, "spotPriceHistorySet", "instanceType",
                     price_of);
}

Result<Page<InstanceTypeOffering>> decode_instance_type_offerings(const HttpReply& reply) {
  return decode_page("DescribeInstanceTypeOfferings", reply, "instanceTypeOfferingSet",
                     "instanceType", offering_of);
}

Result<Page<InstanceType>> decode_instance_types(const HttpReply& reply) {
  return decode_page("DescribeInstanceTypes", reply, "instanceTypeSet", "instanceType", type_of);
}

Result<Page<VolumeStatus>> decode_volume_status(const HttpReply& reply) {
  return decode_page("DescribeVolumeStatus", reply, "volumeStatusSet", "volumeId",
                     volume_status_of);
}

Result<Page<FastSnapshotRestore>> decode_fast_snapshot_restores(const HttpReply& reply) {
  return decode_page("DescribeFastSnapshotRestores", reply, "fastSnapshotRestoreSet", "snapshotId",
                     restore_of);
}

Result<Page<LaunchTemplate>> decode_launch_templates(const HttpReply& reply) {
  return decode_page("DescribeLaunchTemplates", reply, "launchTemplates", "launchTemplateId",
                     template_of);
}

Result<std::vector<SpotPlacementScore>> decode_spot_placement_scores(const HttpReply& reply) {
  TRY_ASSIGN(auto page, decode_page("GetSpotPlacementScores", reply, "spotPlacementScoreSet",
                                    "availabilityZoneId", score_of));
  return std::move(page.items);
}

namespace {

/// `T` with its id, or the error that it lacks one.
template <typename T>
Result<MutationAnswer> with_id(std::string_view action, T value, std::string T::*id,
                               const char* name) {
  if ((value.*id).empty()) return fail(without_id(action, name));
  return MutationAnswer(std::move(value));
}

}  // namespace

Result<MutationAnswer> decode_answer(std::string_view action, const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* opened, open_answer(action, reply, document));
  std::string ignored;
  const Item root{opened, &ignored};
  if (action == "RunInstances" || action == "TerminateInstances" || action == "StopInstances") {
    TRY_ASSIGN(auto instances, launched(action, root));
    return MutationAnswer(std::move(instances));
  }
  if (action == "CreateFleet") {
    TRY_ASSIGN(auto fleet, fleet_of(action, root));
    return MutationAnswer(std::move(fleet));
  }
  if (action == "CopyVolumes") {
    TRY_ASSIGN(auto volume, copied(action, root));
    return MutationAnswer(std::move(volume));
  }
  if (action == "CreateVolume")
    return with_id(action, volume_of(root), &Volume::volume_id, "volumeId");
  if (action == "AttachVolume" || action == "DetachVolume")
    return with_id(action, attachment_of(root), &Attachment::volume_id, "volumeId");
  if (action == "CreateSnapshot")
    return with_id(action, snapshot_of(root), &Snapshot::snapshot_id, "snapshotId");
  if (action == "CreateLaunchTemplate")
    return with_id(action, template_of(root.inside("launchTemplate")),
                   &LaunchTemplate::launch_template_id, "launchTemplateId");
  if (text(root, "return") == "false")
    return fail(ErrorKind::refused, "EC2 answered `return` false without a reason.");
  return MutationAnswer(std::monostate{});
}

Ok decode_dry_run(std::string_view action, const HttpReply& reply) {
  if (code_of(reply) == "DryRunOperation") return {};
  tinyxml2::XMLDocument document;
  TRY(open_answer(action, reply, document));
  return fail(ErrorKind::broken,
              "the endpoint does not know dry runs and has carried the call out.");
}

}  // namespace warmroot::aws
