// Launches that keep failing: how each instance fared, and when a pool launches no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/launch_limits.hpp"
#include "manager/core/offers.hpp"
#include "manager/core/proving.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = aws::InstanceState;
using std::chrono::minutes;
using std::chrono::seconds;

World broken_pool(int failures, Milliseconds ago) {
  auto world = three_waiting();
  world.ledger.streaks["p"] = {failures, kNow - ago, "the bootstrap on i-9 failed: no space"};
  return world;
}

TEST(Breaker, two_failures_in_a_row_stop_nothing) {
  EXPECT_THAT(broken_pool(kBreakerOpensAfter - 1, seconds{1}).calls(),
              ElementsAre("RunInstances 3 x g5.xlarge in z-a"));
}

TEST(Breaker, three_failures_in_a_row_stop_launches_and_say_so) {
  const auto world = broken_pool(kBreakerOpensAfter, seconds{1});
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("3 launches in a row came to nothing, the last: the "
                                       "bootstrap on i-9 failed: no space; none is made before"));
  EXPECT_THAT(world.notes(), HasSubstr("`warmroot pool resume p` tries at once"));
}

TEST(Breaker, the_note_of_an_open_breaker_stays_the_same_from_look_to_look) {
  auto world = broken_pool(kBreakerOpensAfter, seconds{1});
  const auto first = world.notes();
  world.now += seconds{2};
  world.observed.at = world.now;
  EXPECT_EQ(world.notes(), first);
}

TEST(Breaker, the_failure_that_opens_it_is_followed_by_no_launch_in_the_same_plan) {
  auto world = broken_pool(kBreakerOpensAfter - 1, minutes{1});
  EXPECT_THAT(world.calls(), Not(IsEmpty()));
  world.instance("i-bad", State::terminated).state_reason_code = "Server.InternalError";
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("3 launches in a row came to nothing, the last: i-bad"));
}

TEST(Breaker, half_opens_with_one_launch_and_no_second_beside_it) {
  auto world = broken_pool(kBreakerOpensAfter, kBreakerBase);
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
  world.instance("i-probe", State::pending);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Breaker, waits_longer_after_each_failed_probe) {
  auto world = broken_pool(kBreakerOpensAfter + 1, kBreakerBase / 2);
  EXPECT_THAT(world.calls(), IsEmpty());
  const auto later = breaker_probe_at("p", world.ledger.streaks);
  world.ledger.streaks["p"].failures = kBreakerOpensAfter;
  const auto sooner = breaker_probe_at("p", world.ledger.streaks);
  ASSERT_TRUE(later && sooner);
  EXPECT_GT(*later, *sooner);
}

// ---- launches that EC2 accepts and has no machine for ----

const Offer kOffer{"g5.xlarge", "z-a", true};

aws::Instance& instance_of_offer(World& world, State state, const std::string& reason) {
  world.volume("vol-0");
  auto& made = world.instance("i-0", state);
  made.instance_type = kOffer.instance_type;
  made.spot = kOffer.spot;
  made.state_reason_code = reason;
  return made;
}

void expect_refused(const World& world, const std::string& code) {
  const auto fates = records<RecordFate>(world.plan());
  ASSERT_EQ(fates.size(), 1U);
  EXPECT_EQ(fates.front().fate, InstanceFate::failed);
  EXPECT_TRUE(fates.front().unavailable == kOffer);
  EXPECT_EQ(fates.front().code, code);
}

TEST(NoMachine, an_instance_that_ends_at_once_for_want_of_capacity_has_another_type_launched) {
  World world;
  instance_of_offer(world, State::terminated, "Server.InsufficientInstanceCapacity");
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
  expect_refused(world, "InsufficientInstanceCapacity");
}

TEST(NoMachine, an_instance_that_stays_pending_has_another_type_launched) {
  World world;
  instance_of_offer(world, State::pending, "");
  world.ledger.instances["i-0"].recorded = kNow - kPendingPatience;
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
  expect_refused(world, "StayedPending");
  world.observed.instances.at("i-0").state = State::shutting_down;
  world.ledger.refused_offers[kOffer] = {kNow, kNow, 1, "StayedPending", ""};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
}

TEST(NoMachine, what_was_launched_before_the_last_refusal_tells_nothing_new) {
  World world;
  instance_of_offer(world, State::terminated, "Server.InsufficientInstanceCapacity");
  world.ledger.refused_offers[kOffer] = {kNow - seconds{1}, kNow - seconds{1}, 1,
                                         "InsufficientInstanceCapacity", ""};
  expect_refused(world, "");
}

TEST(NoMachine, an_instance_that_stays_pending_while_a_later_one_runs_says_nothing_of_the_offer) {
  World world(2, 2);
  instance_of_offer(world, State::pending, "");
  world.ledger.instances["i-0"].recorded = kNow - kPendingPatience;
  auto& later = world.instance("i-1");
  later.instance_type = kOffer.instance_type;
  later.spot = true;
  world.ledger.instances["i-1"].recorded = kNow - kPendingPatience + seconds{1};
  expect_refused(world, "");
}

