// Catalogue files; see server_options.hpp.
#include <toml++/toml.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/sim/region.hpp"
#include "tests/sim/server_options.hpp"

namespace warmroot::sim {

namespace {

using nlohmann::json;

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(ErrorKind::misconfigured, "cannot read '" + path + "'");
  return text.str();
}

Result<json> parse(const std::string& text) {
  if (text.find_first_not_of(" \n\t") != std::string::npos &&
      text[text.find_first_not_of(" \n\t")] == '{') {
    auto document = json::parse(text, nullptr, false);
    if (document.is_discarded()) return fail(ErrorKind::misconfigured, "is not JSON");
    return document;
  }
  try {
    std::ostringstream out;
    out << toml::json_formatter(toml::parse(text));
    return json::parse(out.str());
  } catch (const toml::parse_error& error) {
    std::ostringstream why;
    why << "is not TOML: " << error.description() << " in line " << error.source().begin.line;
    return fail(ErrorKind::misconfigured, why.str());
  }
}

SnapshotRecord snapshot_of(const json& entry) {
  SnapshotRecord record;
  record.id = entry.at("id");
  record.size_gib = entry.value("size_gib", record.size_gib);
  record.image_file = entry.value("image_file", "");
  record.description = entry.value("description", record.id);
  record.readable = entry.value("readable", true);
  return record;
}

ImageRecord image_of(const json& entry) {
  ImageRecord record;
  record.id = entry.at("id");
  record.name = entry.value("name", record.id);
  record.architecture = entry.value("architecture", record.architecture);
  record.root_device = entry.value("root_device", record.root_device);
  record.snapshot_id = entry.at("snapshot");
  record.owner_id = entry.value("owner_id", record.owner_id);
  record.product_codes = entry.value("product_codes", std::vector<std::string>());
  return record;
}

SubnetRecord subnet_of(const json& entry, int number) {
  SubnetRecord record;
  record.id = entry.at("id");
  record.zone = entry.at("zone");
  record.vpc_id = entry.value("vpc", "vpc-01000000000000001");
  record.cidr = entry.value("cidr", "10.0." + std::to_string(16 * number) + ".0/20");
  return record;
}

Result<KeyPair> key_pair_of(const json& entry) {
  KeyPair pair{entry.at("name"), entry.value("public_key", "")};
  if (pair.public_key.empty()) {
    TRY_ASSIGN(pair.public_key, read_file(entry.at("public_key_file")));
  }
  while (!pair.public_key.empty() && pair.public_key.back() == '\n') pair.public_key.pop_back();
  return pair;
}

/// Throws json's exceptions for members that are missing or of another type.
Result<Catalog> fill(const json& document, Catalog catalog) {
  catalog.snapshots.clear();
  for (const auto& entry : document.value("snapshots", json::array()))
    catalog.snapshots.push_back(snapshot_of(entry));
  catalog.images.clear();
  for (const auto& entry : document.value("images", json::array()))
    catalog.images.push_back(image_of(entry));
  if (document.contains("subnets")) {
    catalog.subnets.clear();
    for (const auto& entry : document["subnets"])
      catalog.subnets.push_back(subnet_of(entry, static_cast<int>(catalog.subnets.size())));
  }
  if (document.contains("key_pairs")) {
    catalog.key_pairs.clear();
    for (const auto& entry : document["key_pairs"]) {
      TRY_ASSIGN(auto pair, key_pair_of(entry));
      catalog.key_pairs.push_back(std::move(pair));
    }
  }
  if (document.contains("security_groups"))
    catalog.security_groups = document["security_groups"].get<std::vector<std::string>>();
  if (document.contains("instance_profiles"))
    catalog.instance_profiles = document["instance_profiles"].get<std::vector<std::string>>();
  return catalog;
}

Ok check(const Catalog& catalog) {
  const auto wrong = [](const std::string& text) { return fail(ErrorKind::misconfigured, text); };
  for (const auto& image : catalog.images) {
    bool found = false;
    for (const auto& snapshot : catalog.snapshots) found |= snapshot.id == image.snapshot_id;
    if (!found) return wrong(image.id + " names the unknown snapshot " + image.snapshot_id);
  }
  for (const auto& subnet : catalog.subnets) {
    bool found = false;
    for (const auto& zone : catalog.zones) found |= zone.name == subnet.zone;
    if (!found) return wrong(subnet.id + " lies in the unknown zone " + subnet.zone);
  }
  return {};
}

}  // namespace

Result<Catalog> load_catalog(const Options& options) {
  Catalog catalog = builtin_catalog(options.region, options.zones);
  if (options.catalog_file.empty()) return catalog;
  const std::string where = "catalogue '" + options.catalog_file + "'";
  TRY_ASSIGN(const std::string text, read_file(options.catalog_file));
  const auto document = parse(text);
  if (!document) return fail(Error(document.error()).within(where));
  try {
    auto filled = fill(*document, std::move(catalog));
    if (!filled) return fail(std::move(filled).error().within(where));
    if (auto checked = check(*filled); !checked)
      return fail(std::move(checked).error().within(where));
    return filled;
  } catch (const json::exception& error) {
    return fail(ErrorKind::misconfigured, where + ": " + error.what());
  }
}

}  // namespace warmroot::sim
