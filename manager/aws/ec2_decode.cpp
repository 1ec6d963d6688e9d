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

std::optional<int> number(const Element* parent, const char* name) {
  const std::string digits = text(parent, name);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool flag(const Element* parent, const char* name) {
  return text(parent, name) == "true";
}

std::optional<Instant> instant(const Element* parent, const char* name) {
  return parse_iso8601(text(parent, name));
}

/// Calls `each` for every <item> of the list; none for an absent list.
template <typename Each>
void for_items(const Element* parent, const char* list, Each each) {
  for (const Element* item = child(child(parent, list), "item"); item != nullptr;
       item = item->NextSiblingElement("item"))
    each(item);
}

Tags tags_of(const Element* parent) {
  Tags tags;
  for_items(parent, "tagSet",
            [&tags](const Element* item) { tags[text(item, "key")] = text(item, "value"); });
  return tags;
}

Attachment attachment_of(const Element* item) {
  Attachment out;
  out.volume_id = text(item, "volumeId");
  out.instance_id = text(item, "instanceId");
  out.device = text(item, "device");
  out.state = attachment_state(text(item, "status"));
  out.attach_time = instant(item, "attachTime");
  out.delete_on_termination = flag(item, "deleteOnTermination");
  return out;
}

Volume volume_of(const Element* item) {
  Volume out;
  out.volume_id = text(item, "volumeId");
  out.snapshot_id = text(item, "snapshotId");
  out.availability_zone = text(item, "availabilityZone");
  out.volume_type = text(item, "volumeType");
  out.size_gib = number(item, "size").value_or(0);
  out.iops = number(item, "iops");
  out.throughput_mib_s = number(item, "throughput");
  out.encrypted = flag(item, "encrypted");
  out.state = volume_state(text(item, "status"));
  out.create_time = instant(item, "createTime");
  for_items(item, "attachmentSet",
            [&out](const Element* entry) { out.attachments.push_back(attachment_of(entry)); });
  out.tags = tags_of(item);
  return out;
}

Instance instance_of(const Element* item) {
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
  for_items(item, "blockDeviceMapping", [&out](const Element* entry) {
    const Element* ebs = child(entry, "ebs");
    if (ebs == nullptr) return;
    out.block_devices.push_back({text(entry, "deviceName"), text(ebs, "volumeId"),
                                 attachment_state(text(ebs, "status")),
                                 flag(ebs, "deleteOnTermination")});
  });
  out.tags = tags_of(item);
  return out;
}

InstanceStatus status_of(const Element* item) {
  return {text(item, "instanceId"), instance_state(text(child(item, "instanceState"), "name")),
          text(child(item, "systemStatus"), "status"),
          text(child(item, "instanceStatus"), "status")};
}

Snapshot snapshot_of(const Element* item) {
  return {text(item, "snapshotId"), text(item, "status"),
          text(item, "ownerId"),    number(item, "volumeSize").value_or(0),
          flag(item, "encrypted"),  tags_of(item)};
}

Image image_of(const Element* item) {
  Image out{text(item, "imageId"),      text(item, "imageState"),     text(item, "name"),
            text(item, "architecture"), text(item, "rootDeviceName"), {}};
  for_items(item, "blockDeviceMapping", [&out](const Element* entry) {
    const Element* ebs = child(entry, "ebs");
    if (ebs == nullptr) return;
    out.mappings.push_back({text(entry, "deviceName"), text(ebs, "snapshotId"),
                            number(ebs, "volumeSize").value_or(0)});
  });
  return out;
}

AvailabilityZone zone_of(const Element* item) {
  return {text(item, "zoneName"), text(item, "zoneId"), text(item, "zoneState")};
}

Subnet subnet_of(const Element* item) {
  return {text(item, "subnetId"), text(item, "vpcId"), text(item, "availabilityZone"),
          number(item, "availableIpAddressCount").value_or(0)};
}

SpotPrice price_of(const Element* item) {
  return {text(item, "instanceType"), text(item, "availabilityZone"), text(item, "spotPrice"),
          instant(item, "timestamp")};
}

/// The root of a successful answer to `action`; the document owns it.
Result<const Element*> open_answer(std::string_view action, const HttpReply& reply,
                                   tinyxml2::XMLDocument& document) {
  if (reply.status < 200 || reply.status >= 300) return fail(refused(action, reply));
  if (document.Parse(reply.body.data(), reply.body.size()) != tinyxml2::XML_SUCCESS)
    return fail(refused(action, reply));
  const Element* root = document.RootElement();
  if (root == nullptr || root->Name() != std::string(action) + "Response")
    return fail(refused(action, reply));
  return root;
}

Error without_id(std::string_view action, const char* id) {
  const ErrorKind kind = is_read(action) ? ErrorKind::broken : ErrorKind::unknown_outcome;
  return {kind, "the answer has an item without " + std::string(id) + ".", {}, {}};
}

/// One page of `list`; `id` is the member no item may lack.
template <typename T>
Result<Page<T>> decode_page(std::string_view action, const HttpReply& reply, const char* list,
                            const char* id, T (*decode)(const Element*)) {
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* root, open_answer(action, reply, document));
  Page<T> page;
  bool complete = true;
  for_items(root, list, [&](const Element* item) {
    complete = complete && !text(item, id).empty();
    page.items.push_back(decode(item));
  });
  if (!complete) return fail(without_id(action, id));
  page.next_token = text(root, "nextToken");
  return page;
}

