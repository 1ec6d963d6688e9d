// Rules about fleets and their launch templates, nodes that change their zone, and instances that
// others launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "manager/core/launch_calls.hpp"
#include "manager/core/moving.hpp"
#include "manager/core/orphans.hpp"
#include "manager/core/templates.hpp"
#include "manager/core/token.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using State = aws::InstanceState;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr MicroUsd kUsd = 1'000'000;

// ---- fleets and templates ----

/// Two types, a volume, and templates that may be listed: `listed` says whether ours is there.
World fleet_world(bool listed) {
  World world;
  world.volume("vol-0");
  world.observed.templates.emplace();
  if (!listed) return world;
  const auto plan = world.plan();
  const auto* call = only<aws::CreateLaunchTemplate>(plan);
  CHECK(call != nullptr);
  world.observed.templates->push_back({"lt-1", call->name, call->tags});
  return world;
}

TEST(Templates, one_is_made_before_a_pool_of_several_types_launches) {
  const auto world = fleet_world(false);
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre(StartsWith("CreateLaunchTemplate warmroot-p-")));
  const auto* call = only<aws::CreateLaunchTemplate>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->launch.image_id, "ami-base");
  EXPECT_EQ(call->tags.at(kTagDeployment), "test");
  EXPECT_TRUE(is_own_token("test", call->client_token));
  EXPECT_LE(call->name.size(), 128U);
}

TEST(Templates, one_that_was_asked_for_is_waited_for_and_not_asked_for_twice) {
  auto world = fleet_world(false);
  const auto first = world.plan();
  ASSERT_EQ(first.watches.size(), 1U);
  EXPECT_THAT(*first.watches.begin(), StartsWith(kWatchTemplate));
  world.ledger.watches[*first.watches.begin()] = {kNow - seconds{1}, 2};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches[*first.watches.begin()] = {kNow - kTemplateWait, 9};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"))
      << "nobody waits for ever";
}

TEST(Templates, the_name_follows_from_the_contents) {
  auto world = fleet_world(false);
  const auto name = only<aws::CreateLaunchTemplate>(world.plan())->name;
  EXPECT_EQ(only<aws::CreateLaunchTemplate>(world.plan())->name, name);
  world.pool().launch->key_name = "ops";
  EXPECT_NE(only<aws::CreateLaunchTemplate>(world.plan())->name, name);
}

TEST(Templates, an_unused_one_is_deleted_after_its_grace_time) {
  auto world = fleet_world(true);
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), IsEmpty());
  world.observed.templates->push_back(
      {"lt-old", "warmroot-p-old", {{kTagDeployment, "test"}, {kTagPool, "p"}}});
  world.observed.templates->push_back(
      {"lt-theirs", "warmroot-q-x", {{kTagDeployment, "other"}, {kTagPool, "q"}}});
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["unused-template/lt-old"] = {kNow - kTemplateGrace, 50};
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("DeleteLaunchTemplate lt-old"));
  for (const auto& key : plan.watches) world.ledger.watches[key] = {kNow, 1};
  EXPECT_THAT(world.calls(), IsEmpty()) << "the list may lag";
}

TEST(Fleets, ec2_chooses_among_the_types_that_may_be_bought) {
  auto world = fleet_world(true);
  world.pool().launch->max_price = "2.5";
  world.pool().launch->subnets = {{"z-a", "subnet-a"}};
  world.observed.subnets["subnet-a"].found = aws::Subnet{"subnet-a", "vpc", "z-a", 10};
  const auto plan = world.plan();
  const auto* call = only<aws::CreateFleet>(plan);
  ASSERT_NE(call, nullptr) << world.notes();
  EXPECT_EQ(call->launch_template_id, "lt-1");
  EXPECT_EQ(call->launch_template_version, "1");
  EXPECT_EQ(call->target_capacity, 1);
  EXPECT_TRUE(call->spot);
  ASSERT_EQ(call->overrides.size(), 2U);
  EXPECT_EQ(call->overrides[0].instance_type, "g5.xlarge");
  EXPECT_EQ(call->overrides[0].subnet_id, "subnet-a");
  EXPECT_EQ(call->overrides[0].max_price, "2.5");
  EXPECT_EQ(call->instance_tags.at(kTagPool), "p");
  EXPECT_TRUE(is_own_token("test", call->client_token));
}

TEST(Fleets, take_no_type_that_the_limit_has_no_room_for) {
  auto world = fleet_world(true);
  world.pool().launch->max_price_hour = "2";
  world.observed.market.spot_price["g5.xlarge"]["z-a"] = 5 * kUsd;
  world.observed.market.spot_price["g4dn.xlarge"]["z-a"] = kUsd;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
  world.observed.market.spot_price.erase("g5.xlarge");  // nobody knows what it costs
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
  world.observed.market.spot_price["g5.xlarge"]["z-a"] = kUsd;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateFleet")));
}

