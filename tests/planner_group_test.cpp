// Rules about instances that an Auto Scaling group launches: who gets a node, who waits, and that
// the group alone ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using std::chrono::minutes;

World group_world(int nodes) {
  World world(nodes, nodes);
  world.pool().launch.reset();
  world.pool().auto_scaling_group = "workers";
  for (int index = 0; index < nodes; ++index) world.volume("vol-" + std::to_string(index), index);
  return world;
}

aws::Instance& of_group(World& world, const std::string& id, minutes age,
                        State state = State::running, const std::string& zone = "z-a") {
  auto& made = world.instance(id, state, zone);
  world.ledger.instances.erase(id);
  made.launch_time = kNow - age;
  made.tags[kTagGroup] = "workers";
  return made;
}

TEST(Group, the_longest_running_instances_get_the_nodes) {
  auto world = group_world(2);
  of_group(world, "i-a", minutes{2});
  of_group(world, "i-b", minutes{1});
  of_group(world, "i-c", minutes{3});
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-c as /dev/sdf",
                                         "AttachVolume vol-1 to i-a as /dev/sdf"));
}

TEST(Group, the_same_instances_get_the_same_nodes_whatever_their_order_and_without_a_ledger) {
  auto world = group_world(3);
  for (const auto* id : {"i-a", "i-b", "i-c"}) of_group(world, id, minutes{5});
  const auto calls = world.calls();
  EXPECT_THAT(calls, ElementsAre("AttachVolume vol-0 to i-a as /dev/sdf",
                                 "AttachVolume vol-1 to i-b as /dev/sdf",
                                 "AttachVolume vol-2 to i-c as /dev/sdf"));
  world.ledger.volumes.clear();
  world.ledger.instances.clear();
  EXPECT_EQ(world.calls(), calls);
}

TEST(Group, more_instances_than_nodes_wait_in_line_and_are_told_so) {
  auto world = group_world(1);
  of_group(world, "i-a", minutes{1});
  of_group(world, "i-b", minutes{9});
  of_group(world, "i-c", minutes{2});
  world.attach("vol-0", "i-b");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.without_node, UnorderedElementsAre(Pair("i-c", HasSubstr("number 1 in line")),
                                                      Pair("i-a", HasSubstr("number 2 in line"))));
  EXPECT_THAT(world.notes(), HasSubstr("needs i-c, i-a, launched by Auto Scaling group workers"));
  EXPECT_TRUE(plan.stable);
}

TEST(Group, the_first_in_line_takes_the_node_of_an_interrupted_instance) {
  auto world = group_world(1);
  of_group(world, "i-old", minutes{60});
  of_group(world, "i-later", minutes{1});
  of_group(world, "i-first", minutes{20});
  world.attach("vol-0", "i-old");
  world.report("i-old", "vol-0", NodeStage::draining);
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.front().successor_id, "i-first");
  EXPECT_THAT(plan.without_node, ElementsAre(Pair("i-later", HasSubstr("number 1 in line"))));
}

TEST(Group, a_replacement_that_is_still_pending_is_told_nothing) {
  auto world = group_world(1);
  of_group(world, "i-a", minutes{9});
  of_group(world, "i-new", minutes{0}, State::pending);
  world.attach("vol-0", "i-a");
  EXPECT_THAT(world.plan().without_node, IsEmpty());
}

TEST(Group, an_instance_in_a_zone_without_nodes_gets_none) {
  auto world = group_world(1);
  of_group(world, "i-far", minutes{1}, State::running, "z-b");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_THAT(plan.without_node, ElementsAre(Pair("i-far", HasSubstr("in z-b is free"))));
}

TEST(Group, fewer_instances_than_nodes_are_the_group_s_own_wish) {
  auto world = group_world(3);
  of_group(world, "i-a", minutes{9});
  world.attach("vol-0", "i-a");
  const auto plan = world.plan();
  EXPECT_TRUE(plan.stable);
  EXPECT_THAT(world.notes(), HasSubstr("2 nodes of p in z-a have no instance: Auto Scaling group "
                                       "workers runs as many as it is told"));
}

