#include "bootstrap/warm/touch_probe.hpp"

namespace warmroot::warm {
namespace {

constexpr unsigned kMajority =
    3;  // of five: one stalled second read must not cost 128 times the bytes
constexpr int kFastFraction = 4;  // "fast" is under a quarter of the first read
constexpr auto kColdFrom =
    std::chrono::milliseconds(5);  // warm EBS reads take single-digit ms at worst

}  // namespace

bool TouchProbe::is_telling(std::chrono::microseconds first) {
  return first >= kColdFrom;
}

void TouchProbe::second_read(std::chrono::microseconds first, std::chrono::microseconds second) {
  if (verdict_ != TouchVerdict::unknown || !is_telling(first)) return;
  ++(second * kFastFraction < first ? fast_ : slow_);
  if (fast_ >= kMajority) verdict_ = TouchVerdict::suffices;
  if (slow_ >= kMajority) verdict_ = TouchVerdict::read_whole;
}

}  // namespace warmroot::warm
