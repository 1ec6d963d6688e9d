// How often something that has ended may be begun anew at once. Pure: the caller's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warmroot::bootstrap {

/// kMostRestarts times in kRestartWindowMs, so that a container that reboots at each start, an sshd
/// or a daemon that dies of its first look is left alone, and people who end it twice are not.
class RestartLimit {
 public:
  static constexpr std::size_t kMostRestarts = 5;
  static constexpr std::int64_t kRestartWindowMs = 10 * 60 * 1000;

  /// Counts a restart, unless there were too many.
  bool allow(std::int64_t now_ms) {
    std::erase_if(at_ms_, [&](std::int64_t at) { return now_ms - at >= kRestartWindowMs; });
    if (at_ms_.size() >= kMostRestarts) return false;
    at_ms_.push_back(now_ms);
    return true;
  }

 private:
  std::vector<std::int64_t> at_ms_;
};

}  // namespace warmroot::bootstrap
