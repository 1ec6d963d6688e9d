// The planner about volumes that were not given back as they should be: set aside when a node could
// not repair them, and kept as a snapshot, where the spec asks, before they are repaired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/unclean.hpp"
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

constexpr const char* kSaid =
    "the file system of /dev/sda1 (ext4) was not left clean; it said: \x1b";

/// p-0's volume on i-0, which says that it cannot repair it.
World beyond_repair() {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::released);
  world.observed.reports.at("i-0").reason = kUncleanBeyondRepair;
  world.observed.reports.at("i-0").message = kSaid;
  return world;
}

/// The same as the ledger has it once i-0 is gone, before EC2 has shown the tag.
World remembered() {
  World world;
  world.volume("vol-0");
  world.instance("i-1");
  world.ledger.unclean["vol-0"] = {"i-0", kNow, kSaid, false};
  return world;
}

TEST(BeyondRepair, a_volume_is_set_aside_with_the_reason_and_detached_in_one_plan) {
  const auto world = beyond_repair();
  const auto plan = world.plan();
  const auto* tags = only<aws::CreateTags>(plan);
  ASSERT_NE(tags, nullptr);
  EXPECT_EQ(tags->tags.at(kTagQuarantined),
            "beyond repair on i-0: the file system of /dev/sda1 ext4 was not left clean it said:");
  EXPECT_NE(only<aws::DetachVolume>(plan), nullptr);
  EXPECT_THAT(World::calls_of(plan), Contains(StartsWith("CreateVolume"))) << "its node goes on";
  ASSERT_EQ(records<RecordUnclean>(plan).size(), 1u);
  EXPECT_EQ(records<RecordUnclean>(plan).front().unclean.beyond_repair, kSaid);
  EXPECT_THAT(world.notes(), HasSubstr("volume vol-0 is quarantined and p-0 gets another one: i-0 "
                                       "could not repair its file system"));
  EXPECT_THAT(world.notes(), HasSubstr("`warmroot volume return vol-0`"));
}

TEST(BeyondRepair, a_tag_has_no_more_than_ec2_takes) {
  auto world = beyond_repair();
  world.observed.reports.at("i-0").message = std::string(900, 'x');
  const auto plan = world.plan();
  const auto* tags = only<aws::CreateTags>(plan);
  ASSERT_NE(tags, nullptr);
  EXPECT_EQ(tags->tags.at(kTagQuarantined).size(), 256u);
}

TEST(BeyondRepair, the_word_of_an_instance_that_does_not_hold_the_volume_counts_for_nothing) {
  auto world = beyond_repair();
  world.volume("vol-1", 1);
  world.observed.reports.at("i-0").volume_id = "vol-1";
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateTags"))));
  EXPECT_THAT(records<RecordUnclean>(world.plan()), IsEmpty());
}

TEST(BeyondRepair, any_other_release_or_failure_sets_nothing_aside) {
  for (const auto stage : {NodeStage::released, NodeStage::failed}) {
    auto world = beyond_repair();
    auto& report = world.observed.reports.at("i-0");
    report.stage = stage;
    if (stage == NodeStage::released) report.reason = "spot-notice";
    EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateTags")))) << to_string(stage);
  }
}

TEST(BeyondRepair, with_a_lost_ledger_it_is_detached_only_once_it_is_set_aside) {
  auto world = beyond_repair();
  world.ledger.leases.clear();
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("DetachVolume"))));
  world.lease("vol-0", "i-0", LeaseState::leaving);  // as that plan recorded it
  EXPECT_THAT(world.calls(), testing::IsSupersetOf(
                                 {HasSubstr("CreateTags vol-0"), HasSubstr("DetachVolume vol-0")}));
}

TEST(BeyondRepair, a_volume_is_given_to_nobody_while_its_tag_is_refused_or_not_shown) {
  auto world = remembered();
  EXPECT_THAT(world.calls(),
              UnorderedElementsAre("CreateTags vol-0", "CreateVolume from snap-ami-volume in z-a"));
  world.ledger.failures[failure_key("CreateTags", "vol-0")] = {1, kNow, "UnauthorizedOperation",
                                                               false, "not allowed"};
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a"));
  EXPECT_THAT(world.notes(), HasSubstr("not allowed"));
  world.ledger.unclean["vol-0"].tagged = true;
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a"));
}

TEST(BeyondRepair, a_volume_whose_tag_is_gone_at_several_looks_is_used_again) {
  auto world = remembered();
  world.volume("vol-0").tags[kTagQuarantined] = "beyond repair";
  const auto seen = records<RecordUnclean>(world.plan());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen.front().unclean.tagged);
  world.ledger.unclean["vol-0"].tagged = true;
  world.observed.volumes.at("vol-0").tags.erase(kTagQuarantined);
  EXPECT_THAT(records<RecordUncleanOver>(world.plan()), IsEmpty());
  world.hold_for(kVisibilityWindow);
  EXPECT_EQ(records<RecordUncleanOver>(world.plan()).size(), 1u);
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-1")));
}

