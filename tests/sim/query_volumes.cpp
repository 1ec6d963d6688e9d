// The volume actions of the Query front.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

const char* word(bool value) {
  return value ? "true" : "false";
}

void write_link(XmlWriter& xml, const VolumeRecord& disk, const Link& link, LinkState state) {
  xml.text("volumeId", disk.id);
  xml.text("instanceId", link.instance_id);
  xml.text("device", link.device);
  xml.text("status", to_string(state));
  xml.text("attachTime", to_iso8601(link.attach_time));
  xml.flag("deleteOnTermination", link.delete_on_termination);
}

void write_volume(const Region& region, XmlWriter& xml, const VolumeRecord& disk) {
  xml.text("volumeId", disk.id);
  xml.number("size", disk.size_gib);
  xml.text("snapshotId", disk.snapshot_id);
  xml.text("availabilityZone", disk.zone);
  xml.text("availabilityZoneId", zone_id_of(region, disk.zone));
  xml.text("status", to_string(disk.state));
  xml.text("createTime", to_iso8601(disk.create_time));
  if (disk.link) {
    xml.open("attachmentSet");
    xml.open("item");
    write_link(xml, disk, *disk.link, disk.link->state);
    xml.close();
    xml.close();
  } else {
    xml.empty("attachmentSet");
  }
  write_tags(xml, disk.tags);
  xml.text("volumeType", disk.type);
  if (disk.iops) xml.number("iops", *disk.iops);
  if (disk.throughput) xml.number("throughput", *disk.throughput);
  xml.flag("encrypted", disk.encrypted);
  if (!disk.kms_key.empty()) xml.text("kmsKeyId", disk.kms_key);
  xml.flag("multiAttachEnabled", disk.multi_attach);
  if (!disk.source_volume_id.empty()) xml.text("sourceVolumeId", disk.source_volume_id);
  if (disk.init_rate) xml.number("volumeInitializationRate", *disk.init_rate);
  if (disk.fast_restored) xml.flag("fastRestored", true);  // absent where a credit was lacking
}

FilterValues link_filter(const VolumeRecord& disk, const std::string& name) {
  const auto of_link = [&](auto value) { return disk.link ? Values{value(*disk.link)} : Values{}; };
  if (name == "attachment.attach-time")
    return of_link([](const Link& link) { return to_iso8601(link.attach_time); });
  if (name == "attachment.delete-on-termination")
    return of_link([](const Link& link) { return word(link.delete_on_termination); });
  if (name == "attachment.device") return of_link([](const Link& link) { return link.device; });
  if (name == "attachment.instance-id")
    return of_link([](const Link& link) { return link.instance_id; });
  if (name == "attachment.status")
    return of_link([](const Link& link) { return std::string(to_string(link.state)); });
  return std::nullopt;
}

FilterValues volume_filter(const Region& region, const VolumeRecord& disk,
                           const std::string& name) {
  if (name == "availability-zone") return Values{disk.zone};
  if (name == "availability-zone-id") return Values{zone_id_of(region, disk.zone)};
  if (name == "create-time") return Values{to_iso8601(disk.create_time)};
  if (name == "encrypted") return Values{word(disk.encrypted)};
  if (name == "fast-restored") return Values{word(disk.fast_restored)};
  if (name == "operator.managed") return Values{"false"};
  if (name == "multi-attach-enabled") return Values{word(disk.multi_attach)};
  if (name == "size") return Values{std::to_string(disk.size_gib)};
  if (name == "snapshot-id") return Values{disk.snapshot_id};
  if (name == "status") return Values{std::string(to_string(disk.state))};
  if (name == "volume-id") return Values{disk.id};
  if (name == "volume-type") return Values{disk.type};
  if (auto of_link = link_filter(disk, name)) return of_link;
  return tag_filter(disk.tags, name);
}

/// What CreateVolume and CopyVolumes say alike.
Answer<void> parse_made(const Form& form, CreateVolumeArgs& args) {
  args.type = form.text("VolumeType");
  args.kms_key = form.text("KmsKeyId");
  args.client_token = form.text("ClientToken");
  args.fingerprint = form.fingerprint();
  const std::pair<const char*, std::optional<int>*> numbers[] = {
      {"Size", &args.size_gib},
      {"Iops", &args.iops},
      {"Throughput", &args.throughput},
      {"VolumeInitializationRate", &args.initialization_rate}};
  for (const auto& [name, target] : numbers) {
    const auto value = form.integer(name);
    if (!value) return tl::unexpected(value.error());
    *target = *value;
  }
  const std::pair<const char*, bool*> flags[] = {{"Encrypted", &args.encrypted},
                                                 {"MultiAttachEnabled", &args.multi_attach}};
  for (const auto& [name, target] : flags) {
    const auto value = form.boolean(name);
    if (!value) return tl::unexpected(value.error());
    *target = *value;
  }
  const auto tags = form.tag_specification("volume", {"volume"});
  if (!tags) return tl::unexpected(tags.error());
  args.tags = *tags;
  return {};
}

}  // namespace

