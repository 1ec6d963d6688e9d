// The rules of the planner about an instance that has given its volume back, or was about to, and
// on which people run `up` again while the volume is still attached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "manager/core/backoff.hpp"
#include "manager/core/departing.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "manager/core/unanswered.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr Milliseconds kMoment{1};
constexpr Milliseconds kReleasedAgo{20'000};

/// It had vol-0, said that it has given it back, and EC2 was not asked for the detach, or said no.
World one_that_gave_back(Milliseconds ago = kReleasedAgo) {
  World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.leases.back().state = LeaseState::leaving;
  world.ledger.departures["i-0"] = {true, kNow - ago, {}, false, "vol-0"};
  return world;
}

/// `up` was run there since.
World one_that_is_up_again(NodeStage stage = NodeStage::hello, Milliseconds ago = kReleasedAgo) {
  World world = one_that_gave_back(ago);
  world.report("i-0", stage == NodeStage::hello ? "" : "vol-0", stage);
  world.observed.reports.at("i-0").up_again = true;
  return world;
}

void let_looks_agree(World& world) {
  world.ledger.watches["up again/i-0"] = {kNow - kVisibilityWindow, 9};
}

/// It was told that it gets none, and ended after two and a half minutes; one that others launched
/// waited until people followed the note.
TEST(PlannerUpAgain, down_and_then_up_before_the_detach_serves_the_volume_again) {
  for (const auto stage : {NodeStage::hello, NodeStage::disk_seen, NodeStage::checked}) {
    for (const bool ours : {true, false}) {
      SCOPED_TRACE(std::string(to_string(stage)) + (ours ? "" : ", launched by others"));
      World world = one_that_is_up_again(stage);
      if (!ours) world.ledger.instances.clear();
      let_looks_agree(world);
      const auto plan = world.plan();
      EXPECT_THAT(records<RecordDepartureOver>(plan), SizeIs(1));
      EXPECT_THAT(world.calls_of(plan), IsEmpty());
      EXPECT_THAT(plan.without_node, IsEmpty());
      EXPECT_EQ(plan.nodes.front().instance_id, "i-0");
      EXPECT_EQ(plan.nodes.front().condition, NodeCondition::checking);
    }
  }
}

TEST(PlannerUpAgain, whoever_is_up_again_waits_until_no_detach_can_be_under_way) {
  World world = one_that_is_up_again();
  for (const Watch& seen : {Watch{kNow - kVisibilityWindow, kLooksUntilGone - 2},
                            Watch{kNow - kVisibilityWindow + kMoment, 9}}) {
    world.ledger.watches["up again/i-0"] = seen;
    const auto plan = world.plan();
    EXPECT_THAT(records<RecordDepartureOver>(plan), IsEmpty());
    EXPECT_THAT(plan.without_node,
                ElementsAre(Pair("i-0", HasSubstr("has given its volume back"))));
    EXPECT_THAT(world.calls_of(plan), Not(Contains("DetachVolume vol-0 from i-0")));
    ASSERT_TRUE(plan.wake);
    EXPECT_LE(*plan.wake, kNow + kVisibilityWindow);
  }
}

TEST(PlannerUpAgain, whoever_is_up_again_is_not_ended_for_a_drain_that_took_long) {
  World world = one_that_is_up_again(NodeStage::disk_seen, kDrainPatience * 2);
  EXPECT_THAT(world.calls(), Not(Contains("TerminateInstances i-0"))) << "at the first look";
  let_looks_agree(world);
  EXPECT_THAT(world.calls(), IsEmpty()) << "at the one that ends its departure";
  world.observed.reports.at("i-0").up_again = false;
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0")) << "a boot behind a release";
}

/// Nobody had answered it for ten seconds, so that it took its volume without a word; it was ended
/// under its sessions once it was heard.
TEST(PlannerUpAgain, a_node_that_serves_again_what_it_gave_back_is_left_to_its_sessions) {
  for (const auto stage : {NodeStage::mounted, NodeStage::ready, NodeStage::warm}) {
    SCOPED_TRACE(to_string(stage));
    World world = one_that_gave_back(kDrainPatience * 2);
    world.report("i-0", "vol-0", stage);
    EXPECT_THAT(world.calls(), Not(Contains("TerminateInstances i-0")));
    let_looks_agree(world);
    const auto plan = world.plan();
    EXPECT_THAT(records<RecordDepartureOver>(plan), SizeIs(1));
    EXPECT_THAT(world.calls_of(plan), IsEmpty());
    EXPECT_EQ(plan.nodes.front().condition, NodeCondition::active);
  }
}

TEST(PlannerUpAgain, the_successor_of_one_that_serves_again_is_ended) {
  World world = one_that_is_up_again();
  world.instance("i-1");
  world.lease("vol-0", "i-1", LeaseState::reserved);
  EXPECT_THAT(world.calls(), IsEmpty());
  let_looks_agree(world);
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-1"));
}

struct Otherwise {
  const char* why;
  std::function<void(World&)> change;
};

TEST(PlannerUpAgain, nobody_comes_back_whom_more_than_its_own_word_has_leaving) {
  const Otherwise cases[] = {
      {"EC2 takes it",
       [](World& world) { world.ledger.departures.at("i-0").reclaim_at = kNow + kSpotNotice; }},
      {"EC2 warns of it",
       [](World& world) {
         world.observed.warnings["i-0"] = {WarningKind::interruption, kNow};
       }},
      {"the operator wants the volume",
       [](World& world) {
         world.ledger.orders.push_back({1, OrderKind::release, "i-0", "", "", kNow});
       }},
      {"it said so before",
       [](World& world) {
         world.observed.reports.at("i-0").received = world.ledger.departures.at("i-0").since;
       }},
      {"a boot is between the two",
       [](World& world) { world.observed.reports.at("i-0").up_again = false; }},
      {"its bootstrap has failed",
       [](World& world) { world.observed.reports.at("i-0").stage = NodeStage::failed; }},
      {"it gave another volume back",
       [](World& world) { world.ledger.departures.at("i-0").volume_id = "vol-before"; }},
      {"it speaks of another volume",
       [](World& world) { world.observed.reports.at("i-0").volume_id = "vol-before"; }},
      {"the detach is under way",
       [](World& world) {
         world.observed.volumes.at("vol-0").attachments.front().state =
             aws::AttachmentState::detaching;
       }},
      {"the detach may be under way",
       [](World& world) {
         Intent intent;
         intent.call.action = "DetachVolume";
         intent.resources = {"vol-0", "i-0"};
         intent.state = IntentState::unknown;
         world.ledger.intents.push_back(intent);
       }},
      {"its end may come late",
       [](World& world) {
         world.ledger.failures[failure_key("TerminateInstances", "i-0")] = {1, kNow, kWithdrawn,
                                                                            true, ""};
       }},
      {"the volume is set aside",
       [](World& world) {
         world.observed.volumes.at("vol-0").tags[kTagQuarantined] = "beyond repair";
       }},
      {"the look is not complete", [](World& world) { world.observed.complete = false; }},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.why);
    World world = one_that_is_up_again();
    let_looks_agree(world);
    each.change(world);
    Draft draft(world.desired, world.observed, world.ledger, world.now, world.limits);
    EXPECT_FALSE(comes_back(draft, "i-0"));
    EXPECT_THAT(records<RecordDepartureOver>(world.plan()), IsEmpty());
  }
}

