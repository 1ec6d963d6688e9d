// The snapshot actions of the Query front, and fast snapshot restore.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

bool owned(const Region& region, const Values& owners, const std::string& owner) {
  return owners.empty() || contains(owners, owner) ||
         (owner == region.catalog().account_id && contains(owners, "self"));
}

std::string percent_text(const Region& region, const SnapshotRecord& source) {
  const int percent = region.snapshot_percent(source);
  return percent == 0 ? std::string() : std::to_string(percent) + "%";  // nothing at first
}

FilterValues snapshot_filter(const Region& region, const SnapshotRecord& source,
                             const std::string& name) {
  if (name == "snapshot-id") return Values{source.id};
  if (name == "status") return Values{region.snapshot_state(source)};
  if (name == "owner-id") return Values{source.owner_id};
  if (name == "volume-size") return Values{std::to_string(source.size_gib)};
  if (name == "description") return Values{source.description};
  if (name == "encrypted") return Values{source.encrypted ? "true" : "false"};
  if (name == "progress") return Values{percent_text(region, source)};
  if (name == "start-time") return Values{to_iso8601(source.start_time)};
  if (name == "volume-id") return Values{source.volume_id};
  return tag_filter(source.tags, name);
}

void write_snapshot(const Region& region, XmlWriter& xml, const SnapshotRecord& source) {
  xml.text("snapshotId", source.id);
  xml.text("volumeId", source.volume_id);
  xml.text("status", region.snapshot_state(source));
  xml.text("startTime", to_iso8601(source.start_time));
  xml.text("progress", percent_text(region, source));
  xml.text("ownerId", source.owner_id);
  xml.number("volumeSize", source.size_gib);
  xml.text("description", source.description);
  xml.flag("encrypted", source.encrypted);
  xml.text("storageTier", "standard");
  write_tags(xml, source.tags);
}

}  // namespace

