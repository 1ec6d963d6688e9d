// The tag actions of the Query front.
#include <algorithm>

#include "tests/sim/query_actions.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_listing.hpp"

namespace warmroot::sim {

namespace {

struct TagRow {
  std::string resource, type, key, value;
};

FilterValues row_filter(const TagRow& row, const std::string& name) {
  if (name == "resource-id") return Values{row.resource};
  if (name == "resource-type") return Values{row.type};
  if (name == "key") return Values{row.key};
  if (name == "value") return Values{row.value};
  if (name.starts_with("tag:")) return name == "tag:" + row.key ? Values{row.value} : Values{};
  return std::nullopt;
}

Answer<std::vector<std::string>> resources(const Form& form) {
  constexpr std::size_t kMost = 1000;
  auto ids = form.list("ResourceId");
  if (ids.size() > kMost)
    return refuse("InvalidParameterValue", "At most 1000 resources can be tagged in one call");
  return ids;
}

}  // namespace

Answer<void> create_tags_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = resources(form);
  if (!ids) return tl::unexpected(ids.error());
  Tags tags;
  for (const auto& element : form.elements("Tag"))
    tags[form.text(element + ".Key")] = form.text(element + ".Value");
  if (auto done = region.create_tags(*ids, tags); !done) return done;
  xml.flag("return", true);
  return {};
}

Answer<void> delete_tags_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto ids = resources(form);
  if (!ids) return tl::unexpected(ids.error());
  std::map<std::string, std::optional<std::string>> keys;
  for (const auto& element : form.elements("Tag")) {
    // A key alone goes whatever its value; an empty value given means the empty value.
    std::optional<std::string> value;
    if (form.has(element + ".Value")) value = form.text(element + ".Value");
    keys[form.text(element + ".Key")] = value;
  }
  if (auto done = region.delete_tags(*ids, keys); !done) return done;
  xml.flag("return", true);
  return {};
}

Answer<void> describe_tags_action(Region& region, const Form& form, XmlWriter& xml) {
  const auto filters =
      parse_filters(form, [](const std::string& name) { return row_filter(TagRow{}, name); });
  if (!filters) return tl::unexpected(filters.error());
  const auto page = parse_page(region, form, "", {});
  if (!page) return tl::unexpected(page.error());
  std::vector<TagRow> rows;
  const auto collect = [&](const std::string& id, const char* type, const Tags& tags) {
    for (const auto& [key, value] : tags) {
      TagRow row{id, type, key, value};
      if (passes(*filters, [&](const std::string& name) { return row_filter(row, name); }))
        rows.push_back(std::move(row));
    }
  };
  for (const auto& [id, disk] : region.volumes()) collect(id, "volume", disk.tags);
  for (const auto& [id, guest] : region.instances()) collect(id, "instance", guest.tags);
  for (const auto& source : region.catalog().snapshots) collect(source.id, "snapshot", source.tags);
  for (const auto& image : region.catalog().images) collect(image.id, "image", image.tags);
  const auto key_of = [](const TagRow& row) { return row.resource + "|" + row.key; };
  std::sort(rows.begin(), rows.end(),
            [&](const TagRow& a, const TagRow& b) { return key_of(a) < key_of(b); });
  const auto [items, next] = cut_page(region, form, *page, rows, key_of);
  xml.open("tagSet");
  for (const auto& row : items) {
    xml.open("item");
    xml.text("resourceId", row.resource);
    xml.text("resourceType", row.type);
    xml.text("key", row.key);
    xml.text("value", row.value);
    xml.close();
  }
  xml.close();
  write_next_token(xml, next);
  return {};
}

}  // namespace warmroot::sim
