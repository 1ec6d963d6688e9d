#include "bootstrap/warm/eta_estimate.hpp"

namespace warmroot::warm {

void EtaEstimate::update(std::uint64_t present, std::uint64_t interval_ms) {
  if (interval_ms > 0 && present >= present_) {
    const double rate = static_cast<double>(present - present_) / static_cast<double>(interval_ms);
    constexpr double kNewest = 0.3;
    blocks_per_ms_ = blocks_per_ms_ == 0 ? rate : (1 - kNewest) * blocks_per_ms_ + kNewest * rate;
  }
  present_ = present;
}

std::optional<std::uint64_t> EtaEstimate::ms_for(std::uint64_t blocks) const {
  if (blocks_per_ms_ <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(blocks) / blocks_per_ms_);
}

}  // namespace warmroot::warm
