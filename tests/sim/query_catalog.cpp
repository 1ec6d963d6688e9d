// The Query front's actions about what the region was born with: images, zones, subnets.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

template <typename T>
std::vector<const T*> sorted(const std::vector<T>& list, std::string T::*key) {
  std::vector<const T*> out;
  for (const auto& item : list) out.push_back(&item);
  std::sort(out.begin(), out.end(), [&](const T* a, const T* b) { return a->*key < b->*key; });
  return out;
}

bool owned(const Region& region, const Values& owners, const std::string& owner) {
  return owners.empty() || contains(owners, owner) ||
         (owner == region.catalog().account_id && contains(owners, "self"));
}

FilterValues image_filter(const Region& region, const ImageRecord& image, const std::string& name) {
  if (name == "image-id") return Values{image.id};
  if (name == "name") return Values{image.name};
  if (name == "architecture") return Values{image.architecture};
  if (name == "state") return Values{"available"};
  if (name == "owner-id") return Values{image.owner_id};
  if (name == "root-device-name") return Values{image.root_device};
  if (name == "root-device-type") return Values{"ebs"};
  if (name == "virtualization-type") return Values{"hvm"};
  if (name == "is-public")
    return Values{image.owner_id == region.catalog().account_id ? "false" : "true"};
  if (name == "product-code") return image.product_codes;
  if (name == "block-device-mapping.snapshot-id") return Values{image.snapshot_id};
  if (name == "block-device-mapping.device-name") return Values{image.root_device};
  return tag_filter(image.tags, name);
}

void write_image(const Region& region, XmlWriter& xml, const ImageRecord& image) {
  xml.text("imageId", image.id);
  xml.text("imageLocation", image.owner_id + "/" + image.name);
  xml.text("imageState", "available");
  xml.text("imageOwnerId", image.owner_id);
  xml.text("creationDate", "2026-01-01T00:00:00.000Z");
  xml.flag("isPublic", image.owner_id != region.catalog().account_id);
  xml.text("architecture", image.architecture);
  xml.text("imageType", "machine");
  xml.text("name", image.name);
  xml.text("description", image.name);
  xml.text("rootDeviceType", "ebs");
  xml.text("rootDeviceName", image.root_device);
  xml.open("blockDeviceMapping");
  xml.open("item");
  xml.text("deviceName", image.root_device);
  xml.open("ebs");
  xml.text("snapshotId", image.snapshot_id);
  const SnapshotRecord* disk = region.snapshot(image.snapshot_id);
  xml.number("volumeSize", disk != nullptr ? disk->size_gib : 8);
  xml.flag("deleteOnTermination", true);
  xml.text("volumeType", "gp3");
  xml.flag("encrypted", false);
  xml.close();
  xml.close();
  for (const auto& device : image.extra) {
    xml.open("item");
    xml.text("deviceName", device.device);
    if (!device.virtual_name.empty()) {
      xml.text("virtualName", device.virtual_name);
    } else {
      xml.open("ebs");
      if (!device.snapshot_id.empty()) xml.text("snapshotId", device.snapshot_id);
      if (device.size_gib > 0) xml.number("volumeSize", device.size_gib);
      if (device.delete_on_termination)
        xml.flag("deleteOnTermination", *device.delete_on_termination);
      xml.text("volumeType", "gp3");
      xml.flag("encrypted", false);
      xml.close();
    }
    xml.close();
  }
  xml.close();
  if (!image.product_codes.empty()) {
    xml.open("productCodes");
    for (const auto& code : image.product_codes) {
      xml.open("item");
      xml.text("productCode", code);
      xml.text("type", "marketplace");
      xml.close();
    }
    xml.close();
  }
  xml.text("virtualizationType", "hvm");
  write_tags(xml, image.tags);
  xml.text("hypervisor", "xen");
  xml.flag("enaSupport", true);
  xml.text("platformDetails", "Linux/UNIX");
  xml.text("usageOperation", "RunInstances");
}

}  // namespace

std::string zone_id_of(const Region& region, const std::string& zone) {
  const Zone* found = region.zone(zone);
  return found == nullptr ? std::string() : found->id;
}

Answer<std::string> parse_zone(const Region& region, const Form& form, const std::string& prefix,
                               bool check_name) {
  const std::string name = form.text(prefix + "AvailabilityZone");
  const std::string id = form.text(prefix + "AvailabilityZoneId");
  if (!name.empty() && !id.empty())
    return refuse("InvalidParameterCombination",
                  "The parameters availabilityZone and availabilityZoneId cannot be used together");
  if (check_name && !name.empty() && region.zone(name) == nullptr)
    return refuse("InvalidParameterValue", "Invalid availability zone: [" + name + "]");
  if (id.empty()) return name;
  for (const auto& zone : region.catalog().zones)
    if (zone.id == id) return zone.name;
  return refuse("InvalidParameterValue", "Invalid availability zone ID: [" + id + "]");
}

