// What first touches of one run took, and whether they look like any. Filled by the warmer, asked
// by it and by claim_trial. Pure: the pump measures.
#pragma once

#include <chrono>
#include <cstdint>

#include "bootstrap/warm/latency_histogram.hpp"

namespace warmroot::warm {

class FirstTouches {
 public:
  /// A block that no map vouched for has come in. Of one that was `seen_late`, in a long batch of
  /// the pump's, the latency may be LongBatches::kTime too much: it is recorded where it is at
  /// least kExactFrom, so that no stall is missed, and left out else.
  void record(std::chrono::microseconds latency, bool seen_late);

  /// Forty times kTime: what is seen late is as exact as the histogram's buckets are. Reads of less
  /// are common on slow volumes, and their share would be too large: of the quicker ones most are
  /// left out.
  static constexpr std::chrono::milliseconds kExactFrom{1000};

  /// Nothing that was recorded so far speaks against a volume that is warm already.
  bool may_be_warm() const;

  std::uint64_t count() const { return latencies_.count(); }
  LatencySummary summary() const { return latencies_.summary(); }

 private:
  LatencyHistogram latencies_;
};

}  // namespace warmroot::warm
