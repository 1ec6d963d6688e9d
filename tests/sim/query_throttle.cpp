// What stands before every call: EC2's token buckets, of calls and of instances touched, and the
// caller's rights.
#include <algorithm>

#include "tests/sim/query.hpp"
#include "tests/sim/query_form.hpp"
#include "tests/sim/query_parameters.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

bool QueryFront::take_tokens(const std::string& name, double size, double refill_per_s,
                             double count) {
  const double share = throttle_scale_ * (1 - neighbour_);
  const double most = std::max(1.0, size * share);
  auto [found, fresh] = buckets_.try_emplace(name, Bucket{most, region_.now()});
  Bucket& bucket = found->second;
  const double passed = static_cast<double>((region_.now() - bucket.filled).count()) / 1000;
  bucket.tokens = std::min(most, bucket.tokens + passed * refill_per_s * share);
  bucket.filled = region_.now();
  if (bucket.tokens < count) return false;
  bucket.tokens -= count;
  return true;
}

bool QueryFront::throttle_lets(const ActionEntry& action, const Form& form) {
  if (throttle_scale_ <= 0) return true;
  const std::string name(action.name);
  const bool by_ids = action.has_plain_bucket && region_.knobs.ids_count_as_filtered &&
                      form.has(name == "DescribeVolumes"     ? "VolumeId.1"
                               : name == "DescribeSnapshots" ? "SnapshotId.1"
                                                             : "InstanceId.1");
  const bool plain = action.has_plain_bucket && !by_ids && !form.has("MaxResults") &&
                     !form.has("NextToken") && form.elements("Filter").empty();
  constexpr double kPlainSize = 50, kPlainRefill = 10;
  if (plain && !take_tokens(name + " plain", kPlainSize, kPlainRefill, 1)) return false;
  if (!plain && !take_tokens(name, action.bucket, action.refill_per_s, 1)) return false;
  if (action.resources <= 0) return true;
  const auto asked = form.integer("MaxCount");
  const double touched =
      asked && *asked ? std::max(1, **asked) : static_cast<double>(form.list("InstanceId").size());
  return take_tokens(name + " instances", action.resources, action.resource_refill_per_s, touched);
}

Answer<void> QueryFront::check_permission(const ActionEntry& action, const Form& form) const {
  const auto& denied = region_.knobs.denied;
  if (denied.empty()) return {};
  std::vector<std::string> needed = {"ec2:" + std::string(action.name)};
  // Tags at creation and an instance's role are rights of their own.
  if (!form.elements("TagSpecification").empty()) needed.emplace_back("ec2:CreateTags");
  if (form.has("IamInstanceProfile.Name") || form.has("IamInstanceProfile.Arn"))
    needed.emplace_back("iam:PassRole");
  for (const auto& right : needed) {
    const auto found = denied.find(right);
    if (found == denied.end()) continue;
    return refuse("UnauthorizedOperation",
                  "You are not authorized to perform this operation. User: arn:aws:iam::" +
                      region_.catalog().account_id +
                      ":user/operator is not authorized to perform: " + right +
                      " on resource: arn:aws:ec2:" + region_.catalog().region + ":" +
                      region_.catalog().account_id + ":*/* " + why_denied(found->second, right) +
                      ". Encoded authorization failure message: AAAAexampleAAAA",
                  403);
  }
  return {};
}

}  // namespace warmroot::sim
