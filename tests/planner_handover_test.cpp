// The rules of the planner about the end of a lease: how a volume passes to a successor. Which
// instances are too many is planner_surplus_test.cpp's.
#include "manager/core/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/draft.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using State = aws::InstanceState;

TEST(Planner, a_reservation_of_a_node_that_is_served_is_given_up_and_its_instance_ended) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.attach("vol-0", "i-0");
  world.lease("vol-0", "i-1", LeaseState::reserved);
  world.report("i-0", "vol-0", NodeStage::failed);
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-1"));
}

std::vector<std::string> lease_records(const Plan& plan) {
  std::vector<std::string> texts;
  for (const auto& record : plan.records)
    if (const auto* lease = std::get_if<RecordLease>(&record))
      texts.push_back(lease->lease.instance_id + " " + std::string(to_string(lease->lease.state)));
  return texts;
}

TEST(Planner, the_detach_of_a_stuck_attach_is_asked_for_again_only_after_as_long) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  world.hold_for(kStuckAttachAfter * 2);
  world.ledger.leases.back().state = LeaseState::leaving;
  world.ledger.leases.back().since = kNow - Milliseconds{200};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(lease_records(world.plan()), IsEmpty());
  world.ledger.leases.back().since = kNow - kStuckAttachAfter;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 leaving")) << "its time starts anew";
}

TEST(Planner, a_detach_names_the_device_so_that_it_cannot_hit_another_managers_new_attachment) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  world.observed.volumes.at("vol-0").attachments.front().device = "/dev/sdk";
  world.hold_for(kStuckAttachAfter * 2);
  const auto plan = world.plan();
  const auto* call = only<aws::DetachVolume>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->device, "/dev/sdk") << "as EC2 shows it, whatever the lease says";
}

TEST(Planner, an_attach_that_another_manager_started_over_is_not_stuck_yet) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  world.hold_for(kStuckAttachAfter * 2);
  world.observed.volumes.at("vol-0").attachments.front().device = "/dev/sdg";
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, an_attach_that_another_manager_started_over_under_the_same_name_is_not_stuck_yet) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  auto& attachment = world.observed.volumes.at("vol-0").attachments.front();
  attachment.attach_time = kNow - kStuckAttachAfter * 2;
  world.hold_for(kStuckAttachAfter * 2);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
  attachment.attach_time = kNow - kStuckAttachAfter + Milliseconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, a_lease_is_leaving_only_when_its_call_is_in_the_plan) {
  World world(1, 0);
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::warm, kReportFresh * 2);
  world.limits.calls["TerminateInstances"] = 0;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(lease_records(world.plan()), IsEmpty());
  world.limits.calls["TerminateInstances"] = 1;
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 leaving"));
}

TEST(Planner, a_lease_that_ec2_shows_attached_long_after_is_not_leaving_any_more) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.leases.back().state = LeaseState::leaving;
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 checking"));
  world.ledger.leases.back().since = kNow - Milliseconds{500};
  EXPECT_THAT(lease_records(world.plan()), IsEmpty());
}

TEST(Planner,
     another_volume_on_its_instance_ends_a_lease_that_only_an_old_copy_of_the_ledger_knows) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.attach("vol-1", "i-0");
  world.ledger.leases.clear();
  world.lease("vol-0", "i-0", LeaseState::active);
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 checking", "i-0 ended"));
  world.observed.volumes.erase("vol-0");
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 checking", "i-0 ended"))
      << "people have deleted it since";
}

TEST(Planner, an_attachment_elsewhere_ends_the_lease_that_says_otherwise) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.attach("vol-0", "i-1");
  world.ledger.leases.clear();
  world.lease("vol-0", "i-0", LeaseState::attaching);
  Intent intent;
  intent.call.action = "AttachVolume";
  intent.resources = {"vol-0", "i-0"};
  intent.state = IntentState::unknown;
  world.ledger.intents.push_back(intent);
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 ended", "i-1 checking"));
}

TEST(Planner, a_draining_node_gets_its_successor_at_once) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::draining);
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  EXPECT_EQ(world.plan().nodes.front().condition, NodeCondition::handover);
}

TEST(Planner, a_successor_reserves_the_volume_and_gets_it_when_it_is_free) {
  World world;
  auto& volume = world.volume("vol-0");
  world.instance("i-0", State::shutting_down);
  world.instance("i-1");
  world.attach("vol-0", "i-0");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_EQ(plan.nodes.front().successor_id, "i-1");
  world.lease("vol-0", "i-1", LeaseState::reserved);
  world.instance("i-0", State::terminated);
  volume.state = aws::VolumeState::available;
  volume.attachments.clear();
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-1 as /dev/sdf"));
}