/// It was told to take the volume after five seconds, and lost it under its sessions when EC2 had
/// carried the detach out.
TEST(PlannerUpAgain, whoever_is_up_again_waits_for_a_detach_without_an_answer_that_may_come_late) {
  World world = one_that_is_up_again();
  let_looks_agree(world);
  Failure& withdrawn = world.ledger.failures[failure_key("DetachVolume", "p-0")];
  withdrawn = {1, kNow - kCarriedOutWithin + kMoment, kWithdrawn, true, ""};
  const auto plan = world.plan();
  EXPECT_THAT(records<RecordDepartureOver>(plan), IsEmpty());
  EXPECT_THAT(plan.without_node, ElementsAre(Pair("i-0", HasSubstr("has given its volume back"))));
  ASSERT_TRUE(plan.wake);
  EXPECT_LE(*plan.wake, kNow + kMoment);
  withdrawn.last = kNow - kCarriedOutWithin;
  EXPECT_THAT(records<RecordDepartureOver>(world.plan()), SizeIs(1));
}

/// Nobody knew whether it comes back, so that it was ended for its drain of before, under its
/// sessions.
TEST(PlannerUpAgain, a_call_without_an_answer_is_no_reason_to_end_who_serves_again) {
  World world = one_that_gave_back(kDrainPatience * 2);
  world.report("i-0", "vol-0", NodeStage::ready);
  Intent attach;
  attach.call.action = "AttachVolume";
  attach.resources = {"vol-0", "i-0"};
  attach.state = IntentState::unknown;
  World undecided = world;
  undecided.ledger.intents.push_back(attach);
  EXPECT_THAT(undecided.calls(), Not(Contains("TerminateInstances i-0")));
  world.ledger.failures[failure_key("DetachVolume", "p-0")] = {1, kNow, kWithdrawn, true, ""};
  EXPECT_THAT(world.calls(), Not(Contains("TerminateInstances i-0")));
  world.observed.reports.clear();
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0")) << "nobody says that it does";
}

/// Of one that an operator released nothing names the volume, and it may not have heard of it.
TEST(PlannerUpAgain, a_node_that_goes_on_after_an_order_is_not_back) {
  World world = one_that_gave_back();
  world.ledger.departures["i-0"] = {false, kNow - kReleasedAgo};
  world.report("i-0", "vol-0", NodeStage::ready);
  let_looks_agree(world);
  EXPECT_THAT(records<RecordDepartureOver>(world.plan()), IsEmpty());
  world.observed.reports.at("i-0").up_again = true;
  EXPECT_THAT(records<RecordDepartureOver>(world.plan()), SizeIs(1));
}

}  // namespace
}  // namespace warmroot::core