Answer<void> describe_images_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "ImageId");
  if (!ids) return tl::unexpected(ids.error());
  const auto filters = parse_filters(
      form, [&](const std::string& name) { return image_filter(region, ImageRecord{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "imagesSet", *ids);
  if (!page) return tl::unexpected(page.error());
  for (const auto& id : *ids)
    if (region.image(id) == nullptr) return image_not_found(id);
  std::vector<const ImageRecord*> found;
  for (const auto* image : sorted(region.catalog().images, &ImageRecord::id))
    if ((ids->empty() || contains(*ids, image->id)) &&
        owned(region, form.list("Owner"), image->owner_id) &&
        passes(*filters,
               [&](const std::string& name) { return image_filter(region, *image, name); }))
      found.push_back(image);
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const ImageRecord* image) { return image->id; });
  xml.open("imagesSet");
  for (const auto* image : items) {
    xml.open("item");
    write_image(region, xml, *image);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> describe_zones_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto lookup = [&](const Zone& zone) {
    return [&region, &zone](const std::string& name) -> FilterValues {
      if (name == "zone-name") return Values{zone.name};
      if (name == "zone-id") return Values{zone.id};
      if (name == "state") return Values{zone.state};
      if (name == "region-name") return Values{region.catalog().region};
      if (name == "zone-type") return Values{"availability-zone"};
      if (name == "opt-in-status") return Values{"opt-in-not-required"};
      return std::nullopt;
    };
  };
  const Zone nowhere;
  const auto filters = parse_filters(form, lookup(nowhere));
  if (!filters) return tl::unexpected(filters.error());
  const auto names = form.list("ZoneName"), ids = form.list("ZoneId");
  for (const auto& name : names)
    if (region.zone(name) == nullptr)
      return refuse("InvalidParameterValue", "Invalid availability zone: [" + name + "]");
  xml.open("availabilityZoneInfo");
  for (const auto& zone : region.catalog().zones) {
    if (!(names.empty() || contains(names, zone.name)) ||
        !(ids.empty() || contains(ids, zone.id)) || !passes(*filters, lookup(zone)))
      continue;
    xml.open("item");
    xml.text("optInStatus", "opt-in-not-required");
    xml.empty("messageSet");
    xml.text("regionName", region.catalog().region);
    xml.text("zoneName", zone.name);
    xml.text("zoneId", zone.id);
    xml.text("groupName", region.catalog().region);
    xml.text("networkBorderGroup", region.catalog().region);
    xml.text("zoneType", "availability-zone");
    xml.text("zoneState", zone.state);
    xml.close();
  }
  xml.close();
  return {};
}

Answer<void> describe_subnets_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "SubnetId");
  if (!ids) return tl::unexpected(ids.error());
  const auto lookup = [](const SubnetRecord& net) {
    return [&net](const std::string& name) -> FilterValues {
      if (name == "subnet-id") return Values{net.id};
      if (name == "vpc-id") return Values{net.vpc_id};
      if (name == "availability-zone" || name == "availabilityZone") return Values{net.zone};
      if (name == "cidr-block" || name == "cidr") return Values{net.cidr};
      if (name == "state") return Values{"available"};
      if (name == "default-for-az") return Values{"true"};
      return tag_filter({}, name);
    };
  };
  const SubnetRecord none;
  const auto filters = parse_filters(form, lookup(none));
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "subnetSet", *ids);
  if (!page) return tl::unexpected(page.error());
  for (const auto& id : *ids)
    if (region.subnet(id) == nullptr)
      return refuse("InvalidSubnetID.NotFound", "The subnet ID '" + id + "' does not exist");
  std::vector<const SubnetRecord*> found;
  for (const auto* net : sorted(region.catalog().subnets, &SubnetRecord::id))
    if ((ids->empty() || contains(*ids, net->id)) && passes(*filters, lookup(*net)))
      found.push_back(net);
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const SubnetRecord* net) { return net->id; });
  xml.open("subnetSet");
  for (const auto* net : items) {
    xml.open("item");
    xml.text("availabilityZone", net->zone);
    xml.text("availabilityZoneId", zone_id_of(region, net->zone));
    xml.number("availableIpAddressCount", region.free_addresses(net->id));
    xml.text("cidrBlock", net->cidr);
    xml.flag("defaultForAz", true);
    xml.flag("mapPublicIpOnLaunch", false);
    xml.text("state", "available");
    xml.text("subnetId", net->id);
    xml.text("vpcId", net->vpc_id);
    xml.text("ownerId", region.catalog().account_id);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

}  // namespace warmroot::sim