/// Seed 52000050938: an old copy of the ledger had it as beyond repair, a session was in it.
TEST(BeyondRepair, a_volume_that_serves_on_another_instance_is_its_nodes_again) {
  auto world = remembered();
  world.ledger.unclean["vol-0"].tagged = true;
  world.attach("vol-0", "i-1");
  world.ledger.leases.clear();
  EXPECT_EQ(world.plan().nodes.front().volume_id, "");
  world.report("i-1", "vol-0", NodeStage::ready);
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.front().volume_id, "vol-0");
  EXPECT_THAT(records<RecordUncleanOver>(plan), ::testing::SizeIs(1));
  EXPECT_THAT(World::calls_of(plan), IsEmpty());
  world.observed.volumes.at("vol-0").tags[kTagQuarantined] = "by hand";
  EXPECT_THAT(records<RecordUncleanOver>(world.plan()), IsEmpty()) << "it is set aside";
}

TEST(BeyondRepair, an_order_returns_a_volume_also_when_its_tag_never_came) {
  auto world = remembered();
  world.ledger.orders.push_back({1, OrderKind::return_volume, "vol-0", "", "", kNow});
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateTags"))));
  EXPECT_THAT(records<RecordOrderSettled>(world.plan()), IsEmpty()) << "the tag may still show";
  world.hold_for(kVisibilityWindow);
  const auto settled = records<RecordOrderSettled>(world.plan());
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_TRUE(settled.front().met);
  EXPECT_EQ(records<RecordUncleanOver>(world.plan()).size(), 1u);
}

TEST(BeyondRepair, an_order_to_return_it_waits_until_its_node_has_given_it_back) {
  auto world = beyond_repair();
  world.volume("vol-0").tags[kTagQuarantined] = "beyond repair";
  world.attach("vol-0", "i-0");
  world.ledger.unclean["vol-0"] = {"i-0", kNow, kSaid, true};
  world.ledger.orders.push_back({1, OrderKind::return_volume, "vol-0", "", "", kNow});
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("DeleteTags"))));
  EXPECT_THAT(records<RecordOrderSettled>(world.plan()), IsEmpty());
}

TEST(BeyondRepair, a_launch_that_met_one_counts_for_the_breaker_as_the_source_may_be_the_cause) {
  auto world = beyond_repair();
  world.ledger.leases.back().state = LeaseState::checking;
  world.ledger.leases.back().since = kNow - std::chrono::seconds{1};
  const auto fates = records<RecordFate>(world.plan());
  ASSERT_EQ(fates.size(), 1u);
  EXPECT_EQ(fates.front().fate, InstanceFate::failed);
  EXPECT_THAT(fates.front().why, HasSubstr("was not left clean"));
}

// ---- snapshots ----

/// p-0's volume is free, i-0 left it without a release, and i-1 waits for it.
World left_unclean() {
  World world;
  world.pool().volumes.snapshot_unclean = true;
  world.volume("vol-0");
  world.instance("i-1");
  world.ledger.unclean["vol-0"] = {"i-0", kNow, "", false};
  return world;
}

TEST(UncleanSnapshot, is_made_before_the_attach_and_says_of_what_and_why) {
  auto world = left_unclean();
  const auto plan = world.plan();
  EXPECT_THAT(World::calls_of(plan), ElementsAre("CreateSnapshot of vol-0"));
  const auto* call = only<aws::CreateSnapshot>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->tags.at(kTagDeployment), "test");
  EXPECT_EQ(call->tags.at(kTagPool), "p");
  EXPECT_EQ(call->tags.at(kTagNode), "p-0");
  EXPECT_EQ(call->tags.at(kTagUnclean), "i-0 did not release it cleanly");
  world.ledger.unclean.clear();  // as its acceptance leaves the ledger
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-1")));
}

TEST(UncleanSnapshot, is_asked_for_once_however_many_instances_could_have_the_volume) {
  auto world = left_unclean();
  world.pool().nodes = world.pool().running = 2;
  world.volume("vol-1", 1);
  world.instance("i-2");
  world.instance("i-0");
  world.attach("vol-1", "i-0", aws::AttachmentState::detaching);
  world.lease("vol-1", "i-2", LeaseState::reserved);
  EXPECT_THAT(all<aws::CreateSnapshot>(world.plan()), testing::SizeIs(1));
}

TEST(UncleanSnapshot, is_made_only_where_the_spec_asks_and_the_end_was_unclean) {
  auto world = left_unclean();
  world.pool().volumes.snapshot_unclean = false;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0")));
  world.pool().volumes.snapshot_unclean = true;
  world.ledger.unclean.clear();
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0")));
}

