// How warm volumes are: what is written down of reports, which spare is the warmest, what people
// are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/planner.hpp"
#include "tests/planner_stock_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Written = std::vector<std::pair<std::string, int>>;

Written written(const World& world) {
  Written found;
  for (const auto& record : world.plan().records)
    if (const auto* warmth = std::get_if<RecordWarmth>(&record))
      found.emplace_back(warmth->volume_id, warmth->percent);
  return found;
}

/// A node whose instance has reported so much.
StockWorld warming(std::optional<double> warmth) {
  StockWorld world(1, 1);
  world.pool().stock.spares = 0;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::warming);
  world.observed.reports.at("i-0").warmth = warmth;
  return world;
}

aws::Volume& filled_spare(StockWorld& world, const std::string& id, const std::string& zone) {
  auto& spare = world.stock_volume(id, VolumeRole::spare, zone);
  world.pool().stock.ready_within = std::chrono::hours{1};  // else nobody asks
  world.observed.volume_statuses[id].initialization_state = "completed";
  return spare;
}

TEST(Warmth, what_a_node_reports_of_its_volume_is_written_down) {
  EXPECT_THAT(written(warming(0.256)), ElementsAre(Pair("vol-0", 25)));
  EXPECT_THAT(written(warming(0)), ElementsAre(Pair("vol-0", 0)));
  EXPECT_THAT(written(warming({})), IsEmpty());
}

TEST(Warmth, small_steps_are_not_written_and_the_last_one_is) {
  auto world = warming(0.95);
  world.ledger.volumes["vol-0"].warmth = 90;
  EXPECT_THAT(written(world), IsEmpty());
  world.observed.reports.at("i-0").warmth = 0.999;
  EXPECT_THAT(written(world), IsEmpty()) << "something is absent";
  world.observed.reports.at("i-0").warmth = 1;
  EXPECT_THAT(written(world), ElementsAre(Pair("vol-0", 100)));
  world.ledger.volumes["vol-0"].warmth = 100;
  EXPECT_THAT(written(world), IsEmpty());
  world.observed.reports.at("i-0").warmth = 0.99;
  EXPECT_THAT(written(world), ElementsAre(Pair("vol-0", 99))) << "more is needed than was known";
}

TEST(Warmth, a_report_of_a_volume_that_the_instance_does_not_hold_says_nothing) {
  auto world = warming(0.5);
  world.volume("vol-1", 1);
  world.observed.reports.at("i-0").volume_id = "vol-1";
  EXPECT_THAT(written(world), IsEmpty());
}

TEST(Warmth, is_shown_in_the_list_of_volumes_and_ec2_s_word_counts_more) {
  auto world = warming({});
  world.ledger.volumes["vol-0"].warmth = 40;
  filled_spare(world, "vol-s", "z-a");
  world.stock_volume("vol-t");
  std::map<std::string, std::optional<int>> shown;
  for (const auto& row : world.plan().volumes) shown[row.volume_id] = row.warmth;
  EXPECT_EQ(shown["vol-0"], 40);
  EXPECT_EQ(shown["vol-s"], 100);
  EXPECT_EQ(shown["vol-t"], std::nullopt);
}

TEST(Warmth, the_warmest_spare_is_taken_before_an_older_one) {
  StockWorld world(1, 1);
  world.pool().stock.spares = 2;
  world.stock_volume("vol-old").create_time = kNow - std::chrono::hours{5};
  filled_spare(world, "vol-warm", "z-a");
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-warm"));
  world.observed.volumes.at("vol-warm").state = aws::VolumeState::creating;
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-old")) << "it can be attached now";
}

TEST(Warmth, a_node_goes_to_the_zone_of_a_warm_spare_before_that_of_a_cold_one) {
  StockWorld world(1, 1, {"z-a", "z-b"});
  world.stock_volume("vol-a", VolumeRole::spare, "z-a");
  filled_spare(world, "vol-b", "z-b");
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-b"));
}

TEST(Warmth, a_move_to_another_zone_says_how_much_is_lost_and_what_is_there) {
  StockWorld world(1, 1, {"z-a", "z-b"});
  world.pool().launch->instance_types = {"g5.xlarge"};
  world.pool().launch->zone_fallback = true;
  world.volume("vol-0", 0, "z-a");
  world.ledger.volumes["vol-0"].warmth = 97;
  world.stock_volume("vol-a", VolumeRole::spare, "z-a");
  world.stock_volume("vol-cold", VolumeRole::spare, "z-b");
  filled_spare(world, "vol-warm", "z-b");
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = {
      kNow - std::chrono::minutes{2}, kNow - std::chrono::seconds{1}, 20,
      "InsufficientInstanceCapacity", "none"};
  EXPECT_THAT(world.notes(), HasSubstr("takes spare vol-warm there (100 %); vol-0 stays in z-a, "
                                       "detached and kept: its data and warmth (97 %) do not come "
                                       "along"));
}

TEST(Warmth, a_spare_without_a_deadline_is_made_for_nothing_and_the_plan_says_so) {
  StockWorld world(1, 0);
  world.volume("vol-0");
  const auto plan = world.plan();
  ASSERT_EQ(plan.actions.size(), 1U);
  EXPECT_EQ(plan.actions.front().reason,
            "a spare of z-a is missing; loaded by EC2 in the background, ready in about 27 min, "
            "for nothing");
}

}  // namespace
}  // namespace warmroot::core
