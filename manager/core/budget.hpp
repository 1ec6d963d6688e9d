// Client-side token buckets, one for each EC2 call that changes something. The account is shared
// with others, so by default we take half of what EC2 would allow. Pure: time is an argument.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bootstrap/base/units.hpp"

namespace warmroot::core {

class Budget {
 public:
  /// `share` in (0, 1]: the part of EC2's own buckets that we use. Buckets start full.
  explicit Budget(double share = kDefaultShare);

  /// Calls that may go out now, by action name; what is not listed has no bucket of ours.
  std::map<std::string, int, std::less<>> available(Instant now);
  /// Takes one token. May go below zero: a replay must go out.
  void spend(std::string_view action, Instant now);
  /// EC2 said RequestLimitExceeded: whatever we thought was there is not.
  void throttled(std::string_view action, Instant now);
  /// Time until at least one token of `action` is there.
  Milliseconds wait_for(std::string_view action, Instant now);

  static constexpr double kDefaultShare = 0.5;

 private:
  struct Bucket {
    double capacity = 0;
    double refill_per_s = 0;
    double tokens = 0;
    Instant filled{};
  };
  void fill(Bucket& bucket, Instant now) const;

  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace warmroot::core