TEST(Planner, a_reservation_for_a_volume_that_stays_busy_keeps_no_other_node_waiting) {
  World world(2, 2);
  world.pool().launch.reset();  // nobody launches another one
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.instance("i-1");
  world.ledger.instances.clear();
  world.attach("vol-0", "i-0");
  world.ledger.departures["i-0"] = {true, kNow - std::chrono::minutes{30}, {}, false, "vol-other"};
  world.lease("vol-0", "i-1", LeaseState::reserved);
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-1 to i-1 as /dev/sdf"));
  EXPECT_THAT(lease_records(world.plan()),
              ElementsAre("i-0 leaving", "i-1 attaching", "i-1 ended"));
  // While an attach cannot go out, nothing is taken away.
  world.limits.calls["AttachVolume"] = 0;
  EXPECT_THAT(lease_records(world.plan()), ElementsAre("i-0 leaving"));
}

TEST(Planner, a_successor_whose_volume_is_free_is_not_taken_for_another_node) {
  World world(2, 2);
  world.pool().launch.reset();
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-1");
  world.ledger.instances.clear();
  world.lease("vol-0", "i-1", LeaseState::reserved);
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-1 as /dev/sdf"));
}

TEST(Planner, a_successor_whose_tags_people_took_away_stays_the_successor) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::draining);
  auto& successor = world.instance("i-1");
  world.lease("vol-0", "i-1", LeaseState::reserved);
  for (const auto* key : {kTagDeployment, kTagPool}) {
    const auto before = successor.tags;
    successor.tags.erase(key);
    EXPECT_THAT(world.calls(), IsEmpty()) << key;
    EXPECT_EQ(world.plan().nodes.front().successor_id, "i-1") << key;
    successor.tags = before;
  }
  successor.tags[kTagDeployment] = "another";
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a")) << "given away";
}

TEST(Planner, one_handover_launches_one_successor) {
  World world;
  world.volume("vol-0");
  world.instance("i-0", State::shutting_down);
  world.attach("vol-0", "i-0");
  world.instance("i-1", State::pending);
  world.ledger.instances.at("i-1").recorded = kNow;
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, a_running_instance_is_detached_from_only_after_released) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::draining);
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("DetachVolume"))));
  world.report("i-0", "vol-0", NodeStage::released);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
}

/// At the first look after a restart, before it could say so: its volume was detached under its
/// sessions.
TEST(Planner, a_manager_that_begins_detaches_nothing_from_a_node_that_may_serve_again_unheard) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.departures["i-0"] = {true, kNow - std::chrono::seconds{20}, {}, false, "vol-0"};
  world.observed.hears_since = kNow - kHeardWithin + Milliseconds{1};
  const auto plan = world.plan();
  EXPECT_THAT(world.calls_of(plan), Not(Contains(StartsWith("DetachVolume"))));
  EXPECT_EQ(plan.wake, kNow + Milliseconds{1});
  World silent = world;
  silent.observed.hears_since = kNow - kHeardWithin;
  EXPECT_THAT(silent.calls(), Contains("DetachVolume vol-0 from i-0"));
  world.report("i-0", "vol-0", NodeStage::released);
  EXPECT_THAT(world.calls(), Contains("DetachVolume vol-0 from i-0")) << "it goes on saying so";
}

/// fleet_sim seed 2000000260: three calls a second, for as long as EC2 showed the attachment.
TEST(Planner, a_detach_that_ec2_calls_done_and_shows_undone_is_asked_for_ever_more_seldom) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::released);
  std::vector<int> asked;
  for (int look = 1; look <= 20; ++look) {
    const Plan plan = world.plan();
    if (only<aws::DetachVolume>(plan)) asked.push_back(look);
    for (const auto& key : plan.watches) {
      auto& watch = world.ledger.watches[key];
      watch = {watch.looks == 0 ? world.now : watch.since, watch.looks + 1};
    }
  }
  EXPECT_THAT(asked, ElementsAre(1, 2, 4, 8, 16));
}

TEST(Planner, a_released_instance_without_a_lease_is_ended) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.report("i-0", "vol-0", NodeStage::released);
  EXPECT_THAT(world.calls(), UnorderedElementsAre("AttachVolume vol-0 to i-1 as /dev/sdf",
                                                  "TerminateInstances i-0"));
}

TEST(Planner,
     an_instance_that_released_another_volume_long_ago_is_ended_with_the_one_it_got_since) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-before", NodeStage::released);
  auto& since = world.ledger.leases.back().since;
  since = kNow - kReportDelay;
  EXPECT_THAT(world.calls(), IsEmpty());  // it may be a delayed one
  since = kNow - kReportDelay - Milliseconds{1000};
  EXPECT_THAT(world.calls(),
              UnorderedElementsAre("TerminateInstances i-0", "RunInstances 1 x g5.xlarge in z-a"));
}

