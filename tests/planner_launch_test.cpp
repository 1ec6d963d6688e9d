// Rules about buying instances: which offers, how many, and when no more. In which zone is
// planner_place_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/backoff.hpp"
#include "manager/core/launch_calls.hpp"
#include "manager/core/launch_limits.hpp"
#include "manager/core/offers.hpp"
#include "tests/planner_offers.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = aws::InstanceState;
using std::chrono::minutes;
using std::chrono::seconds;

// ---- money ----

TEST(Usd, reads_decimal_numbers_and_nothing_else) {
  struct {
    const char* text;
    std::optional<MicroUsd> amount;
  } const cases[] = {{"0.0374", 37'400},
                     {"1", kUsd},
                     {".5", 500'000},
                     {"2.", 2 * kUsd},
                     {"0.0000019", 1},
                     {"", std::nullopt},
                     {".", std::nullopt},
                     {"-1", std::nullopt},
                     {"1e3", std::nullopt},
                     {"1,5", std::nullopt},
                     {"99999999999999999999", std::nullopt}};
  for (const auto& each : cases) EXPECT_EQ(parse_usd(each.text), each.amount) << each.text;
}

TEST(Usd, is_written_with_two_digits_or_as_many_as_it_needs) {
  EXPECT_EQ(usd_text(37'400), "0.0374");
  EXPECT_EQ(usd_text(3 * kUsd), "3.00");
  EXPECT_EQ(usd_text(12 * kUsd + 500'000), "12.50");
}

// ---- which type ----

struct TypeCase {
  const char* name;
  std::map<std::string, MicroUsd> prices;      ///< in z-a
  std::map<std::string, std::string> refused;  ///< type to code, ten seconds ago
  std::set<std::string> not_offered;
  std::string max_price;
  std::string expected;  ///< the launch's type; empty: none
};

class LaunchType : public ::testing::TestWithParam<TypeCase> {};

TEST_P(LaunchType, follows_from_price_offerings_and_refusals) {
  const auto& param = GetParam();
  World world;
  world.volume("vol-0");
  world.pool().launch->max_price = param.max_price;
  for (const auto& [type, price] : param.prices)
    world.observed.market.spot_price[type]["z-a"] = price;
  for (const auto& [type, code] : param.refused)
    world.ledger.refused_offers[{type, "z-a", true}] = refused(seconds{10}, code);
  for (const auto& type : param.not_offered) world.observed.market.offered[type] = {"z-b"};
  const auto plan = world.plan();
  const auto* call = only<aws::RunInstances>(plan);
  EXPECT_EQ(call ? call->instance_type : "", param.expected) << world.notes();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LaunchType,
    ::testing::Values(
        TypeCase{"NothingKnownKeepsTheOrder", {}, {}, {}, "", "g5.xlarge"},
        TypeCase{"TheCheaper",
                 {{"g5.xlarge", kUsd}, {"g4dn.xlarge", kUsd / 2}},
                 {},
                 {},
                 "",
                 "g4dn.xlarge"},
        TypeCase{"AKnownPriceBeforeAnUnknown", {{"g4dn.xlarge", kUsd}}, {}, {}, "", "g4dn.xlarge"},
        TypeCase{"NotTheRefused",
                 {{"g5.xlarge", kUsd}, {"g4dn.xlarge", kUsd / 2}},
                 {{"g4dn.xlarge", "InsufficientInstanceCapacity"}},
                 {},
                 "",
                 "g5.xlarge"},
        TypeCase{"NotWhatTheZoneDoesNotOffer", {}, {}, {"g5.xlarge"}, "", "g4dn.xlarge"},
        TypeCase{"NothingAboveTheMaximum",
                 {{"g5.xlarge", kUsd}, {"g4dn.xlarge", kUsd}},
                 {},
                 {},
                 "0.9",
                 ""},
        TypeCase{"OneBelowTheMaximum",
                 {{"g5.xlarge", kUsd}, {"g4dn.xlarge", kUsd * 2}},
                 {},
                 {},
                 "1.5",
                 "g5.xlarge"},
        TypeCase{"AllRefused",
                 {},
                 {{"g5.xlarge", "InsufficientInstanceCapacity"}, {"g4dn.xlarge", "Unsupported"}},
                 {},
                 "",
                 ""}),
    [](const auto& each) { return each.param.name; });

TEST(PlannerLaunch, a_refused_offer_is_taken_again_after_three_minutes) {
  World world;
  world.volume("vol-0");
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = refused(seconds{179});
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
  world.now += seconds{1};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(PlannerLaunch, where_all_offers_are_refused_the_wait_begins_short_and_grows) {
  World world;
  world.volume("vol-0");
  for (const auto* type : {"g5.xlarge", "g4dn.xlarge"})
    world.ledger.refused_offers[{type, "z-a", true}] = refused(seconds{0});
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("1 node waits for an instance in z-a: g5.xlarge: "
                                       "InsufficientInstanceCapacity, g4dn.xlarge: "
                                       "InsufficientInstanceCapacity; tried again at "));
  const auto patient = world.plan().next_look;
  EXPECT_LE(patient, kOfferRefusedFor);
  for (auto& [offer, refusal] : world.ledger.refused_offers) refusal.count = 1;
  EXPECT_LE(world.plan().next_look, seconds{1});
  world.now += seconds{1};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(PlannerLaunch, a_refusal_in_one_zone_says_nothing_of_another) {
  World world(2, 2, {"z-a", "z-b"});
  world.volume("vol-0", 0, "z-a");
  world.volume("vol-1", 1, "z-b");
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = refused(seconds{5});
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a",
                                         "RunInstances 1 x g5.xlarge in z-b"));
}

TEST(PlannerLaunch, the_reason_tells_the_price) {
  World world;
  world.volume("vol-0");
  world.observed.market.spot_price["g4dn.xlarge"]["z-a"] = 157'800;
  EXPECT_EQ(world.plan().actions.front().reason,
            "p-0 has no instance; g4dn.xlarge costs least, 0.1578 USD an hour");
}

// ---- on-demand ----

TEST(PlannerLaunch, on_demand_is_bought_only_after_spot_was_dry_for_long_enough) {
  World world;
  world.volume("vol-0");
  auto& launch = *world.pool().launch;
  launch.on_demand_fallback = true;
  launch.on_demand_after = minutes{5};
  launch.on_demand_prices = {{"g5.xlarge", "1.006"}, {"g4dn.xlarge", "0.526"}};
  for (const auto* type : {"g5.xlarge", "g4dn.xlarge"})
    world.ledger.refused_offers[{type, "z-a", true}] =
        refused(seconds{10}, "InsufficientInstanceCapacity", minutes{4});
  EXPECT_THAT(world.calls(), IsEmpty());
  world.now += minutes{1};
  const auto plan = world.plan();
  const auto* call = only<aws::RunInstances>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_FALSE(call->spot);
  EXPECT_EQ(call->instance_type, "g4dn.xlarge") << "the cheaper on demand";
  EXPECT_EQ(call->max_price, "");
  EXPECT_THAT(plan.actions.front().reason, HasSubstr("spot had no capacity"));
}

TEST(PlannerLaunch, one_type_that_spot_has_keeps_on_demand_away) {
  World world;
  world.volume("vol-0");
  world.pool().launch->on_demand_fallback = true;
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] =
      refused(seconds{10}, "InsufficientInstanceCapacity", minutes{60});
  const auto plan = world.plan();
  const auto* call = only<aws::RunInstances>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(call->spot);
  EXPECT_EQ(call->instance_type, "g4dn.xlarge");
}

TEST(PlannerLaunch, a_price_above_the_maximum_is_no_want_of_capacity) {
  World world;
  world.volume("vol-0");
  auto& launch = *world.pool().launch;
  launch.on_demand_fallback = true;
  launch.on_demand_after = Milliseconds{0};
  launch.max_price = "0.10";
  for (const auto& type : launch.instance_types)
    world.observed.market.spot_price[type]["z-a"] = kUsd;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("costs 1.00 USD an hour, above max_price"));
}

TEST(PlannerLaunch, neither_a_quota_nor_a_price_nor_one_type_too_dear_is_a_want_of_capacity) {
  for (const std::string code : {"MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow"}) {
    World world;
    world.volume("vol-0");
    world.pool().launch->on_demand_fallback = true;
    for (const auto& type : world.pool().launch->instance_types)
      world.ledger.refused_offers[{type, "z-a", true}] = refused(seconds{1}, code, minutes{10});
    EXPECT_THAT(world.calls(), IsEmpty()) << code;
  }
  World world;
  world.volume("vol-0");
  auto& launch = *world.pool().launch;
  launch.on_demand_fallback = true;
  launch.max_price = "0.10";
  world.observed.market.spot_price["g4dn.xlarge"]["z-a"] = kUsd;
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] =
      refused(seconds{1}, "InsufficientInstanceCapacity", minutes{10});
  EXPECT_THAT(world.calls(), IsEmpty()) << "one type is only too dear";
}

TEST(PlannerLaunch, the_dry_run_has_the_tags_of_a_launch) {
  World world;
  world.volume("vol-0");
  const auto plan = world.plan();
  const auto* call = only<aws::RunInstances>(plan);
  ASSERT_NE(call, nullptr);
  const auto probe = probe_call(world.observed, world.desired.deployment, world.pool());
  EXPECT_EQ(probe.instance_tags, call->instance_tags) << "policies ask for them";
  EXPECT_EQ(probe.volume_tags, call->volume_tags);
}

TEST(PlannerLaunch, an_instance_whose_end_had_no_clear_answer_gets_no_node_while_it_may_come) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.ledger.failures["TerminateInstances/i-0"] = {1, kNow - seconds{20}, kWithdrawn, true, ""};
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("AttachVolume"))));
  world.now += seconds{10};
  world.observed.at = world.now;
  EXPECT_THAT(world.calls(), Contains(HasSubstr("AttachVolume vol-0 to i-0")));
}

