// A newer AMI replaces a pool's source node by node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "tests/planner_stock_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using State = aws::InstanceState;

struct RolloutWorld : StockWorld {
  explicit RolloutWorld(int nodes = 3, int running = 3) : StockWorld(nodes, running) {
    pool().stock.spares = 0;
    pool().rollout.policy = RolloutSpec::Policy::replace;
    for (int i = 0; i < nodes; ++i) {
      volume("vol-" + std::to_string(i), i);
      if (i < running) served("vol-" + std::to_string(i), "i-" + std::to_string(i));
    }
    new_source();
  }
};

TEST(Rollout, with_policy_keep_nodes_keep_their_volumes_and_one_note_says_so) {
  RolloutWorld world;
  world.pool().rollout.policy = RolloutSpec::Policy::keep;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().stable);
  EXPECT_THAT(
      world.notes(),
      HasSubstr("3 of 3 volumes were made from snap-ami-volume, the spec now says snap-new: "
                "nodes keep their volumes and all data on them"));
}

TEST(Rollout, makes_the_next_volume_of_as_many_nodes_as_may_be_interrupted_and_says_what_it_means) {
  RolloutWorld world;
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("CreateVolume from snap-new in z-a"));
  EXPECT_EQ(only<aws::CreateVolume>(plan)->tags.at(kTagNode), "p-0");
  EXPECT_THAT(plan.drains, IsEmpty());
  EXPECT_FALSE(plan.stable);
  EXPECT_THAT(world.notes(),
              HasSubstr("WHAT PEOPLE WROTE ON THE OLD VOLUME IS NOT ON THE NEW ONE"));
  world.pool().rollout.max_unavailable = 2;
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-new in z-a",
                                         "CreateVolume from snap-new in z-a"));
}

TEST(Rollout, a_next_volume_that_is_not_shown_yet_is_not_made_again) {
  RolloutWorld world;
  world.ledger.volumes["vol-n"] = {"p", "p-0", "z-a", kNow, false, false, VolumeRole::node};
  EXPECT_THAT(world.calls(), IsEmpty());
}

/// Seed 43000052470: the next volume of a node, made before the ledger was lost, was not missed
/// when a look after that did not show it.
TEST(Rollout, a_next_volume_is_remembered_by_a_new_ledger) {
  RolloutWorld world(1, 1);
  world.next("vol-n");
  world.ledger.volumes.erase("vol-n");
  std::optional<OwnedVolume> recorded;
  for (const auto& each : world.plan().records)
    if (const auto* volume = std::get_if<RecordVolume>(&each);
        volume && volume->volume_id == "vol-n")
      recorded = volume->volume;
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->node, "p-0");
  EXPECT_EQ(recorded->role, VolumeRole::node);
  world.observed.volumes.erase("vol-n");
  world.ledger.volumes["vol-n"] = *recorded;
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
}

TEST(Rollout, a_next_volume_whose_tags_people_took_away_gets_no_sibling) {
  RolloutWorld world;
  world.next("vol-n").tags.clear();
  world.ledger.volumes["vol-n"] = {"p", "p-0", "z-a", kNow, true, false, VolumeRole::node};
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
}

TEST(Rollout, drains_a_node_once_its_next_volume_is_there) {
  RolloutWorld world;
  world.next("vol-n").state = aws::VolumeState::creating;
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.observed.volumes.at("vol-n").state = aws::VolumeState::available;
  const auto plan = world.plan();
  ASSERT_EQ(plan.drains.size(), 1u);
  EXPECT_EQ(plan.drains.begin()->first, "i-0");
  EXPECT_THAT(plan.drains.begin()->second, HasSubstr("p-0 moves to a volume of snap-new"));
  EXPECT_TRUE(plan.watches.contains("rollout/p-0"));
  EXPECT_THAT(plan.actions, IsEmpty());
}

TEST(Rollout, interrupts_nobody_beside_a_node_that_reboots_while_that_may_take) {
  RolloutWorld world;
  world.next("vol-n");
  world.report("i-1", "vol-1", NodeStage::rebooting, kRebootPatience - Milliseconds{1});
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.report("i-1", "vol-1", NodeStage::rebooting, kRebootPatience);
  EXPECT_TRUE(world.plan().drains.contains("i-0")) << "it may be back, and not heard";
}

