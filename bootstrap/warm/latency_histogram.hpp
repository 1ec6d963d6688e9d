// Latencies of one kind of read, in memory that does not grow: log-linear buckets, as
// HdrHistogram's. Filled by the warmer and the pump, summed up in WarmProgress. Pure: the caller
// measures.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace warmroot::warm {

/// What status documents and metrics say of a histogram. All zero when `count` is.
struct LatencySummary {
  /// Edges double from 0.256 ms to 67 s, between which reads lie, and are the same on every node,
  /// so that counts of several can be added. Powers of two in microseconds are edges of the
  /// histogram's own buckets: the counts are exact.
  static constexpr std::size_t kEdges = 19;
  static constexpr std::uint64_t edge_us(std::size_t edge) { return std::uint64_t{256} << edge; }

  std::uint64_t count = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p90_us = 0;
  std::uint64_t p99_us = 0;
  std::uint64_t max_us = 0;  ///< exact, not a bucket's, as is the sum
  std::uint64_t sum_us = 0;
  std::array<std::uint64_t, kEdges> below{};  ///< samples below each edge; grows with it
};

/// Counts microsecond latencies in 32 linear buckets per power of two. Percentiles are bucket
/// middles, so at most kBucketError away from the sample they stand for; below 64 us they are
/// exact.
class LatencyHistogram {
 public:
  /// Half a bucket over its lower edge is at most 1/64; stated with room for rounding.
  static constexpr double kBucketError = 0.03;

  void record(std::chrono::microseconds latency);
  void merge(const LatencyHistogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t max_us() const { return max_us_; }
  /// The smallest recorded value that at least `fraction` (0..1) of the samples do not exceed, to
  /// bucket precision; 0 when empty.
  std::uint64_t percentile_us(double fraction) const;
  LatencySummary summary() const;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr unsigned kSubBuckets = 1U << kSubBits;
  /// Up to 2^36 us (19 h); longer ones fall into the last bucket, max_us stays exact.
  static constexpr unsigned kHighestBit = 36;
  static constexpr unsigned kBuckets = (kHighestBit - kSubBits + 1) * kSubBuckets;

  static unsigned bucket_of(std::uint64_t value_us);
  static std::uint64_t middle_of(unsigned bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_us_ = 0;
  std::uint64_t sum_us_ = 0;
};

}  // namespace warmroot::warm
