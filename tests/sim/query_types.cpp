// What instance types there are, where, for how much, and how likely spot gets them.
#include <algorithm>
#include <cstdio>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"
#include "tests/sim/region_types.hpp"

namespace warmroot::sim {

namespace {

FilterValues type_filter(const TypeFacts& facts, const std::string& name) {
  const auto word = [](bool value) { return Values{value ? "true" : "false"}; };
  if (name == "instance-type") return Values{facts.name};
  if (name == "processor-info.supported-architecture") return Values{facts.architecture};
  if (name == "hypervisor") return facts.hypervisor.empty() ? Values{} : Values{facts.hypervisor};
  if (name == "bare-metal") return word(facts.hypervisor.empty());
  if (name == "burstable-performance-supported") return word(facts.burstable);
  if (name == "current-generation") return word(facts.hypervisor != "xen");
  if (name == "supported-usage-class") return Values{"on-demand", "spot"};
  if (name == "vcpu-info.default-vcpus") return Values{std::to_string(facts.vcpus)};
  return std::nullopt;
}

void write_type(XmlWriter& xml, const TypeFacts& facts) {
  const auto list = [&](const char* name, const Values& values) {
    xml.open(name);
    for (const auto& value : values) xml.text("item", value);
    xml.close();
  };
  const bool xen = facts.hypervisor == "xen";
  xml.text("instanceType", facts.name);
  xml.flag("currentGeneration", !xen);
  xml.flag("freeTierEligible", false);
  list("supportedUsageClasses", {"on-demand", "spot"});
  list("supportedRootDeviceTypes", {"ebs"});
  list("supportedVirtualizationTypes", {"hvm"});
  xml.flag("bareMetal", facts.hypervisor.empty());
  if (!facts.hypervisor.empty()) xml.text("hypervisor", facts.hypervisor);
  xml.open("processorInfo");
  list("supportedArchitectures", {facts.architecture});
  xml.close();
  xml.open("vCpuInfo");
  xml.number("defaultVCpus", facts.vcpus);
  xml.close();
  xml.open("memoryInfo");
  xml.number("sizeInMiB", facts.memory_mib);
  xml.close();
  xml.flag("instanceStorageSupported", false);
  xml.open("ebsInfo");
  xml.text("ebsOptimizedSupport", "default");
  xml.text("encryptionSupport", "supported");
  xml.text("nvmeSupport", xen ? "unsupported" : "required");
  xml.number("maximumEbsAttachments", facts.attachments);
  xml.text("attachmentLimitType", facts.dedicated_slots ? "dedicated" : "shared");
  xml.close();
  xml.flag("burstablePerformanceSupported", facts.burstable);
  list("supportedBootModes", xen ? Values{"legacy-bios"} : Values{"legacy-bios", "uefi"});
}

bool offered_anywhere(const Region& region, const std::string& type) {
  const auto& zones = region.catalog().zones;
  return std::any_of(zones.begin(), zones.end(),
                     [&](const Zone& zone) { return region.offered(type, zone.name); });
}

}  // namespace

Answer<void> describe_instance_types_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto wanted = form.list("InstanceType");
  constexpr std::size_t kMostTypes = 100;
  if (wanted.size() > kMostTypes)
    return refuse("InvalidParameterValue", "At most 100 instance types can be given");
  const auto filters =
      parse_filters(form, [](const std::string& name) { return type_filter(TypeFacts{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  auto page = parse_page(region, form, "instanceTypes", wanted);
  if (!page) return tl::unexpected(page.error());
  page->limit = std::min(page->limit, kMostTypes);
  std::string unknown;
  for (const auto& type : wanted)
    if (!in_catalogue(type) || !offered_anywhere(region, type))
      unknown += (unknown.empty() ? "" : ", ") + type;
  if (!unknown.empty())
    return refuse("InvalidInstanceType",
                  "The following supplied instance types do not exist: [" + unknown + "]");
  std::vector<TypeFacts> found;
  for (const auto& facts : type_catalogue())
    if ((wanted.empty() || contains(wanted, facts.name)) && offered_anywhere(region, facts.name) &&
        passes(*filters, [&](const std::string& name) { return type_filter(facts, name); }))
      found.push_back(facts);
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const TypeFacts& facts) { return facts.name; });
  xml.open("instanceTypeSet");
  for (const auto& facts : items) {
    xml.open("item");
    write_type(xml, facts);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

namespace {

struct Offering {
  std::string type, location;
};

FilterValues offering_filter(const Offering& offering, const std::string& name) {
  if (name == "instance-type") return Values{offering.type};
  if (name == "location") return Values{offering.location};
  return std::nullopt;
}

/// Where the type is offered, in the words of one location type.
Values locations(const Region& region, const std::string& type, const std::string& kind) {
  if (kind == "region")
    return offered_anywhere(region, type) ? Values{region.catalog().region} : Values{};
  Values out;
  for (const auto& zone : region.catalog().zones)
    if (region.offered(type, zone.name))
      out.push_back(kind == "availability-zone-id" ? zone.id : zone.name);
  return out;
}

}  // namespace

Answer<void> describe_type_offerings_action(Region& region, const Form& form, XmlWriter& xml) {
  const std::string kind = form.has("LocationType") ? form.text("LocationType") : "region";
  if (kind != "region" && kind != "availability-zone" && kind != "availability-zone-id")
    return refuse("InvalidParameterValue", "Invalid value '" + kind + "' for LocationType.");
  const auto filters = parse_filters(
      form, [](const std::string& name) { return offering_filter(Offering{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "", {});
  if (!page) return tl::unexpected(page.error());
  std::vector<Offering> found;
  for (const auto& facts : type_catalogue())
    for (const auto& location : locations(region, facts.name, kind))
      if (const Offering one{facts.name, location};
          passes(*filters, [&](const std::string& name) { return offering_filter(one, name); }))
        found.push_back(one);
  const auto [items, next] = cut_page(region, form, *page, found, [](const Offering& one) {
    return one.type + "|" + one.location;
  });
  xml.open("instanceTypeOfferingSet");
  for (const auto& one : items) {
    xml.open("item");
    xml.text("instanceType", one.type);
    xml.text("locationType", kind);
    xml.text("location", one.location);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

namespace {

/// 1 to 10. Nothing is promised: free capacity for all that is asked is nine, and no capacity one.
int placement_score(const Region& region, const Values& types, const std::string& zone,
                    int target) {
  std::int64_t room = 0;
  for (const auto& type : types)
    if (region.offered(type, zone)) room += region.room(type, zone);
  if (room == 0) return 1;
  constexpr std::size_t kEnoughTypes = 3;
  const bool low = region.knobs.few_types_score_low && types.size() < kEnoughTypes;
  const std::int64_t best = low ? 3 : 9;
  return static_cast<int>(1 +
                          (best - 1) * std::min<std::int64_t>(room, target) / std::max(1, target));
}

}  // namespace

namespace {

/// The request's own limits, then the account's. Source: API reference of GetSpotPlacementScores;
/// the account's are in the user guide, without the code that says the first (assumed).
Answer<int> check_placement_question(Region& region, const Form& form, const Values& types) {
  constexpr std::size_t kMostTypes = 1000;
  constexpr std::size_t kMostRegions = 10;
  constexpr int kMostCapacity = 2'000'000'000;
  if (types.empty())
    return refuse("MissingParameter", "The request must contain the parameter InstanceType");
  if (types.size() > kMostTypes || form.list("RegionName").size() > kMostRegions)
    return refuse("InvalidParameterValue", "At most 1000 instance types and 10 Regions are taken");
  for (const auto& type : types)
    if (!type_facts(type))
      return refuse("InvalidParameterValue", "Invalid value '" + type + "' for InstanceType.");
  const auto target = form.integer("TargetCapacity");
  if (!target) return tl::unexpected(target.error());
  const int capacity = target->value_or(0);
  if (capacity < 1 || capacity > kMostCapacity)
    return refuse("InvalidParameterValue", "TargetCapacity must be from 1 to 2000000000");
  const auto unit = form.text("TargetCapacityUnitType");
  if (!unit.empty() && unit != "units" && unit != "vcpu" && unit != "memory-mib")
    return refuse("InvalidParameterValue",
                  "Invalid value '" + unit + "' for TargetCapacityUnitType.");
  const int most = region.knobs.placement_target_limit;
  if (most > 0 && capacity > most)
    return refuse("InvalidParameterValue", "TargetCapacity " + std::to_string(capacity) +
                                               " is above this account's limit of " +
                                               std::to_string(most));
  return capacity;
}

}  // namespace

Answer<void> get_placement_scores_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto types = form.list("InstanceType");
  const auto target = check_placement_question(region, form, types);
  if (!target) return tl::unexpected(target.error());
  const auto single = form.boolean("SingleAvailabilityZone");
  if (!single) return tl::unexpected(single.error());
  constexpr int kLeastResults = 10;
  const auto page = parse_page(region, form, "", {}, kLeastResults);
  if (!page) return tl::unexpected(page.error());
  if (const auto taken = region.take_placement_question(form.fingerprint()); !taken)
    return tl::unexpected(taken.error());
  const auto regions = form.list("RegionName");
  const std::string here = region.catalog().region;
  std::vector<std::pair<int, std::string>> scores;  // zone id, empty for the whole Region
  for (const auto& zone : region.catalog().zones)
    scores.emplace_back(placement_score(region, types, zone.name, *target), zone.id);
  std::stable_sort(scores.begin(), scores.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (!*single && !scores.empty()) scores = {{scores.front().first, ""}};
  constexpr std::size_t kBest = 10;  // "the top 10 Regions or Availability Zones"
  if (scores.size() > kBest) scores.resize(kBest);
  xml.open("spotPlacementScoreSet");
  for (const auto& [score, id] : scores) {
    if (!regions.empty() && !contains(regions, here)) break;
    xml.open("item");
    xml.text("region", here);
    if (!id.empty()) xml.text("availabilityZoneId", id);
    xml.number("score", score);
    xml.close();
  }
  xml.close();
  return {};
}

namespace {

struct PriceRow {
  std::string key, type, zone;
};

FilterValues price_filter(const PriceRow& row, const std::string& name) {
  if (name == "instance-type") return Values{row.type};
  if (name == "availability-zone") return Values{row.zone};
  if (name == "product-description") return Values{"Linux/UNIX"};
  return std::nullopt;
}

}  // namespace

Answer<void> describe_spot_prices_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto filters =
      parse_filters(form, [](const std::string& name) { return price_filter(PriceRow{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "", {}, 1);
  if (!page) return tl::unexpected(page.error());
  const auto zone = parse_zone(region, form, "", true);
  if (!zone) return tl::unexpected(zone.error());
  for (const char* name : {"StartTime", "EndTime"})
    if (form.has(name) && !parse_iso8601(form.text(name)))
      return refuse("InvalidParameterValue",
                    "Value (" + form.text(name) + ") for parameter " + name + " is invalid.");
  auto types = form.list("InstanceType");
  for (const auto& type : types)
    if (architecture_of(type).empty())
      return refuse("InvalidParameterValue", "Invalid value '" + type + "' for InstanceType.");
  if (types.empty())
    for (const auto& facts : type_catalogue()) types.push_back(facts.name);
  std::sort(types.begin(), types.end());
  const Values products = form.list("ProductDescription");
  const bool linux_asked = products.empty() || contains(products, "Linux/UNIX") ||
                           contains(products, "Linux/UNIX (Amazon VPC)");
  std::vector<PriceRow> found;
  for (const auto& type : types)
    for (const auto& place : region.catalog().zones) {
      const PriceRow row{type + "|" + place.name, type, place.name};
      if (linux_asked && region.offered(type, place.name) &&
          (zone->empty() || *zone == place.name) &&
          passes(*filters, [&](const std::string& name) { return price_filter(row, name); }))
        found.push_back(row);
    }
  const auto [items, next] =
      cut_page(region, form, *page, found, [](const PriceRow& row) { return row.key; });
  const auto day = std::chrono::floor<std::chrono::days>(region.now());
  xml.open("spotPriceHistorySet");
  for (const auto& row : items) {
    char price[32];
    std::snprintf(price, sizeof price, "%.6f", region.spot_price(row.type, row.zone) / 1e5);
    xml.open("item");
    xml.text("instanceType", row.type);
    xml.text("productDescription", "Linux/UNIX");
    xml.text("spotPrice", price);
    xml.text("timestamp", to_iso8601(Instant(day)));
    xml.text("availabilityZone", row.zone);
    xml.text("availabilityZoneId", zone_id_of(region, row.zone));
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

}  // namespace warmroot::sim