TEST(PlannerLaunch, one_that_leaves_and_is_not_shown_holds_its_place_until_it_is_gone) {
  World world;
  world.volume("vol-0");
  world.ledger.instances["i-0"] = {"p", "z-a", kNow - minutes{5}};
  world.ledger.departures["i-0"] = {true, kNow - minutes{1}};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["gone/i-0"] = {kNow - seconds{5}, kLooksUntilGone};
  world.observed.listed = kNow - seconds{4};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

/// Seed 43000001410: by another account's credentials, under which the volumes had not been looked
/// at yet.
TEST(PlannerLaunch, looks_at_it_alone_do_not_show_that_an_instance_is_gone) {
  World world;
  world.volume("vol-0");
  world.ledger.instances["i-0"] = {"p", "z-a", kNow - minutes{5}};
  world.ledger.watches["gone/i-0"] = {kNow - seconds{5}, 9 * kLooksUntilGone};
  world.observed.listed = kNow - seconds{6};
  EXPECT_THAT(world.calls(), IsEmpty());
}

/// Seed 44000007287: it was asked for again and again, each time with the token of the first.
TEST(PlannerLaunch, a_node_whose_launch_has_no_answer_yet_is_not_launched_for_again) {
  World world(2, 2);
  world.volume("vol-0", 0);
  world.volume("vol-1", 1);
  Intent intent;
  intent.call = {"RunInstances", "Action=RunInstances"};
  intent.pool = "p";
  intent.nodes = {"p-1"};
  intent.zone = "z-a";
  world.ledger.intents.push_back(intent);
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_THAT(plan.actions.front().nodes, ElementsAre("p-0"));
}

std::vector<std::string> launch_tokens(const World& world) {
  std::vector<std::string> tokens;
  for (const auto& action : world.plan().actions)
    if (const auto* call = std::get_if<aws::RunInstances>(&action.mutation))
      tokens.push_back(std::to_string(call->max_count) + " " + call->client_token);
  return tokens;
}

TEST(PlannerLaunch, a_part_of_a_throttled_launch_does_not_go_out_while_all_of_it_may_show) {
  auto world = three_waiting();
  for (const auto* node : {"p-0", "p-1"})
    world.ledger.failures[failure_key("RunInstances", node)] = {1,    kNow,        "Throttling",
                                                                true, "throttled", true};
  world.pool().launch->max_instances = 1;
  world.now = kNow + seconds{2};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.now = kNow + kVisibilityWindow;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(PlannerLaunch, a_throttled_launch_is_not_asked_for_as_another_call_while_it_may_show) {
  auto world = three_waiting();
  Failure throttled{1, kNow, "Throttling", true, "throttled", true};
  throttled.token = launch_tokens(world).front().substr(2);
  for (const auto* node : {"p-0", "p-1", "p-2"})
    world.ledger.failures[failure_key("RunInstances", node)] = throttled;
  world.now = kNow + seconds{3};
  EXPECT_THAT(launch_tokens(world), ElementsAre("3 " + throttled.token));
  // Its type has been refused to another pool: with the next one EC2 would make three more.
  world.pool().launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  world.ledger.refused_offers[{"g5.xlarge", "z-a", true}] = {
      kNow, kNow, 1, "InsufficientInstanceCapacity", "none"};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.now = kNow + kVisibilityWindow;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 3 x g4dn.xlarge in z-a"));
}

TEST(PlannerLaunch, a_node_with_its_volume_is_launched_for_although_the_pools_source_is_gone) {
  World world(2, 2);
  world.volume("vol-0");
  world.observed.images["ami-volume"] = {{}, "AMI ami-volume gone", false};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_THAT(world.notes(), HasSubstr("AMI ami-volume gone"));
  EXPECT_FALSE(world.plan().stable);
  world.observed.images["ami-base"] = {{}, "AMI ami-base gone", false};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(PlannerLaunch, a_throttled_launch_is_asked_for_again_as_it_was_whoever_else_needs_one_now) {
  auto world = three_waiting();
  world.pool().running = 2;
  const auto first = launch_tokens(world);
  ASSERT_EQ(first.size(), 1U);
  for (const auto* node : {"p-0", "p-1"})
    world.ledger.failures[failure_key("RunInstances", node)] = {
        1, kNow, "Throttling", true, "throttled", true, first.front().substr(2)};
  world.pool().running = 3;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  // No earlier than the last of them: without one, the call would be another one.
  const auto due = [&](const char* node) {
    const auto key = failure_key("RunInstances", node);
    return retry_at(world.ledger.failures.at(key), key);
  };
  world.now = std::max(due("p-0"), due("p-1")) - Milliseconds{1};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  world.now += Milliseconds{1};
  const auto again = launch_tokens(world);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_THAT(again, Contains(first.front()));
}

TEST(PlannerLaunch, a_token_of_on_demand_is_not_that_of_spot) {
  World world;
  world.volume("vol-0");
  const auto spot = world.plan();
  auto& launch = *world.pool().launch;
  launch.on_demand_fallback = true;
  launch.on_demand_after = Milliseconds{0};
  for (const auto& type : launch.instance_types)
    world.ledger.refused_offers[{type, "z-a", true}] = refused(seconds{10});
  const auto on_demand = world.plan();
  ASSERT_TRUE(only<aws::RunInstances>(spot) && only<aws::RunInstances>(on_demand));
  EXPECT_NE(only<aws::RunInstances>(spot)->client_token,
            only<aws::RunInstances>(on_demand)->client_token);
}

// ---- how many ----

TEST(PlannerLaunch, max_instances_counts_what_runs_and_what_comes) {
  auto world = three_waiting();
  world.pool().launch->max_instances = 2;
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_THAT(world.notes(), HasSubstr("max_instances = 2 is reached, 1 run or come"));
  world.instance("i-1", State::pending);
  EXPECT_THAT(world.calls(), IsEmpty());
}

/// (5), seed 40000017166: a node whose volume had been given back and that had gone to another zone
/// meanwhile was launched for there beside its last instance and the successor of that.
TEST(PlannerLaunch, a_third_instance_of_a_node_waits_until_one_of_two_has_ended) {
  World world(1, 1, {"z-a", "z-b"});
  world.volume("vol-0", 0, "z-a");
  world.instance("i-last", State::running, "z-b");
  EXPECT_THAT(world.calls(), Contains(HasSubstr("RunInstances 1 x")))
      << "one that has to go is no reason to wait";
  world.instance("i-next", State::running, "z-b");
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("RunInstances"))));
  EXPECT_THAT(world.calls(), Contains(HasSubstr("TerminateInstances")));
  world.ledger.failures[failure_key("TerminateInstances", "i-next")] = {1, kNow,
                                                                        "OperationNotPermitted"};
  EXPECT_THAT(world.calls(), Contains(HasSubstr("RunInstances 1 x")))
      << "somebody has protected it";
}

