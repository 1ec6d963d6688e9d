// Rules about the zone in which a node gets its volume and its instance.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/planner_offers.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using State = aws::InstanceState;
using std::chrono::seconds;

std::string create_zone(const World& world) {
  const auto plan = world.plan();
  const auto* call = only<aws::CreateVolume>(plan);
  return call ? call->availability_zone : "";
}

struct ZoneCase {
  const char* name;
  std::map<std::string, MicroUsd> prices;  ///< of g5.xlarge by zone
  std::map<std::string, int> scores;
  std::set<std::string> refused;  ///< zones without capacity
  std::string spare_zone;
  std::string expected;
};

class NewNode : public ::testing::TestWithParam<ZoneCase> {};

TEST_P(NewNode, gets_its_volume_where_warmth_price_and_capacity_say) {
  const auto& param = GetParam();
  World world(1, 1, {"z-a", "z-b"});
  world.pool().launch->instance_types = {"g5.xlarge"};
  for (const auto& [zone, price] : param.prices)
    world.observed.market.spot_price["g5.xlarge"][zone] = price;
  world.observed.market.scores["p"] = param.scores;
  for (const auto& zone : param.refused)
    world.ledger.refused_offers[{"g5.xlarge", zone, true}] = refused(seconds{5});
  if (!param.spare_zone.empty()) {
    auto& spare = world.stranger("vol-spare", 0, param.spare_zone);
    spare.tags.erase(kTagNode);
    spare.tags[kTagRole] = "spare";
  }
  for (const auto& node : world.plan().nodes) EXPECT_EQ(node.zone, param.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NewNode,
    ::testing::Values(
        ZoneCase{"NothingKnownTakesTheFirst", {}, {}, {}, "", "z-a"},
        ZoneCase{"TheCheaper", {{"z-a", kUsd}, {"z-b", kUsd / 2}}, {}, {}, "", "z-b"},
        ZoneCase{
            "AFewPerCentAreNoReason", {{"z-a", kUsd}, {"z-b", kUsd * 95 / 100}}, {}, {}, "", "z-a"},
        ZoneCase{"AnUnknownPriceIsNeutral", {{"z-b", kUsd}}, {}, {}, "", "z-a"},
        ZoneCase{
            "AWarmVolumeBeforeThePrice", {{"z-a", kUsd}, {"z-b", kUsd / 2}}, {}, {}, "z-a", "z-a"},
        ZoneCase{"TheScoreAfterThePrice",
                 {{"z-a", kUsd}, {"z-b", kUsd}},
                 {{"z-a", 3}, {"z-b", 9}},
                 {},
                 "",
                 "z-b"},
        ZoneCase{"ThePriceBeforeTheScore",
                 {{"z-a", kUsd / 2}, {"z-b", kUsd}},
                 {{"z-a", 3}, {"z-b", 9}},
                 {},
                 "",
                 "z-a"},
        ZoneCase{"NotWhereCapacityWasRefused",
                 {{"z-a", kUsd / 2}, {"z-b", kUsd}},
                 {},
                 {"z-a"},
                 "",
                 "z-b"},
        ZoneCase{"RefusedEverywhereIsNoReason", {}, {}, {"z-a", "z-b"}, "", "z-a"}),
    [](const auto& each) { return each.param.name; });

TEST(PlannerPlace, equal_zones_share_the_nodes) {
  World world(4, 4, {"z-a", "z-b"});
  std::map<std::string, int> nodes;
  for (const auto& node : world.plan().nodes) ++nodes[node.zone];
  EXPECT_EQ(nodes["z-a"], 2);
  EXPECT_EQ(nodes["z-b"], 2);
}

TEST(PlannerPlace, a_zone_that_ec2_calls_impaired_gets_no_new_volume) {
  World world(2, 2, {"z-a", "z-b"});
  world.observed.zones["z-a"].state = "impaired";
  for (const auto& node : world.plan().nodes) EXPECT_EQ(node.zone, "z-b");
}

TEST(PlannerPlace, a_node_stays_where_its_volume_is_whatever_the_price) {
  World world(1, 1, {"z-a", "z-b"});
  world.volume("vol-0", 0, "z-a");
  world.observed.market.spot_price["g5.xlarge"] = {{"z-a", kUsd}, {"z-b", kUsd / 10}};
  EXPECT_EQ(world.plan().nodes.front().zone, "z-a");
}

TEST(PlannerPlace, a_volume_that_was_asked_for_decides_the_zone) {
  World world(1, 1, {"z-a", "z-b"});
  Intent intent;
  intent.call.action = "CreateVolume";
  intent.pool = "p";
  intent.nodes = {"p-0"};
  intent.zone = "z-b";
  world.ledger.intents.push_back(intent);
  EXPECT_EQ(world.plan().nodes.front().zone, "z-b");
}

TEST(PlannerPlace, the_volume_of_a_pool_without_launch_is_made_where_an_instance_waits) {
  World world(1, 1, {"z-a", "z-b"});
  world.pool().launch.reset();
  world.instance("i-0", State::running, "z-b");
  EXPECT_EQ(create_zone(world), "z-b");
}

}  // namespace
}  // namespace warmroot::core
