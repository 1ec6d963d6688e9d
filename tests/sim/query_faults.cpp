// See the header.
#include "tests/sim/query_faults.hpp"

#include <algorithm>
#include <utility>

#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

constexpr std::pair<std::string_view, FaultKind> kNames[] = {
    {"unreachable", FaultKind::unreachable},
    {"lost_before", FaultKind::lost_before},
    {"lost_after", FaultKind::lost_after},
    {"throttled", FaultKind::throttled},
    {"internal", FaultKind::internal},
    {"unavailable", FaultKind::unavailable},
    {"html", FaultKind::html},
    {"truncated", FaultKind::truncated},
    {"throttled_after", FaultKind::throttled_after},
    {"internal_after", FaultKind::internal_after},
    {"unavailable_after", FaultKind::unavailable_after},
    {"html_after", FaultKind::html_after},
    {"too_many_requests", FaultKind::too_many_requests},
    {"late", FaultKind::late},
    {"slow_before", FaultKind::slow_before},
    {"slow_after", FaultKind::slow_after},
    {"empty_page", FaultKind::empty_page},
    {"token_expired", FaultKind::token_expired},
    {"auth_failure", FaultKind::auth_failure},
    {"expired_token", FaultKind::expired_token},
    {"request_expired", FaultKind::request_expired},
    {"unauthorized", FaultKind::unauthorized},
    {"wrong_account", FaultKind::wrong_account},
    {"refused", FaultKind::refused},
};

bool action_matches(const std::string& pattern, const std::string& action) {
  if (pattern == "*" || pattern == action) return true;
  return pattern.ends_with('*') &&
         action.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

bool applies(const Fault& fault, const std::string& action, std::string_view form, Instant now) {
  if (fault.count <= 0 || !action_matches(fault.action, action)) return false;
  if (fault.until && now >= *fault.until) return false;
  if (!fault.containing.empty() && form.find(fault.containing) == std::string_view::npos)
    return false;
  if (fault.kind == FaultKind::token_expired)
    return form.find("NextToken=") != std::string_view::npos;
  return fault.kind != FaultKind::empty_page || action.starts_with("Describe");
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  for (const auto& [name, value] : kNames)
    if (value == kind) return name;
  return "refused";
}

std::optional<FaultKind> fault_kind(std::string_view name) {
  for (const auto& [text, value] : kNames)
    if (text == name) return value;
  return std::nullopt;
}

bool FaultList::may_hit(const std::string& action, std::string_view form, Instant now) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [&](const Fault& fault) { return applies(fault, action, form, now); });
}

std::optional<Fault> FaultList::next(const std::string& action, std::string_view form,
                                     Instant now) {
  std::optional<Fault> hit;
  for (auto& fault : faults_) {
    if (!applies(fault, action, form, now)) continue;
    if (fault.after > 0) {
      --fault.after;
      continue;
    }
    if (fault.share < 1 && static_cast<double>(random_() >> 11) * 0x1p-53 >= fault.share) continue;
    if (fault.count != Fault::kAlways) --fault.count;
    ++hits_[std::string(to_string(fault.kind))];
    hit = fault;
    break;
  }
  std::erase_if(faults_, [&](const Fault& fault) {
    return fault.count <= 0 || (fault.until && now >= *fault.until);
  });
  return hit;
}

ApiError fault_error(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::throttled:
    case FaultKind::throttled_after:
      return {503, fault.code.empty() ? "RequestLimitExceeded" : fault.code,
              "Request limit exceeded."};
    case FaultKind::unavailable:
    case FaultKind::unavailable_after:
      return {503, "Unavailable", "The service is unavailable. Please try again shortly."};
    case FaultKind::token_expired:
      return {400, "InvalidNextToken", "The token has expired"};
    case FaultKind::auth_failure:
      return {401, "AuthFailure", "AWS was not able to validate the provided access credentials"};
    case FaultKind::expired_token:
      return {400, "ExpiredToken", "The provided token has expired."};
    case FaultKind::request_expired:
      return {400, "RequestExpired", "Request has expired."};
    case FaultKind::unauthorized:
      return {403, "UnauthorizedOperation",
              "You are not authorized to perform this operation. Encoded authorization failure "
              "message: c2ltdWxhdGVk"};
    case FaultKind::refused:
      return {fault.status, fault.code, fault.message.empty() ? fault.code : fault.message};
    default:
      return {500, "InternalError", "An internal error has occurred"};
  }
}

ApiError foreign_refusal(const std::map<std::string, std::string>& values) {
  for (const char* name :
       {"VolumeId", "InstanceId", "InstanceId.1", "ResourceId.1", "SnapshotId", "SourceVolumeId"})
    if (const auto found = values.find(name); found != values.end())
      return unknown_resource(found->second).value();
  if (const auto found = values.find("SubnetId"); found != values.end())
    return {400, "InvalidSubnetID.NotFound",
            "The subnet ID '" + found->second + "' does not exist"};
  if (const auto found = values.find("ImageId"); found != values.end())
    return image_not_found(found->second).value();
  return {403, "UnauthorizedOperation", "You are not authorized to perform this operation."};
}

}  // namespace warmroot::sim