TEST(Fleets, one_type_that_is_left_needs_none) {
  auto world = fleet_world(true);
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = {kNow, kNow, 1, "UnfulfillableCapacity",
                                                             ""};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
}

TEST(Fleets, one_call_launches_for_several_nodes) {
  auto world = fleet_world(true);
  world.pool().nodes = world.pool().running = 3;
  world.volume("vol-1", 1);
  world.volume("vol-2", 2);
  const auto plan = world.plan();
  const auto* call = only<aws::CreateFleet>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->target_capacity, 3);
}

TEST(Fleets, an_open_fleet_counts_as_coming) {
  auto world = fleet_world(true);
  Intent intent;
  intent.call.action = "CreateFleet";
  intent.pool = "p";
  intent.nodes = {"p-0"};
  intent.zone = "z-a";
  world.ledger.intents.push_back(intent);
  EXPECT_THAT(world.calls(), IsEmpty());
}

class FleetForbidden : public ::testing::TestWithParam<const char*> {};

TEST_P(FleetForbidden, types_are_tried_one_after_another_and_the_reason_is_told) {
  auto world = fleet_world(true);
  world.ledger.failures[failure_key(GetParam(), "p")] = {1, kNow - minutes{5},
                                                         "UnauthorizedOperation", false, "no"};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_THAT(world.notes(), HasSubstr("ec2:" + std::string(GetParam()) + " is not allowed"));
  world.now += kForbiddenAgain;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateFleet"))) << "the right may be given";
}

INSTANTIATE_TEST_SUITE_P(Calls, FleetForbidden,
                         ::testing::Values("CreateFleet", "CreateLaunchTemplate"));

