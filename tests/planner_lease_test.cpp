// The rules of the planner about leases: who gets which volume under which name. How they end is
// planner_handover_test.cpp's.
#include "manager/core/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/adopting.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/standing.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using State = aws::InstanceState;

// ---- leases ----

TEST(Planner, an_attachment_without_a_lease_becomes_one) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.leases.clear();
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.records.size(), 1U);
  const auto& record = std::get<RecordLease>(plan.records.front());
  EXPECT_EQ(record.lease.state, LeaseState::checking);
  EXPECT_EQ(record.lease.node, "p-0");
}

TEST(Planner, a_lease_becomes_active_when_the_node_says_mounted) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.leases.front().state = LeaseState::checking;
  world.report("i-0", "vol-0", NodeStage::ready);
  EXPECT_EQ(world.plan().nodes.front().lease, LeaseState::active);
}

TEST(Planner, a_volume_with_an_open_lease_is_attached_nowhere_else) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.instance("i-1");
  world.lease("vol-0", "i-0", LeaseState::attaching);
  world.ledger.leases.front().since = kNow - Milliseconds{500};
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("AttachVolume"))));
}

TEST(Planner, an_instance_never_gets_two_volumes) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("RunInstances 1 x")));
}

/// Found by fleet_sim seed 28000043479: two managers had attached one each, and the second volume's
/// node counted as served for ever.
TEST(Planner, a_second_volume_on_an_instance_that_serves_another_is_not_served_and_noted) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.attach("vol-1", "i-0");
  world.report("i-0", "vol-0", NodeStage::ready);
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), IsEmpty()) << "a detach might be of something in use";
  EXPECT_EQ(plan.nodes[0].condition, NodeCondition::active);
  EXPECT_EQ(plan.nodes[1].condition, NodeCondition::checking);
  EXPECT_THAT(world.notes(), HasSubstr("volume vol-1 is attached to i-0 beside vol-0, which is "
                                       "served there: detach vol-1 from it"));
  // Detached by people: another instance is launched for it.
  world.observed.volumes.at("vol-1").attachments.clear();
  world.observed.volumes.at("vol-1").state = aws::VolumeState::available;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("RunInstances 1 x")));
}

TEST(Planner, an_instance_of_another_zone_does_not_get_the_volume) {
  World world;
  world.pool().launch.reset();
  world.volume("vol-0");
  world.instance("i-0", State::running, "z-b");
  world.ledger.instances.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("no running instance tagged warmroot:pool=p in z-a"));
}

TEST(Planner, an_instance_with_a_volume_that_has_lost_its_tags_gets_no_second_one) {
  World world;
  world.volume("vol-0");
  auto& instance = world.instance("i-0");
  instance.image_id = "ami-base";
  instance.block_devices = {{"/dev/xvda", "vol-root", aws::AttachmentState::attached, true},
                            {"/dev/sdf", "vol-untagged", aws::AttachmentState::attached, false}};
  EXPECT_THAT(world.calls(), IsEmpty()) << "neither served, nor ended, nor launched beside";
  EXPECT_THAT(world.notes(), HasSubstr("i-0 has vol-untagged attached as /dev/sdf"));
  // One that waits for the volume gets it: whoever attached something else did so knowingly.
  world.lease("vol-0", "i-0", LeaseState::reserved);
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-0 as")));
  world.ledger.leases.clear();
  // What the image maps itself is no session's.
  world.observed.images.at("ami-base").found->mappings = {{"/dev/sdf", "snap-1", 8}};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-0 as")));
}

TEST(Planner, a_volume_that_a_launch_made_and_that_lost_its_tags_keeps_a_second_one_off) {
  World world;
  world.volume("vol-0");
  auto& instance = world.instance("i-0");
  instance.image_id = "ami-base";
  instance.tags[kTagLaunchVolume] = kLaunchDevice;
  instance.block_devices = {{kLaunchDevice, "vol-1", aws::AttachmentState::attached, false}};
  auto& made = world.stranger("vol-1");
  made.tags.clear();
  made.state = aws::VolumeState::in_use;
  made.attachments = {{"vol-1", "i-0", kLaunchDevice, aws::AttachmentState::attached, kNow, false}};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("i-0 has vol-1 attached as /dev/sdf"));
}

