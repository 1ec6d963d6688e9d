// A simulated Auto Scaling group under the real manager: it keeps its number of instances by
// itself, and the manager gives them the pool's volumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/events.hpp"
#include "tests/fleet_harness.hpp"
#include "tests/sim/event_bus.hpp"

namespace warmroot {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A fleet whose instances come from a group, which replaces what is gone before each look.
struct GroupFleet {
  explicit GroupFleet(int nodes, int desired) : capacity(desired), fleet(pool(nodes)) {
    fleet.on_tick = [this] { scale(); };
    fleet.start();
  }
  static core::PoolSpec pool(int nodes) {
    auto made = pool_spec("p", nodes, nodes);
    made.launch.reset();
    made.auto_scaling_group = "workers";
    return made;
  }
  void hear() {
    fleet.region.on_instance_event = [this](const sim::InstanceEvent& event) {
      const auto told = manager::parse_envelope(
          sim::envelope_of(fleet.region, event, "e" + std::to_string(++events)));
      CHECK(told.has_value());
      inbox.take(*told, "", true, fleet.region.now());
    };
    fleet.heard = [this] {
      inbox.listened(fleet.region.now());
      return inbox.heard(fleet.region.now());
    };
    fleet.start();
  }
  void scale() {
    if (fleet.last.recorded) inbox.settle();
    for (auto live = static_cast<int>(fleet.live_instances().size()); live < capacity; ++live) {
      sim::RunInstancesArgs args;
      args.image_id = kBaseAmi;
      args.type = "g5.xlarge";
      args.zone = "us-east-1a";
      args.spot = true;
      args.instance_tags = {{"warmroot:pool", "p"}};
      CHECK(fleet.region.launch_in_group("workers", args).has_value());
    }
  }
  bool settled() {
    return fleet.until([this] {
      if (!fleet.last.plan.stable || !fleet.last.plan.actions.empty()) return false;
      int served = 0;
      for (const auto& row : fleet.last.plan.nodes) served += !row.instance_id.empty();
      return served == std::min<int>(capacity, static_cast<int>(fleet.last.plan.nodes.size()));
    });
  }
  std::string first_in_line() const {
    for (const auto& [id, text] : fleet.last.plan.without_node)
      if (text.find("number 1 in line") != std::string::npos) return id;
    return {};
  }

