// When reads are waited for in long batches: the decision by itself, and in the closed loop of
// depth_loop.hpp.
#include "bootstrap/warm/long_batches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/depth_loop.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

struct Size {
  const char* name;
  LongBatches::Moment moment;
  unsigned reads, beyond;
};

class LongBatch : public testing::TestWithParam<Size> {};

TEST_P(LongBatch, is_what_comes_in_its_time_and_is_in_flight_beyond_the_depth) {
  LongBatches batches;
  const auto batch = batches.next(GetParam().moment);
  EXPECT_EQ(batch.reads, GetParam().reads);
  EXPECT_EQ(batch.beyond, GetParam().beyond);
  EXPECT_EQ(batches.is_on(), GetParam().reads > 0);
}

constexpr LongBatches::Time kNow{7'000'000};

INSTANTIATE_TEST_SUITE_P(
    Moments, LongBatch,
    testing::Values(Size{"B", {kNow, true, true, 600, 27, 53, 0}, 15, 12},
                    Size{"D", {kNow, true, true, 200, 25, 55, 0}, 5, 2},
                    Size{"near_the_ceiling", {kNow, true, true, 600, 75, 5, 0}, 14, 5},
                    Size{"at_the_ceiling", {kNow, true, true, 1600, 80, 0, 0}, 10, 0},
                    Size{"deep_enough", {kNow, true, true, 200, 64, 16, 0}, 5, 0},
                    Size{"too_slow", {kNow, true, true, 40, 8, 72, 0}, 0, 0},
                    Size{"no_room", {kNow, true, true, 600, 8, 0, 0}, 0, 0},
                    Size{"nothing_known", {kNow, true, true, 0, 8, 72, 0}, 0, 0},
                    Size{"somebody_waits", {kNow, false, true, 600, 27, 53, 0}, 0, 0},
                    Size{"measured", {kNow, true, false, 600, 27, 53, 0}, 0, 0}),
    [](const testing::TestParamInfo<Size>& size) { return size.param.name; });

/// Moments every 25 ms, each with so many reads: for how long batches are on.
milliseconds on_for(unsigned came, double per_s) {
  LongBatches batches;
  LongBatches::Moment moment{kNow, true, true, per_s, 27, 53, 0};
  while (batches.next(moment).reads > 0) {
    moment.now += LongBatches::kTime;
    moment.came = came;
    if (moment.now - kNow > 2 * LongBatches::kLongest) break;
  }
  return std::chrono::duration_cast<milliseconds>(moment.now - kNow);
}

TEST(LongBatches, end_for_the_next_look_and_sooner_where_another_rate_comes_back) {
  EXPECT_EQ(on_for(15, 600), LongBatches::kLongest);
  EXPECT_EQ(on_for(12, 600), LongBatches::kLongest);
  EXPECT_EQ(on_for(18, 600), LongBatches::kLongest);
  EXPECT_EQ(on_for(9, 600), milliseconds(1000));
  EXPECT_EQ(on_for(21, 600), milliseconds(1000));
}

TEST(LongBatches, end_at_once_where_somebody_waits_or_the_depth_is_in_doubt) {
  for (const bool waits : {false, true}) {
    LongBatches batches;
    LongBatches::Moment moment{kNow, true, true, 600, 27, 53, 0};
    ASSERT_GT(batches.next(moment).reads, 0U);
    (waits ? moment.quiet : moment.may_rest) = false;
    moment.now += LongBatches::kTime;
    EXPECT_EQ(batches.next(moment).reads, 0U);
    EXPECT_FALSE(batches.is_on());
  }
}

struct Volume {
  const char* name;
  Law law;
  double least_of_bound;
  double most_wakes;  // a read
};

class BatchedLoop : public testing::TestWithParam<Volume> {};