TEST(Planner, an_instance_with_a_volume_of_nobody_knows_what_is_not_ended_as_one_too_many) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  auto& instance = world.instance("i-1");
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-1"));
  instance.image_id = "ami-base";
  instance.block_devices = {{"/dev/sdf", "vol-untagged", aws::AttachmentState::attached, false}};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("is not ended"));
}

TEST(Planner, an_instance_with_a_retired_volume_and_one_of_nobody_knows_what_is_told_and_kept) {
  World world(2, 2);
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.volume("vol-1", 1);
  auto& misled = world.instance("i-1");
  misled.image_id = "ami-base";
  misled.block_devices = {{"/dev/sdg", "vol-untagged", aws::AttachmentState::attached, false}};
  auto& retired = world.volume("vol-old");
  retired.state = aws::VolumeState::in_use;
  retired.tags[kTagRetired] = "yes";
  world.ledger.volumes.at("vol-old").role = VolumeRole::retired;
  retired.attachments = {
      {"vol-old", "i-1", "/dev/sdf", aws::AttachmentState::attached, kNow, false}};
  world.hold_for(kUnattachedAfter);
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("TerminateInstances"))));
  EXPECT_THAT(world.calls(), Contains(StartsWith("RunInstances"))) << "p-1 waits for nobody";
  EXPECT_THAT(world.notes(), HasSubstr("i-1 has vol-untagged attached as /dev/sdg"));
}

TEST(Planner, a_look_without_the_leased_volume_makes_no_other_of_the_node_its_own) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.volume("vol-other");  // of the same node
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-0");
  world.observed.volumes.erase("vol-0");  // another account's look by id
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-0");
  EXPECT_THAT(world.calls(), IsEmpty());
  // Somebody may be in the other one.
  auto attached = world;
  attached.instance("i-1");
  auto& other = attached.observed.volumes.at("vol-other");
  other.state = aws::VolumeState::in_use;
  other.attachments = {
      {"vol-other", "i-1", "/dev/sdf", aws::AttachmentState::attached, kNow, false}};
  EXPECT_EQ(attached.plan().nodes.front().volume_id, "vol-other");
  world.ledger.leases.clear();
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-other") << "nobody is in the other";
}

TEST(Planner, a_release_that_an_old_ledger_knows_of_is_none_of_a_volume_that_came_since) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.observed.volumes.at("vol-0").attachments.front().attach_time =
      kNow - std::chrono::minutes{2};
  world.ledger.departures["i-0"] = {true, kNow - std::chrono::minutes{2}, {}, false, "vol-0"};
  EXPECT_THAT(world.calls(), Contains("DetachVolume vol-0 from i-0"));
  world.ledger.departures["i-0"].since = kNow - std::chrono::hours{1};
  EXPECT_THAT(world.calls(), Not(Contains("DetachVolume vol-0 from i-0")));
}

TEST(Planner,
     an_instance_whose_image_is_not_shown_and_which_has_a_strange_volume_gets_no_second_one) {
  World world;
  world.volume("vol-0");
  auto& instance = world.instance("i-0");
  instance.image_id = "ami-of-another-account";
  instance.root_device_name = "/dev/xvda";
  instance.block_devices = {{"/dev/xvda", "vol-root", aws::AttachmentState::attached, false}};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-0 as")));
  instance.block_devices.push_back(
      {"/dev/sdf", "vol-unseen", aws::AttachmentState::attached, false});
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, an_instance_with_a_volume_that_says_no_node_any_more_gets_no_second_one) {
  World world;
  world.volume("vol-0");
  world.stranger("vol-other", 1).tags.erase(kTagNode);
  auto& instance = world.instance("i-0");
  instance.image_id = "ami-base";
  instance.block_devices = {{"/dev/sdf", "vol-other", aws::AttachmentState::attached, false}};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("i-0 has vol-other attached as /dev/sdf"));
}

TEST(Planner, a_strange_volume_whose_detach_the_guest_holds_up_is_still_on_its_instance) {
  using enum aws::AttachmentState;
  for (const auto state : {attaching, detaching, busy}) {
    World world;
    world.volume("vol-0");
    auto& instance = world.instance("i-0");
    instance.image_id = "ami-base";
    instance.block_devices = {{"/dev/sdf", "vol-untagged", state, false}};
    EXPECT_THAT(world.calls(), IsEmpty()) << static_cast<int>(state);
    instance.block_devices.front().state = detached;
    EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdg"));
  }
}

