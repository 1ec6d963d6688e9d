// What the manager asks of prices and capacity, by the real client on the simulated region: scores
// decide where launches go, and what EC2 says to one pool's question keeps no other's back.
#include "manager/market.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "manager/aws/ec2_client.hpp"
#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr const char* kZoneA = "us-east-1a";
constexpr const char* kZoneB = "us-east-1b";
const std::vector<std::string> kTypes = {"g4dn.xlarge", "g5.xlarge", "g6.xlarge"};

core::PoolSpec choosing(const std::string& name, int running) {
  auto pool = pool_spec(name, running, running, {kZoneA, kZoneB});
  pool.launch->instance_types = kTypes;
  return pool;
}

/// Zone A has room for one instance, at the same price as zone B.
void make_b_better(sim::Region& region) {
  for (const auto& type : kTypes) {
    region.knobs.capacity[{type, kZoneA}] = type == "g5.xlarge" ? 1 : 0;
    for (const char* zone : {kZoneA, kZoneB}) region.knobs.spot_prices[{type, zone}] = 30'000;
  }
}

int questions(const sim::QueryFront& front) {
  return static_cast<int>(
      std::count_if(front.calls().begin(), front.calls().end(),
                    [](const auto& call) { return call.action == "GetSpotPlacementScores"; }));
}

TEST(MarketFleet, instances_are_launched_in_the_zone_that_scores_best) {
  Fleet fleet(choosing("p", 3));
  make_b_better(fleet.region);
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{5})) << fleet.note_text();
  EXPECT_EQ(questions(fleet.front), 1);
  EXPECT_THAT(fleet.live_instances(), SizeIs(3));
  for (const auto* instance : fleet.live_instances()) EXPECT_EQ(instance->zone, kZoneB);
  for (const auto& call : fleet.front.calls())
    EXPECT_NE(call.code, "InsufficientInstanceCapacity") << "no refusal told";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(MarketFleet, without_scores_the_zones_share_the_launches) {
  Fleet fleet(choosing("p", 2));
  make_b_better(fleet.region);
  fleet.region.knobs.placement_target_limit = 1;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{5})) << fleet.note_text();
  std::set<std::string> zones;
  for (const auto* instance : fleet.live_instances()) zones.insert(instance->zone);
  EXPECT_THAT(zones, ElementsAre(kZoneA, kZoneB)) << "as the test above would end by chance";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(MarketFleet, the_first_look_after_a_start_has_the_scores) {
  Fleet fleet(choosing("p", 3));
  make_b_better(fleet.region);
  fleet.start();
  fleet.tick();
  EXPECT_EQ(questions(fleet.front), 1);
  EXPECT_THAT(fleet.last.observed.market.scores["p"],
              ElementsAre(Pair(kZoneA, 3), Pair(kZoneB, 9)));
}

/// One market, its questions and nothing else.
struct MarketTest : ::testing::Test {
  static sim::Catalog catalog() {
    auto made = sim::builtin_catalog("us-east-1", {kZoneA, kZoneB});
    std::swap(made.zones[0].id, made.zones[1].id);  // as another account has them
    return made;
  }
  sim::NoHardware hardware;
  sim::Region region{catalog(), {}, hardware, kFleetStart};
  sim::QueryFront front{region};
  sim::RegionTransport door{front};
  aws::Ec2Client ec2{door, [this](Milliseconds wait) { region.advance_by(wait); },
                     [] { return 0.5; }};
  manager::MarketWatch market{ec2};
  core::Desired desired{kDeployment, {}};
  core::SharedMap<aws::Instance> instances;

  void SetUp() override { make_b_better(region); }

  core::Observed look() {
    std::map<std::string, aws::AvailabilityZone> zones;
    const auto listed = ec2.describe_availability_zones();
    CHECK(listed.has_value());
    for (const auto& zone : *listed) zones[zone.zone_name] = zone;
    core::Observed observed;
    market.ask(desired, core::LedgerView{}, zones, instances, region.now());
    market.add(observed);
    return observed;
  }
  core::Observed look_after(Milliseconds wait) {
    region.advance_by(wait);
    return look();
  }
  int asked() const { return questions(front); }
  static std::string notes(const core::Observed& observed) {
    std::string text;
    for (const auto& note : observed.notes) text += note + "\n";
    return text;
  }
};

TEST_F(MarketTest, scores_name_zones_by_id_which_is_not_the_same_for_every_account) {
  ASSERT_EQ(region.catalog().zones[0].id, "use1-az2");
  desired.pools = {choosing("p", 3)};
  EXPECT_THAT(look().market.scores["p"], ElementsAre(Pair(kZoneA, 3), Pair(kZoneB, 9)));
}

TEST_F(MarketTest, a_look_asks_a_few_questions_and_the_next_looks_the_rest) {
  constexpr int kPools = 100;
  for (int i = 0; i < kPools; ++i)
    desired.pools.push_back(choosing("p" + std::to_string(i), i + 1));
  EXPECT_THAT(look().market.scores, SizeIs(manager::kScoresAtOnce));
  EXPECT_TRUE(market.postponed());
  EXPECT_THAT(look_after(Milliseconds{100}).market.scores, SizeIs(manager::kScoresAtOnce))
      << "however often somebody looks";
  std::size_t rounds = 1;
  for (; market.postponed() && rounds < kPools; ++rounds) look_after(seconds{1});
  EXPECT_EQ(rounds, (kPools + manager::kScoresAtOnce - 1) / manager::kScoresAtOnce);
  EXPECT_EQ(asked(), kPools);
  EXPECT_THAT(look_after(minutes{10}).market.scores, SizeIs(kPools));
  EXPECT_EQ(asked(), kPools) << "known for an hour";
}

