// See the header.
#include "tests/sim/ebs_direct.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

namespace {

using nlohmann::json;

constexpr std::uint64_t kBlockBytes = 512 * 1024;
constexpr std::size_t kFewestResults = 100, kMostResults = 10'000;
/// Page tokens end after an hour, blocks' after days (EBS user guide).
constexpr std::chrono::hours kPageTokenLife{1};
constexpr std::chrono::hours kBlockTokenLife{7 * 24};
constexpr char kRight[] = "ebs:ListSnapshotBlocks";

std::optional<std::uint64_t> whole(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_snapshot_id(const std::string& text) {
  constexpr std::string_view kPrefix = "snap-";
  return text.starts_with(kPrefix) && text.size() > kPrefix.size() && text.size() <= 64;
}

}  // namespace

EbsReply EbsDirect::error(const std::string& type, const std::string& reason,
                          const std::string& message, int status) {
  EbsReply reply;
  reply.status = status;
  reply.type = type;
  reply.request_id = "00000000-0000-4000-a000-" + std::to_string(100'000'000'000 + ++count_);
  json body = {{"Message", message}};
  if (!reason.empty()) body["Reason"] = reason;
  reply.body = body.dump();
  return reply;
}

EbsReply EbsDirect::answer(const std::string& method, const std::string& path,
                           const Parameter& parameter) {
  constexpr std::string_view kHead = "/snapshots/", kTail = "/blocks";
  ++requests;
  if (throttles > 0) {
    --throttles;
    return error("RequestThrottledException", "ACCOUNT_THROTTLED", "Rate exceeded");
  }
  if (method != "GET" || !path.starts_with(kHead) || !path.ends_with(kTail) ||
      path.size() <= kHead.size() + kTail.size())
    return error("ValidationException", "INVALID_PARAMETER_VALUE",
                 method + " " + path + " is not modelled by the simulated region.");
  const std::string id = path.substr(kHead.size(), path.size() - kHead.size() - kTail.size());
  if (const auto denied = region_.knobs.denied.find(kRight); denied != region_.knobs.denied.end())
    return error("AccessDeniedException", "",
                 "User: arn:aws:iam::" + region_.catalog().account_id +
                     ":user/operator is not authorized to perform: " + kRight +
                     " on resource: arn:aws:ec2:" + region_.catalog().region + "::snapshot/" + id +
                     " " + why_denied(denied->second, kRight),
                 403);
  return list(id, parameter);
}

EbsReply EbsDirect::list(const std::string& snapshot_id, const Parameter& parameter) {
  const auto invalid = [this](const std::string& reason, const std::string& message) {
    return error("ValidationException", reason, message);
  };
  if (!is_snapshot_id(snapshot_id))
    return invalid("INVALID_SNAPSHOT_ID", "The snapshot ID '" + snapshot_id + "' is not valid.");
  const std::string results = parameter("maxResults"), start = parameter("startingBlockIndex");
  const auto most = results.empty() ? std::optional<std::uint64_t>(kMostResults) : whole(results);
  if (!most || *most < kFewestResults || *most > kMostResults)
    return invalid("INVALID_PARAMETER_VALUE", "maxResults must be from 100 to 10000.");
  Place place{snapshot_id, 0, false, {}};
  if (!start.empty()) {
    const auto first = whole(start);
    if (!first) return invalid("INVALID_PARAMETER_VALUE", "startingBlockIndex is not valid.");
    place.first_block = *first;
  }
  if (const std::string token = parameter("pageToken"); !token.empty()) {
    const auto found = places_.find(token);
    if (found == places_.end() || found->second.snapshot_id != snapshot_id ||
        region_.now() >= found->second.expires)
      return invalid("INVALID_PAGE_TOKEN", "The page token is not valid or has expired.");
    place = found->second;
  }
  const SnapshotRecord* source = region_.snapshot(snapshot_id);
  if (source == nullptr)
    return error("ResourceNotFoundException", "SNAPSHOT_NOT_FOUND",
                 "The snapshot '" + snapshot_id + "' does not exist.", 404);
  if (source->owner_id != region_.catalog().account_id)
    return error("AccessDeniedException", "UNAUTHORIZED_ACCOUNT",
                 "The account does not have permission to use the snapshot.", 403);
  if (region_.snapshot_state(*source) != "completed")
    return invalid("INVALID_SNAPSHOT_ID", "The snapshot is not in the completed state.");
  const auto blocks =
      region_.hardware().snapshot_blocks(snapshot_id, std::uint64_t(source->size_gib) << 30);
  if (!blocks) return error("InternalServerException", "", blocks.error().message(), 500);
  return page(*source, *blocks, place, std::min<std::size_t>(*most, page_cap));
}

std::string EbsDirect::keep(Place place) {
  place.expires = region_.now() + kPageTokenLife;
  const std::string token =
      "AAMB" + std::to_string(++count_) + "+/" + place.snapshot_id.substr(5) + "==";
  places_[token] = std::move(place);
  return token;
}

EbsReply EbsDirect::page(const SnapshotRecord& source, const std::vector<std::uint32_t>& blocks,
                         Place from, std::size_t most) {
  json body = {
      {"Blocks", json::array()},
      {"VolumeSize", source.size_gib},
      {"BlockSize", kBlockBytes},
      {"ExpiryTime",
       static_cast<double>((region_.now() + kBlockTokenLife).time_since_epoch().count()) / 1000}};
  auto at = std::lower_bound(blocks.begin(), blocks.end(), from.first_block);
  if (empty_pages && !from.after_empty) {
    from.after_empty = true;
    body["NextToken"] = keep(from);
  } else {
    for (; at != blocks.end() && body["Blocks"].size() < most; ++at)
      body["Blocks"].push_back(
          {{"BlockIndex", *at},
           {"BlockToken", "AAUBAc" + std::to_string(++count_) + "/" + std::to_string(*at) + "=="}});
    if (at != blocks.end()) body["NextToken"] = keep({from.snapshot_id, *at, false, {}});
  }
  EbsReply reply;
  reply.body = body.dump();
  reply.request_id = "00000000-0000-4000-a000-" + std::to_string(100'000'000'000 + ++count_);
  return reply;
}

}  // namespace warmroot::sim
