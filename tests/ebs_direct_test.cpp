// EBS direct's pages and errors, read without trust.
#include "manager/aws/ebs_direct.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warmroot::aws {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HttpReply reply(int status, std::string body, std::map<std::string, std::string> headers = {}) {
  return {status, std::move(headers), std::move(body)};
}

std::string page_of(const std::string& blocks, const std::string& more = "") {
  return R"({"Blocks":)" + blocks + R"(,"ExpiryTime":1.79e9,"VolumeSize":1,"BlockSize":524288)" +
         more + "}";
}

TEST(EbsDirect, a_call_is_a_get_of_the_snapshots_blocks) {
  const struct {
    ListSnapshotBlocks call;
    const char* query;
  } cases[] = {
      {{"snap-0123456789abcdef0", "", 0, 10'000}, "maxResults=10000"},
      {{"snap-0123456789abcdef0", "", 5, 100}, "maxResults=100&startingBlockIndex=5"},
      {{"snap-0123456789abcdef0", "AAA+/=", 5, 1000}, "maxResults=1000&pageToken=AAA%2B%2F%3D"},
  };
  for (const auto& each : cases) {
    const SigningRequest request = encode(each.call);
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.path, "/snapshots/snap-0123456789abcdef0/blocks");
    EXPECT_EQ(canonical_query(request.query), each.query);
    EXPECT_THAT(request.body, IsEmpty());
  }
}

TEST(EbsDirect, a_page_gives_its_blocks_the_volumes_size_and_the_way_on) {
  const auto page = decode_snapshot_blocks(
      reply(200, page_of(R"([{"BlockIndex":0,"BlockToken":"a="},{"BlockIndex":2047}])",
                         R"(,"NextToken":"AA+/=")")));
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_THAT(page->blocks, ElementsAre(0, 2047));
  EXPECT_EQ(page->volume_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(page->next_token, "AA+/=");
  for (const char* none : {"[]", "null"}) {
    const auto last = decode_snapshot_blocks(reply(200, page_of(none)));
    ASSERT_TRUE(last) << last.error().message();
    EXPECT_THAT(last->blocks, IsEmpty());
    EXPECT_THAT(last->next_token, IsEmpty());
  }
}

TEST(EbsDirect, what_is_no_page_is_broken_and_says_why) {
  std::string many = "[";
  for (int block = 0; block <= kMostSnapshotBlocks; ++block)
    many += (block == 0 ? R"({"BlockIndex":)" : R"(,{"BlockIndex":)") + std::to_string(block) + "}";
  const struct {
    std::string body;
    const char* words;
  } cases[] = {
      {"", "no JSON object"},
      {"{\"Blocks\":[", "no JSON object"},
      {"[]", "no JSON object"},
      {"<html>", "no JSON object"},
      {std::string(9 << 20, ' '), "too long"},
      {"{}", "VolumeSize"},
      {R"({"VolumeSize":0,"BlockSize":524288})", "VolumeSize"},
      {R"({"VolumeSize":-1,"BlockSize":524288})", "VolumeSize"},
      {R"({"VolumeSize":65537,"BlockSize":524288})", "VolumeSize"},
      {R"({"VolumeSize":1})", "BlockSize is not 524288"},
      {R"({"VolumeSize":1,"BlockSize":4096})", "BlockSize is not 524288"},
      {page_of("{}"), "Blocks is no list"},
      {page_of("[7]"), "no BlockIndex"},
      {page_of("[{}]"), "no BlockIndex"},
      {page_of(R"([{"BlockIndex":-1}])"), "no BlockIndex"},
      {page_of(R"([{"BlockIndex":1.5}])"), "no BlockIndex"},
      {page_of(R"([{"BlockIndex":"1"}])"), "no BlockIndex"},
      {page_of(R"([{"BlockIndex":18446744073709551616}])"), "no BlockIndex"},
      {page_of(R"([{"BlockIndex":2048}])"), "block 2048 lies beyond the volume"},
      {page_of(R"([{"BlockIndex":5},{"BlockIndex":5}])"), "block 5 is listed twice"},
      {page_of(R"([{"BlockIndex":5},{"BlockIndex":4}])"), "block 4 is out of order"},
      {page_of("[]", R"(,"NextToken":")" + std::string(5000, 'x') + "\""), "NextToken is too long"},
      {R"({"Blocks":)" + many + R"(],"VolumeSize":100,"BlockSize":524288})",
       "more blocks than a page has"},
  };
  for (const auto& each : cases) {
    const auto page = decode_snapshot_blocks(reply(200, each.body));
    ASSERT_FALSE(page) << each.body.substr(0, 100);
    EXPECT_EQ(page.error().kind, ErrorKind::broken) << page.error().message();
    EXPECT_THAT(page.error().message(), HasSubstr(each.words));
  }
}

TEST(EbsDirect, errors_say_what_can_be_done) {
  const struct {
    int status;
    const char* type;
    const char* reason;
    ErrorKind kind;
    const char* code;
  } cases[] = {
      {403, "AccessDeniedException", "UNAUTHORIZED_ACCOUNT", ErrorKind::unauthorised,
       "AccessDeniedException.UNAUTHORIZED_ACCOUNT"},
      {403, "com.amazonaws.ebs#InvalidSignatureException:http://x/", "", ErrorKind::unauthorised,
       "InvalidSignatureException"},
      {404, "ResourceNotFoundException", "SNAPSHOT_NOT_FOUND", ErrorKind::gone,
       "ResourceNotFoundException.SNAPSHOT_NOT_FOUND"},
      {400, "RequestThrottledException", "ACCOUNT_THROTTLED", ErrorKind::retry_later,
       "RequestThrottledException.ACCOUNT_THROTTLED"},
      {400, "ConcurrentLimitExceededException", "", ErrorKind::retry_later,
       "ConcurrentLimitExceededException"},
      {500, "InternalServerException", "", ErrorKind::retry_later, "InternalServerException"},
      {503, "ConflictException", "", ErrorKind::retry_later, "ConflictException"},
      {402, "ServiceQuotaExceededException", "", ErrorKind::refused,
       "ServiceQuotaExceededException"},
      {400, "ValidationException", "INVALID_SNAPSHOT_ID", ErrorKind::refused,
       "ValidationException.INVALID_SNAPSHOT_ID"},
  };
  for (const auto& each : cases) {
    const std::string reason =
        *each.reason == '\0' ? "" : std::string(R"(,"Reason":")") + each.reason + "\"";
    const auto page = decode_snapshot_blocks(
        reply(each.status, R"({"Message":"why")" + reason + "}",
              {{"x-amzn-errortype", each.type}, {"x-amzn-requestid", "r-1"}}));
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().kind, each.kind) << each.type;
    EXPECT_EQ(page.error().code, each.code);
    EXPECT_EQ(page.error().request_id, "r-1");
    EXPECT_THAT(page.error().message(), HasSubstr("ListSnapshotBlocks: why"));
    EXPECT_FALSE(says_page_token_expired(page.error()));
  }
  const auto html = decode_snapshot_blocks(reply(503, "<html>"));
  EXPECT_EQ(html.error().kind, ErrorKind::retry_later);
  EXPECT_THAT(html.error().message(), HasSubstr("HTTP 503"));
  const auto expired = decode_snapshot_blocks(
      reply(400, R"({"__type":"ValidationException","Reason":"INVALID_PAGE_TOKEN"})"));
  EXPECT_TRUE(says_page_token_expired(expired.error()));
}

}  // namespace
}  // namespace warmroot::aws
