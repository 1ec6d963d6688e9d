// The ledger's promises: what was recorded is there after reopening, what is over leaves the view,
// and the file refuses to serve another world.
#include "manager/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/ec2_codec.hpp"
#include "tests/ledger_fixture.hpp"

namespace warmroot::manager {
namespace {

using core::IntentState;
using core::LeaseState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(LedgerTest, an_intent_survives_a_crash_with_its_exact_bytes) {
  const auto plan = create_plan();
  {
    auto ledger = open();
    record_one(ledger, plan);
  }
  auto ledger = open();
  const auto view = ledger.view();
  ASSERT_TRUE(view.has_value());
  ASSERT_THAT(view->intents, SizeIs(1));
  const auto& intent = view->intents.front();
  EXPECT_EQ(intent.call.body, aws::encode(plan.actions.front().mutation).body);
  EXPECT_EQ(intent.call.action, "CreateVolume");
  EXPECT_EQ(intent.token, "token-1");
  EXPECT_THAT(intent.nodes, ElementsAre("p-0"));
  EXPECT_EQ(intent.state, IntentState::open);
}

TEST_F(LedgerTest, a_lease_that_a_plan_opens_and_ends_is_over) {
  auto ledger = open();
  core::Plan plan;
  for (const auto state : {LeaseState::reserved, LeaseState::ended})
    plan.records.push_back(
        core::RecordLease{{"p", "p-0", "vol-1", "i-1", "", state, kNow}, "test"});
  ASSERT_TRUE(ledger.record(plan, {}, kNow));
  EXPECT_THAT(ledger.view()->leases, IsEmpty());
}

TEST_F(LedgerTest, a_success_clears_the_failures_of_its_kind) {
  auto ledger = open();
  settle(ledger, record_one(ledger, attach_plan()),
         refusal("IncorrectState", ErrorKind::retry_later));
  settle(ledger, record_one(ledger, attach_plan()), aws::MutationAnswer(aws::Attachment{}));
  EXPECT_THAT(ledger.view()->failures, IsEmpty());
}

TEST_F(LedgerTest, a_volume_has_one_lease_beyond_reserved_or_the_plan_is_not_written) {
  auto ledger = open();
  core::Plan plan;
  for (const auto* instance : {"i-1", "i-2"})
    plan.records.push_back(core::RecordLease{
        {"p", "p-0", "vol-1", instance, "/dev/sdf", LeaseState::attaching, kNow}, "test"});
  EXPECT_FALSE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_THAT(ledger.view()->leases, IsEmpty()) << "all of it or nothing";
}

TEST_F(LedgerTest, a_lease_may_pass_from_one_instance_to_the_next_in_one_plan) {
  auto ledger = open();
  ASSERT_TRUE(ledger.record(attach_plan(), encoded(attach_plan()), kNow).has_value());
  core::Plan plan;
  plan.records.push_back(core::RecordLease{
      {"p", "p-0", "vol-1", "i-2", "/dev/sdf", LeaseState::attaching, kNow}, "test"});
  plan.records.push_back(
      core::RecordLease{{"p", "p-0", "vol-1", "i-1", "/dev/sdf", LeaseState::ended, kNow}, "test"});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  ASSERT_THAT(ledger.view()->leases, SizeIs(1));
  EXPECT_EQ(ledger.view()->leases.front().instance_id, "i-2");
}

TEST_F(LedgerTest, a_departure_is_kept_until_the_instance_is_gone_and_a_release_is_not_taken_back) {
  {
    auto ledger = open();
    for (const bool released : {false, true, false}) {
      core::Plan plan;
      plan.records.push_back(core::RecordDeparture{"i-1", {released, kNow}});
      ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
    }
  }
  auto ledger = open();
  ASSERT_TRUE(ledger.view()->departures.contains("i-1"));
  EXPECT_TRUE(ledger.view()->departures.at("i-1").released);
  core::Plan plan;
  plan.records.push_back(core::RecordInstanceGone{"i-1"});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_THAT(ledger.view()->departures, IsEmpty());
}

TEST_F(LedgerTest, a_release_of_another_volume_is_none_of_the_one_that_is_drained_later) {
  auto ledger = open();
  const auto write = [&](const core::Departure& departure) {
    core::Plan plan;
    plan.records.push_back(core::RecordDeparture{"i-1", departure});
    EXPECT_TRUE(ledger.record(plan, {}, kNow).has_value());
    return ledger.view()->departures.at("i-1").released;
  };
  EXPECT_TRUE(write({true, kNow, {}, false, "vol-before"}));
  EXPECT_FALSE(write({false, kNow, {}, false, "vol-now"}));
  EXPECT_TRUE(write({true, kNow, {}, false, "vol-now"}));
  EXPECT_TRUE(write({false, kNow, {}, false, "vol-now"})) << "it is not taken back";
}

TEST_F(LedgerTest, that_a_disk_was_gone_is_kept_with_the_release_of_that_volume) {
  auto ledger = open();
  const auto write = [&](const core::Departure& departure) {
    core::Plan plan;
    plan.records.push_back(core::RecordDeparture{"i-1", departure});
    EXPECT_TRUE(ledger.record(plan, {}, kNow).has_value());
    return ledger.view()->departures.at("i-1").unclean;
  };
  EXPECT_TRUE(write({true, kNow, {}, false, "vol-1", true}));
  EXPECT_TRUE(open().view()->departures.at("i-1").unclean);
  EXPECT_TRUE(write({false, kNow, {}, false, "vol-1"})) << "it is not taken back";
  EXPECT_FALSE(write({false, kNow, {}, false, "vol-2"})) << "another volume";
}

/// The plan was of what was known before, and the volume was named again to the next boot of an
/// instance that had given it back.
TEST_F(LedgerTest, a_warning_that_is_planned_while_a_release_is_written_takes_no_release_back) {
  const Instant reclaim = kNow + std::chrono::seconds{120};
  {
    auto ledger = open();
    for (const auto& departure : {core::Departure{true, kNow, {}, false, "vol-1", true},
                                  core::Departure{false, kNow, reclaim, false}}) {
      core::Plan plan;
      plan.records.push_back(core::RecordDeparture{"i-1", departure});
      ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
    }
  }
  const auto kept = open().view()->departures.at("i-1");
  EXPECT_TRUE(kept.released);
  EXPECT_EQ(kept.volume_id, "vol-1");
  EXPECT_TRUE(kept.unclean);
  EXPECT_EQ(kept.reclaim_at, reclaim);
}

TEST_F(LedgerTest, a_warnings_time_is_kept_and_a_hint_that_became_serious_stays_serious) {
  const Instant reclaim = kNow + std::chrono::seconds{120};
  {
    auto ledger = open();
    for (const auto& departure :
         {core::Departure{false, kNow, {}, true}, core::Departure{false, kNow, reclaim, false},
          core::Departure{false, kNow, {}, false}}) {
      core::Plan plan;
      plan.records.push_back(core::RecordDeparture{"i-1", departure});
      ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
    }
  }
  const auto kept = open().view()->departures.at("i-1");
  EXPECT_EQ(kept.reclaim_at, reclaim);
  EXPECT_FALSE(kept.advised);
  EXPECT_FALSE(kept.released);
}

TEST_F(LedgerTest, what_was_planned_for_an_order_that_is_taken_back_meanwhile_is_not_recorded) {
  auto ledger = open();
  const auto plan_for = [&](const std::string& volume) {
    const auto id =
        ledger.place_order({0, core::OrderKind::delete_volume, volume, "", "yes", kNow});
    EXPECT_TRUE(id.has_value());
    core::Plan plan;
    plan.orders = {*id};
    plan.actions.push_back({aws::DeleteVolume{volume}, "p", {}, "ordered", ""});
    return plan;
  };
  const auto record = [&](const core::Plan& plan) {
    const aws::EncodedCall call = aws::encode(plan.actions.front().mutation);
    return ledger.record(plan, {call}, kNow);
  };
  const auto in_time = plan_for("vol-8");
  EXPECT_FALSE(*ledger.withdraw_order(in_time.orders.front(), kNow));
  const auto refused = record(in_time);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, kOrderTakenBack);
  EXPECT_THAT(ledger.view()->intents, IsEmpty());

