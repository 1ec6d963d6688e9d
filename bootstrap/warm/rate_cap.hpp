// The operator's bound on what the warmer brings in: so many bytes of the volume a second, whatever
// is read of each block. A bucket that fills with time and holds little, so that a pause is not
// made up for. Called by the pump before each block. Pure: time is an argument.
#pragma once

#include <chrono>
#include <cstdint>

namespace warmroot::warm {

class RateCap {
 public:
  using Time = std::chrono::microseconds;  ///< since any fixed instant

  /// 0: no bound.
  explicit RateCap(std::uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  /// Whether `bytes` may be brought in now; if so they are taken. `now` never goes back.
  bool take(Time now, std::uint64_t bytes);

 private:
  std::uint64_t bytes_per_s_;
  double left_ = 0;  ///< bytes; below zero what has to be waited for
  Time filled_{-1};
};

}  // namespace warmroot::warm
