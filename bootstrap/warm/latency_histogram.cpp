#include "bootstrap/warm/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace warmroot::warm {

unsigned LatencyHistogram::bucket_of(std::uint64_t value_us) {
  if (value_us < kSubBuckets) return static_cast<unsigned>(value_us);
  const unsigned exponent = static_cast<unsigned>(std::bit_width(value_us)) - 1;
  if (exponent >= kHighestBit) return kBuckets - 1;
  const unsigned shift = exponent - kSubBits;
  const auto sub = static_cast<unsigned>(value_us >> shift) - kSubBuckets;
  return (shift + 1) * kSubBuckets + sub;
}

std::uint64_t LatencyHistogram::middle_of(unsigned bucket) {
  if (bucket < kSubBuckets) return bucket;
  const unsigned shift = bucket / kSubBuckets - 1;
  const std::uint64_t low = static_cast<std::uint64_t>(kSubBuckets + bucket % kSubBuckets) << shift;
  return low + ((std::uint64_t{1} << shift) - 1) / 2;
}

void LatencyHistogram::record(std::chrono::microseconds latency) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0));
  ++buckets_[bucket_of(value)];
  ++count_;
  sum_us_ += value;
  max_us_ = std::max(max_us_, value);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (unsigned i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_us_ += other.sum_us_;
  max_us_ = std::max(max_us_, other.max_us_);
}

std::uint64_t LatencyHistogram::percentile_us(double fraction) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count_);
  std::uint64_t seen = 0;
  for (unsigned i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(middle_of(i), max_us_);
  }
  return max_us_;
}

LatencySummary LatencyHistogram::summary() const {
  LatencySummary summary{.count = count_,
                         .p50_us = percentile_us(0.50),
                         .p90_us = percentile_us(0.90),
                         .p99_us = percentile_us(0.99),
                         .max_us = max_us_,
                         .sum_us = sum_us_};
  std::uint64_t seen = 0;
  unsigned bucket = 0;
  for (std::size_t edge = 0; edge < LatencySummary::kEdges; ++edge) {
    const unsigned end = bucket_of(LatencySummary::edge_us(edge));
    for (; bucket < end; ++bucket) seen += buckets_[bucket];
    summary.below[edge] = seen;
  }
  return summary;
}

}  // namespace warmroot::warm
