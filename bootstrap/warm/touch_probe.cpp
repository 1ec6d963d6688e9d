#include "bootstrap/warm/touch_probe.hpp"

#include <bit>

namespace warmroot::warm {
namespace {

constexpr auto kColdFrom =
    std::chrono::milliseconds(5);  // warm EBS reads take single-digit ms at worst
constexpr unsigned kDenseTries = 4;
constexpr unsigned kFrequentTries = 24;
constexpr unsigned kFrequentGap = 4;
constexpr unsigned kLaterGap = 64;

}  // namespace

bool TouchProbe::wants(Latency first) {
  if (read_whole_ || first < kColdFrom) return false;
  unsigned gap = kLaterGap;
  if (tries_ < kDenseTries)
    gap = 1;
  else if (tries_ < kFrequentTries)
    gap = kFrequentGap;
  if (++since_try_ < gap) return false;
  since_try_ = 0;
  ++tries_;
  return true;
}

void TouchProbe::tried(Latency first, Latency second, std::optional<Latency> control) {
  const bool slow = is_slow(first, second);
  // Where the certainly present page is as slow, reads wait for something else than their block. It
  // has to be read in the same moment: after a slow read the queue that it waited in is empty.
  if (slow && (!control || is_slow(second, *control))) return;
  last_tries_ = static_cast<std::uint16_t>(last_tries_ << 1 | (slow ? 1 : 0));
  if (static_cast<unsigned>(std::popcount(last_tries_)) >= kSlowTries) read_whole_ = true;
}

}  // namespace warmroot::warm