  const auto too_late = plan_for("vol-9");
  ASSERT_TRUE(record(too_late).has_value());
  EXPECT_TRUE(*ledger.withdraw_order(too_late.orders.front(), kNow)) << "EC2 is asked already";
}

TEST_F(LedgerTest, a_release_that_is_taken_back_leaves_nobody_who_is_about_to_go) {
  auto ledger = open();
  const auto id = ledger.place_order({0, core::OrderKind::release, "i-1", "", "", kNow});
  ASSERT_TRUE(id.has_value());
  core::Plan plan;
  plan.orders = {*id};
  plan.records.push_back(core::RecordDeparture{"i-1", {false, kNow, {}, false}});
  plan.records.push_back(core::RecordDeparture{"i-2", {false, kNow, {}, false}});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_TRUE(*ledger.withdraw_order(*id, kNow)) << "the node may have heard it";
  const auto view = *ledger.view();
  EXPECT_FALSE(view.departures.contains("i-1"));
  EXPECT_TRUE(view.departures.contains("i-2")) << "somebody else's";
}

TEST_F(LedgerTest, a_launch_without_capacity_is_remembered_of_the_offer_and_not_of_the_node) {
  auto ledger = open();
  core::Plan plan;
  aws::RunInstances call;
  call.instance_type = "g5.xlarge";
  call.client_token = "token-1";
  plan.actions.push_back({call, "p", {"p-0"}, "test", "z-a"});
  const auto full = refusal("InsufficientInstanceCapacity", ErrorKind::retry_later);
  settle(ledger, record_one(ledger, plan), full);
  settle(ledger, record_one(ledger, plan), full);
  auto view = *ledger.view();
  EXPECT_THAT(view.failures, IsEmpty());
  const core::Offer offer{"g5.xlarge", "z-a", true};
  ASSERT_TRUE(view.refused_offers.contains(offer));
  EXPECT_EQ(view.refused_offers[offer].count, 2);
  EXPECT_EQ(view.refused_offers[offer].code, "InsufficientInstanceCapacity");
  std::get<aws::RunInstances>(plan.actions.front().mutation).spot = false;
  settle(ledger, record_one(ledger, plan), full);
  view = *ledger.view();
  EXPECT_TRUE(view.refused_offers.contains({"g5.xlarge", "z-a", false}));
  aws::Instance made;
  made.instance_id = "i-1";
  settle(ledger, record_one(ledger, plan), aws::MutationAnswer{std::vector{made}});
  view = *ledger.view();
  EXPECT_EQ(view.refused_offers.at({"g5.xlarge", "z-a", false}).code, "") << "until it runs";
  EXPECT_EQ(view.refused_offers.at(offer).code, "InsufficientInstanceCapacity");
}

TEST_F(LedgerTest, an_offer_whose_instances_come_to_nothing_counts_on_over_accepted_launches) {
  auto ledger = open();
  const core::Offer offer{"g5.xlarge", "z-a", true};
  aws::RunInstances call;
  call.instance_type = offer.instance_type;
  call.client_token = "t";
  core::Plan launch;
  launch.actions.push_back({call, "p", {"p-0"}, "test", "z-a"});
  Instant now = kNow;
  const auto comes_to_nothing = [&](const std::string& id) {
    aws::Instance made;
    made.instance_id = id;
    settle(ledger, record_one(ledger, launch), aws::MutationAnswer{std::vector{made}});
    if (const auto known = ledger.view()->refused_offers; known.contains(offer))
      EXPECT_EQ(known.at(offer).code, "") << "EC2 accepted it";
    core::Plan plan;
    plan.records.push_back(core::RecordFate{id, "p", core::InstanceFate::failed, id + " ended",
                                            offer, "InsufficientInstanceCapacity"});
    now += Milliseconds{1'000};
    ASSERT_TRUE(ledger.record(plan, {}, now).has_value());
  };
  for (const auto* id : {"i-1", "i-2", "i-3"}) comes_to_nothing(id);
  const auto known = ledger.view()->refused_offers.at(offer);
  EXPECT_EQ(known.count, 3);
  EXPECT_EQ(known.since, kNow + Milliseconds{1'000});
  EXPECT_EQ(known.code, "InsufficientInstanceCapacity");
  EXPECT_THAT(ledger.view()->streaks, IsEmpty()) << "the pool's breaker has no part in it";

  // Of several nodes one may be accepted, and the next refused at once.
  const auto full = refusal("InsufficientInstanceCapacity", ErrorKind::retry_later);
  settle(ledger, record_one(ledger, launch), full);
  EXPECT_EQ(ledger.view()->refused_offers.at(offer).count, 4);

  core::Plan runs;
  runs.records.push_back(core::RecordOfferMet{offer});
  ASSERT_TRUE(ledger.record(runs, {}, now).has_value());
  EXPECT_THAT(ledger.view()->refused_offers, IsEmpty());
  settle(ledger, record_one(ledger, launch), full);
  EXPECT_EQ(ledger.view()->refused_offers.at(offer).count, 1) << "it begins anew";
}

TEST_F(LedgerTest, failed_launches_are_counted_once_each_until_one_proves_itself_or_the_operator) {
  auto ledger = open();
  const auto tell = [&](const std::string& id, core::InstanceFate fate) {
    core::Plan plan;
    plan.records.push_back(core::RecordInstance{id, {"p", "z-a", kNow}});
    plan.records.push_back(core::RecordFate{id, "p", fate, id + " ended"});
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  };
  using enum core::InstanceFate;
  for (const auto* id : {"i-1", "i-2", "i-2"}) tell(id, failed);
  EXPECT_EQ(ledger.view()->streaks.at("p").failures, 2);
  EXPECT_EQ(ledger.view()->streaks.at("p").reason, "i-2 ended");
  tell("i-2", proved);
  EXPECT_EQ(ledger.view()->streaks.at("p").failures, 2) << "it was judged already";
  tell("i-3", proved);
  EXPECT_THAT(ledger.view()->streaks, IsEmpty());
  tell("i-4", failed);
  EXPECT_TRUE(*ledger.resume("p", kNow)) << "there was something to resume";
  EXPECT_THAT(ledger.view()->streaks, IsEmpty());
  EXPECT_FALSE(*ledger.resume("p", kNow));
}

TEST_F(LedgerTest, watches_count_looks_and_forget_what_does_not_hold_any_more) {
  auto ledger = open();
  core::Plan plan;
  plan.watches = {"gone/vol-1", "gone/vol-2"};
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  plan.watches = {"gone/vol-1"};
  ASSERT_TRUE(ledger.record(plan, {}, kNow + Milliseconds{500}).has_value());
  const auto view = *ledger.view();
  ASSERT_THAT(view.watches, SizeIs(1));
  EXPECT_EQ(view.watches.at("gone/vol-1").looks, 2);
  EXPECT_EQ(view.watches.at("gone/vol-1").since, kNow);
}

TEST_F(LedgerTest, a_vanished_volume_without_a_session_counts_against_the_node) {
  auto ledger = open();
  aws::Volume volume;
  volume.volume_id = "vol-9";
  settle(ledger, record_one(ledger, create_plan()), aws::MutationAnswer(volume));
  core::Plan plan;
  plan.records.push_back(core::RecordVolumeGone{"vol-9", "test"});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_THAT(ledger.view()->volumes, IsEmpty());
  EXPECT_TRUE(ledger.view()->failures.contains(core::failure_key("CreateVolume", "p-0")));
}

TEST_F(LedgerTest, pausing_is_remembered_and_told) {
  {
    auto ledger = open();
    EXPECT_EQ(*ledger.pause("p", kNow), true);
    EXPECT_EQ(*ledger.pause("p", kNow), false);
  }
  auto ledger = open();
  EXPECT_THAT(ledger.view()->paused_pools, ElementsAre("p"));
  EXPECT_EQ(*ledger.resume("p", kNow), true);
  EXPECT_THAT(ledger.view()->paused_pools, IsEmpty());
  const auto history = *ledger.history(10);
  ASSERT_THAT(history, SizeIs(2));
  EXPECT_EQ(history.front().event, "resumed by the operator") << "newest first";
}

}  // namespace
}  // namespace warmroot::manager