TEST(Rollout, drains_a_node_whose_sessions_left_the_volume_before_it_ends) {
  RolloutWorld world(1, 1);
  world.next("vol-n");
  world.report("i-0", "vol-0", NodeStage::failed);
  const auto plan = world.plan();
  EXPECT_TRUE(plan.drains.contains("i-0"));
  EXPECT_THAT(plan.actions, IsEmpty());
  world.report("i-0", "vol-0", NodeStage::failed, kReportFresh);
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0")) << "it is silent";
}

TEST(Rollout, waits_until_the_next_volume_is_read_as_far_as_the_spec_asks_for_that) {
  RolloutWorld world(1, 1);
  world.pool().stock.ready_within = std::chrono::minutes{10};
  world.next("vol-n").create_time = kNow - std::chrono::minutes{1};
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.observed.volume_statuses["vol-n"] = {"vol-n", "ok", "completed", "default", 100};
  EXPECT_EQ(world.plan().drains.size(), 1u);
  world.observed.volume_statuses.clear();
  world.observed.volumes.at("vol-n").create_time = kNow - std::chrono::minutes{10};
  EXPECT_EQ(world.plan().drains.size(), 1u) << "not waited for beyond the deadline";
}

TEST(Rollout, waits_no_longer_for_the_next_volume_where_our_clock_is_behind_that_of_ec2) {
  RolloutWorld world(1, 1);
  world.pool().stock.ready_within = std::chrono::minutes{10};
  world.next("vol-n").create_time = kNow + std::chrono::hours{1};
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.ledger.watches["next/vol-n"] = {kNow - std::chrono::minutes{10}, 9};
  EXPECT_EQ(world.plan().drains.size(), 1u);
}

TEST(Rollout, no_more_nodes_than_allowed_are_interrupted_and_lost_ones_count) {
  RolloutWorld world;
  for (int i = 0; i < 3; ++i) world.next("vol-n" + std::to_string(i), i);
  EXPECT_EQ(world.plan().drains.size(), 1u);
  world.pool().rollout.max_unavailable = 2;
  EXPECT_EQ(world.plan().drains.size(), 2u);
  // p-2 has just lost its instance by itself, so one interruption is left.
  world.observed.instances.at("i-2").state = State::shutting_down;
  EXPECT_EQ(world.plan().drains.size(), 1u);
}

TEST(Rollout, a_node_whose_drain_has_begun_goes_on_draining) {
  RolloutWorld world;
  for (int i = 0; i < 3; ++i) world.next("vol-n" + std::to_string(i), i);
  world.ledger.watches["rollout/p-1"] = {kNow, 1};
  const auto plan = world.plan();
  ASSERT_EQ(plan.drains.size(), 1u);
  EXPECT_EQ(plan.drains.begin()->first, "i-1");
}

TEST(Rollout, hands_over_when_the_old_volume_is_free_and_keeps_it_as_retired) {
  RolloutWorld world(1, 1);
  world.next("vol-n");
  world.observed.volumes.at("vol-0").state = aws::VolumeState::available;
  world.observed.volumes.at("vol-0").attachments.clear();
  world.ledger.leases.clear();
  world.observed.reports.clear();
  world.observed.instances.at("i-0").state = State::terminated;
  world.instance("i-1");
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan),
              ElementsAre("CreateTags vol-0", "AttachVolume vol-n to i-1 as /dev/sdf"));
  EXPECT_EQ(only<aws::CreateTags>(plan)->tags.at(kTagRetired), "p-0");
  std::map<std::string, VolumeRole> roles;
  for (const auto& each : plan.records)
    if (const auto* volume = std::get_if<RecordVolume>(&each))
      roles[volume->volume_id] = volume->volume.role;
  EXPECT_EQ(roles.at("vol-0"), VolumeRole::retired);

  // The old one is not taken again, tag or record alone tell that.
  world.ledger.volumes["vol-0"].role = VolumeRole::retired;
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-n");
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-0")) << "the tag is still missing";
  world.observed.volumes.at("vol-0").tags[kTagRetired] = "p-0";
  world.ledger.volumes.erase("vol-0");
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-n");
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateTags"))));
}

