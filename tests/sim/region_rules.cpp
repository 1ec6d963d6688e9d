// See the header.
#include "tests/sim/region_rules.hpp"

#include <algorithm>
#include <array>
#include <regex>

namespace warmroot::sim {

const VolumeTypeLimits* volume_type_limits(std::string_view type) {
  // Sizes, IOPS and throughput of the API reference; IOPS per GiB as the EBS CSI driver has them.
  static constexpr std::array<VolumeTypeLimits, 7> kTypes{{
      {"gp3", 1, 65536, 3000, 80000, 500, 2000},
      {"gp2", 1, 16384, 0, 0, 0, 0},
      {"io1", 4, 16384, 100, 64000, 50, 0},
      {"io2", 4, 65536, 100, 256000, 1000, 0},
      {"st1", 125, 16384, 0, 0, 0, 0},
      {"sc1", 125, 16384, 0, 0, 0, 0},
      {"standard", 1, 1024, 0, 0, 0, 0},
  }};
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& limits) { return limits.name == type; });
  return found == kTypes.end() ? nullptr : found;
}

std::optional<std::string> device_label(std::string_view device) {
  if (device.starts_with("/dev/")) device.remove_prefix(5);
  // Names found usable by the CSI driver, and the root's names; digits end only sda1.
  static const std::regex kLegal("sda1|sd[a-z]|xvd[a-z]|xvd[abc][a-z]|xvdd[a-x]");
  std::string label(device);
  if (!std::regex_match(label, kLegal)) return std::nullopt;
  return label;
}

Answer<void> check_tags(const Tags& tags) {
  constexpr std::size_t kMaxTags = 50, kMaxKey = 127, kMaxValue = 256;
  if (tags.size() > kMaxTags)
    return refuse("TagLimitExceeded", "The maximum number of tags for a resource is 50");
  for (const auto& [key, value] : tags) {
    if (key.empty() || key.size() > kMaxKey)
      return refuse("InvalidParameterValue",
                    "Tag key exceeds the maximum length of 127 characters");
    if (value.size() > kMaxValue)
      return refuse("InvalidParameterValue",
                    "Tag value exceeds the maximum length of 256 characters");
    if (key.starts_with("aws:"))
      return refuse("InvalidParameterValue",
                    "Tag keys starting with 'aws:' are reserved for internal use");
  }
  return {};
}

Answer<void> check_metadata_tags(const Tags& tags) {
  static const std::regex kLegal("[0-9a-zA-Z_+=,.@:-]{1,255}");
  for (const auto& [key, value] : tags)
    if (!std::regex_match(key, kLegal) || key == "." || key == ".." || key == "_index")
      return refuse("InvalidParameterValue",
                    "'" + key +
                        "' is not a valid tag key. Tag keys must match pattern "
                        "([0-9a-zA-Z\\\\-_+=,.@:]{1,255}), and must not be a reserved name ('.', "
                        "'..', '_index')");
  return {};
}

bool well_formed_id(std::string_view id, std::string_view prefix) {
  if (!id.starts_with(prefix)) return false;
  id.remove_prefix(prefix.size());
  return (id.size() == 8 || id.size() == 17) &&
         id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string architecture_of(const std::string& instance_type) {
  static const std::regex kType("([a-z]+)([0-9]+)([a-z0-9-]*)\\.([a-z0-9-]+)");
  std::smatch parts;
  if (!std::regex_match(instance_type, parts, kType)) return {};
  // The letter g after the generation says Graviton (m6g, c7gn, g5g); a1 was the first.
  const bool arm =
      parts[3].str().find('g') != std::string::npos || (parts[1] == "a" && parts[2] == "1");
  return arm ? "arm64" : "x86_64";
}

namespace {
tl::unexpected<ApiError> several(const std::string& code, const std::string& one,
                                 const std::string& many, const std::vector<std::string>& ids,
                                 const std::string& end_one, const std::string& end_many) {
  std::string list;
  for (const auto& id : ids) list += (list.empty() ? "" : ", ") + id;
  const bool single = ids.size() == 1;
  return refuse(code, (single ? one : many) + " '" + list + "' " + (single ? end_one : end_many));
}
}  // namespace

tl::unexpected<ApiError> volume_not_found(const std::vector<std::string>& ids) {
  return several("InvalidVolume.NotFound", "The volume", "The volumes", ids, "does not exist.",
                 "do not exist.");
}
tl::unexpected<ApiError> instance_not_found(const std::vector<std::string>& ids) {
  return several("InvalidInstanceID.NotFound", "The instance ID", "The instance IDs", ids,
                 "does not exist", "do not exist");
}
tl::unexpected<ApiError> snapshot_not_found(const std::string& id) {
  return refuse("InvalidSnapshot.NotFound", "The snapshot '" + id + "' does not exist.");
}
tl::unexpected<ApiError> image_not_found(const std::string& id) {
  return refuse("InvalidAMIID.NotFound", "The image id '[" + id + "]' does not exist");
}
tl::unexpected<ApiError> template_not_found(const std::string& id) {
  return refuse("InvalidLaunchTemplateId.NotFound",
                "The specified launch template, with template ID " + id + ", does not exist.");
}
std::string why_denied(Denial denial, const std::string& right) {
  if (denial == Denial::implicit)
    return "because no identity-based policy allows the " + right + " action";
  return std::string("with an explicit deny in ") +
         (denial == Denial::policy ? "an identity-based policy" : "a service control policy");
}

tl::unexpected<ApiError> unknown_resource(const std::string& id) {
  if (id.starts_with("vol-")) return volume_not_found({id});
  if (id.starts_with("i-")) return instance_not_found({id});
  if (id.starts_with("snap-")) return snapshot_not_found(id);
  if (id.starts_with("ami-")) return image_not_found(id);
  if (id.starts_with("lt-")) return template_not_found(id);
  return refuse("InvalidID", "The ID '" + id + "' is not valid");
}
tl::unexpected<ApiError> zone_unreachable(const std::string& id) {
  return refuse("Unavailable", "The availability zone of '" + id + "' is impaired.", 503);
}
tl::unexpected<ApiError> token_mismatch() {
  return refuse("IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in "
                "previous request(s).");
}

}  // namespace warmroot::sim
