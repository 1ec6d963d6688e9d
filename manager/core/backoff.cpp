// Exponential back-off with jitter that a replay of the same tick repeats.
#include "manager/core/backoff.hpp"

#include <algorithm>
#include <cmath>

#include "manager/core/token.hpp"

namespace warmroot::core {

Milliseconds backoff_delay(int failures, Milliseconds base, Milliseconds cap, double jitter) {
  if (failures <= 0) return Milliseconds{0};
  constexpr int kMostDoublings = 30;  // 2^30 ms is 12 days, beyond any cap
  const double grown =
      static_cast<double>(base.count()) * std::ldexp(1.0, std::min(failures - 1, kMostDoublings));
  const double bounded = std::min(grown, static_cast<double>(cap.count()));
  const double share = 0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0);
  return Milliseconds{static_cast<Milliseconds::rep>(bounded * share)};
}

Instant retry_at(const Failure& failure, const std::string& key) {
  const bool brief = failure.code == kIncorrectState || failure.code == "InvalidParameterValue" ||
                     failure.throttled;
  const bool pending = failure.code == kIncorrectState && key.find("/i-") != std::string::npos;
  const Milliseconds base = pending ? kBackoffPending : brief ? kBackoffBrief : kBackoffBase;
  const double jitter = hash_fraction({key, std::to_string(failure.count)});
  return failure.last + backoff_delay(failure.count, base, kBackoffCap, jitter);
}

std::string time_of_day(Instant at) {
  const std::chrono::hh_mm_ss time(std::chrono::ceil<std::chrono::seconds>(at.time_since_epoch()) %
                                   std::chrono::days{1});
  const auto two_digits = [](auto count) {
    const std::string digits = std::to_string(count);
    return digits.size() < 2 ? "0" + digits : digits;
  };
  return two_digits(time.hours().count()) + ":" + two_digits(time.minutes().count()) + ":" +
         two_digits(time.seconds().count()) + " UTC";
}

}  // namespace warmroot::core