TEST(UncleanSnapshot, that_cannot_be_made_within_a_minute_is_gone_without) {
  auto world = left_unclean();
  world.hold_for(kSnapshotPatience / 2);
  world.ledger.failures[failure_key("CreateSnapshot", "p-0")] = {
      1, kNow, "SnapshotLimitExceeded", false, "CreateSnapshot vol-0: too many snapshots"};
  EXPECT_THAT(world.calls(), IsEmpty()) << "it is backing off, and the node waits";
  world.hold_for(kSnapshotPatience);
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("AttachVolume vol-0 to i-1")));
  EXPECT_THAT(world.notes(),
              HasSubstr("no snapshot of vol-0 could be made within a minute, although "
                        "i-0 did not release it cleanly; it is attached all the "
                        "same: CreateSnapshot vol-0: too many snapshots"));
  EXPECT_EQ(records<RecordUncleanOver>(world.plan()).size(), 1u);
}

TEST(UncleanSnapshot, a_lease_that_ends_without_a_release_is_remembered_and_a_clean_end_forgotten) {
  for (const bool released : {false, true}) {
    World world;
    world.pool().volumes.snapshot_unclean = true;
    world.volume("vol-0");
    world.instance("i-0", aws::InstanceState::terminated);
    world.lease("vol-0", "i-0", LeaseState::active);
    world.ledger.unclean["vol-0"] = {"i-9", kNow, "", false};  // of an earlier end
    if (released) world.report("i-0", "vol-0", NodeStage::released);
    const auto plan = world.plan();
    EXPECT_EQ(records<RecordUnclean>(plan).size(), released ? 0u : 1u);
    EXPECT_EQ(records<RecordUncleanOver>(plan).size(), released ? 1u : 0u);
  }
}

/// i-0 gives p-0's volume back for this reason, by its id or without one: it is free, but nobody
/// has said that it was left clean.
void expect_no_clean_end(std::string_view reason, const std::string& volume_id) {
  World held;
  held.volume("vol-0");
  held.instance("i-0");
  held.attach("vol-0", "i-0");
  held.report("i-0", volume_id, NodeStage::released);
  held.observed.reports.at("i-0").reason = reason;
  const auto left = records<RecordDeparture>(held.plan());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_TRUE(left.front().departure.released);
  EXPECT_THAT(held.calls(), Contains(StartsWith("DetachVolume vol-0")));
  held.ledger.departures["i-0"] = left.front().departure;
  EXPECT_THAT(records<RecordDeparture>(held.plan()), IsEmpty()) << "it is recorded already";
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    World world;
    world.pool().volumes.snapshot_unclean = true;
    world.volume("vol-0");
    world.instance("i-0", aws::InstanceState::terminated);
    world.instance("i-1");
    world.lease("vol-0", "i-0", LeaseState::active);
    world.ledger.departures = held.ledger.departures;
    if (!restarted) world.observed.reports = held.observed.reports;
    const auto plan = world.plan();
    EXPECT_EQ(records<RecordUnclean>(plan).size(), 1u);
    EXPECT_THAT(World::calls_of(plan), ElementsAre("CreateSnapshot of vol-0"));
  }
}

/// A release that says so gives the volume back, but not everything was written to it.
TEST(UncleanSnapshot, a_disk_that_was_taken_away_is_no_clean_release) {
  expect_no_clean_end(kDiskGone, "vol-0");
}

/// A machine was reset and given notice before its bootstrap had come to the volume, or seen it:
/// the volume was handed on as clean.
TEST(UncleanSnapshot, a_volume_that_was_given_back_before_it_was_mounted_is_not_left_clean) {
  for (const char* volume_id : {"vol-0", ""}) {
    SCOPED_TRACE(volume_id);
    expect_no_clean_end(kNeverMounted, volume_id);
  }
}

TEST(UncleanSnapshot, the_plan_that_sees_the_end_of_the_lease_attaches_nothing_yet) {
  World world;
  world.pool().volumes.snapshot_unclean = true;
  world.volume("vol-0");
  world.instance("i-0", aws::InstanceState::terminated);
  world.instance("i-1");
  world.lease("vol-0", "i-0", LeaseState::active);
  EXPECT_THAT(world.calls(), ElementsAre("CreateSnapshot of vol-0"));
}

TEST(UncleanSnapshot, an_attach_that_never_was_leaves_nothing_unclean) {
  World world;
  world.pool().volumes.snapshot_unclean = true;
  world.volume("vol-0");
  world.instance("i-0", aws::InstanceState::terminated);
  world.lease("vol-0", "i-0", LeaseState::attaching);
  EXPECT_THAT(records<RecordUnclean>(world.plan()), IsEmpty());
}

}  // namespace
}  // namespace warmroot::core
