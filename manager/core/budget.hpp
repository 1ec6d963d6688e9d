// Client-side token buckets, one for each EC2 call that changes something. The account is shared
// with others, so by default we take half of what EC2 would allow. Pure: time is an argument.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bootstrap/base/units.hpp"

namespace warmroot::core {

/// EC2's second bucket of RunInstances, whose tokens are instances.
inline constexpr std::string_view kInstancesLaunched = "RunInstances instances";

class Budget {
 public:
  /// `share` in (0, 1]: the part of EC2's own buckets that we use. Buckets start full.
  explicit Budget(double share = kDefaultShare);

  /// Calls that may go out now, by action name; what is not listed has no bucket of ours.
  std::map<std::string, int, std::less<>> available(Instant now);
  /// Takes a token, or `count` of a bucket whose tokens are things. May go below zero: a replay
  /// must go out.
  void spend(std::string_view action, Instant now, int count = 1);
  /// The answer came. Until then EC2 may not have taken the token, and its bucket, if it was full,
  /// not have begun to refill; half of the way there and back is taken for the way there.
  void answered(std::string_view action, Instant sent, Instant now, int count = 1);
  /// EC2 said RequestLimitExceeded: whatever we thought was there was not, when the call that was
  /// `sent` arrived; it has been refilled since. The call itself took no token.
  void throttled(std::string_view action, Instant sent, Instant now);
  /// EC2 throttled a call that takes `count` of these and tokens of another bucket. It does not say
  /// which of them was empty: half are taken to be there still.
  void may_be_left(std::string_view things, Instant now, int count);
  /// EC2 throttled the call and took many that were sent with it, so that its bucket is not empty:
  /// somebody else was in the way for a moment. The call took no token.
  void passed_over(std::string_view action, Instant now);
  /// Time until `tokens` of `action` are there, or its bucket is nearly full.
  Milliseconds wait_for(std::string_view action, Instant now, int tokens = 1);

  static constexpr double kDefaultShare = 0.5;

 private:
  struct Bucket {
    double capacity = 0;
    double refill_per_s = 0;
    double tokens = 0;
    Instant filled{};
    int in_flight = 0;  ///< tokens of calls sent and not answered
    double held = 0;    ///< what they kept from being refilled
  };
  void fill(Bucket& bucket, Instant now) const;

  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace warmroot::core
