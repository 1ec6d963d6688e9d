// See the header.
#include "manager/aws/ebs_direct.hpp"

#include <nlohmann/json.hpp>

#include "manager/aws/json_error.hpp"

namespace warmroot::aws {
namespace {

using nlohmann::json;

/// Ten thousand blocks with tokens of at most 256 characters, and their frames.
constexpr std::size_t kMaxBlocksReply = 8 << 20;
/// EBS's largest volume is 64 TiB.
constexpr std::uint64_t kMostGib = 64 * 1024;
constexpr std::uint64_t kBlocksOfGib = (std::uint64_t{1} << 30) / kSnapshotBlockBytes;
/// The service's own bound of 256, with room.
constexpr std::size_t kMostTokenCharacters = 4096;

std::optional<std::uint64_t> whole_of(const json& object, const char* member) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

tl::unexpected<Error> broken(const std::string& what) {
  return fail(ErrorKind::broken, "ListSnapshotBlocks: " + what);
}

json body_of(const HttpReply& reply) {
  return json::parse(reply.body.substr(0, kMaxBlocksReply), nullptr, false);
}

std::string type_of(const HttpReply& reply) {
  if (const auto header = reply.headers.find("x-amzn-errortype"); header != reply.headers.end())
    return bare_error_type(header->second);
  const json body = body_of(reply);
  for (const char* member : {"__type", "code"})
    if (auto type = text_of(body, member); !type.empty()) return bare_error_type(std::move(type));
  return "HTTP" + std::to_string(reply.status);
}

ErrorKind ebs_kind_of(int status, const std::string& type) {
  if (is_denial(type)) return ErrorKind::unauthorised;
  if (type == "ResourceNotFoundException") return ErrorKind::gone;
  if (status >= 500 || type.find("Throttl") != std::string::npos ||
      type == "ConcurrentLimitExceededException")
    return ErrorKind::retry_later;
  return ErrorKind::refused;
}

Error error_of(const HttpReply& reply) {
  const json body = body_of(reply);
  std::string why = text_of(body, "Message");
  if (why.empty()) why = text_of(body, "message");
  if (why.empty()) why = "HTTP " + std::to_string(reply.status);
  Error error{ebs_kind_of(reply.status, type_of(reply)),
              "ListSnapshotBlocks: " + why,
              ebs_code_of(reply),
              {}};
  if (const auto id = reply.headers.find("x-amzn-requestid"); id != reply.headers.end())
    error.request_id = id->second;
  return error;
}

Ok take_blocks(const json& list, std::uint64_t end, std::vector<std::uint32_t>& blocks) {
  if (list.size() > kMostSnapshotBlocks) return broken("the page has more blocks than a page has");
  for (const json& item : list) {
    const auto block = item.is_object() ? whole_of(item, "BlockIndex") : std::nullopt;
    if (!block) return broken("a block has no BlockIndex that is a whole number");
    if (*block >= end) return broken("block " + std::to_string(*block) + " lies beyond the volume");
    if (!blocks.empty() && *block == blocks.back())
      return broken("block " + std::to_string(*block) + " is listed twice");
    if (!blocks.empty() && *block < blocks.back())
      return broken("block " + std::to_string(*block) + " is out of order");
    blocks.push_back(static_cast<std::uint32_t>(*block));
  }
  return {};
}

}  // namespace

SigningRequest encode(const ListSnapshotBlocks& call) {
  SigningRequest request;
  request.method = "GET";
  request.path = "/snapshots/" + percent_encode(call.snapshot_id) + "/blocks";
  request.query = {{"maxResults", std::to_string(call.max_results)}};
  if (!call.page_token.empty())
    request.query.emplace_back("pageToken", call.page_token);
  else if (call.first_block != 0)
    request.query.emplace_back("startingBlockIndex", std::to_string(call.first_block));
  return request;
}

std::string ebs_code_of(const HttpReply& reply) {
  if (reply.status == 200) return {};
  const std::string reason = text_of(body_of(reply), "Reason");
  return type_of(reply) + (reason.empty() ? "" : "." + reason);
}

bool says_page_token_expired(const Error& error) {
  return error.code == "ValidationException.INVALID_PAGE_TOKEN";
}

Result<SnapshotBlocksPage> decode_snapshot_blocks(const HttpReply& reply) {
  if (reply.status != 200) return fail(error_of(reply));
  if (reply.body.size() > kMaxBlocksReply) return broken("the answer is too long");
  const json body = json::parse(reply.body, nullptr, false);
  if (!body.is_object()) return broken("the answer is no JSON object");
  const auto gib = whole_of(body, "VolumeSize");
  if (!gib || *gib == 0 || *gib > kMostGib) return broken("VolumeSize is no volume's size in GiB");
  if (whole_of(body, "BlockSize") != kSnapshotBlockBytes)
    return broken("BlockSize is not 524288, and nothing else is known what to do with");
  SnapshotBlocksPage page;
  page.volume_bytes = *gib << 30;
  page.next_token = text_of(body, "NextToken");
  if (page.next_token.size() > kMostTokenCharacters) return broken("NextToken is too long");
  const auto list = body.find("Blocks");
  if (list == body.end() || list->is_null()) return page;
  if (!list->is_array()) return broken("Blocks is no list");
  TRY(take_blocks(*list, *gib * kBlocksOfGib, page.blocks));
  return page;
}

}  // namespace warmroot::aws
