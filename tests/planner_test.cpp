// The rules of the planner, one situation a test: what EC2 shows and the ledger remembers on one
// side, the calls and notes on the other. What stops calls is planner_stops_test.cpp's.
#include "manager/core/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/draft.hpp"
#include "manager/core/standing.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using State = aws::InstanceState;

// ---- from nothing to stable ----

TEST(Planner, an_empty_world_creates_one_volume_a_node_and_launches_nothing_yet) {
  World world(2, 2);
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a",
                                         "CreateVolume from snap-ami-volume in z-a"));
  EXPECT_FALSE(world.plan().stable);
}

TEST(Planner, a_created_volume_carries_our_tags_and_the_operators_and_a_token) {
  World world;
  world.pool().volumes.tags = {{"team", "ml"}, {kTagPool, "theirs"}};
  const auto plan = world.plan();
  const auto* call = only<aws::CreateVolume>(plan);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->tags.at("team"), "ml");
  EXPECT_EQ(call->tags.at(kTagPool), "p") << "ours win";
  EXPECT_EQ(call->tags.at(kTagNode), "p-0");
  EXPECT_EQ(call->tags.at(kTagLineage), "snap-ami-volume");
  EXPECT_EQ(call->tags.at(kTagDeployment), "test");
  EXPECT_EQ(call->volume_type, "gp3");
  EXPECT_TRUE(is_own_token("test", call->client_token));
  EXPECT_LE(call->client_token.size(), 64U);
}

TEST(Planner, nodes_without_instances_are_launched_in_one_call_a_zone) {
  World world(4, 4, {"z-a", "z-b"});
  for (int i = 0; i < 4; ++i) world.volume("vol-" + std::to_string(i), i, i % 2 ? "z-b" : "z-a");
  world.pool().launch->subnets = {{"z-b", "subnet-b"}};
  world.observed.subnets["subnet-b"].found = aws::Subnet{"subnet-b", "vpc", "z-b", 10};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 2 x g5.xlarge in z-a",
                                         "RunInstances 2 x g5.xlarge in subnet-b"));
}

TEST(Planner, a_pending_instance_counts_as_coming) {
  World world;
  world.volume("vol-0");
  world.instance("i-0", State::pending);
  world.ledger.instances.at("i-0").recorded = kNow - kPendingPatience + std::chrono::seconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().nodes.front().condition, NodeCondition::launching);
}

TEST(Planner, an_instance_that_stays_pending_is_ended_and_then_another_one_launched) {
  World world;
  world.volume("vol-0");
  world.instance("i-0", State::pending);
  world.ledger.instances.at("i-0").recorded = kNow - kPendingPatience;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("TerminateInstances i-0")));
  world.observed.instances.at("i-0").state = State::shutting_down;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("RunInstances")));
}

TEST(Planner, an_instance_that_one_look_does_not_show_is_not_replaced_yet) {
  World world;
  world.volume("vol-0");
  world.instance("i-0", State::running);
  world.ledger.instances.at("i-0").recorded = kNow - 10 * kGoneAfter;
  world.observed.instances.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, an_instance_with_a_volume_that_no_lease_knows_gets_no_second_one) {
  World world(2, 2);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0", State::running);
  world.attach("vol-1", "i-0");
  world.ledger.leases.clear();
  // Our own attach of it lost against another manager's a moment ago.
  world.lease("vol-1", "i-other", LeaseState::attaching);
  world.ledger.leases.back().since = kNow;
  for (const auto& call : world.calls()) EXPECT_FALSE(call.starts_with("AttachVolume")) << call;
}

TEST(Planner, an_accepted_launch_that_is_not_visible_yet_counts_as_coming) {
  World world;
  world.volume("vol-0");
  world.ledger.instances["i-new"] = {"p", "z-a", kNow - Milliseconds{800}};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Planner, the_attach_goes_out_at_the_first_look_that_says_running) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-0 to i-0 as /dev/sdf"));
}

TEST(Planner, an_attached_pool_is_stable_without_any_report) {
  World world(2, 1);
  world.volume("vol-0");
  world.volume("vol-1", 1);
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  EXPECT_TRUE(plan.stable);
  EXPECT_GE(plan.next_look, kLookWaiting);
}

TEST(Planner, equal_arguments_give_equal_plans) {
  World world(3, 3, {"z-a", "z-b"});
  world.volume("vol-0");
  world.instance("i-0");
  EXPECT_EQ(world.calls(), world.calls());
  const auto first = world.plan();
  const auto second = world.plan();
  ASSERT_EQ(first.actions.size(), second.actions.size());
  const auto* create = std::get_if<aws::CreateVolume>(&first.actions.back().mutation);
  ASSERT_NE(create, nullptr);
  EXPECT_EQ(create->client_token,
            std::get<aws::CreateVolume>(second.actions.back().mutation).client_token);
}

