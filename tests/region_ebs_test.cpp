// Listing a snapshot's blocks: the real client against the region's EBS direct, over signed HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "manager/aws/ebs_direct_client.hpp"
#include "tests/region_doors.hpp"

namespace warmroot {
namespace {

using testing::HasSubstr;

constexpr char kForeign[] = "snap-04000000000000004";

class RegionEbs : public testing::Test {
 protected:
  RegionEbs() {
    CHECK(server.start().has_value());
    auto surroundings = std::make_shared<aws::Surroundings>();
    surroundings->now = [this] { return warmroot::wall_clock() + clock_error; };
    surroundings->sleep = [this](Milliseconds) { ++pauses; };
    connection.surroundings = surroundings;
    use_secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
  }
  ~RegionEbs() override { server.stop(); }

  void use_secret(const std::string& secret) {
    connection.credentials = std::make_shared<aws::CredentialCache>(
        [secret]() -> Result<aws::FoundCredentials> {
          aws::FoundCredentials found;
          found.credentials = {"AKIDEXAMPLE", aws::Secret(secret), aws::Secret()};
          return found;
        },
        connection.surroundings->now, [] { return 0.5; });
  }
  Result<std::vector<std::uint32_t>> blocks(const std::string& snapshot = kSnapshot) {
    aws::EbsDirectClient client({*aws::parse_endpoint(server.endpoint()), "us-east-1"}, connection,
                                &give_up);
    std::vector<std::uint32_t> all;
    pages = 0;
    const Ok listed =
        client.list_snapshot_blocks(snapshot, [&](const aws::SnapshotBlocksPage& page) -> Ok {
          ++pages;
          volume_bytes = page.volume_bytes;
          all.insert(all.end(), page.blocks.begin(), page.blocks.end());
          if (on_page) on_page();
          return {};
        });
    if (!listed) return fail(listed.error());
    return all;
  }
  Error refusal(const std::string& snapshot = kSnapshot) {
    const auto found = blocks(snapshot);
    return found ? Error{ErrorKind::broken, "not refused", {}, {}} : found.error();
  }
  std::vector<std::uint32_t> scattered() {
    std::mt19937 random(11);
    std::vector<std::uint32_t> list;
    for (std::uint32_t block = 0; block < 16'384; block += 1 + random() % 6) list.push_back(block);
    hardware.blocks_of[kSnapshot] = list;
    return list;
  }
  sim::EbsDirect& door() { return server.ebs_direct(); }

  sim::NoHardware hardware;
  sim::Region region{catalog(), short_times(), hardware, warmroot::wall_clock()};
  sim::RegionServer server{region, {}};
  aws::Connection connection;
  Milliseconds clock_error{0};
  std::atomic<bool> give_up = false;
  std::function<void()> on_page;
  int pauses = 0, pages = 0;
  std::uint64_t volume_bytes = 0;
};

TEST_F(RegionEbs, every_block_comes_once_in_order_over_all_pages) {
  const auto expected = scattered();
  const auto whole = blocks();
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(*whole, expected);
  EXPECT_EQ(volume_bytes, std::uint64_t{8} << 30);
  EXPECT_EQ(pages, 1);
  door().page_cap = 1'000;
  door().empty_pages = true;
  const auto paged = blocks();
  ASSERT_TRUE(paged) << paged.error().message();
  EXPECT_EQ(*paged, expected);
  EXPECT_EQ(pages, 2 * ((static_cast<int>(expected.size()) + 999) / 1'000));
}

TEST_F(RegionEbs, a_throttled_page_is_asked_for_again_but_not_for_ever) {
  const auto expected = scattered();
  door().throttles = 3;
  EXPECT_EQ(blocks().value_or(std::vector<std::uint32_t>{}), expected);
  EXPECT_GT(pauses, 0);
  door().throttles = 1'000;
  door().requests = 0;
  const Error error = refusal();
  EXPECT_EQ(error.kind, ErrorKind::retry_later);
  EXPECT_EQ(error.code, "RequestThrottledException.ACCOUNT_THROTTLED");
  EXPECT_EQ(door().requests, aws::kMaxAttempts);
}

TEST_F(RegionEbs, a_page_token_that_has_expired_is_replaced_by_the_place) {
  const auto expected = scattered();
  door().page_cap = 2'000;
  on_page = [this, once = true]() mutable {
    if (std::exchange(once, false)) door().expire_tokens();
  };
  EXPECT_EQ(blocks().value_or(std::vector<std::uint32_t>{}), expected);
}

TEST_F(RegionEbs, who_may_not_hears_it_in_the_services_words) {
  EXPECT_EQ(refusal("snap-0ffffffffffffffff").kind, ErrorKind::gone);
  EXPECT_EQ(refusal(kForeign).code, "AccessDeniedException.UNAUTHORIZED_ACCOUNT");
  region.knobs.denied["ebs:ListSnapshotBlocks"] = sim::Denial::implicit;
  const Error denied = refusal();
  EXPECT_EQ(denied.kind, ErrorKind::unauthorised);
  EXPECT_THAT(denied.message(), HasSubstr("not authorized to perform: ebs:ListSnapshotBlocks"));
  region.knobs.denied.clear();
  use_secret("wrong");
  EXPECT_EQ(refusal().kind, ErrorKind::unauthorised);
}

TEST_F(RegionEbs, a_clock_that_is_off_is_put_right_by_the_services) {
  const auto expected = scattered();
  clock_error = std::chrono::minutes(40);
  EXPECT_EQ(blocks().value_or(std::vector<std::uint32_t>{}), expected);
}

TEST_F(RegionEbs, a_listing_ends_where_it_is_told_to_give_up) {
  scattered();
  door().page_cap = 100;
  on_page = [this] { give_up = true; };
  EXPECT_EQ(refusal().kind, ErrorKind::retry_later);
  EXPECT_EQ(pages, 1);
}

TEST_F(RegionEbs, a_probe_is_one_small_page) {
  scattered();
  aws::EbsDirectClient client({*aws::parse_endpoint(server.endpoint()), "us-east-1"}, connection,
                              nullptr);
  door().requests = 0;
  EXPECT_TRUE(client.probe(kSnapshot));
  EXPECT_EQ(door().requests, 1);
  EXPECT_FALSE(client.probe(kForeign));
}

}  // namespace
}  // namespace warmroot
