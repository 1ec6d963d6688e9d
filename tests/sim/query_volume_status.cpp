// What DescribeVolumeStatus says of volumes and of how far their blocks have come.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

bool initialising(const Region& region, const VolumeRecord& disk) {
  return !disk.init_type.empty() && region.shown_progress(disk) < 100;
}

std::string volume_status(const Region& region, const VolumeRecord& disk) {
  if (disk.impaired) return "impaired";
  if (disk.state == DiskState::creating) return "insufficient-data";
  // io1 and io2 alone are measured.
  if (disk.type.starts_with("io") && initialising(region, disk)) return "warning";
  return "ok";
}

void write_detail(XmlWriter& xml, std::string_view name, std::string_view status) {
  xml.open("item");
  xml.text("name", name);
  xml.text("status", status);
  xml.close();
}

void write_status(const Region& region, XmlWriter& xml, const VolumeRecord& disk) {
  const std::string status = volume_status(region, disk);
  xml.text("volumeId", disk.id);
  xml.text("availabilityZone", disk.zone);
  xml.text("availabilityZoneId", zone_id_of(region, disk.zone));
  xml.open("volumeStatus");
  xml.text("status", status);
  xml.open("details");
  write_detail(xml, "io-enabled", disk.impaired ? "failed" : "passed");
  write_detail(xml, "io-performance", disk.type.starts_with("io") ? "normal" : "not-applicable");
  if (!disk.init_type.empty())
    write_detail(xml, "initialization-state",
                 initialising(region, disk) ? "initializing" : "completed");
  xml.close();
  xml.close();
  xml.empty("actionsSet");
  xml.empty("eventsSet");
  if (disk.init_type.empty()) return;
  xml.open("initializationStatusDetails");
  xml.text("initializationType", disk.init_type);
  xml.number("progress", region.shown_progress(disk));
  if (disk.init_rate && disk.init_end > region.now())
    xml.number("estimatedTimeToCompleteInSeconds", (disk.init_end - region.now()).count() / 1000);
  xml.close();
}

FilterValues status_filter(const Region& region, const VolumeRecord& disk,
                           const std::string& name) {
  if (name == "availability-zone") return Values{disk.zone};
  if (name == "availability-zone-id") return Values{zone_id_of(region, disk.zone)};
  if (name == "volume-status.status") return Values{volume_status(region, disk)};
  if (name == "volume-status.details-name")
    return Values{"io-enabled", "io-performance", "initialization-state"};
  if (name == "volume-status.details-status")
    return Values{disk.impaired ? "failed" : "passed",
                  initialising(region, disk) ? "initializing" : "completed"};
  if (name.starts_with("action.") || name.starts_with("event.")) return Values{};
  return std::nullopt;
}

}  // namespace

Answer<void> describe_volume_status_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "VolumeId");
  if (!ids) return tl::unexpected(ids.error());
  const auto filters = parse_filters(
      form, [&](const std::string& name) { return status_filter(region, VolumeRecord{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "volumeStatusSet", *ids);
  if (!page) return tl::unexpected(page.error());
  const auto shown = [&](const VolumeRecord* disk) {
    return disk != nullptr && region.visible(disk->create_time);
  };
  Values unknown;
  for (const auto& id : *ids)
    if (!shown(region.volume(id))) unknown.push_back(id);
  if (!unknown.empty()) return volume_not_found(unknown);
  std::vector<const VolumeRecord*> found;
  for (const auto& [id, disk] : region.volumes()) {
    const bool wanted = ids->empty() || contains(*ids, id);
    if (wanted && shown(&disk) && passes(*filters, [&, &one = disk](const std::string& name) {
          return status_filter(region, one, name);
        }))
      found.push_back(&disk);
  }
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const VolumeRecord* disk) { return disk->id; });
  xml.open("volumeStatusSet");
  for (const auto* disk : items) {
    xml.open("item");
    write_status(region, xml, *disk);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

}  // namespace warmroot::sim
