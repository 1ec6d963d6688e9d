// Dry runs of launches by the real reconciler on the simulated region: what EC2 would refuse is
// told before anything is made, and the questions stay inside the budget and EC2's bucket.
#include "manager/launch_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ReconcilerLaunch, an_instance_profile_that_iam_has_just_made_is_waited_for) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.desired.pools.front().launch->instance_profile = "warmroot-node";
  sim::Fault unknown{"RunInstances", sim::FaultKind::refused, sim::Fault::kAlways};
  unknown.code = "InvalidParameterValue";
  unknown.message =
      "Value (warmroot-node) for parameter iamInstanceProfile.name is invalid. Invalid IAM "
      "Instance "
      "Profile name";
  unknown.until = fleet.region.now() + seconds{30};  // IAM takes some 10 s
  fleet.front.inject(unknown);
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return fleet.live_instances().size() == 1; }, minutes{2}))
      << fleet.note_text();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_GE(calls_seen(fleet, "RunInstances"), 3) << "a refused dry run, one more, one taken";
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

/// A stable fleet whose next manager is to launch and has one call at first, then one in 50 s.
void want_launches_of_a_small_budget(Fleet& fleet) {
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  fleet.desired.pools.front().running = 4;
  fleet.budget_share = 0.01;
  fleet.front.forget_calls();
}

TEST(ReconcilerLaunch, a_dry_run_is_taken_from_the_budget_of_launches) {
  Fleet fleet(pool_spec("p", 4, 0));
  want_launches_of_a_small_budget(fleet);
  const Instant started = fleet.region.now();
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return calls_seen(fleet, "RunInstances") == 2; }));
  EXPECT_GE(fleet.region.now() - started, seconds{50});
  EXPECT_LE(fleet.region.now() - started, seconds{70});
}

// Seed 35000001558: a dry run that EC2 answers with 503 goes out again, and EC2 counts that too.
TEST(ReconcilerLaunch, repeated_dry_runs_are_taken_from_the_budget_of_launches) {
  Fleet fleet(pool_spec("p", 4, 0));
  want_launches_of_a_small_budget(fleet);
  fleet.front.inject({"RunInstances", sim::FaultKind::unavailable, 2});
  const Instant started = fleet.region.now();
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return calls_seen(fleet, "RunInstances") == 4; }, minutes{5}));
  EXPECT_GE(fleet.region.now() - started, seconds{150}) << "three dry runs";
  EXPECT_LE(fleet.region.now() - started, seconds{170});
}

// Seed 36000054463: EC2 answered 503, and two pools' questions went out six times each at once.
TEST(ReconcilerLaunch, dry_runs_that_ec2_does_not_answer_stay_inside_its_bucket) {
  Fleet fleet(core::Desired{kDeployment, {pool_spec("p", 1, 1), pool_spec("q", 1, 1)}});
  fleet.front.inject({"RunInstances", sim::FaultKind::unavailable, 1000});
  const Instant started = fleet.region.now();
  fleet.start();
  fleet.until([&] { return fleet.region.now() - started >= seconds{4}; });
  EXPECT_GE(calls_seen(fleet, "RunInstances"), 2) << "each pool's question";
  EXPECT_LE(calls_seen(fleet, "RunInstances"), 4 + 4 + 2) << "questions, and launches beside them";
}