Answer<void> describe_snapshots_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = parse_ids(region, form, "SnapshotId");
  if (!ids) return tl::unexpected(ids.error());
  const auto filters = parse_filters(form, [&](const std::string& name) {
    return snapshot_filter(region, SnapshotRecord{}, name);
  });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "snapshotSet", *ids);
  if (!page) return tl::unexpected(page.error());
  for (const auto& id : *ids) {
    const SnapshotRecord* found = region.snapshot(id);
    if (found == nullptr || !found->readable) return snapshot_not_found(id);
  }
  std::vector<const SnapshotRecord*> found;
  for (const auto& source : region.catalog().snapshots)
    if (source.readable && (ids->empty() || contains(*ids, source.id)) &&
        owned(region, form.list("Owner"), source.owner_id) &&
        passes(*filters,
               [&](const std::string& name) { return snapshot_filter(region, source, name); }))
      found.push_back(&source);
  std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const SnapshotRecord* source) { return source->id; });
  xml.open("snapshotSet");
  for (const auto* source : items) {
    xml.open("item");
    write_snapshot(region, xml, *source);
    if (!source->failed && !source->completes_at)
      xml.text("fullSnapshotSizeInBytes",
               std::to_string(std::int64_t{source->data_gib.value_or(source->size_gib)} << 30));
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

Answer<void> create_snapshot_action(Region& region, const Form& form, XmlWriter& xml) {
  const std::string volume_id = form.text("VolumeId");
  if (auto checked = check_id(region, volume_id, "VolumeId"); !checked) return checked;
  const auto tags = form.tag_specification("snapshot", {"snapshot"});
  if (!tags) return tl::unexpected(tags.error());
  const auto made = region.create_snapshot(volume_id, form.text("Description"), *tags);
  if (!made) return tl::unexpected(made.error());
  write_snapshot(region, xml, *made);
  return {};
}

Answer<void> delete_snapshot_action(Region& region, const Form& form, XmlWriter& xml) {
  const std::string id = form.text("SnapshotId");
  if (auto checked = check_id(region, id, "SnapshotId"); !checked) return checked;
  if (auto deleted = region.delete_snapshot(id); !deleted) return deleted;
  xml.flag("return", true);
  return {};
}

namespace {

using Place = std::pair<std::string, std::string>;  // (snapshot, zone)

void write_restore(const Region& region, XmlWriter& xml, const Place& place) {
  const FastRestore& one = region.fast_restores().at(place);
  xml.text("snapshotId", place.first);
  xml.text("availabilityZone", place.second);
  xml.text("availabilityZoneId", zone_id_of(region, place.second));
  xml.text("state", region.fast_restore_state(place));
  xml.text("stateTransitionReason", "Client.UserInitiated - Lifecycle state transition");
  xml.text("ownerId", region.catalog().account_id);
  xml.text("enablingTime", to_iso8601(one.enabled_at));
}

using RestoreChange = Answer<void> (Region::*)(const std::string&, const std::string&);

/// Enable and disable: HTTP 200 with what went well and what did not, place by place.
Answer<void> change_restores(Region& region, const Form& form, XmlWriter& xml,
                             RestoreChange change) {
  Values zones = form.list("AvailabilityZone");
  for (const auto& id : form.list("AvailabilityZoneId"))
    for (const auto& zone : region.catalog().zones)
      if (zone.id == id) zones.push_back(zone.name);
  if (zones.empty())
    return refuse("MissingParameter", "The request must contain the parameter AvailabilityZone");
  std::vector<std::pair<Place, ApiError>> failed;
  std::vector<Place> done;
  for (const auto& snapshot : form.list("SourceSnapshotId"))
    for (const auto& zone : zones) {
      const auto changed = (region.*change)(snapshot, zone);
      if (changed)
        done.emplace_back(snapshot, zone);
      else
        failed.emplace_back(Place(snapshot, zone), changed.error());
    }
  xml.open("successful");
  for (const auto& place : done) {
    xml.open("item");
    write_restore(region, xml, place);
    xml.close();
  }
  xml.close();
  xml.open("unsuccessful");
  for (const auto& [place, error] : failed) {
    xml.open("item");
    xml.text("snapshotId", place.first);
    xml.open("fastSnapshotRestoreStateErrorSet");
    xml.open("item");
    xml.text("availabilityZone", place.second);
    xml.open("error");
    xml.text("code", error.code);
    xml.text("message", error.message);
    xml.close();
    xml.close();
    xml.close();
    xml.close();
  }
  xml.close();
  return {};
}

}  // namespace

Answer<void> enable_fast_restores_action(Region& region, const Form& form, XmlWriter& xml) {
  return change_restores(region, form, xml, &Region::enable_fast_restore);
}

Answer<void> disable_fast_restores_action(Region& region, const Form& form, XmlWriter& xml) {
  return change_restores(region, form, xml, &Region::disable_fast_restore);
}

Answer<void> describe_fast_restores_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto lookup = [&](const Place* place) {
    return [&region, place](const std::string& name) -> FilterValues {
      if (name == "snapshot-id") return Values{place ? place->first : ""};
      if (name == "availability-zone") return Values{place ? place->second : ""};
      if (name == "owner-id") return Values{region.catalog().account_id};
      if (name == "state") return Values{place ? region.fast_restore_state(*place) : ""};
      return std::nullopt;
    };
  };
  const auto filters = parse_filters(form, lookup(nullptr));
  if (!filters) return tl::unexpected(filters.error());
  constexpr int kLeastResults = 0;
  const auto page = parse_page(region, form, "", {}, kLeastResults);
  if (!page) return tl::unexpected(page.error());
  std::vector<Place> found;
  for (const auto& [place, one] : region.fast_restores())
    if (passes(*filters, lookup(&place))) found.push_back(place);
  const auto [items, next] = cut_page(
      region, form, *page, found, [](const Place& place) { return place.first + place.second; });
  xml.open("fastSnapshotRestoreSet");
  for (const auto& place : items) {
    xml.open("item");
    write_restore(region, xml, place);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

}  // namespace warmroot::sim