TEST(Fleets, where_templates_cannot_be_listed_types_are_tried_one_after_another) {
  World world;
  world.volume("vol-0");
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(Fleets, tags_that_people_copied_make_no_instance_ours) {
  const std::string token = client_token({"test", "CreateFleet", "p", "x", 0, "z-a"});
  const aws::Tags copied = {{kTagLaunch, token}, {kTagPool, "p"}};
  auto of_fleet = copied;
  of_fleet[kTagFleet] = "fleet-1";
  EXPECT_TRUE(is_own_launch("test", token, {}));
  EXPECT_TRUE(is_own_launch("test", "fleet-1-0", of_fleet));
  EXPECT_FALSE(is_own_launch("test", "fleet-1-0", copied));
  EXPECT_FALSE(is_own_launch("other", "fleet-1-0", of_fleet));
  EXPECT_FALSE(is_own_launch("test", "", {{kTagFleet, "fleet-1"}}));
}

// ---- zone fallback ----

/// A node whose zone z-a has had no capacity for two minutes.
World dry_world() {
  World world(1, 1, {"z-a", "z-b"});
  world.pool().launch->instance_types = {"g5.xlarge"};
  world.pool().launch->zone_fallback = true;
  world.volume("vol-0", 0, "z-a");
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = {
      kNow - minutes{2}, kNow - seconds{1}, 20, "InsufficientInstanceCapacity", "none"};
  return world;
}

aws::Tags parked_tags(const World& world) {
  const auto plan = world.plan();
  const auto* call = only<aws::CreateTags>(plan);
  return call ? call->tags : aws::Tags{};
}

TEST(ZoneFallback, a_node_leaves_its_volume_behind_and_says_what_is_lost) {
  const auto world = dry_world();
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-0"));
  EXPECT_EQ(parked_tags(world), (aws::Tags{{kTagParked, "z-b"}, {kTagNode, "p-0"}}));
  EXPECT_THAT(
      world.notes(),
      HasSubstr("p-0 moves to z-b and gets a new volume from snap-ami-volume there, loaded by "
                "EC2 in the background, ready in about 27 min, for nothing; vol-0 stays in "
                "z-a, detached and kept: its data and warmth do not come along"));
}

TEST(ZoneFallback, a_tag_that_ec2_has_just_refused_is_not_asked_for_at_each_look) {
  auto world = dry_world();
  world.ledger.failures[failure_key("CreateTags", "p-0")] = {3, kNow, "InvalidVolume.NotFound",
                                                             true, ""};
  EXPECT_THAT(world.calls(), IsEmpty());
  world = dry_world();
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.ledger.failures[failure_key("DeleteTags", "p-0")] = {3, kNow, "InvalidVolume.NotFound",
                                                             true, ""};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(ZoneFallback, only_where_the_spec_allows_it_and_after_a_minute_and_to_where_capacity_is) {
  auto world = dry_world();
  world.pool().launch->zone_fallback = false;
  EXPECT_EQ(parked_tags(world), aws::Tags{});
  world = dry_world();
  auto& refusal = world.ledger.refused_offers[{"g5.xlarge", "z-a", true}];
  refusal.since = kNow - seconds{59};
  EXPECT_EQ(parked_tags(world), aws::Tags{});
  world = dry_world();
  world.ledger.refused_offers[{"g5.xlarge", "z-b", true}] = {kNow, kNow, 20, "Unsupported", ""};
  EXPECT_EQ(parked_tags(world), aws::Tags{});
  world = dry_world();
  world.instance("i-0", State::pending, "z-a");
  EXPECT_EQ(parked_tags(world), aws::Tags{}) << "an instance is coming";
  world = dry_world();
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  EXPECT_EQ(parked_tags(world), aws::Tags{}) << "it is served";
}

TEST(ZoneFallback, a_type_that_the_zone_does_not_have_does_not_begin_the_wait_anew) {
  auto world = dry_world();
  world.pool().launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  world.ledger.refused_offers[{"g4dn.xlarge", "z-a", true}] = {kNow, kNow, 1, "Unsupported", ""};
  EXPECT_EQ(parked_tags(world), (aws::Tags{{kTagParked, "z-b"}, {kTagNode, "p-0"}}));
}

TEST(ZoneFallback, a_quota_of_the_region_or_a_price_moves_nobody) {
  for (const std::string code : {"MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow"}) {
    auto world = dry_world();
    world.ledger.refused_offers[{"g5.xlarge", "z-a", true}].code = code;
    EXPECT_EQ(parked_tags(world), aws::Tags{}) << code;
  }
}

TEST(ZoneFallback, a_volume_that_serves_again_loses_the_tag_that_came_late) {
  auto world = dry_world();
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
}

TEST(ZoneFallback, a_node_that_returned_by_itself_has_its_other_volume_parked_before_two_are_its) {
  auto world =
      dry_world();  // people took all tags off vol-0 while it was parked, and put them back
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.volume("vol-new", 0, "z-b");
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-new"));
  EXPECT_EQ(parked_tags(world), (aws::Tags{{kTagParked, "z-a"}, {kTagNode, "p-0"}}));
  world.observed.volumes.at("vol-new").tags[kTagParked] = "z-a";
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
}

TEST(ZoneFallback, a_node_does_not_return_beside_a_create_that_was_throttled_just_now) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.ledger.refused_offers.clear();
  world.ledger.watches["away/p-0"] = {kNow - minutes{5}, 50};
  ASSERT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
  world.ledger.failures[failure_key("CreateVolume", "p-0")] = {1,    kNow, "Throttling",
                                                               true, "s",  true};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.now += kVisibilityWindow;
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
}

TEST(ZoneFallback, a_volume_with_copied_tags_is_not_parked_for_the_node) {
  auto world = dry_world();
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.stranger("vol-copy", 0, "z-b");
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
}

TEST(ZoneFallback, two_nodes_that_move_together_are_not_both_told_of_one_spare) {
  auto world = dry_world();
  world.pool().nodes = world.pool().running = 2;
  world.volume("vol-1", 1, "z-a");
  auto& spare = world.stranger("vol-s", 0, "z-b");
  spare.tags.erase(kTagNode);
  spare.tags[kTagRole] = "spare";
  EXPECT_THAT(world.notes(), HasSubstr("p-0 moves to z-b and takes spare vol-s there"));
  EXPECT_THAT(world.notes(), HasSubstr("p-1 moves to z-b and gets a new volume"));
}

TEST(ZoneFallback, nodes_go_where_a_spare_is_and_then_where_it_is_cheap) {
  World world(2, 2, {"z-a", "z-b", "z-c", "z-d"});
  for (const auto* zone : {"z-c", "z-d"})
    (world.observed.zones[zone] = world.observed.zones.at("z-a")).zone_name = zone;
  world.pool().launch->instance_types = {"g5.xlarge"};
  world.pool().launch->zone_fallback = true;
  world.volume("vol-0", 0, "z-a");
  world.volume("vol-1", 1, "z-a");
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = {
      kNow - minutes{2}, kNow - seconds{1}, 20, "InsufficientInstanceCapacity", "none"};
  world.observed.market.spot_price["g5.xlarge"] = {
      {"z-b", 900'000}, {"z-c", 300'000}, {"z-d", 900'000}};
  auto& spare = world.stranger("vol-s", 0, "z-d");
  spare.tags.erase(kTagNode);
  spare.tags[kTagRole] = "spare";
  const auto plan = world.plan();
  std::map<std::string, std::string> targets;
  for (const auto& action : plan.actions)
    if (const auto* call = std::get_if<aws::CreateTags>(&action.mutation);
        call && call->tags.contains(kTagParked))
      targets[call->resource_ids.front()] = call->tags.at(kTagParked);
  EXPECT_EQ(targets, (std::map<std::string, std::string>{{"vol-0", "z-d"}, {"vol-1", "z-c"}}))
      << world.notes();
}

TEST(ZoneFallback, a_node_without_its_volume_gets_a_new_one_where_capacity_is) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.ledger.watches["away/p-0"] = {kNow - seconds{5}, 2};
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-b"));
}

TEST(ZoneFallback, a_look_that_lags_behind_a_node_s_return_makes_it_no_second_volume) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";  // taken off a second ago
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), IsEmpty());
  EXPECT_TRUE(plan.watches.contains("away/p-0"));
  EXPECT_LE(plan.next_look, seconds{5});
}

