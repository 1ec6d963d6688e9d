#include "bootstrap/warm/rate_cap.hpp"

#include <algorithm>

namespace warmroot::warm {
namespace {

/// The pump looks every 20 ms; what it could not start in two looks is gone.
constexpr double kHeldSeconds = 0.04;

}  // namespace

/// May go below zero by one block: a bound below a block's bytes a look would let none through.
bool RateCap::take(Time now, std::uint64_t bytes) {
  if (bytes_per_s_ == 0) return true;
  const auto rate = static_cast<double>(bytes_per_s_);
  if (filled_ >= Time(0)) left_ += rate * std::chrono::duration<double>(now - filled_).count();
  left_ = std::min(left_, rate * kHeldSeconds);
  filled_ = now;
  if (left_ < 0) return false;
  left_ -= static_cast<double>(bytes);
  return true;
}

}  // namespace warmroot::warm