Result<std::vector<Instance>> launched(std::string_view action, const Element* root) {
  std::vector<Instance> instances;
  bool complete = true;
  for_items(root, "instancesSet", [&](const Element* item) {
    Instance instance = instance_of(item);
    if (child(item, "currentState") != nullptr)
      instance.state = instance_state(text(child(item, "currentState"), "name"));
    complete = complete && !instance.instance_id.empty();
    instances.push_back(std::move(instance));
  });
  if (!complete) return fail(without_id(action, "instanceId"));
  return instances;
}

}  // namespace

Result<Page<Volume>> decode_volumes(const HttpReply& reply) {
  return decode_page("DescribeVolumes", reply, "volumeSet", "volumeId", volume_of);
}

Result<Page<Instance>> decode_instances(const HttpReply& reply) {
  constexpr std::string_view kAction = "DescribeInstances";
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* root, open_answer(kAction, reply, document));
  Page<Instance> page;
  bool complete = true;
  for_items(root, "reservationSet", [&](const Element* reservation) {
    for_items(reservation, "instancesSet", [&](const Element* item) {
      complete = complete && !text(item, "instanceId").empty();
      page.items.push_back(instance_of(item));
    });
  });
  if (!complete) return fail(without_id(kAction, "instanceId"));
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

Result<MutationAnswer> decode_answer(std::string_view action, const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  TRY_ASSIGN(const Element* root, open_answer(action, reply, document));
  if (action == "RunInstances" || action == "TerminateInstances") {
    TRY_ASSIGN(auto instances, launched(action, root));
    return MutationAnswer(std::move(instances));
  }
  if (action == "CreateVolume") {
    Volume volume = volume_of(root);
    if (volume.volume_id.empty()) return fail(without_id(action, "volumeId"));
    return MutationAnswer(std::move(volume));
  }
  if (action == "AttachVolume" || action == "DetachVolume") {
    Attachment attachment = attachment_of(root);
    if (attachment.volume_id.empty()) return fail(without_id(action, "volumeId"));
    return MutationAnswer(std::move(attachment));
  }
  if (text(root, "return") == "false")
    return fail(ErrorKind::refused, "EC2 answered `return` false without a reason.");
  return MutationAnswer(std::monostate{});
}

}  // namespace warmroot::aws
