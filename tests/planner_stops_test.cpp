// What stops the planner's calls: looks that do not show enough, a new ledger, calls without an
// answer, budgets, refusals, and wishes that cannot be met.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using State = aws::InstanceState;

// ---- looks, answers, budgets and refusals ----

TEST(Planner, an_incomplete_look_allows_no_call_and_no_record) {
  World world(2, 2);
  world.observed.complete = false;
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.records, IsEmpty());
  EXPECT_FALSE(plan.stable);
}

TEST(Planner, a_fresh_ledger_waits_one_visibility_window_before_it_creates) {
  World world;
  world.ledger.begun = kNow - kVisibilityWindow + Milliseconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.begun = kNow - kVisibilityWindow;
  world.ledger.watches["looked around"] = {kNow - kVisibilityWindow, 1};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

/// fleet_sim seed 61000010115: an old copy of a ledger was put back a second after a create that it
/// did not know, and what was listed just then did not show its volume.
TEST(Planner, nothing_is_made_before_a_listing_that_shows_what_was_asked_for_before_the_beginning) {
  World world;
  world.ledger.begun = kNow - std::chrono::seconds{60};
  world.ledger.watches["looked around"] = {kNow, 1};
  world.observed.listed_from = world.ledger.begun + kVisibilityWindow - Milliseconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.observed.listed_from += Milliseconds{1};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

TEST(Planner, one_look_that_leaves_a_volume_out_after_a_lost_ledger_makes_no_second_one) {
  World world;
  world.ledger.begun = kNow - std::chrono::seconds{60};
  for (int looks = 1; looks < kLooksUntilGone; ++looks) {
    const auto plan = world.plan();
    EXPECT_THAT(plan.actions, IsEmpty()) << looks;
    EXPECT_LT(*plan.wake, kNow + kVisibilityWindow);
    for (const auto& key : plan.watches) world.ledger.watches[key] = {kNow, looks};
  }
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

TEST(Planner, a_new_ledger_counts_no_incomplete_look) {
  World world;
  world.ledger.begun = kNow - std::chrono::seconds{60};
  world.ledger.watches["looks around"] = {kNow, kLooksUntilGone - 1};
  world.observed.complete = false;
  EXPECT_THAT(world.plan().watches, IsEmpty());
  EXPECT_THAT(world.plan().actions, IsEmpty());
}

/// fleet_sim seeds 900018795 and 900059725: its looks in the other account had counted.
TEST(Planner, a_new_ledger_counts_no_look_that_shows_none_of_the_specs_sources) {
  World world;
  world.ledger.begun = kNow - std::chrono::seconds{60};
  world.ledger.watches["looks around"] = {kNow, kLooksUntilGone - 1};
  for (auto& [id, image] : world.observed.images) image.found.reset();
  for (auto& [id, snapshot] : world.observed.snapshots) snapshot.found.reset();
  const Plan plan = world.plan();
  EXPECT_THAT(plan.watches, IsEmpty());
  EXPECT_TRUE(plan.looking_around);
}

TEST(Planner, a_used_token_makes_no_second_volume_before_several_looks_agree) {
  World world;
  world.ledger.begun = kNow - std::chrono::seconds{60};
  world.ledger.watches["looked around"] = {kNow, 1};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
  world.ledger.generations[generation_key("CreateVolume", "p-0")] = 1;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.plan().watches, Contains("token used/p-0"));
  world.ledger.watches["token used/p-0"] = {kNow - kVisibilityWindow, kLooksUntilGone};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

TEST(Planner, a_create_without_an_answer_is_counted_and_not_asked_for_twice) {
  World world;
  Intent intent;
  intent.call.action = "CreateVolume";
  intent.pool = "p";
  intent.nodes = {"p-0"};
  intent.state = IntentState::unknown;
  world.ledger.intents.push_back(intent);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, a_launch_without_an_answer_is_counted_and_not_asked_for_twice) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  Intent intent;
  intent.call.action = "RunInstances";
  intent.pool = "p";
  intent.zone = "z-a";
  intent.nodes = {"p-0", "p-1"};
  world.ledger.intents.push_back(intent);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, calls_stop_where_the_budget_ends) {
  World world(3, 0);
  world.limits.calls["CreateVolume"] = 2;
  EXPECT_EQ(world.calls().size(), 2U);
  EXPECT_FALSE(world.plan().stable);
}

TEST(Planner, a_small_pool_does_not_wait_behind_a_large_one_for_the_attach_bucket) {
  World world(3, 3);
  auto second = world.pool();
  second.name = "q";
  second.nodes = second.running = 1;
  world.desired.pools.push_back(second);
  for (int i = 0; i < 3; ++i) {
    world.volume("vol-" + std::to_string(i), i);
    world.instance("i-" + std::to_string(i));
  }
  world.volume("vol-q", 0, "z-a", "q");
  world.instance("i-q", State::running, "z-a", "q");
  world.limits.calls["AttachVolume"] = 2;
  EXPECT_THAT(world.calls(), Contains(HasSubstr("vol-q to i-q")));
}

TEST(Planner, a_refusal_is_left_alone_for_its_back_off_and_noted) {
  World world;
  world.volume("vol-0");
  world.ledger.failures[failure_key("RunInstances", "p-0")] = {
      3, kNow - Milliseconds{100}, "InvalidParameterValue", false, "no such profile"};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("no such profile; tried 3 times, again at"));
  world.now += std::chrono::seconds{10};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(Planner, after_a_refused_termination_its_ids_go_in_smaller_calls_and_then_alone) {
  World world(12, 0);
  for (int i = 0; i < 12; ++i) world.instance("i-" + std::to_string(100 + i));
  EXPECT_EQ(only<aws::TerminateInstances>(world.plan())->instance_ids.size(), 12U);
  const auto sizes = [&world] {
    std::vector<std::size_t> found;
    for (const auto& action : world.plan().actions)
      if (const auto* call = std::get_if<aws::TerminateInstances>(&action.mutation))
        found.push_back(call->instance_ids.size());
    return found;
  };
  const auto refuse = [&world](const char* code, int count, bool throttled = false) {
    for (int i = 0; i < 12; ++i)
      world.ledger.failures[failure_key("TerminateInstances", "i-" + std::to_string(100 + i))] = {
          count, kNow - std::chrono::minutes{10}, code, false, "protected", throttled};
  };
  refuse("OperationNotPermitted", 1);
  EXPECT_THAT(sizes(), ElementsAre(7, 5));
  refuse("OperationNotPermitted", 2);
  EXPECT_THAT(sizes(), ::testing::SizeIs(12));
  refuse("ThrottlingException", 2, true);
  EXPECT_THAT(sizes(), ElementsAre(12)) << "smaller calls would make a throttle worse";
}

TEST(Planner, an_instance_that_takes_no_further_volume_is_passed_over_for_another) {
  World world;
  world.volume("vol-0");
  world.instance("i-1").launch_time = kNow - std::chrono::minutes{20};
  world.instance("i-2");
  EXPECT_THAT(world.calls(), Contains(HasSubstr("vol-0 to i-1")));
  world.ledger.failures[failure_key("AttachVolume", "i-1")] = {1, kNow, "AttachmentLimitExceeded",
                                                               false, "full"};
  EXPECT_THAT(world.calls(), Contains(HasSubstr("vol-0 to i-2")));
}

TEST(Planner, a_refusal_of_many_nodes_is_one_note) {
  World world(3, 3);
  for (int i = 0; i < 3; ++i) {
    world.volume("vol-" + std::to_string(i), i);
    world.ledger.failures[failure_key("RunInstances", node_name("p", i))] = {
        1, kNow, "VcpuLimitExceeded", false, "too many"};
  }
  EXPECT_THAT(world.plan().notes, ::testing::SizeIs(1));
  EXPECT_THAT(world.notes(), HasSubstr("(the same for 2 more)"));
}

TEST(Planner, when_more_than_a_fifth_vanished_nothing_is_done) {
  World world(4, 0);
  for (int i = 0; i < 4; ++i) world.volume("vol-" + std::to_string(i), i);
  world.observed.volumes.erase("vol-0");
  world.observed.volumes.erase("vol-1");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("2 of 4 volumes are not shown"));
  EXPECT_FALSE(plan.stable);
}

TEST(Planner, one_vanished_volume_is_replaced_only_after_a_minute_three_looks_and_a_listing) {
  World world(2, 0);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.observed.volumes.erase("vol-1");
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["gone/vol-1"] = {kNow - kGoneAfter, 1};
  EXPECT_THAT(world.calls(), IsEmpty()) << "a minute, but two looks";
  world.ledger.watches["gone/vol-1"].looks = 2;
  EXPECT_THAT(world.calls(), IsEmpty()) << "none of them a listing";
  world.observed.listed = kNow - Milliseconds{1};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

// ---- wishes that cannot be met ----

struct Blocked {
  const char* name;
  void (*change)(World&);
  const char* note;
};

class PlannerBlocked : public ::testing::TestWithParam<Blocked> {};

TEST_P(PlannerBlocked, is_said_in_one_sentence_and_nothing_is_created) {
  World world(1, 1);
  GetParam().change(world);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr(GetParam().note));
  EXPECT_FALSE(world.plan().stable);
  EXPECT_EQ(world.plan().nodes.front().condition, NodeCondition::blocked);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlannerBlocked,
    ::testing::Values(
        Blocked{"unknown_ami",
                [](World& w) {
                  w.observed.images["ami-volume"] = {{}, "AMI ami-volume gone", false};
                },
                "AMI ami-volume gone"},
        Blocked{"unreadable_snapshot",
                [](World& w) {
                  w.observed.snapshots["snap-ami-volume"] = {{}, "snapshot unreadable", false};
                },
                "snapshot unreadable"},
        Blocked{"ami_without_root",
                [](World& w) { w.observed.images["ami-volume"].found->mappings.clear(); },
                "has no root snapshot"},
        Blocked{"other_architecture",
                [](World& w) { w.observed.images["ami-base"].found->architecture = "arm64"; },
                "are x86_64, but base AMI ami-base is arm64"},
        Blocked{"wrong_zone", [](World& w) { w.pool().zones = {"z-x"}; },
                "zone z-x is not in this Region, which has z-a, z-b"},
        Blocked{"subnet_elsewhere",
                [](World& w) {
                  w.pool().launch->subnets = {{"z-a", "subnet-b"}};
                  w.observed.subnets["subnet-b"].found = aws::Subnet{"subnet-b", "vpc", "z-b", 9};
                },
                "subnet subnet-b is in z-b"},
        Blocked{"size_below_snapshot", [](World& w) { w.pool().volumes.size_gib = 4; },
                "smaller than snapshot"},
        Blocked{"user_data_too_large",
                [](World& w) {
                  w.observed.user_data["p"] = {{}, "user-data is too large", false};
                },
                "user-data is too large"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Planner, a_blocked_pool_does_not_hold_another_up) {
  World world;
  auto second = world.pool();
  second.name = "q";
  second.zones = {"z-x"};
  world.desired.pools.push_back(second);
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a"));
}

}  // namespace
}  // namespace warmroot::core
