// How an instance is written and filtered. Members and their order are those seen on EC2's wire.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_instances.hpp"

namespace warmroot::sim {

namespace {

std::string private_name(const InstanceRecord& guest) {
  if (guest.private_ip.empty()) return {};
  std::string name = "ip-" + guest.private_ip;
  std::replace(name.begin(), name.end(), '.', '-');
  return name + ".ec2.internal";
}

void write_groups(XmlWriter& xml, const InstanceRecord& guest) {
  xml.open("groupSet");
  for (const auto& group : guest.security_groups) {
    xml.open("item");
    xml.text("groupId", group);
    xml.text("groupName", group == guest.security_groups.front() ? "default" : group);
    xml.close();
  }
  xml.close();
}

void write_disks(XmlWriter& xml, const InstanceView& view) {
  if (view.disks.empty()) return xml.empty("blockDeviceMapping");
  xml.open("blockDeviceMapping");
  for (const auto* disk : view.disks) {
    const Link& link = *disk->link;
    xml.open("item");
    xml.text("deviceName", link.device);
    xml.open("ebs");
    xml.text("volumeId", disk->id);
    // The instance's side has no "busy".
    xml.text("status",
             to_string(link.state == LinkState::busy ? LinkState::detaching : link.state));
    xml.text("attachTime", to_iso8601(link.attach_time));
    xml.flag("deleteOnTermination", link.delete_on_termination);
    xml.close();
    xml.close();
  }
  xml.close();
}

void write_placement(XmlWriter& xml, const Region& region, const InstanceRecord& guest) {
  xml.open("placement");
  xml.text("availabilityZone", guest.zone);
  xml.text("availabilityZoneId", zone_id_of(region, guest.zone));
  xml.empty("groupName");
  xml.text("tenancy", "default");
  xml.close();
  xml.open("monitoring");
  const char* on = guest.state == GuestState::pending ? "pending" : "enabled";
  xml.text("state", guest.monitored ? on : "disabled");
  xml.close();
}

void write_reason(XmlWriter& xml, const InstanceRecord& guest) {
  if (guest.reason_code.empty()) return;
  xml.open("stateReason");
  xml.text("code", guest.reason_code);
  xml.text("message", guest.reason_message);
  xml.close();
}

void write_options(XmlWriter& xml, const InstanceRecord& guest) {
  xml.flag("ebsOptimized", guest.ebs_optimized);
  xml.flag("enaSupport", true);
  xml.open("metadataOptions");
  xml.text("state", guest.state == GuestState::pending ? "pending" : "applied");
  xml.text("httpTokens", "required");
  xml.number("httpPutResponseHopLimit", 1);
  xml.text("httpEndpoint", "enabled");
  xml.text("httpProtocolIpv6", "disabled");
  xml.text("instanceMetadataTags", guest.metadata_tags ? "enabled" : "disabled");
  xml.close();
  xml.text("platformDetails", "Linux/UNIX");
}

/// The terminated instance keeps its id, its times and its reason, but no network.
void write_network(XmlWriter& xml, const InstanceRecord& guest) {
  if (guest.private_ip.empty()) return;
  xml.text("subnetId", guest.subnet_id);
  xml.text("vpcId", guest.vpc_id);
  xml.text("privateIpAddress", guest.private_ip);
}

}  // namespace

InstanceView instance_view(const Region& region, const InstanceRecord& guest) {
  InstanceView view{&guest, {}};
  for (const auto& id : guest.disks)
    if (const auto* disk = region.volume(id); disk != nullptr && disk->link)
      view.disks.push_back(disk);
  std::sort(view.disks.begin(), view.disks.end(),
            [](const auto* a, const auto* b) { return a->link->device < b->link->device; });
  return view;
}

void write_state(XmlWriter& xml, std::string_view element, GuestState state) {
  xml.open(element);
  xml.number("code", state_code(state));
  xml.text("name", to_string(state));
  xml.close();
}

void write_reservation(const Region& region, XmlWriter& xml, const InstanceRecord& first) {
  xml.text("reservationId", first.reservation_id);
  xml.text("ownerId", region.catalog().account_id);
  xml.empty("groupSet");
}

void write_instance(const Region& region, XmlWriter& xml, const InstanceView& view) {
  const InstanceRecord& guest = *view.guest;
  xml.text("instanceId", guest.id);
  xml.text("imageId", guest.image_id);
  write_state(xml, "instanceState", guest.state);
  xml.text("privateDnsName", private_name(guest));
  xml.empty("dnsName");
  xml.text("reason", guest.reason_code == "pending" ? "" : guest.reason_message);
  if (!guest.key_name.empty()) xml.text("keyName", guest.key_name);
  xml.number("amiLaunchIndex", guest.launch_index);
  xml.empty("productCodes");
  xml.text("instanceType", guest.type);
  xml.text("launchTime", to_iso8601(guest.start_time));
  write_placement(xml, region, guest);
  write_network(xml, guest);
  xml.flag("sourceDestCheck", true);
  write_groups(xml, guest);
  write_reason(xml, guest);
  xml.text("architecture", guest.architecture);
  xml.text("rootDeviceType", "ebs");
  xml.text("rootDeviceName", guest.root_device);
  write_disks(xml, view);
  xml.text("virtualizationType", "hvm");
  xml.text("clientToken", guest.client_token);
  if (guest.spot()) {
    xml.text("instanceLifecycle", "spot");
    xml.text("spotInstanceRequestId", guest.spot_request_id);
  }
  write_tags(xml, guest.tags);
  xml.text("hypervisor", "xen");  // even on Nitro
  xml.empty("networkInterfaceSet");
  if (!guest.instance_profile.empty()) {
    xml.open("iamInstanceProfile");
    xml.text("arn", "arn:aws:iam::" + region.catalog().account_id + ":instance-profile/" +
                        guest.instance_profile);
    xml.text("id", "AIPAEXAMPLEEXAMPLEEX0");
    xml.close();
  }
  write_options(xml, guest);
}

namespace {

FilterValues disk_filter(const InstanceView& view, const std::string& name) {
  const std::string start = "block-device-mapping.";
  if (!name.starts_with(start)) return std::nullopt;
  const std::string member = name.substr(start.size());
  if (member != "volume-id" && member != "device-name" && member != "status" &&
      member != "delete-on-termination" && member != "attach-time")
    return std::nullopt;
  std::vector<std::string> out;
  for (const auto* disk : view.disks) {
    const Link& link = *disk->link;
    if (member == "volume-id") out.push_back(disk->id);
    if (member == "device-name") out.push_back(link.device);
    if (member == "status")
      out.emplace_back(
          to_string(link.state == LinkState::busy ? LinkState::detaching : link.state));
    if (member == "delete-on-termination")
      out.emplace_back(link.delete_on_termination ? "true" : "false");
    if (member == "attach-time") out.push_back(to_iso8601(link.attach_time));
  }
  return out;
}

/// One fact of an instance as a filter's value, or nullopt where it is no filter's name. A chain
/// of comparisons: a listing asks this of every instance of the region.
std::optional<std::string> fact_of(const Region& region, const InstanceRecord& guest,
                                   const std::string& name) {
  const bool gone = guest.private_ip.empty();
  if (name == "instance-id") return guest.id;
  if (name == "instance-state-name") return std::string(to_string(guest.state));
  if (name == "instance-state-code") return std::to_string(state_code(guest.state));
  if (name == "instance-type") return guest.type;
  if (name == "image-id") return guest.image_id;
  if (name == "availability-zone") return guest.zone;
  if (name == "availability-zone-id") return zone_id_of(region, guest.zone);
  if (name == "subnet-id") return gone ? "" : guest.subnet_id;
  if (name == "vpc-id") return gone ? "" : guest.vpc_id;
  if (name == "private-ip-address") return guest.private_ip;
  if (name == "private-dns-name") return private_name(guest);
  if (name == "key-name") return guest.key_name;
  if (name == "client-token") return guest.client_token;
  if (name == "spot-instance-request-id") return guest.spot_request_id;
  if (name == "launch-time") return to_iso8601(guest.start_time);
  if (name == "reservation-id") return guest.reservation_id;
  if (name == "owner-id") return region.catalog().account_id;
  if (name == "root-device-name") return guest.root_device;
  if (name == "root-device-type") return "ebs";
  if (name == "architecture") return guest.architecture;
  if (name == "state-reason-code") return guest.reason_code;
  if (name == "state-reason-message") return guest.reason_message;
  if (name == "virtualization-type") return "hvm";
  if (name == "hypervisor") return "xen";
  if (name == "tenancy") return "default";
  if (name == "metadata-options.instance-metadata-tags")
    return guest.metadata_tags ? "enabled" : "disabled";
  return std::nullopt;
}

FilterValues fact_filter(const Region& region, const InstanceRecord& guest,
                         const std::string& name) {
  if (name == "instance-lifecycle")
    return guest.spot() ? std::vector<std::string>{"spot"} : std::vector<std::string>{};
  if (name == "instance.group-id" || name == "group-id") return guest.security_groups;
  auto fact = fact_of(region, guest, name);
  if (!fact) return std::nullopt;
  return std::vector<std::string>{std::move(*fact)};
}

}  // namespace

FilterValues instance_filter(const Region& region, const InstanceView& view,
                             const std::string& name) {
  if (auto found = tag_filter(view.guest->tags, name)) return found;
  if (auto found = disk_filter(view, name)) return found;
  return fact_filter(region, *view.guest, name);
}

}  // namespace warmroot::sim