TEST(NoMachine, an_instance_that_runs_makes_its_offer_one_that_ec2_has) {
  World world;
  instance_of_offer(world, State::running, "");
  world.ledger.instances["i-0"].recorded = kNow - seconds{9};
  auto& refusal = world.ledger.refused_offers[kOffer];
  refusal = {kNow - seconds{10}, kNow - seconds{10}, 1, "InsufficientInstanceCapacity", ""};
  const auto met = records<RecordOfferMet>(world.plan());
  ASSERT_EQ(met.size(), 1U);
  EXPECT_TRUE(met.front().offer == kOffer);
  refusal.last = kNow - seconds{8};
  EXPECT_THAT(records<RecordOfferMet>(world.plan()), IsEmpty()) << "refused since its launch";
  refusal.last = kNow - seconds{10};
  world.ledger.instances["i-0"].fate = InstanceFate::proved;
  EXPECT_THAT(records<RecordOfferMet>(world.plan()), IsEmpty()) << "launched long ago";
}

TEST(NoMachine, a_type_that_stays_pending_is_left_alone_for_longer_than_it_takes_to_try_others) {
  World world;
  world.volume("vol-0");
  const auto launched = [&](Milliseconds ago) {
    world.ledger.refused_offers[kOffer] = {kNow - ago, kNow - ago, 1, kStayedPending, ""};
    return world.calls();
  };
  EXPECT_THAT(launched(kOfferPendingFor - seconds{1}),
              ElementsAre("RunInstances 1 x g4dn.xlarge in z-a"));
  EXPECT_THAT(launched(kOfferPendingFor), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(NoMachine, an_offer_of_which_a_launch_was_accepted_may_be_bought) {
  World world;
  world.volume("vol-0");
  world.ledger.refused_offers[kOffer] = {kNow, kNow, 3, "", ""};
  EXPECT_THAT(world.calls(), ElementsAre("RunInstances 1 x g5.xlarge in z-a"));
}

TEST(NoMachine, the_same_type_where_there_is_no_other_is_launched_by_a_later_plan) {
  World world;
  world.pool().launch->instance_types = {kOffer.instance_type};
  instance_of_offer(world, State::terminated, "Server.InsufficientInstanceCapacity");
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("g5.xlarge: InsufficientInstanceCapacity"));
}

struct FateCase {
  const char* name;
  State state;
  std::string reason;
  std::optional<NodeStage> stage;
  bool attached;
  Milliseconds attached_for;
  std::optional<InstanceFate> expected;
  std::string reported_reason{};
};

class Fate : public ::testing::TestWithParam<FateCase> {};

TEST_P(Fate, of_a_fresh_instance_is_told_once) {
  const auto& param = GetParam();
  World world;
  world.volume("vol-0");
  world.instance("i-0", param.state).state_reason_code = param.reason;
  if (param.attached) {
    world.attach("vol-0", "i-0");
    world.ledger.leases.back().since = kNow - param.attached_for;
  }
  if (param.attached && !param.stage) world.ledger.leases.back().state = LeaseState::checking;
  if (param.stage) world.report("i-0", "vol-0", *param.stage);
  if (param.stage) world.observed.reports.at("i-0").reason = param.reported_reason;
  const auto fate_in = [](const Plan& plan) -> std::optional<InstanceFate> {
    for (const auto& record : plan.records)
      if (const auto* fate = std::get_if<RecordFate>(&record)) return fate->fate;
    return std::nullopt;
  };
  EXPECT_EQ(fate_in(world.plan()), param.expected);
  world.ledger.instances["i-0"].fate = InstanceFate::failed;
  EXPECT_EQ(fate_in(world.plan()), std::nullopt);
}

using enum InstanceFate;
INSTANTIATE_TEST_SUITE_P(
    Cases, Fate,
    ::testing::Values(
        FateCase{"Pending", State::pending, "", {}, false, {}, {}},
        FateCase{"MountedProves", State::running, "", NodeStage::mounted, true, seconds{1}, proved},
        FateCase{"AFailedBootstrap", State::running, "", NodeStage::failed, true, seconds{1},
                 failed},
        FateCase{"ADiskGoneBeforeItWasMounted", State::running, "", NodeStage::released, true,
                 seconds{1}, failed, "disk-gone"},
        FateCase{"SilentAndYoung", State::running, "", {}, true, minutes{9}, {}},
        FateCase{"SilentAndOldProves", State::running, "", {}, true, minutes{10}, proved},
        FateCase{"EndedByItself",
                 State::terminated,
                 "Client.InstanceInitiatedShutdown",
                 {},
                 false,
                 {},
                 failed},
        FateCase{"AKeyThatMayNotBeUsed",
                 State::terminated,
                 "Client.InternalError",
                 {},
                 false,
                 {},
                 failed},
        FateCase{
            "Reclaimed", State::shutting_down, "Server.SpotInstanceTermination", {}, false, {}, {}},
        FateCase{"EndedByPeople",
                 State::shutting_down,
                 "Client.UserInitiatedShutdown",
                 {},
                 false,
                 {},
                 {}}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace warmroot::core