TEST(Planner,
     an_instance_whose_listing_still_shows_the_volume_it_lost_has_none_launched_beside_it) {
  World world;
  world.volume("vol-0");
  world.instance("i-0").block_devices = {
      {"/dev/sdf", "vol-0", aws::AttachmentState::attaching, false}};
  EXPECT_THAT(world.calls(), IsEmpty()) << "detached by the volume's own listing: one of them lags";
  // Its end was refused: it will hold what it holds, and the node needs another instance.
  world.ledger.failures["TerminateInstances/i-0"] = {1, kNow - std::chrono::seconds{1},
                                                     "OperationNotPermitted", false, "protected"};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("RunInstances")));
}

TEST(Planner, a_device_name_once_given_on_an_instance_is_not_given_again) {
  World world;
  world.volume("vol-0");
  world.instance("i-0").block_devices = {
      {"/dev/xvdf", "vol-x", aws::AttachmentState::attached, true}};
  world.ledger.used_devices["i-0"] = {"/dev/sdg"};
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdh"));
}

TEST(Planner, a_volume_attached_by_somebody_elsewhere_is_noted_and_nothing_is_launched_for_it) {
  World world;
  world.volume("vol-0");
  world.attach("vol-0", "i-foreign");
  world.ledger.leases.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("attached to i-foreign, which is no instance of this pool"));
}

TEST(Planner,
     a_name_that_ec2_calls_taken_and_nobody_is_seen_to_have_is_looked_into_before_the_next) {
  World world;
  world.volume("vol-0");
  auto& instance = world.instance("i-0");
  world.ledger.used_devices["i-0"] = {"/dev/sdf"};
  world.ledger.refused_devices["i-0"] = {{"/dev/sdf", kNow - Milliseconds{300}}};
  EXPECT_EQ(world.plan().next_look, kLookSoonest) << "whoever has it is looked at once more";
  world.observed.complete = false;
  EXPECT_GE(world.plan().next_look, kLookWaiting) << "looks that fail do not count (39000051939)";
  world.observed.complete = true;
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), IsEmpty()) << "another manager's volume may be there";
  EXPECT_THAT(plan.watches, Contains("named/i-0")) << "by which it is looked at by its id";
  EXPECT_EQ(plan.wake, kNow + kLookSoonest) << "and not when something else is due";
  // Looked at again, and still without a volume.
  world.ledger.watches["named/i-0"] = {kNow - Milliseconds{200}, 1};
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdg"));
  // It has one by now, of another node: its volume's own view may lag behind.
  world.volume("vol-1", 1);
  instance.block_devices = {{"/dev/sdf", "vol-1", aws::AttachmentState::attaching, false}};
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("vol-0 to i-0"))));
}

TEST(Planner, a_name_that_was_refused_long_ago_or_is_seen_to_be_taken_holds_nobody_up) {
  World world;
  world.volume("vol-0");
  auto& instance = world.instance("i-0");
  world.ledger.used_devices["i-0"] = {"/dev/sdf"};
  world.ledger.refused_devices["i-0"] = {{"/dev/sdf", kNow - kVisibilityWindow}};
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdg"));
  world.ledger.refused_devices["i-0"] = {{"/dev/sdf", kNow - Milliseconds{300}}};
  instance.block_devices = {{"/dev/sdf", "vol-ami", aws::AttachmentState::attached, true}};
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdg"));
}

/// Found by fleet_sim seed 13000000177: its owner had given it all tags of a node's instance, and
/// somebody protected it from its end.
TEST(Planner, an_instance_of_others_that_never_comes_up_is_waited_for_no_longer_than_ours) {
  World world;
  world.volume("vol-0");
  world.instance("i-theirs", aws::InstanceState::pending);
  world.ledger.instances.clear();
  const auto first = world.plan();
  EXPECT_THAT(first.actions, IsEmpty());
  EXPECT_TRUE(first.watches.contains("pending/i-theirs"));
  world.ledger.watches["pending/i-theirs"] = {kNow - kPendingPatience + std::chrono::seconds{1}, 5};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["pending/i-theirs"] = {kNow - kPendingPatience, 6};
  const auto plan = world.plan();
  EXPECT_TRUE(only<aws::RunInstances>(plan) != nullptr);
  EXPECT_EQ(only<aws::TerminateInstances>(plan), nullptr) << "it is not ours to end";
}

}  // namespace
}  // namespace warmroot::core