TEST(ReconcilerLaunch, an_unknown_key_pair_is_told_before_anything_is_made) {
  auto pool = pool_spec("p", 2, 2);
  pool.launch->key_name = "nobody";
  Fleet fleet(pool);
  fleet.start();
  EXPECT_FALSE(fleet.until_stable(minutes{2}));
  EXPECT_THAT(fleet.note_text(), HasSubstr("EC2 would not launch this"));
  EXPECT_THAT(fleet.note_text(), HasSubstr("nobody"));
  EXPECT_THAT(fleet.pool_volumes(), IsEmpty());
  EXPECT_LE(calls_seen(fleet, "RunInstances"), 6) << "one dry run in 30 s";
  fleet.desired.pools.front().launch->key_name.clear();
  fleet.reconciler->set_desired(fleet.desired);
  EXPECT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch,
     dry_runs_of_many_pools_stay_inside_ec2s_bucket_and_nothing_goes_ahead_of_its_own) {
  core::Desired desired{kDeployment, {}};
  constexpr int kPools = 10;
  for (int i = 0; i < kPools; ++i) {
    desired.pools.push_back(pool_spec("p" + std::to_string(i), 1, 1));
    desired.pools.back().launch->key_name = "nobody";
  }
  Fleet fleet(desired);
  fleet.start();
  std::size_t checked = 0;
  int asked = 0;
  EXPECT_TRUE(fleet.until([&] {
    const int now_asked = calls_seen(fleet, "RunInstances");
    EXPECT_LE(now_asked - asked, static_cast<int>(manager::kAskedAtOnce)) << "in one look";
    asked = now_asked;
    checked = 0;
    for (const auto& [pool, check] : fleet.last.observed.launch_checks)
      checked += check.error.find("nobody") != std::string::npos;
    return checked == kPools;
  })) << fleet.note_text();
  EXPECT_THAT(fleet.pool_volumes(), IsEmpty());
  EXPECT_EQ(asked, kPools) << "nobody was asked twice meanwhile";
}

TEST(ReconcilerLaunch, looks_in_quick_succession_ask_no_more_dry_runs_than_slow_ones) {
  core::Desired desired{kDeployment, {}};
  constexpr int kPools = 40;
  for (int i = 0; i < kPools; ++i) {
    desired.pools.push_back(pool_spec("p" + std::to_string(i), 1, 1));
    desired.pools.back().launch->key_name = "nobody";
  }
  Fleet fleet(desired);
  fleet.start();
  const auto began = fleet.region.now();
  for (int look = 0; look < 200; ++look) {
    fleet.tick();
    const auto took = fleet.region.now() - began;
    ASSERT_LE(calls_seen(fleet, "RunInstances"),
              static_cast<int>(manager::kAskedAtOnce) + took / manager::kOneAskedEvery)
        << took.count() << " ms after the start";
    fleet.region.advance_by(Milliseconds{50});
  }
  EXPECT_GE(calls_seen(fleet, "RunInstances"), 10);
  for (const auto& call : fleet.front.calls()) EXPECT_NE(call.code, "RequestLimitExceeded");
}

TEST(ReconcilerLaunch, somebody_who_looks_once_hears_of_every_pool) {
  core::Desired desired{kDeployment, {}};
  for (int i = 0; i < 7; ++i) desired.pools.push_back(pool_spec("p" + std::to_string(i), 1, 1));
  Fleet fleet(desired);
  fleet.start();
  const auto look = fleet.reconciler->look();
  ASSERT_TRUE(look);
  EXPECT_EQ(look->observed.launch_checks.size(), 7U);
  for (const auto& [pool, check] : look->observed.launch_checks)
    EXPECT_TRUE(check.found.has_value()) << pool << ": " << check.error;
}

TEST(ReconcilerLaunch, somebody_who_looks_once_at_very_many_pools_waits_for_a_hundred_tries_alone) {
  core::Desired desired{kDeployment, {}};
  for (int i = 0; i < 130; ++i) desired.pools.push_back(pool_spec("p" + std::to_string(i), 1, 1));
  Fleet fleet(desired);
  fleet.start();
  const auto look = fleet.reconciler->look();
  ASSERT_TRUE(look);
  EXPECT_EQ(look->untried, 30U);
  EXPECT_EQ(look->observed.launch_checks.size(), 100U);
  EXPECT_EQ(calls_seen(fleet, "RunInstances"), 100);
  EXPECT_EQ(look->plan.nodes.size(), 130U);
  EXPECT_FALSE(look->plan.actions.empty());
  fleet.tick();
  fleet.region.advance_by(Milliseconds{5'000});
  fleet.tick();
  EXPECT_GT(calls_seen(fleet, "RunInstances"), 100) << "whoever goes on tries the others";
}

}  // namespace
}  // namespace warmroot