Answer<void> create_volume_action(Region& region, const Form& form, XmlWriter& xml) {
  CreateVolumeArgs args;
  const auto zone = parse_zone(region, form, "");
  if (!zone) return tl::unexpected(zone.error());
  if (zone->empty())
    return refuse("MissingParameter", "The request must contain the parameter availabilityZone");
  args.zone = *zone;
  args.snapshot_id = form.text("SnapshotId");
  if (!args.snapshot_id.empty())
    if (auto checked = check_id(region, args.snapshot_id, "SnapshotId"); !checked) return checked;
  if (auto parsed = parse_made(form, args); !parsed) return parsed;
  const auto made = region.create_volume(args);
  if (!made) return tl::unexpected(made.error());
  write_volume(region, xml, *made);
  return {};
}

Answer<void> copy_volumes_action(Region& region, const Form& form, XmlWriter& xml) {
  CreateVolumeArgs args;
  args.source_volume_id = form.text("SourceVolumeId");
  if (auto checked = check_id(region, args.source_volume_id, "VolumeId"); !checked) return checked;
  if (auto parsed = parse_made(form, args); !parsed) return parsed;
  const auto made = region.copy_volume(args);
  if (!made) return tl::unexpected(made.error());
  xml.open("volumeSet");
  xml.open("item");
  write_volume(region, xml, *made);
  xml.close();
  xml.close();
  return {};
}

Answer<void> describe_volumes_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "VolumeId");
  if (!ids) return tl::unexpected(ids.error());
  const auto filters = parse_filters(
      form, [&](const std::string& name) { return volume_filter(region, VolumeRecord{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "volumeSet", *ids);
  if (!page) return tl::unexpected(page.error());
  const auto shown = [&](const VolumeRecord* disk) {
    return disk != nullptr && region.visible(disk->create_time);
  };
  std::vector<std::string> unknown;
  for (const auto& id : *ids)
    if (!shown(region.volume(id))) unknown.push_back(id);
  if (!unknown.empty()) return volume_not_found(unknown);
  for (const auto& id : *ids)
    if (region.zone_impaired(region.volume(id)->zone)) return zone_unreachable(id);
  std::vector<const VolumeRecord*> found;
  for (const auto& [id, disk] : region.volumes()) {
    const bool wanted = ids->empty() || std::find(ids->begin(), ids->end(), id) != ids->end();
    if (wanted && shown(&disk) && passes(*filters, [&](const std::string& name) {
          return volume_filter(region, disk, name);
        }))
      found.push_back(&disk);
  }
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const VolumeRecord* disk) { return disk->id; });
  xml.open("volumeSet");
  for (const auto* disk : items) {
    xml.open("item");
    write_volume(region, xml, *disk);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> attach_volume_action(Region& region, const Form& form, XmlWriter& xml) {
  for (const char* name : {"VolumeId", "InstanceId"})
    if (auto checked = check_id(region, form.text(name), name); !checked) return checked;
  const auto disk =
      region.attach_volume(form.text("VolumeId"), form.text("InstanceId"), form.text("Device"));
  if (!disk) return tl::unexpected(disk.error());
  write_link(xml, *disk, *disk->link, disk->link->state);
  return {};
}

Answer<void> detach_volume_action(Region& region, const Form& form, XmlWriter& xml) {
  for (const char* name : {"VolumeId", "InstanceId"})
    if (form.has(name))
      if (auto checked = check_id(region, form.text(name), name); !checked) return checked;
  const auto force = form.boolean("Force");
  if (!force) return tl::unexpected(force.error());
  const auto disk = region.detach_volume(form.text("VolumeId"), form.text("InstanceId"),
                                         form.text("Device"), *force);
  if (!disk) return tl::unexpected(disk.error());
  write_link(xml, *disk, *disk->link, disk->link->state);
  return {};
}

Answer<void> delete_volume_action(Region& region, const Form& form, XmlWriter& xml) {
  if (auto checked = check_id(region, form.text("VolumeId"), "VolumeId"); !checked) return checked;
  if (auto deleted = region.delete_volume(form.text("VolumeId")); !deleted) return deleted;
  xml.flag("return", true);
  return {};
}

}  // namespace warmroot::sim
