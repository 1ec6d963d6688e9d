// Retry arithmetic, token buckets and client tokens: the small pure numbers of the core.
#include "manager/core/backoff.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <set>

#include "manager/core/budget.hpp"
#include "manager/core/token.hpp"

namespace warmroot::core {
namespace {

using std::chrono::seconds;
const Instant kStart{std::chrono::hours{24 * 20'000}};

TEST(Backoff, grows_to_its_cap_and_stays_there) {
  struct Case {
    int failures;
    double jitter;
    long long milliseconds;
  };
  const Case cases[] = {{0, 1, 0},      {-5, 1, 0},       {1, 1, 1000},    {1, 0, 500},
                        {2, 1, 2000},   {5, 0.5, 12'000}, {9, 1, 100'000}, {INT_MAX, 1, 100'000},
                        {3, 7.0, 4000}, {3, -7.0, 2000}};
  for (const auto& each : cases)
    EXPECT_EQ(backoff_delay(each.failures, kBackoffBase, kBackoffCap, each.jitter).count(),
              each.milliseconds)
        << each.failures << " failures, jitter " << each.jitter;
}

TEST(Backoff, spreads_nodes_that_failed_together) {
  std::set<Instant> times;
  for (int i = 0; i < 20; ++i)
    times.insert(retry_at({4, kStart, "X", true, ""}, "RunInstances/p-" + std::to_string(i)));
  EXPECT_GT(times.size(), 15U);
}

TEST(Budget, takes_half_of_ec2s_buckets_and_refills_by_time) {
  Budget budget;
  EXPECT_EQ(budget.available(kStart).at("RunInstances"), 2);
  budget.spend("RunInstances", kStart);
  budget.spend("RunInstances", kStart);
  EXPECT_EQ(budget.available(kStart).at("RunInstances"), 0);
  budget.answered("RunInstances", kStart, kStart);
  budget.answered("RunInstances", kStart, kStart);
  EXPECT_EQ(budget.wait_for("RunInstances", kStart), Milliseconds{500});
  EXPECT_EQ(budget.available(kStart + seconds{1}).at("RunInstances"), 1);
  EXPECT_EQ(budget.available(kStart + seconds{100}).at("RunInstances"), 2);
  EXPECT_EQ(budget.available(kStart).at("RunInstances"), 2) << "a clock that steps back gives none";
}

TEST(Budget, of_instances_is_not_refilled_before_a_launch_has_arrived) {
  Budget budget(1.0);
  budget.spend(kInstancesLaunched, kStart, 1000);
  EXPECT_EQ(budget.available(kStart + seconds{2}).at(std::string(kInstancesLaunched)), 0);
  budget.answered(kInstancesLaunched, kStart, kStart + seconds{2}, 1000);
  EXPECT_EQ(budget.available(kStart + seconds{2}).at(std::string(kInstancesLaunched)), 2);
  EXPECT_EQ(budget.available(kStart + seconds{12}).at(std::string(kInstancesLaunched)), 22);
}

/// Seed 43000051932: half of the way there and back was more than the bucket had missed meanwhile.
TEST(Budget, gets_no_more_back_after_a_slow_call_than_that_kept_from_it) {
  Budget budget(0.02);  // of CreateVolume two, and one in ten seconds
  const auto call = [&](Instant sent, Milliseconds takes) {
    budget.spend("CreateVolume", sent);
    budget.answered("CreateVolume", sent, sent + takes);
  };
  call(kStart, Milliseconds{0});
  call(kStart, Milliseconds{0});
  call(kStart + Milliseconds{17'300}, Milliseconds{4'900});
  call(kStart + Milliseconds{22'300}, Milliseconds{0});
  EXPECT_EQ(budget.available(kStart + Milliseconds{29'800}).at("CreateVolume"), 0);
  EXPECT_EQ(budget.available(kStart + seconds{30}).at("CreateVolume"), 1);
}

TEST(Budget, half_the_instances_of_a_throttled_launch_are_taken_to_be_left) {
  Budget budget(1.0);
  budget.spend(kInstancesLaunched, kStart, 1000);
  budget.answered(kInstancesLaunched, kStart, kStart, 1000);
  budget.may_be_left(kInstancesLaunched, kStart, 25);
  EXPECT_EQ(budget.available(kStart).at(std::string(kInstancesLaunched)), 12);
}

TEST(Budget, is_empty_after_a_throttle) {
  Budget budget(1.0);
  budget.throttled("AttachVolume", kStart, kStart);
  EXPECT_EQ(budget.available(kStart).at("AttachVolume"), 0);
  EXPECT_EQ(budget.available(kStart + seconds{2}).at("AttachVolume"), 10);
}

TEST(Token, is_short_ascii_and_differs_with_every_fact) {
  const TokenFacts base{"d", "CreateVolume", "p", "p-0", 0, "z"};
  std::set<std::string> tokens{client_token(base)};
  auto changed = base;
  changed.generation = 1;
  tokens.insert(client_token(changed));
  changed = base;
  changed.zone = "y";
  tokens.insert(client_token(changed));
  changed = base;
  changed.subject = "p-1";
  tokens.insert(client_token(changed));
  changed = base;
  changed.pool = "pp";
  changed.subject = "-0";  // the same letters, cut elsewhere
  tokens.insert(client_token(changed));
  EXPECT_EQ(tokens.size(), 5U);
  for (const auto& token : tokens) {
    EXPECT_LE(token.size(), 64U);
    EXPECT_TRUE(is_own_token("d", token));
    EXPECT_FALSE(is_own_token("e", token));
  }
  EXPECT_EQ(client_token(base), client_token(base));
}

TEST(Token, hash_never_changes_between_versions) {
  // A manager that lost its ledger must ask with the token that an older build used.
  EXPECT_EQ(hash_text({"a", "bc"}), "401de2bad9480f3844418489ac9acc33");
}

}  // namespace
}  // namespace warmroot::core