// ---- broken, strange and foreign volumes ----

TEST(Planner, a_node_whose_volumes_all_break_gets_the_next_later_and_later) {
  const auto waits = [](int broken) {
    World world;
    for (int i = 0; i < broken; ++i) {
      auto& volume = world.volume("vol-" + std::to_string(i));
      volume.state = aws::VolumeState::error;
      volume.create_time = kNow + std::chrono::hours{3};  // EC2's clock is not ours
      volume.tags[kTagQuarantined] = "error";
    }
    int seconds = 0;
    const auto makes = [&] {
      const auto plan = world.plan();
      for (const auto& key : plan.watches)
        world.ledger.watches.try_emplace(key, Watch{world.now, 1});
      return only<aws::CreateVolume>(plan) != nullptr;
    };
    for (; !makes() && seconds < 1000; ++seconds) world.now += std::chrono::seconds{1};
    return seconds;
  };
  EXPECT_EQ(waits(1), 0);
  EXPECT_EQ(waits(2), 2);
  EXPECT_EQ(waits(5), 16);
  EXPECT_EQ(waits(9), 60);
  EXPECT_EQ(waits(11), 600);
}

TEST(Planner, a_volume_in_error_is_quarantined_and_replaced) {
  World world(1, 0);
  world.volume("vol-0").state = aws::VolumeState::error;
  EXPECT_THAT(world.calls(),
              UnorderedElementsAre("CreateTags vol-0", "CreateVolume from snap-ami-volume in z-a"));
}

TEST(Planner, a_quarantined_volume_is_left_alone) {
  World world;
  world.volume("vol-0").tags[kTagQuarantined] = "by hand";
  world.instance("i-0");
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
  EXPECT_THAT(world.notes(), HasSubstr("vol-0 is quarantined (by hand)"));
}

TEST(Planner, a_volume_with_true_tags_and_no_record_is_adopted) {
  World world(1, 0);
  world.stranger("vol-0");
  const auto plan = world.plan();
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_EQ(plan.records.size(), 1U);
  const auto& record = std::get<RecordVolume>(plan.records.front());
  EXPECT_EQ(record.volume_id, "vol-0");
  EXPECT_TRUE(record.volume.ever_used) << "nobody knows, so it counts as used";
}

TEST(Planner, a_volume_whose_lineage_tag_lies_is_a_stranger) {
  World world(1, 0);
  world.stranger("vol-0").tags[kTagLineage] = "snap-other";
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
  EXPECT_THAT(world.notes(), HasSubstr("vol-0 carries our deployment's tag"));
}

TEST(Planner, a_second_volume_of_a_node_is_noted_and_the_used_one_serves) {
  World world(1, 0);
  world.stranger("vol-a");
  world.volume("vol-b");
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.front().volume_id, "vol-b");
  EXPECT_THAT(world.notes(), HasSubstr("volume vol-a also says it is p-0's"));
  EXPECT_THAT(plan.actions, IsEmpty());
}

TEST(Planner, a_record_outlives_the_removal_of_tags) {
  World world(1, 0);
  world.volume("vol-0").tags.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-0");
}

// ---- words and cadence ----

TEST(Words, every_condition_has_a_distinct_word_and_a_meaning) {
  std::set<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(kLastNodeCondition); ++i) {
    const auto text = describe(static_cast<NodeCondition>(i));
    EXPECT_TRUE(words.insert(text.word).second) << text.word;
    EXPECT_FALSE(text.meaning.empty());
  }
  words.clear();
  for (int i = 0; i <= static_cast<int>(kLastVolumeCondition); ++i) {
    const auto text = describe(static_cast<VolumeCondition>(i));
    EXPECT_TRUE(words.insert(text.word).second) << text.word;
    EXPECT_FALSE(text.meaning.empty());
  }
}

TEST(Words, every_lease_state_reads_back_as_itself) {
  for (int i = 0; i <= static_cast<int>(LeaseState::ended); ++i) {
    const auto state = static_cast<LeaseState>(i);
    EXPECT_EQ(lease_state_from(to_string(state)), state);
  }
}

TEST(Cadence, is_sub_second_while_something_young_is_awaited_and_grows_to_thirty_seconds_idle) {
  using std::chrono::seconds;
  EXPECT_EQ(look_interval(true, seconds{0}), kLookSoonest);
  EXPECT_EQ(look_interval(true, seconds{60}), kLookWaiting);
  EXPECT_EQ(look_interval(true, seconds{3600}), kLookLongWait);
  EXPECT_EQ(look_interval(false, seconds{0}), kLookWaiting);
  EXPECT_EQ(look_interval(false, seconds{3600}), kLookIdle);
}

}  // namespace
}  // namespace warmroot::core
