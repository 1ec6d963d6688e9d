// Invariant 7: what one manager sends for the first time stays within its share of EC2's buckets. A
// replay must go out: it is bounded by its back-off, and all together by EC2's whole buckets.
#pragma once

#include <map>
#include <string>

#include "bootstrap/base/units.hpp"

namespace warmroot::fleet {

class Spending {
 public:
  /// `share` in (0, 1]: the part of EC2's buckets that each manager is told to take.
  explicit Spending(double share) : share_(share) {}
  /// Notes a call that changes something; what is wrong when it is one too many. `host` tells
  /// managers apart; a restarted one starts with its share full, as it does with EC2 after a pause.
  /// `instances` is what a RunInstances asks for.
  std::string spend(int host, const std::string& action, const std::string& body, int instances,
                    Instant now);
  /// Notes a call that looks; as spend().
  std::string look(int host, const std::string& action, Instant now);
  /// Notes one that only asks whether it may: EC2 counts it with the others of its action.
  std::string ask(int host, const std::string& action, Instant now);
  /// How long a manager waits for its part of the buckets, as they are now, until it may have ended
  /// so many instances, made volumes for them, launched and attached them, with a call for each.
  Milliseconds wait_for(int host, int nodes, Instant now) const;
  /// The same for one more, all buckets empty.
  Milliseconds wait_for_one() const;
  /// The process starts anew.
  void restarted(int host);

 private:
  struct Bucket {
    double tokens = 0;
    Instant filled{};
  };
  /// Takes from a bucket, which is full at first.
  static bool take(Bucket& bucket, double size, double refill_per_s, double count, Instant now);

  std::string first_sent(int host, const std::string& action, int instances, Instant now);

  double share_;
  std::map<int, std::map<std::string, Bucket>> buckets_;
  std::map<int, std::map<std::string, Bucket>> looks_;
  std::map<std::string, Bucket> whole_;
  std::map<int, std::map<std::string, Bucket>> sent_;  ///< by body: what is left for replays
};

}  // namespace warmroot::fleet
