#include "bootstrap/warm/first_touches.hpp"

#include "bootstrap/warm/long_batches.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Three of four reads of a volume that may be warm are quicker. 64 at once take 22 ms at gp3's
/// 3,000 a second; of first touches one in four is as quick.
constexpr auto kMayBeWarmBelow = milliseconds(25);
constexpr double kMayBeWarmShare = 0.75;

static_assert(FirstTouches::kExactFrom >= 40 * LongBatches::kTime);

}  // namespace

void FirstTouches::record(microseconds latency, bool seen_late) {
  if (!seen_late || latency >= kExactFrom) latencies_.record(latency);
}

bool FirstTouches::may_be_warm() const {
  const auto limit = static_cast<std::uint64_t>(microseconds(kMayBeWarmBelow).count());
  return latencies_.percentile_us(kMayBeWarmShare) < limit;
}

}  // namespace warmroot::warm