/// With a wake for each read, as it would be without batches, the last column is 1.
TEST_P(BatchedLoop, wakes_seldom_and_leaves_no_pipe_empty_and_the_session_its_tags) {
  const Volume& volume = GetParam();
  const DepthLimits limits = depth_limits(0, std::nullopt);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Loop loop(volume.law, limits, seed);
    loop.run_in_batches_until(3);
    const std::uint64_t before = loop.completed();
    const std::uint64_t wakes = loop.wakes();
    loop.run_in_batches_until(30);
    const auto reads = static_cast<double>(loop.completed() - before);
    const double latency = volume.law.median_ms / 1e3 * std::exp(kSigma * kSigma / 2);
    double bound = (volume.law.slots > 0 ? volume.law.slots : limits.ceiling) / latency;
    if (volume.law.bandwidth_mib_s > 0)
      bound = std::min(bound, volume.law.bandwidth_mib_s / kBlockMib);
    EXPECT_GE(reads / 27, volume.least_of_bound * bound);
    EXPECT_LE(static_cast<double>(loop.wakes() - wakes), volume.most_wakes * reads);
    EXPECT_LE(loop.most_in_flight(), limits.ceiling);
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, BatchedLoop,
                         testing::Values(Volume{"A", {36, 0, false, 0, 0, 64}, 0.93, 0.5},
                                         Volume{"B", {36, 300}, 0.95, 0.5},
                                         Volume{"C", {100, 300}, 0.93, 0.5},
                                         Volume{"D", {100, 100}, 0.93, 0.65}),
                         [](const testing::TestParamInfo<Volume>& v) { return v.param.name; });

/// A short list never fills a wide and slow pipe. What came through meanwhile was taken for all
/// that there is, and rests kept off the look above it: 47 to 57 in flight for a whole fill, of 68.
TEST(DepthControl, a_list_that_left_the_pipe_half_empty_leaves_the_fill_no_emptier) {
  constexpr unsigned kSeeds = 200;
  constexpr double kMountS = 0.21, kProduct = 68.3;
  constexpr std::uint64_t kEarly = 24, kListed = 46;
  unsigned too_few = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    DepthLimits limits = depth_limits(0, std::nullopt);
    limits.start = 32;
    Loop loop({100, 300, false, 1e-3}, limits, seed);
    loop.read_only(kEarly);
    loop.run_until(kMountS);
    loop.read_only(UINT64_MAX);
    limits.start = 24;
    loop.hand_over(limits);
    loop.control().hurry(true);
    const std::uint64_t end = loop.completed() + kListed;
    for (double now = kMountS; loop.completed() < end;) loop.run_until(now += 0.005);
    loop.control().hurry(false);
    loop.run_in_batches_until(5);
    if (loop.control().found() < 0.85 * kProduct) ++too_few;
  }
  if (std::getenv("WARMROOT_SHOW") != nullptr)
    std::printf("too few in flight with %u of %u seeds\n", too_few, kSeeds);
  EXPECT_LE(too_few, kSeeds / 25);
}

TEST(DepthControl, does_not_rest_beside_a_session_or_in_a_hurry_and_measures_after_a_rest) {
  Loop loop({36, 300}, depth_limits(0, std::nullopt), 1);
  double time = 0;
  while (!loop.control().may_rest() && time < 10) loop.run_until(time += 0.02);
  ASSERT_TRUE(loop.control().may_rest()) << "after " << time << " s";
  loop.control().others_in_flight(1);
  EXPECT_FALSE(loop.control().may_rest());
  loop.control().others_in_flight(0);
  EXPECT_TRUE(loop.control().may_rest());
  loop.control().hurry(true);
  EXPECT_FALSE(loop.control().may_rest());
  loop.control().hurry(false);
  loop.control().rested(static_cast<unsigned>(loop.own_in_flight()));
  const std::uint64_t before = loop.completed();
  while (!loop.control().may_rest() && time < 20) loop.run_until(time += 0.01);
  EXPECT_TRUE(loop.control().may_rest());
  EXPECT_GE(loop.completed() - before, 2U * 64U) << "two windows";
}

}  // namespace
}  // namespace warmroot::warm