TEST(PlannerLaunch, max_price_hour_cuts_what_is_launched) {
  auto world = three_waiting();
  world.observed.market.spot_price["g5.xlarge"]["z-a"] = kUsd / 2;
  world.pool().launch->max_price_hour = "1.2";
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 2 x g5.xlarge in z-a"));
  EXPECT_THAT(world.notes(),
              HasSubstr("max_price_hour = 1.20 USD allows no more instances at 0.50 USD"));
  auto& running = world.instance("i-0");
  running.instance_type = "g5.xlarge";
  running.spot = true;
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(PlannerLaunch, under_max_price_hour_an_unknown_price_launches_nothing) {
  auto world = three_waiting();
  world.pool().launch->max_price_hour = "100";
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("allow ec2:DescribeSpotPriceHistory, set max_price"));
  world.pool().launch->max_price = "0.5";
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 3 x g5.xlarge in z-a"))
      << "no spot instance costs more than max_price";
}

TEST(PlannerLaunch, an_instance_that_is_not_listed_is_there_while_ec2_shows_its_volume_attached) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.pool().launch->max_instances = 1;
  world.observed.instances = {};  // another account's listing
  world.ledger.watches["gone/i-0"] = {kNow - minutes{2}, kLooksUntilGone};
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), IsEmpty());
  EXPECT_TRUE(std::none_of(plan.records.begin(), plan.records.end(), [](const Record& record) {
    return std::holds_alternative<RecordInstanceGone>(record);
  }));
}

TEST(PlannerLaunch, what_is_asked_for_and_not_shown_yet_counts_at_the_dearest_price) {
  auto world = three_waiting();
  world.pool().launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  world.observed.market.spot_price["g5.xlarge"]["z-a"] = kUsd;
  world.observed.market.spot_price["g4dn.xlarge"]["z-a"] = kUsd / 10;
  world.pool().launch->max_price_hour = "1.15";
  world.ledger.instances["i-new"] = {"p", "z-a", kNow - Milliseconds{500}};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
}

}  // namespace
}  // namespace warmroot::core