TEST_F(MarketTest, somebody_who_looks_once_asks_round_after_round) {
  for (int i = 0; i < 20; ++i) desired.pools.push_back(choosing("p" + std::to_string(i), i + 1));
  auto observed = look();
  for (int rounds = 1; market.postponed() && rounds < 20; ++rounds) {
    market.hurry();
    observed = look();
  }
  EXPECT_THAT(observed.market.scores, SizeIs(20));
}

TEST_F(MarketTest, types_that_the_spec_has_left_out_have_a_price_while_they_run_under_a_limit) {
  desired.pools = {choosing("p", 3)};
  aws::Instance old;
  old.instance_id = "i-1";
  old.instance_type = "m5.large";
  old.state = aws::InstanceState::running;
  old.tags[core::kTagPool] = "p";
  instances.insert_or_assign("i-1", old);
  ASSERT_FALSE(look().market.spot_price.contains("m5.large"));
  desired.pools.front().launch->max_price_hour = "5";
  EXPECT_TRUE(look().market.spot_price.contains("m5.large"));
  EXPECT_TRUE(look().market.spot_price.contains("g5.xlarge"));
}

TEST_F(MarketTest, pools_that_ask_the_same_share_the_answer) {
  for (int i = 0; i < 100; ++i) desired.pools.push_back(choosing("p" + std::to_string(i), 3));
  EXPECT_THAT(look().market.scores, SizeIs(100));
  EXPECT_EQ(asked(), 1);
  desired.pools.push_back(choosing("late", 3));
  EXPECT_THAT(look_after(minutes{1}).market.scores, SizeIs(101));
  EXPECT_EQ(asked(), 1);
}

TEST_F(MarketTest, one_pools_refusal_leaves_the_others_and_is_told_in_ec2s_words) {
  region.knobs.placement_target_limit = 5;
  desired.pools = {choosing("large", 10), choosing("small", 3)};
  const auto observed = look();
  EXPECT_THAT(observed.market.scores, ElementsAre(Pair("small", SizeIs(2))));
  EXPECT_THAT(
      notes(observed),
      HasSubstr("zones of large are chosen without placement scores: GetSpotPlacementScores"));
  EXPECT_THAT(notes(observed), HasSubstr("TargetCapacity 10 is above this account's limit of 5"));
  EXPECT_THAT(notes(observed), Not(HasSubstr("allow ec2:")));
  look_after(hours{2});
  EXPECT_EQ(asked(), 3) << "the one that was answered";
  region.knobs.placement_target_limit = 0;
  const auto later = look_after(hours{5});
  EXPECT_THAT(later.market.scores, SizeIs(2));
  EXPECT_EQ(notes(later), "");
}

TEST_F(MarketTest, while_ec2_takes_no_new_questions_those_it_knows_are_asked_on) {
  region.knobs.placement_configurations = 1;
  desired.pools = {choosing("old", 3)};
  look();
  desired.pools.push_back(choosing("new", 4));
  desired.pools.push_back(choosing("newer", 5));
  const auto observed = look_after(seconds{2});
  EXPECT_THAT(observed.market.scores, ElementsAre(Pair("old", SizeIs(2))));
  EXPECT_THAT(notes(observed), HasSubstr("zones of new and 1 other pool are chosen without"));
  EXPECT_THAT(notes(observed), HasSubstr("exceeded your maximum allowed Spot placement"));
  const int before = asked();
  look_after(minutes{30});
  EXPECT_EQ(asked(), before);
  look_after(minutes{31});
  EXPECT_EQ(asked(), before + 3) << "the known one, and whether new ones are taken again";
  desired.pools = {choosing("old", 3)};
  const auto without = look_after(seconds{2});
  EXPECT_EQ(notes(without), "") << "nobody misses them any more";
  EXPECT_THAT(without.market.scores.at("old"), SizeIs(2));
}

TEST_F(MarketTest, a_missing_right_silences_all_questions_and_says_what_to_allow) {
  region.knobs.denied["ec2:GetSpotPlacementScores"] = sim::Denial::implicit;
  desired.pools = {choosing("p", 3), choosing("q", 4)};
  const auto observed = look();
  EXPECT_THAT(observed.market.scores, IsEmpty());
  EXPECT_THAT(notes(observed), HasSubstr("allow ec2:GetSpotPlacementScores to have them choose"));
  const int before = asked();
  look_after(hours{5});
  EXPECT_EQ(asked(), before);
  region.knobs.denied.clear();
  EXPECT_THAT(look_after(hours{2}).market.scores, SizeIs(2));
}

TEST_F(MarketTest, ec2s_own_trouble_passes_in_a_minute_without_a_word) {
  front.inject(
      {"GetSpotPlacementScores", sim::FaultKind::throttled, 100, 0, 1, region.now() + seconds{30}});
  desired.pools = {choosing("p", 3)};
  EXPECT_EQ(notes(look()), "");
  EXPECT_THAT(look_after(minutes{2}).market.scores, SizeIs(1));
}

TEST_F(MarketTest, what_cannot_be_read_for_another_reason_is_not_called_a_missing_right) {
  sim::Fault fault{"DescribeSpotPriceHistory", sim::FaultKind::refused};
  fault.code = "InvalidParameterValue";
  fault.message = "Invalid value 'g5.typo' for InstanceType.";
  front.inject(fault);
  desired.pools = {choosing("p", 3)};
  const auto observed = look();
  EXPECT_THAT(notes(observed), HasSubstr("launches do without what cannot be read; Describe"));
  EXPECT_THAT(notes(observed), HasSubstr("g5.typo"));
  EXPECT_THAT(notes(observed), Not(HasSubstr("allow ec2:")));
}

}  // namespace
}  // namespace warmroot