  int capacity;
  int events = 0;
  manager::EventInbox inbox;
  Fleet fleet;
};

TEST(GroupFleet, an_interrupted_instance_s_volume_goes_to_the_replacement) {
  GroupFleet world(2, 2);
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  const auto volume = world.fleet.volume_of("p-0")->id;
  const auto old = world.fleet.instance_of("p-0");
  const auto other = world.fleet.instance_of("p-1");
  ASSERT_TRUE(world.fleet.region.interrupt(old));
  world.fleet.report(old, volume, NodeStage::draining);
  world.fleet.tick();
  world.fleet.report(old, volume, NodeStage::released);
  ASSERT_TRUE(world.fleet.until([&] {
    const auto now = world.fleet.instance_of("p-0");
    return !now.empty() && now != old && world.fleet.last.plan.stable;
  })) << world.fleet.note_text();
  EXPECT_EQ(world.fleet.volume_of("p-0")->id, volume);
  EXPECT_EQ(world.fleet.instance_of("p-1"), other) << "the other node keeps its instance";
  EXPECT_EQ(world.fleet.calls_of("TerminateInstances"), 0);
  EXPECT_EQ(world.fleet.calls_of("RunInstances"), 0);
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

TEST(GroupFleet, an_instance_too_many_waits_and_takes_the_first_node_that_loses_its_own) {
  GroupFleet world(2, 4);
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  ASSERT_THAT(world.fleet.last.plan.without_node, SizeIs(2));
  EXPECT_THAT(world.fleet.note_text(), HasSubstr("launched by Auto Scaling group workers"));
  const auto next = world.first_in_line();
  const auto volume = world.fleet.volume_of("p-1")->id;
  const auto lost = world.fleet.instance_of("p-1");
  ASSERT_TRUE(world.fleet.region.crash(lost));  // no notice, no report
  ASSERT_TRUE(world.fleet.until([&] { return world.fleet.instance_of("p-1") == next; }))
      << world.fleet.note_text();
  EXPECT_EQ(world.fleet.volume_of("p-1")->id, volume);
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  EXPECT_THAT(world.fleet.last.plan.without_node, SizeIs(2)) << "the replacement stands behind";
  EXPECT_EQ(world.fleet.calls_of("TerminateInstances"), 0);
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

TEST(GroupFleet, at_scale_in_a_hook_gives_the_node_time_to_hand_its_volume_over) {
  GroupFleet world(2, 3);
  world.hear();
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  const auto old = world.fleet.instance_of("p-0");
  const auto next = world.first_in_line();
  const auto volume = world.fleet.volume_of("p-0")->id;
  world.fleet.report(old, volume, NodeStage::ready);
  const auto asked = world.fleet.region.now();
  ASSERT_TRUE(world.fleet.region.end_in_group(old, minutes{5}));
  world.fleet.tick();
  EXPECT_TRUE(world.fleet.last.plan.drains.contains(old)) << "it is asked to give the volume back";
  EXPECT_EQ(world.fleet.calls_of("DetachVolume"), 0) << "it has not done so";
  world.fleet.report(old, volume, NodeStage::draining);
  world.fleet.tick();
  world.fleet.report(old, volume, NodeStage::released);
  ASSERT_TRUE(world.fleet.until([&] { return world.fleet.instance_of("p-0") == next; }))
      << world.fleet.note_text();
  EXPECT_LT(world.fleet.region.now() - asked, minutes{1}) << "long before the hook's time is over";
  EXPECT_EQ(world.fleet.volume_of("p-0")->id, volume);
  EXPECT_EQ(world.fleet.region.instance(old)->state, sim::GuestState::running);
  world.capacity = 2;
  world.fleet.region.advance_by(minutes{5});
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  EXPECT_EQ(world.fleet.instance_of("p-0"), next);
  EXPECT_EQ(world.fleet.calls_of("TerminateInstances"), 0);
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

TEST(GroupFleet,
     an_instance_that_does_not_answer_its_group_s_hook_keeps_its_volume_until_it_is_gone) {
  GroupFleet world(1, 1);
  world.hear();
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  const auto old = world.fleet.instance_of("p-0");
  const auto volume = world.fleet.volume_of("p-0")->id;
  ASSERT_TRUE(world.fleet.region.end_in_group(old, minutes{3}));
  EXPECT_FALSE(world.fleet.until([&] { return world.fleet.instance_of("p-0") != old; },
                                 Milliseconds{170'000}));
  EXPECT_EQ(world.fleet.calls_of("DetachVolume"), 0);
  ASSERT_TRUE(world.fleet.until([&] {
    const auto now = world.fleet.instance_of("p-0");
    return !now.empty() && now != old;
  })) << world.fleet.note_text();
  EXPECT_EQ(world.fleet.volume_of("p-0")->id, volume);
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

TEST(GroupFleet, scaled_in_and_out_every_node_finds_its_volume_again_also_without_the_ledger) {
  GroupFleet world(3, 3);
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  const auto volumes = world.fleet.pool_volumes();
  world.capacity = 1;
  for (const auto* node : {"p-1", "p-2"})
    ASSERT_TRUE(world.fleet.region.end_now(world.fleet.instance_of(node)));
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  EXPECT_TRUE(world.fleet.last.plan.stable) << "fewer instances are the group's wish";
  world.fleet.lose_ledger();
  world.fleet.start();
  world.capacity = 3;
  ASSERT_TRUE(world.settled()) << world.fleet.note_text();
  EXPECT_EQ(world.fleet.pool_volumes(), volumes);
  for (const auto* node : {"p-0", "p-1", "p-2"}) EXPECT_NE(world.fleet.instance_of(node), "");
  EXPECT_EQ(world.fleet.calls_of("TerminateInstances"), 0);
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

}  // namespace
}  // namespace warmroot
