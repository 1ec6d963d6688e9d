// Invariant 7: what one manager sends for the first time stays within its share of EC2's buckets. A
// replay must go out: it is bounded by its back-off, and all together by EC2's whole buckets.
#pragma once

#include <map>
#include <string>

#include "bootstrap/base/units.hpp"

namespace warmroot::fleet {

class Spending {
 public:
  /// Notes a call that changes something; what is wrong when it is one too many. `host` tells
  /// managers apart; a restarted one starts with its share full, as it does with EC2 after a pause.
  /// `instances` is what a RunInstances asks for.
  std::string spend(int host, const std::string& action, const std::string& body, int instances,
                    Instant now);
  /// Notes a call that looks; as spend().
  std::string look(int host, const std::string& action, Instant now);
  /// The process starts anew.
  void restarted(int host);

 private:
  struct Bucket {
    double tokens = 0;
    Instant filled{};
  };
  /// Takes from a bucket, which is full at first.
  static bool take(Bucket& bucket, double size, double refill_per_s, double count, Instant now);

  std::map<int, std::map<std::string, Bucket>> buckets_;
  std::map<int, std::map<std::string, Bucket>> looks_;
  std::map<std::string, Bucket> whole_;
  std::map<int, std::map<std::string, Bucket>> sent_;  ///< by body: what is left for replays
};

}  // namespace warmroot::fleet
