// Invariant 7: what one manager sends stays within its share of EC2's buckets. Counts first sends;
// a replay must go out and is bounded by its back-off.
#pragma once

#include <map>
#include <set>
#include <string>

#include "bootstrap/base/units.hpp"

namespace warmroot::fleet {

class Spending {
 public:
  /// Notes a call; false when it is one too many. `process` tells managers apart, and a restarted
  /// one from the one before: it starts with full buckets, as it does with EC2 after a pause.
  bool spend(int host, const std::string& action, const std::string& body, Instant now);
  /// The process starts anew.
  void restarted(int host);

 private:
  struct Bucket {
    double tokens = 0;
    Instant filled{};
  };
  std::map<int, std::map<std::string, Bucket>> buckets_;
  std::map<int, std::set<std::string>> sent_;
};

}  // namespace warmroot::fleet
