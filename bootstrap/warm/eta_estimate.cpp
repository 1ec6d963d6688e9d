#include "bootstrap/warm/eta_estimate.hpp"

namespace warmroot::warm {

void EtaEstimate::update(std::optional<std::uint64_t> present, std::uint64_t interval_ms) {
  if (present && present_ && interval_ms > 0 && *present >= *present_) {
    const double rate =
        static_cast<double>(*present - *present_) / static_cast<double>(interval_ms);
    constexpr double kNewest = 0.3;
    blocks_per_ms_ = blocks_per_ms_ == 0 ? rate : (1 - kNewest) * blocks_per_ms_ + kNewest * rate;
  }
  present_ = present;
}

std::optional<std::uint64_t> EtaEstimate::ms_for(std::uint64_t blocks) const {
  if (blocks_per_ms_ <= 0) return std::nullopt;
  const double ms = static_cast<double>(blocks) / blocks_per_ms_;
  constexpr double kLongestMs = 30.0 * 24 * 3600 * 1000;
  if (ms > kLongestMs) return std::nullopt;
  return static_cast<std::uint64_t>(ms);
}

}  // namespace warmroot::warm
