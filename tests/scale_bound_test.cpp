// The bound that scale_bench measures against: small cases that can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/scale_bound.hpp"

namespace warmroot::bench {
namespace {

std::vector<NodeWaits> nodes(std::size_t count, NodeWaits waits) {
  return std::vector<NodeWaits>(count, waits);
}

struct TokenRow {
  int k;
  double first_s;
  double at_s;
};

class ScaleBoundTokens : public ::testing::TestWithParam<TokenRow> {};

TEST_P(ScaleBoundTokens, come_from_the_full_bucket_and_then_at_its_rate) {
  EXPECT_DOUBLE_EQ(token_at({50, 5}, GetParam().k, GetParam().first_s), GetParam().at_s);
}

INSTANTIATE_TEST_SUITE_P(Table, ScaleBoundTokens,
                         ::testing::Values(TokenRow{1, 0, 0}, TokenRow{50, 0, 0},
                                           TokenRow{51, 0, 0.2}, TokenRow{100, 0, 10},
                                           TokenRow{100, 3, 13}, TokenRow{10'000, 0, 1990}));

TEST(ScaleBound, is_the_best_order_of_all) {
  // Two tokens at once, then one a second; every order of five tails tried.
  const Bucket bucket{2, 1};
  std::vector<double> tails = {0.5, 1, 2, 2.5, 4};
  double best = 1e9;
  std::sort(tails.begin(), tails.end());
  do {
    double done = 0;
    for (std::size_t i = 0; i < tails.size(); ++i)
      done = std::max(done, token_at(bucket, static_cast<int>(i) + 1) + tails[i]);
    best = std::min(best, done);
  } while (std::next_permutation(tails.begin(), tails.end()));
  EXPECT_DOUBLE_EQ(bucket_bound(bucket, tails), best);
  EXPECT_DOUBLE_EQ(best, 4);
}

TEST(ScaleBound, the_blind_one_takes_the_waits_in_the_order_that_was_taken) {
  auto waits = nodes(52, {.attach_call_s = 0, .attaching_s = 1});
  for (std::size_t i = 0; i < waits.size(); ++i) waits[i].attached_as = static_cast<int>(i);
  waits.back().attaching_s = 4;  // taken last, with the token of 0.4 s
  EXPECT_DOUBLE_EQ(bound_running(waits), 4);
  EXPECT_DOUBLE_EQ(bound_blind(waits), 4.4);
}

struct BoundRow {
  const char* name;
  std::size_t count;
  NodeWaits waits;
  double running_s;
  double created_s;
  double launched_s;
};

class ScaleBoundCases : public ::testing::TestWithParam<BoundRow> {};

TEST_P(ScaleBoundCases, are_worked_out_by_hand) {
  const auto& row = GetParam();
  const auto fleet = nodes(row.count, row.waits);
  EXPECT_DOUBLE_EQ(bound_running(fleet), row.running_s);
  EXPECT_DOUBLE_EQ(bound_created(fleet), row.created_s);
  EXPECT_DOUBLE_EQ(bound_launched(fleet), row.launched_s);
  EXPECT_DOUBLE_EQ(bound_launch(fleet), std::min(row.created_s, row.launched_s));
}

// create call and wait, run call and wait, attach call and wait
constexpr NodeWaits kUsual{0.25, 1.5, 0.5, 5, 0.25, 2};

INSTANTIATE_TEST_SUITE_P(
    Table, ScaleBoundCases,
    ::testing::Values(
        BoundRow{"nobody", 0, kUsual, 0, 0, 0},
        // One after the other: attach 2.25; launch 5.5, then attach; launch alone.
        BoundRow{"one", 1, kUsual, 2.25, 7.75, 5.5},
        // 50 attaches at once, 50 more in 10 s; created: the same after 5.5 s of launching.
        BoundRow{"a_hundred", 100, kUsual, 0.25 + 10 + 2, 5.5 + 0.25 + 10 + 2, 5.5},
        BoundRow{"a_thousand", 1000, kUsual, 0.25 + 190 + 2, 5.5 + 0.25 + 190 + 2, 5.5},
        // Beyond 1,000 instances EC2 gives two a second, which is less than five attaches.
        BoundRow{"ten_thousand", 10'000, kUsual, 0.25 + 1990 + 2, 0.5 + 4500 + 5 + 2.25,
                 0.5 + 4500 + 5}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ScaleBound, a_single_long_tail_hides_behind_the_others_tokens) {
  auto fleet = nodes(100, kUsual);
  fleet.back().attaching_s = 9;
  EXPECT_DOUBLE_EQ(bound_running(fleet), 0.25 + 10 + 2) << "it goes first, with the full bucket";
  fleet.back().attaching_s = 30;
  EXPECT_DOUBLE_EQ(bound_running(fleet), 30.25) << "and bounds the run alone when it is longer";
}

}  // namespace
}  // namespace warmroot::bench
