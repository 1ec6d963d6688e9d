// Rules about replacements that EC2 recommends by a hint to rebalance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "manager/core/model.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = aws::InstanceState;
using std::chrono::seconds;

World hinted_world(int nodes) {
  World world(nodes, nodes);
  world.pool().launch->replace_on_rebalance = true;
  world.pool().launch->instance_types = {"g5.xlarge"};
  for (int i = 0; i < nodes; ++i) {
    const auto id = std::to_string(i);
    world.volume("vol-" + id, i);
    world.instance("i-" + id);
    world.attach("vol-" + id, "i-" + id);
    world.report("i-" + id, "vol-" + id, NodeStage::ready);
    world.observed.warnings["i-" + id] = {WarningKind::rebalance, kNow};
    world.observed.instances.at("i-" + id).launch_time =
        kNow - world.pool().launch->rebalance_after;
  }
  return world;
}

void record_hints(World& world) {
  for (const auto& [id, warning] : world.observed.warnings)
    world.ledger.departures[id] = {false, kNow - seconds{20}, {}, true};
  world.observed.warnings.clear();  // an event is told once
}

TEST(Rebalance, a_hint_launches_a_replacement_and_disturbs_nobody_yet) {
  auto world = hinted_world(2);
  for (const bool recorded : {false, true}) {
    if (recorded) record_hints(world);
    const auto plan = world.plan();
    EXPECT_THAT(World::calls_of(plan), ElementsAre("RunInstances 1 x g5.xlarge in z-a"))
        << "one at a time";
    EXPECT_THAT(plan.drains, IsEmpty());
  }
}

TEST(Rebalance, the_hand_over_begins_when_the_replacement_runs) {
  auto world = hinted_world(2);
  record_hints(world);
  world.instance("i-new", State::pending);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.plan().drains, IsEmpty());
  world.observed.instances.at("i-new").state = State::running;
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.drains.size(), 1U);
  EXPECT_EQ(plan.drains.begin()->first, "i-0");
}

TEST(Rebalance, a_node_whose_sessions_left_the_volume_is_asked_to_drain_when_it_is_replaced) {
  auto world = hinted_world(1);
  record_hints(world);
  world.report("i-0", "vol-0", NodeStage::failed);
  world.instance("i-new");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(plan.drains.contains("i-0"));
}

TEST(Rebalance, no_more_nodes_than_may_be_unavailable) {
  auto world = hinted_world(4);
  world.pool().rollout.max_unavailable = 2;
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 2 x g5.xlarge in z-a"));
  record_hints(world);
  world.ledger.departures["i-3"] = {false, kNow - seconds{30}, kNow + seconds{90}, false};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 2 x g5.xlarge in z-a"))
      << "for the one that is interrupted and for one by a hint";
}

TEST(Rebalance, the_earliest_hint_goes_first_and_stays_first) {
  auto world = hinted_world(3);
  record_hints(world);
  world.ledger.departures["i-2"].since -= seconds{100};
  world.instance("i-new");
  ASSERT_EQ(world.plan().drains.size(), 1U);
  EXPECT_EQ(world.plan().drains.begin()->first, "i-2");
}

TEST(Rebalance, an_instance_that_gets_a_hint_at_once_serves_for_a_while_first) {
  auto world = hinted_world(1);
  *world.observed.instances.at("i-0").launch_time += seconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().wake, kNow + seconds{1});
  record_hints(world);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Rebalance, without_the_wish_a_hint_is_nothing) {
  auto world = hinted_world(1);
  world.pool().launch->replace_on_rebalance = false;
  EXPECT_THAT(world.calls(), IsEmpty());
  record_hints(world);
  EXPECT_THAT(world.calls(), IsEmpty()) << "also where the wish was taken back";
  world = hinted_world(1);
  world.observed.reports.clear();
  EXPECT_THAT(world.calls(), IsEmpty()) << "an instance that does not report cannot hand over";
}

}  // namespace
}  // namespace warmroot::core
