// The rules of the planner about a node whose machine reboots: it keeps its instance and its volume
// for a while, and is given up after that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using State = aws::InstanceState;

constexpr Milliseconds kMoment{1};

World one_that_reboots(Milliseconds since = Milliseconds{1000}) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::rebooting, since);
  return world;
}

void fail_instance_check(World& world) {
  world.observed.statuses["i-0"] = {"i-0", State::running, "ok", "impaired"};
}

TEST(PlannerReboot, a_node_that_reboots_keeps_its_instance_and_its_volume_for_fifteen_minutes) {
  ASSERT_EQ(kRebootPatience, std::chrono::minutes{15});
  for (const auto since : {kMoment, kReportFresh, kRebootPatience - kMoment}) {
    const World world = one_that_reboots(since);
    const auto plan = world.plan();
    EXPECT_THAT(world.calls_of(plan), IsEmpty()) << since.count();
    EXPECT_THAT(plan.drains, IsEmpty()) << since.count();
    EXPECT_THAT(records<RecordDeparture>(plan), IsEmpty()) << "it comes back";
    EXPECT_EQ(plan.nodes.front().instance_id, "i-0");
    EXPECT_EQ(plan.nodes.front().successor_id, "");
    ASSERT_TRUE(plan.wake) << since.count();
    EXPECT_LE(*plan.wake, kNow - since + kRebootPatience);
  }
}

/// Its reports may be what does not come back.
TEST(PlannerReboot, one_that_nobody_hears_afterwards_and_that_ec2_calls_well_is_left_alone) {
  const World world = one_that_reboots(kRebootPatience);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(PlannerReboot, one_that_never_came_back_is_ended_and_replaced) {
  World world = one_that_reboots(kRebootPatience);
  fail_instance_check(world);
  const auto plan = world.plan();
  EXPECT_THAT(world.calls_of(plan),
              UnorderedElementsAre("RunInstances 1 x g5.xlarge in z-a", "TerminateInstances i-0"));
  std::vector<std::string> reasons;
  for (const auto& action : plan.actions) reasons.push_back(action.reason);
  EXPECT_THAT(reasons, Contains(HasSubstr("i-0 never came back from its reboot")));
  EXPECT_THAT(records<RecordDeparture>(plan), IsEmpty()) << "its machine may still come back";
}

TEST(PlannerReboot, one_that_is_back_is_served_on_whatever_it_says_first) {
  for (const auto stage : {NodeStage::hello, NodeStage::disk_seen, NodeStage::ready}) {
    World world = one_that_reboots(kRebootPatience);
    world.report("i-0", stage == NodeStage::hello ? "" : "vol-0", stage);
    EXPECT_THAT(world.calls(), IsEmpty()) << to_string(stage);
  }
}

/// It gave its volume to whoever had asked, rebooted all the same, and was told to serve it.
TEST(PlannerReboot, a_boot_behind_a_release_is_told_that_it_gets_no_volume) {
  World world = one_that_reboots();
  world.report("i-0", "", NodeStage::hello);
  EXPECT_THAT(world.plan().without_node, IsEmpty()) << "it is served on";
  world.ledger.departures["i-0"] = {true, kNow - Milliseconds{20'000}, {}, false, "vol-0"};
  for (const auto state : {aws::AttachmentState::attached, aws::AttachmentState::detaching}) {
    world.observed.volumes.at("vol-0").attachments.front().state = state;
    EXPECT_THAT(world.plan().without_node,
                ElementsAre(Pair("i-0", HasSubstr("has given its volume back"))));
  }
}

/// Its release was lost with the machine's last seconds. It was told to serve the volume, and ended
/// under its sessions once the patience with its drain was over.
TEST(PlannerReboot, a_boot_behind_a_drain_whose_release_nobody_heard_of_is_told_the_same) {
  World world = one_that_reboots();
  world.report("i-0", "", NodeStage::hello);
  auto& departure = world.ledger.departures["i-0"];
  departure = {false, kNow - Milliseconds{20'000}, {}, false, "vol-0"};
  EXPECT_THAT(
      world.plan().without_node,
      ElementsAre(Pair("i-0", HasSubstr("began to drain and serves no more: sessions here"))));
  departure.advised = true;
  EXPECT_THAT(world.plan().without_node, IsEmpty()) << "it serves until its successor runs";
  departure = {false, kNow - kDrainPatience, {}, false, "vol-0"};
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0"));
}

/// The check asks the system that is just being booted.
TEST(PlannerReboot, ec2s_check_of_the_instance_counts_again_once_it_is_back) {
  World world = one_that_reboots();
  world.ledger.watches["impaired/i-0"] = {kNow - kImpairedAfter, 9};
  fail_instance_check(world);
  EXPECT_THAT(world.calls(), IsEmpty());
  world.report("i-0", "vol-0", NodeStage::ready);
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0"));
  world.report("i-0", "vol-0", NodeStage::rebooting);
  world.observed.statuses["i-0"] = {"i-0", State::running, "impaired", "ok"};
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0")) << "its host is dead";
}

TEST(PlannerReboot, who_ends_or_warns_the_instance_meanwhile_is_heeded) {
  World world = one_that_reboots();
  world.observed.instances.at("i-0").state = State::stopped;
  EXPECT_THAT(world.calls(), Contains("DetachVolume vol-0 from i-0"));
  world.observed.instances.at("i-0").state = State::shutting_down;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  World warned = one_that_reboots();
  warned.observed.warnings["i-0"] = {WarningKind::interruption, kNow};
  EXPECT_THAT(warned.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_TRUE(warned.plan().drains.contains("i-0")) << "it is asked for the volume, too";
}

TEST(PlannerReboot, one_that_is_not_wanted_any_more_is_asked_for_its_volume_and_then_ended) {
  World world = one_that_reboots();
  world.ledger.paused_pools = {"p"};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-0"));
  world.report("i-0", "vol-0", NodeStage::rebooting, kReportFresh);
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0")) << "it hears nobody any more";
}

TEST(PlannerReboot, one_that_others_launched_and_that_never_came_back_is_named_and_not_ended) {
  World world = one_that_reboots(kRebootPatience);
  fail_instance_check(world);
  world.ledger.instances.clear();
  EXPECT_THAT(world.calls(), Not(Contains("TerminateInstances i-0")));
  EXPECT_THAT(world.notes(),
              HasSubstr("i-0 never came back from its reboot, but we did not launch i-0"));
}

/// Launches that all end so would go on for ever.
TEST(PlannerReboot, a_launch_that_never_came_back_before_it_served_anybody_has_failed) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.report("i-0", "", NodeStage::rebooting, kRebootPatience);
  fail_instance_check(world);
  const auto fates = records<RecordFate>(world.plan());
  ASSERT_EQ(fates.size(), 1u);
  EXPECT_EQ(fates.front().fate, InstanceFate::failed);
  EXPECT_EQ(fates.front().why, "i-0 never came back from its reboot");
}

}  // namespace
}  // namespace warmroot::core