TEST(Rollout, the_old_volume_is_not_attached_again_while_its_node_moves) {
  RolloutWorld world(1, 1);
  world.next("vol-n");
  world.instance("i-1");
  world.report("i-0", "vol-0", NodeStage::draining);
  const auto plan = world.plan();
  EXPECT_THAT(all<aws::AttachVolume>(plan), IsEmpty());
  for (const auto& each : plan.records)
    if (const auto* lease = std::get_if<RecordLease>(&each)) {
      EXPECT_NE(lease->lease.instance_id, "i-1") << "waits for the new volume, not for the old";
    }
}

TEST(Rollout, a_sleeping_node_moves_without_anybody_being_interrupted) {
  RolloutWorld world(2, 0);
  world.next("vol-n");
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-0", "CreateVolume from snap-new in z-a"))
      << "p-0 has moved, p-1 is next";
}

TEST(Rollout, a_spare_of_the_new_source_serves_as_the_next_volume) {
  RolloutWorld world(1, 1);
  auto& spare = world.stock_volume("vol-s");
  spare.snapshot_id = spare.tags[kTagLineage] = "snap-new";
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-s"));
}

TEST(Rollout, a_spare_whose_tag_has_not_got_through_yet_is_the_next_volume_all_the_same) {
  RolloutWorld world(1, 1);
  auto& spare = world.stock_volume("vol-s");
  spare.snapshot_id = spare.tags[kTagLineage] = "snap-new";
  world.ledger.volumes["vol-s"] = {"p", "p-0", "z-a", kNow, true, false, VolumeRole::node};
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags vol-s")) << "and no other volume";
}

TEST(Rollout, the_old_source_set_again_takes_the_retired_volume_back) {
  RolloutWorld world(1, 0);
  world.next("vol-n").create_time = kNow;
  world.observed.volumes.at("vol-0").tags[kTagRetired] = "p-0";
  world.ledger.volumes["vol-0"].role = VolumeRole::retired;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().stable) << world.notes();
  world.pool().snapshot = "snap-ami-volume";
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("DeleteTags vol-0", "CreateTags vol-n"));
  EXPECT_EQ(plan.nodes.front().volume_id, "vol-0");
  // Neither is marked while the tag of the other may not go.
  world.limits.calls["DeleteTags"] = 0;
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Rollout, a_node_whose_former_volume_still_shows_as_retired_gets_no_other) {
  RolloutWorld world(1, 0);
  world.pool().stock.spares = 1;
  auto& spare = world.stock_volume("vol-s");
  spare.snapshot_id = spare.tags[kTagLineage] = "snap-new";
  world.next("vol-n").tags[kTagRetired] = "p-0";  // asked to lose it: the look lags, or it failed
  world.observed.volumes.at("vol-0").tags[kTagRetired] = "p-0";
  world.ledger.volumes.at("vol-0").role = VolumeRole::retired;
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-n"));
  world.ledger.failures["DeleteTags/p-0"] = {3, kNow, "RequestLimitExceeded", true, "s", true};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Rollout, a_volume_in_use_that_an_old_ledger_has_as_retired_is_the_nodes_again) {
  RolloutWorld world(1, 1);
  world.pool().rollout.policy = RolloutSpec::Policy::keep;
  world.ledger.volumes.at("vol-0").role = VolumeRole::retired;
  std::optional<OwnedVolume> recorded;
  const auto plan = world.plan();
  for (const auto& each : plan.records)
    if (const auto* volume = std::get_if<RecordVolume>(&each);
        volume && volume->volume_id == "vol-0")
      recorded = volume->volume;
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->role, VolumeRole::node);
  EXPECT_THAT(World::calls_of(plan), IsEmpty());
}

TEST(Rollout, who_waits_for_the_old_volume_is_given_the_new_one) {
  RolloutWorld world(1, 1);
  world.next("vol-n");
  world.observed.volumes.at("vol-0").state = aws::VolumeState::available;
  world.observed.volumes.at("vol-0").attachments.clear();
  world.ledger.leases.clear();
  world.observed.reports.clear();
  world.observed.instances.at("i-0").state = State::terminated;
  world.instance("i-1");
  world.lease("vol-0", "i-1", LeaseState::reserved);
  EXPECT_THAT(world.calls(),
              ElementsAre("CreateTags vol-0", "AttachVolume vol-n to i-1 as /dev/sdf"));
}