TEST(ZoneFallback, a_node_comes_back_before_it_gets_a_cold_volume) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.ledger.refused_offers.clear();
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-0"));
}

TEST(ZoneFallback, a_moved_node_stays_and_its_volume_is_named) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.ledger.refused_offers.clear();
  world.volume("vol-new", 0, "z-b");
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.front().volume_id, "vol-new");
  EXPECT_THAT(World::calls_of(plan), ElementsAre("RunInstances 1 x g5.xlarge in z-b"));
  EXPECT_THAT(world.notes(), HasSubstr("volume vol-0 (0 GiB) of p-0 stays in z-a"));
  EXPECT_THAT(world.notes(), HasSubstr("remove its tag warmroot:parked to have p-0 return"));
}

TEST(ZoneFallback, a_parked_volume_that_somebody_attached_is_in_use) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.instance("i-0", State::running, "z-a");
  world.attach("vol-0", "i-0");
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-0");
}

TEST(ZoneFallback, a_parked_volume_is_no_orphan_while_the_spec_names_its_node) {
  auto world = dry_world();
  world.observed.volumes.at("vol-0").tags[kTagParked] = "z-b";
  world.volume("vol-new", 0, "z-b");
  auto plan = world.plan();
  const auto row = std::find_if(plan.volumes.begin(), plan.volumes.end(),
                                [](const VolumeRow& each) { return each.volume_id == "vol-0"; });
  ASSERT_NE(row, plan.volumes.end());
  EXPECT_EQ(row->condition, VolumeCondition::parked);
  EXPECT_THAT(find_orphans(world.desired, world.ledger, plan), IsEmpty());
  world.desired.pools.clear();
  EXPECT_THAT(find_orphans(world.desired, world.ledger, world.plan()), Not(IsEmpty()));
}

// ---- instances that others launch ----

World others_world() {
  World world;
  world.pool().launch.reset();
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.ledger.instances.clear();
  return world;
}

TEST(OthersLaunch, one_more_than_there_are_nodes_is_noted_gets_nothing_and_is_not_ended) {
  auto world = others_world();
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("no node of p in z-a needs i-1, launched by others: it gets "
                                       "no volume and is not ended"));
}

TEST(OthersLaunch, an_instance_that_ran_down_serves_again_once_it_says_hello_anew) {
  auto world = others_world();
  world.observed.instances.erase("i-1");
  world.ledger.departures["i-0"] = {true, kNow - minutes{10}};
  world.report("i-0", "", NodeStage::released, minutes{9});
  EXPECT_THAT(world.calls(), IsEmpty());
  world.report("i-0", "", NodeStage::hello, seconds{2});
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdf"));
  bool forgotten = false;
  for (const auto& record : plan.records)
    forgotten = forgotten || std::holds_alternative<RecordDepartureOver>(record);
  EXPECT_TRUE(forgotten);
}

TEST(OthersLaunch, an_earlier_hello_brings_nobody_back) {
  auto world = others_world();
  world.observed.instances.erase("i-1");
  world.ledger.departures["i-0"] = {true, kNow - seconds{1}};
  world.report("i-0", "", NodeStage::hello, seconds{2});
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(OthersLaunch, one_that_we_launched_does_not_come_back) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.ledger.departures["i-0"] = {true, kNow - minutes{10}};
  world.report("i-0", "", NodeStage::hello, seconds{2});
  EXPECT_THAT(world.calls(), Not(testing::Contains(HasSubstr("AttachVolume"))));
}

// ---- what EC2 would not launch ----

TEST(LaunchCheck, a_launch_that_ec2_would_refuse_stops_stocking_with_the_reason) {
  World world;
  world.observed.launch_checks["p"].error = "EC2 would not launch this: The key pair 'x' does not";
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("The key pair 'x' does not"));
  world.observed.launch_checks["p"] = {{}, "", true};
  EXPECT_THAT(world.calls(), Not(IsEmpty())) << "no answer stops nothing";
}

TEST(LaunchCheck, a_type_that_no_zone_offers_stops_stocking) {
  World world;
  world.observed.market.offered["g5.xlarge"] = {};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("no zone of this Region offers instance type g5.xlarge"));
}

}  // namespace
}  // namespace warmroot::core