TEST(Group, a_node_whose_volume_is_held_by_a_leaving_instance_is_not_settled) {
  auto world = group_world(1);
  of_group(world, "i-a", minutes{9});
  world.attach("vol-0", "i-a");
  world.report("i-a", "vol-0", NodeStage::draining);
  EXPECT_FALSE(world.plan().stable);
}

TEST(Group, nothing_of_a_group_is_ended_whatever_else_its_tags_and_the_ledger_say) {
  auto world = group_world(1);
  auto& taken_in = of_group(world, "i-a", minutes{9});
  const auto token = client_token({"test", "CreateFleet", "p", "p-0:0 ", 0, "z-a"});
  taken_in.client_token = token;
  taken_in.tags[kTagLaunch] = token;
  taken_in.tags[kTagFleet] = "fleet-1";
  world.ledger.instances["i-a"] = {"p", "z-a", kNow - minutes{9}};
  world.attach("vol-0", "i-a");
  world.pool().running = 0;
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("TerminateInstances"))));
  EXPECT_THAT(world.notes(), HasSubstr("Auto Scaling group workers ends it"));
  EXPECT_THAT(world.notes(), HasSubstr("--instance-id i-a"));
}

TEST(Group, one_that_its_group_ends_is_asked_to_drain_and_the_first_in_line_waits_for_its_volume) {
  auto world = group_world(1);
  of_group(world, "i-old", minutes{60});
  of_group(world, "i-next", minutes{1});
  world.attach("vol-0", "i-old");
  world.report("i-old", "vol-0", NodeStage::ready);
  world.observed.warnings["i-old"] = {WarningKind::interruption, kNow};
  const auto plan = world.plan();
  EXPECT_TRUE(plan.drains.contains("i-old"));
  EXPECT_THAT(plan.drains.at("i-old"), HasSubstr("is ended by its group or EC2"));
  EXPECT_EQ(plan.nodes.front().successor_id, "i-next");
  EXPECT_THAT(World::calls_of(plan), IsEmpty()) << "a warning is no release";
  // The manager dies; the queue does not tell it again.
  world.observed.warnings.clear();
  world.ledger.departures["i-old"] = {false, kNow, kNow + kSpotNotice, false};
  EXPECT_TRUE(world.plan().drains.contains("i-old"));
}

TEST(Group, one_that_gave_its_volume_back_is_named_until_the_group_ends_it) {
  auto world = group_world(1);
  of_group(world, "i-a", minutes{9});
  auto& departure = world.ledger.departures["i-a"];
  departure.released = true;
  departure.since = kNow - minutes{5};
  departure.volume_id = "vol-0";
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("i-a has given its volume back and serves nobody; Auto "
                                       "Scaling group workers ends it"));
}

TEST(Group, a_paused_pool_says_that_it_is) {
  auto world = group_world(1);
  of_group(world, "i-a", minutes{9});
  world.ledger.paused_pools.insert("p");
  EXPECT_THAT(world.plan().without_node, ElementsAre(Pair("i-a", HasSubstr("p is paused"))));
}

TEST(Group, a_pool_that_launches_for_itself_says_why_it_does_not_serve_one) {
  World world(1, 0);
  world.volume("vol-0");
  of_group(world, "i-a", minutes{9}).tags.erase(kTagDeployment);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("1 instance of Auto Scaling group workers is tagged "
                                       "warmroot:pool=p, which launches for itself"));
}

TEST(Group, one_of_a_pool_that_launches_for_itself_is_served_but_never_ended) {
  World world(1, 1);
  world.volume("vol-0");
  of_group(world, "i-a", minutes{9});
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-a as /dev/sdf"));
  world.pool().running = 0;
  EXPECT_THAT(world.calls(), IsEmpty());
}

}  // namespace
}  // namespace warmroot::core
