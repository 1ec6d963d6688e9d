// EC2's rules that need no state: limits of volume types, device names, tags, ids, and the wording
// of refusals that several calls share. Used by the region and its Query front.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

/// Size and performance limits of a volume type; nullptr for a type EC2 does not have.
struct VolumeTypeLimits {
  std::string_view name;
  int min_gib, max_gib;
  int min_iops, max_iops;  ///< 0: iops cannot be given
  int iops_per_gib;
  int max_throughput;  ///< 0: throughput cannot be given
};
const VolumeTypeLimits* volume_type_limits(std::string_view type);

/// The name without "/dev/", or nullopt where EC2 takes it for no EBS device name.
std::optional<std::string> device_label(std::string_view device);

/// EC2's general limits of tags: 50 a resource, keys to 127 and values to 256 characters, no "aws:"
/// keys.
Answer<void> check_tags(const Tags& tags);
/// The narrower alphabet of tags that are shown in instance metadata.
Answer<void> check_metadata_tags(const Tags& tags);

/// "vol-" and 8 or 17 hex digits.
bool well_formed_id(std::string_view id, std::string_view prefix);

/// x86_64 or arm64 by the type's family; empty when the text is no instance type.
std::string architecture_of(const std::string& instance_type);

/// How IAM explains that the right is missing: "because no identity-based policy allows ...".
std::string why_denied(Denial denial, const std::string& right);

tl::unexpected<ApiError> volume_not_found(const std::vector<std::string>& ids);
tl::unexpected<ApiError> instance_not_found(const std::vector<std::string>& ids);
tl::unexpected<ApiError> snapshot_not_found(const std::string& id);
tl::unexpected<ApiError> image_not_found(const std::string& id);
tl::unexpected<ApiError> template_not_found(const std::string& id);
/// The refusal for an id of any kind, by its prefix.
tl::unexpected<ApiError> unknown_resource(const std::string& id);
tl::unexpected<ApiError> token_mismatch();
/// A by-id look at something in an impaired zone: the call fails (BC); its code is assumed.
tl::unexpected<ApiError> zone_unreachable(const std::string& id);

}  // namespace warmroot::sim