TEST(Rollout, nodes_without_an_instance_of_their_group_hold_nobody_up) {
  RolloutWorld world(3, 3);
  world.pool().launch.reset();
  world.pool().auto_scaling_group = "workers";
  for (int i = 0; i < 3; ++i) {
    auto& instance = world.observed.instances.at("i-" + std::to_string(i));
    instance.tags[kTagGroup] = "workers";
    world.ledger.instances.erase(instance.instance_id);
  }
  // The group has two, for three nodes.
  world.observed.instances.erase("i-2");
  world.observed.volumes.at("vol-2").state = aws::VolumeState::available;
  world.observed.volumes.at("vol-2").attachments.clear();
  world.ledger.leases.pop_back();
  world.observed.reports.erase("i-2");
  world.next("vol-n");
  EXPECT_THAT(world.plan().drains, IsEmpty()) << "the group may replace it yet";
  world.ledger.watches["lacks an instance/p-2"] = {kNow - std::chrono::minutes{15}, 50};
  const auto plan = world.plan();
  ASSERT_EQ(plan.drains.size(), 1u) << world.notes();
  EXPECT_EQ(plan.drains.begin()->first, "i-0");
  // One that has given its volume back has its place in the group still.
  world.observed.instances["i-2"] = world.observed.instances.at("i-0");
  world.observed.instances["i-2"].instance_id = "i-2";
  world.observed.instances["i-2"].block_devices.clear();
  world.ledger.departures["i-2"] = {true, kNow - std::chrono::minutes{20}, {}, false, "vol-2"};
  EXPECT_THAT(world.plan().drains, IsEmpty());
}

TEST(Rollout, a_volume_retired_in_another_zone_is_not_attached_across_zones) {
  RolloutWorld world(1, 1);
  world.next("vol-n");  // p-0 moved to z-b since
  auto& old = world.observed.volumes.at("vol-0");
  old.state = aws::VolumeState::available;
  old.attachments.clear();
  old.availability_zone = "z-b";
  world.observed.volumes.at("vol-n").tags[kTagRetired] = "p-0";
  world.pool().zones = {"z-a", "z-b"};
  world.observed.zones["z-b"] = world.observed.zones.at("z-a");
  world.observed.zones["z-b"].zone_name = "z-b";
  world.ledger.leases.clear();
  world.observed.reports.clear();
  world.observed.instances.at("i-0").state = State::terminated;
  world.instance("i-1").availability_zone = "z-b";
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.front().volume_id, "vol-n") << world.notes();
  EXPECT_THAT(World::calls_of(plan), Not(Contains(StartsWith("AttachVolume"))));
}

TEST(Rollout, a_node_whose_volumes_are_all_retired_takes_the_one_of_the_source_back) {
  RolloutWorld world(1, 0);
  world.next("vol-n").tags[kTagRetired] = "p-0";
  world.observed.volumes.at("vol-0").tags[kTagRetired] = "p-0";
  world.ledger.volumes.clear();
  EXPECT_THAT(world.calls(), ElementsAre("DeleteTags vol-n"));
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-n");
}

TEST(Rollout, deleted_retired_volumes_do_not_look_like_another_account) {
  RolloutWorld world(3, 0);
  for (int i = 0; i < 3; ++i) {
    world.next("vol-n" + std::to_string(i), i);
    world.ledger.volumes["vol-" + std::to_string(i)].role = VolumeRole::retired;
    world.observed.volumes.erase("vol-" + std::to_string(i));
  }
  EXPECT_THAT(world.notes(), Not(HasSubstr("nothing is changed")));
}

TEST(Rollout, a_manager_that_begins_gives_nobody_an_old_volume_that_is_about_to_be_replaced) {
  RolloutWorld world(1, 0);  // served by nobody
  world.pool().running = 1;
  world.instance("i-new");
  world.ledger.begun = kNow - Milliseconds{100};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 "))) << "no other is there";
  world.next("vol-n");
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Rollout, a_looking_around_moves_nobody) {
  RolloutWorld world(1, 0);
  world.next("vol-n");
  world.ledger.begun = kNow - Milliseconds{100};
  EXPECT_THAT(world.calls(), IsEmpty());
}

}  // namespace
}  // namespace warmroot::core
