// The rules of the planner about instances and volumes beyond what is wanted: which are ended and
// how, which are left alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::StartsWith;

TEST(Planner, a_manager_that_begins_ends_nobody_whose_report_it_could_not_have_heard_yet) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  world.observed.hears_since = kNow - kHeardWithin + Milliseconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().wake, kNow + Milliseconds{1});
  world.report("i-0", "vol-0", NodeStage::ready);
  EXPECT_THAT(world.calls(), IsEmpty()) << "it is asked to drain";
  EXPECT_TRUE(world.plan().drains.contains("i-0"));
  world.observed.reports.clear();
  world.observed.hears_since = kNow - kHeardWithin;
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
}

TEST(Planner, a_paused_pool_ends_its_instances_and_keeps_its_volumes) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
}

TEST(Planner, a_reporting_node_is_asked_to_drain_before_it_is_ended) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  world.report("i-0", "vol-0", NodeStage::warming);
  auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(plan.drains.contains("i-0"));
  world.report("i-0", "vol-0", NodeStage::released);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
}

/// Such a node reports failed, and people go on in the volume.
TEST(Planner, a_node_whose_sessions_left_the_volume_is_asked_to_drain_before_it_is_ended) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  world.report("i-0", "vol-0", NodeStage::failed);
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(plan.drains.contains("i-0"));
  world.ledger.watches["drain/i-0"] = {kNow - kDrainPatience, 100};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
  world.ledger.watches.clear();
  world.report("i-0", "vol-0", NodeStage::failed, kReportFresh);
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0")) << "it is silent";
}

TEST(Planner, a_node_whose_sessions_left_the_volume_hears_of_a_warning_too) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.warnings["i-0"] = {WarningKind::interruption, kNow};
  for (const auto stage : {NodeStage::ready, NodeStage::failed, NodeStage::draining}) {
    world.report("i-0", "vol-0", stage);
    EXPECT_EQ(world.plan().drains.contains("i-0"), stage != NodeStage::draining)
        << to_string(stage);
  }
  world.report("i-0", "vol-0", NodeStage::failed, kReportFresh);
  EXPECT_THAT(world.plan().drains, IsEmpty()) << "it is silent";
}

/// fleet_sim seed 900071910.
TEST(Planner, who_gave_back_a_volume_that_people_deleted_is_ended_at_once) {
  World world;
  world.volume("vol-old");
  world.instance("i-0");
  world.attach("vol-old", "i-0");
  world.observed.volumes.erase("vol-old");
  world.volume("vol-new");
  world.instance("i-1");
  world.attach("vol-new", "i-1");
  world.report("i-0", "vol-old", NodeStage::released);
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0"));
}

TEST(Planner, a_node_that_never_finishes_draining_is_ended_in_the_end) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  world.report("i-0", "vol-0", NodeStage::draining);
  world.ledger.watches["drain/i-0"] = {kNow - kDrainPatience, 100};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
}

TEST(Planner, an_instance_that_we_did_not_launch_is_never_ended) {
  World world(1, 0);
  world.volume("vol-0");
  world.instance("i-0");
  world.ledger.instances.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
  world.observed.instances.at("i-0").client_token =
      client_token({"test", "RunInstances", "p", "p-0:0 ", 0, "z-a"});
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"))
      << "the token shows that a lost ledger of ours launched it";
}

TEST(Planner, an_instance_of_another_deployment_is_not_touched) {
  World world;
  world.volume("vol-0");
  world.instance("i-0").tags[kTagDeployment] = "other";
  world.ledger.instances.clear();
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("RunInstances")));
}

TEST(Planner, an_instance_whose_volume_would_be_deleted_with_it_is_not_ended) {
  World world(1, 0);
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").attachments.front().delete_on_termination = true;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("ModifyInstanceAttribute")));
  EXPECT_THAT(world.notes(), HasSubstr("DeleteOnTermination of /dev/sdf is set to false"));
}

// Seed 10000008677: EC2 says yes and shows the flag as it was for a while.
TEST(Planner, a_flag_that_ec2_goes_on_showing_is_not_cleared_at_each_look) {
  World world(1, 0);
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").attachments.front().delete_on_termination = true;
  std::string asked_at;
  for (int looks = 1; looks <= 40; ++looks) {
    const auto plan = world.plan();
    if (!plan.actions.empty()) asked_at += std::to_string(looks) + " ";
    for (const auto& key : plan.watches) world.ledger.watches[key] = {kNow, looks};
  }
  EXPECT_EQ(asked_at, "1 2 4 8 16 32 ");
}

TEST(Planner, a_volume_whose_detach_the_guest_holds_up_is_kept_from_its_instances_end_too) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::busy);
  world.observed.volumes.at("vol-0").attachments.front().delete_on_termination = true;
  EXPECT_THAT(world.calls(), Contains(StartsWith("ModifyInstanceAttribute")));
}

TEST(Planner, an_attach_that_sticks_on_somebody_elses_instance_is_not_started_over) {
  World world;
  world.volume("vol-0");
  world.observed.volumes.at("vol-0").state = aws::VolumeState::in_use;
  world.observed.volumes.at("vol-0").attachments = {{"vol-0", "i-foreign", "/dev/sdf",
                                                     aws::AttachmentState::attaching,
                                                     kNow - std::chrono::minutes{5}, false}};
  world.hold_for(std::chrono::minutes{5});
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("DetachVolume"))));
}

TEST(Planner, a_reserved_instance_that_got_another_volume_meanwhile_gets_no_second_one) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.lease("vol-0", "i-0", LeaseState::reserved);
  world.observed.volumes.at("vol-1").state = aws::VolumeState::in_use;
  world.observed.volumes.at("vol-1").attachments = {
      {"vol-1", "i-0", "/dev/sdf", aws::AttachmentState::attached, kNow, false}};
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("AttachVolume"))));
}

TEST(Planner, fewer_nodes_keep_the_volume_and_say_so) {
  World world(1, 0);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("volume vol-1 of p-1 is beyond nodes = 1"));
  EXPECT_TRUE(plan.stable) << "a kept volume is no unmet wish";
}

}  // namespace
}  // namespace warmroot::core
