// The planner about creates that EC2 throttled or nobody heard of again, which may have been
// carried out all the same: until what they made would show, nothing else is made in their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "manager/core/backoff.hpp"
#include "manager/core/draft.hpp"
#include "tests/planner_stock_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Throttled, a_node_whose_create_was_throttled_takes_no_spare_until_a_made_one_would_show) {
  StockWorld world;
  world.stock_volume("vol-s");
  world.ledger.failures["CreateVolume/p-0"] = {1, kNow, "Throttling", true, "throttled", true};
  EXPECT_THAT(world.calls(), Not(Contains("CreateTags vol-s")));
  world.now += kVisibilityWindow;
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-s"));
}

TEST(Throttled, a_throttled_create_is_sent_again_at_once_only_as_it_was) {
  World world(2, 2, {"z-a", "z-b"});
  const auto first = world.plan();
  const auto creates = all<aws::CreateVolume>(first);
  ASSERT_EQ(creates.size(), 2u);
  Failure throttled{1, kNow - Milliseconds{1500}, "Throttling", true, "throttled", true};
  throttled.token = creates.front()->client_token;
  world.ledger.failures["CreateVolume/p-0"] = throttled;
  const auto tokens = [&] {
    std::set<std::string> sent;
    const auto plan = world.plan();
    for (const auto* call : all<aws::CreateVolume>(plan)) sent.insert(call->client_token);
    return sent;
  };
  EXPECT_THAT(tokens(), Contains(throttled.token));
  // Another zone, another token: EC2 would make a second volume.
  world.observed.zones["z-a"].state = "impaired";
  EXPECT_THAT(tokens(), ElementsAre(creates.back()->client_token)) << "p-1's alone, of z-b";
  world.now += kVisibilityWindow;
  EXPECT_THAT(tokens(), SizeIs(2));
}

TEST(Throttled, another_slot_than_the_throttled_one_waits_until_that_would_show) {
  StockWorld world;
  world.volume("vol-0");
  world.pool().stock.spares = 2;
  const auto first = world.plan();
  const auto creates = all<aws::CreateVolume>(first);
  ASSERT_EQ(creates.size(), 2u);
  Failure throttled{1, kNow - Milliseconds{1500}, "Throttling", true, "throttled", true};
  throttled.token = creates.back()->client_token;
  world.ledger.failures["CreateVolume/p/spare/z-a"] = throttled;
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
  world.now += kVisibilityWindow;
  EXPECT_EQ(all<aws::CreateVolume>(world.plan()).size(), 2u);
}

TEST(Throttled, what_a_launch_with_volumes_may_have_made_is_not_created_beside_it) {
  for (const bool throttled : {true, false}) {  // or not sent again, its pool being paused
    StockWorld world;
    world.ledger.failures["RunInstances/p-0"] = {
        1, kNow, throttled ? "RequestLimitExceeded" : kWithdrawn, true, "s", throttled};
    const auto made = [&] {
      std::set<std::string> nodes;
      const auto plan = world.plan();
      for (const auto* call : all<aws::CreateVolume>(plan))
        nodes.insert(tag_of(call->tags, kTagNode));
      return nodes;
    };
    EXPECT_THAT(made(), Not(Contains("p-0"))) << throttled;
    world.now += kVisibilityWindow;
    EXPECT_THAT(made(), Contains("p-0")) << throttled;
  }
}

TEST(Throttled, what_a_throttled_copy_may_have_made_is_not_created_beside_it) {
  StockWorld world;
  world.volume("vol-0");
  world.ledger.failures["CopyVolumes/p/spare/z-a"] = {1, kNow, "RequestThrottled", true, "s", true};
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
  world.now += kVisibilityWindow;
  EXPECT_THAT(world.calls(), Contains(StartsWith("CreateVolume")));
}

}  // namespace
}  // namespace warmroot::core
