// Log-linear buckets: how far a percentile may be from the sample it stands for.
#include "bootstrap/warm/latency_histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;

TEST(LatencyHistogram, percentiles_are_within_the_stated_error_of_the_sorted_samples) {
  std::mt19937 random(11);
  std::lognormal_distribution<double> latency(std::log(36'000.0), 1.5);
  LatencyHistogram histogram;
  std::vector<std::uint64_t> samples;
  for (int i = 0; i < 20'000; ++i) {
    samples.push_back(static_cast<std::uint64_t>(latency(random)));
    histogram.record(microseconds(samples.back()));
  }
  std::sort(samples.begin(), samples.end());
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * 20'000)) - 1;
    const auto exact = static_cast<double>(samples[rank]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile_us(fraction)), exact,
                exact * LatencyHistogram::kBucketError)
        << fraction;
  }
  EXPECT_EQ(histogram.max_us(), samples.back());
}

TEST(LatencyHistogram, every_single_value_is_within_the_stated_error) {
  for (std::uint64_t value = 0; value < (1ULL << 35); value += 1 + value / 37) {
    LatencyHistogram histogram;
    histogram.record(microseconds(value));
    histogram.record(microseconds(value * 2 + 1));  // so that max_us does not hide the bucket
    const auto p50 = static_cast<double>(histogram.percentile_us(0.5));
    EXPECT_NEAR(p50, static_cast<double>(value), static_cast<double>(value) * 0.03) << value;
    if (value < 64) {
      EXPECT_EQ(histogram.percentile_us(0.5), value);
    }
  }
}

TEST(LatencyHistogram, an_empty_one_says_zero) {
  const LatencySummary summary = LatencyHistogram().summary();
  EXPECT_EQ(summary.count, 0U);
  EXPECT_EQ(summary.p50_us, 0U);
  EXPECT_EQ(summary.p99_us, 0U);
  EXPECT_EQ(summary.max_us, 0U);
  EXPECT_EQ(summary.sum_us, 0U);
}

TEST(LatencyHistogram, merged_ones_say_what_one_over_all_samples_says) {
  LatencyHistogram odd, even, all;
  for (int i = 1; i <= 1000; ++i) {
    (i % 2 == 0 ? even : odd).record(microseconds(i * 100));
    all.record(microseconds(i * 100));
  }
  odd.merge(even);
  EXPECT_EQ(odd.count(), 1000U);
  EXPECT_EQ(odd.max_us(), 100'000U);
  EXPECT_EQ(odd.summary().sum_us, 50'050'000U);
  for (const double fraction : {0.1, 0.5, 0.99})
    EXPECT_EQ(odd.percentile_us(fraction), all.percentile_us(fraction));
}

TEST(LatencyHistogram, counts_below_the_edges_are_exact_and_grow) {
  LatencyHistogram histogram;
  for (std::size_t edge = 0; edge < LatencySummary::kEdges; ++edge) {
    histogram.record(microseconds(LatencySummary::edge_us(edge) - 1));
    histogram.record(microseconds(LatencySummary::edge_us(edge)));
  }
  const LatencySummary summary = histogram.summary();
  for (std::size_t edge = 0; edge < LatencySummary::kEdges; ++edge)
    EXPECT_EQ(summary.below[edge], 2 * edge + 1) << LatencySummary::edge_us(edge);
  EXPECT_EQ(summary.count, 2 * LatencySummary::kEdges);
  EXPECT_EQ(LatencySummary::edge_us(LatencySummary::kEdges - 1), 67'108'864U);
}

TEST(LatencyHistogram, absurd_latencies_do_not_leave_the_buckets) {
  LatencyHistogram histogram;
  histogram.record(microseconds(-5));
  histogram.record(microseconds::max());
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.percentile_us(0.5), 0U);
  EXPECT_EQ(histogram.max_us(), static_cast<std::uint64_t>(microseconds::max().count()));
  EXPECT_GT(histogram.percentile_us(1.0), 1ULL << 35);
}

}  // namespace
}  // namespace warmroot::warm