TEST(Planner, a_stopped_instance_gives_its_volume_back) {
  World world;
  world.volume("vol-0");
  world.instance("i-0", State::stopped);
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), UnorderedElementsAre("DetachVolume vol-0 from i-0",
                                                  "RunInstances 1 x g5.xlarge in z-a"));
}

TEST(Planner, an_impaired_instance_is_ended_after_two_minutes) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.statuses["i-0"] = {"i-0", State::running, "impaired", "ok"};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["impaired/i-0"] = {kNow - kImpairedAfter, 9};
  EXPECT_THAT(world.calls(),
              UnorderedElementsAre("RunInstances 1 x g5.xlarge in z-a", "TerminateInstances i-0"));
}

TEST(Planner, an_impaired_instance_is_ended_whatever_hint_it_had) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.warnings["i-0"] = {WarningKind::rebalance, kNow};
  world.observed.statuses["i-0"] = {"i-0", State::running, "impaired", "ok"};
  world.ledger.watches["impaired/i-0"] = {kNow - kImpairedAfter, 9};
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0"));
}

TEST(Planner, a_stuck_attach_starts_over_when_the_guest_never_saw_the_disk) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  EXPECT_THAT(world.calls(), IsEmpty());
  world.hold_for(kStuckAttachAfter);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
  world.report("i-0", "vol-0", NodeStage::disk_seen);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, a_stuck_attach_is_not_kept_because_of_a_report_from_before_it) {
  for (const auto stage : {NodeStage::ready, NodeStage::rebooting}) {
    World world;
    world.volume("vol-0");
    world.instance("i-0");
    world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
    world.hold_for(kStuckAttachAfter);
    world.ledger.leases.back().since = kNow - kStuckAttachAfter;
    world.report("i-0", "vol-0", stage, kStuckAttachAfter + Milliseconds{1});
    EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0")) << to_string(stage);
    world.report("i-0", "vol-0", stage, kStuckAttachAfter);
    EXPECT_THAT(world.calls(), IsEmpty()) << to_string(stage);
  }
}

/// The end of its instance was asked for, and perhaps refused; the guest, which has the disk
/// mounted, was silent from then on, and lost it.
TEST(Planner, an_attach_that_the_guest_saw_is_not_started_over_when_its_lease_has_changed_since) {
  constexpr Milliseconds kAttachingFor = std::chrono::minutes{5};
  for (const auto state : {LeaseState::leaving, LeaseState::attaching}) {
    SCOPED_TRACE(to_string(state));
    World world;
    world.volume("vol-0");
    world.instance("i-0");
    world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
    world.hold_for(kAttachingFor);
    world.ledger.leases.back().state = state;
    world.ledger.leases.back().since = kNow - kStuckAttachAfter;
    world.report("i-0", "vol-0", NodeStage::ready, kAttachingFor);
    EXPECT_THAT(world.calls(), IsEmpty());
    world.report("i-0", "vol-0", NodeStage::ready, kAttachingFor + Milliseconds{1});
    EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0")) << "an earlier attach's";
  }
}

/// The guest serves what EC2 shows as attaching still. Behind a reset its next boot said hello
/// first, or a manager that had just begun had heard nobody yet, and the volume that was about to
/// be served again without a word was taken from it.
TEST(Planner, an_attach_that_the_guest_saw_is_not_started_over_at_the_hello_of_its_next_boot) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0", aws::AttachmentState::attaching);
  world.report("i-0", "vol-0", NodeStage::ready);
  world.hold_for(kStuckAttachAfter * 2);
  EXPECT_THAT(world.calls(), IsEmpty());
  world.observed.reports.clear();
  EXPECT_THAT(world.calls(), IsEmpty()) << "a manager that has just begun";
  world.report("i-0", "", NodeStage::hello);
  const auto plan = world.plan();
  EXPECT_THAT(world.calls_of(plan), IsEmpty());
  ASSERT_TRUE(plan.wake);
  EXPECT_LE(*plan.wake, kNow + kStuckAttachAfter);
  // Which of them were held at the look before is all that the ledger knows.
  world.ledger.watches.clear();
  for (const auto& held : plan.watches)
    world.ledger.watches[held] = {kNow - kStuckAttachAfter + Milliseconds{1}, 50};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.hold_for(kStuckAttachAfter);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0")) << "it does not come back";
  world.report("i-0", "vol-0", NodeStage::disk_seen);
  EXPECT_THAT(world.calls(), IsEmpty());
}

}  // namespace
}  // namespace warmroot::core
