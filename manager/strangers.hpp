// Instances that events and hellos name and no look has shown: others launch them, or they are none
// of ours, or nobody's. Decides which of them EC2 is asked about, so that a flood of ids costs one
// call in a while. Pure. Used by the observer.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/base/units.hpp"

namespace warmroot::manager {

/// One request takes 200 values of filters, and one is the key of the tag.
inline constexpr std::size_t kStrangersAtOnce = 199;
/// Between two requests about strangers: a fortieth of what EC2's bucket of describing calls gets
/// in that time.
inline constexpr Milliseconds kStrangersEvery{2'000};
/// More ids than this wait for nobody: whoever is real says hello again, and the sweep shows it.
inline constexpr std::size_t kStrangersWaiting = 1'000;
/// A stranger that was asked about is asked about again when it is named after this time, which
/// doubles each time: the answer may have been older than the instance.
inline constexpr Milliseconds kStrangerAgain{2'000};
inline constexpr Milliseconds kStrangerAgainMost{600'000};
inline constexpr std::size_t kStrangersRemembered = 4'096;

class Strangers {
 public:
  /// Somebody named it. What has not the form of an instance's id is not kept.
  void hear_of(const std::string& id);
  /// Those to ask about in one request now, in the order in which they were heard of.
  std::vector<std::string> to_ask(Instant now);
  /// EC2 has answered about these, and those that are ours were left out.
  void answered(const std::vector<std::string>& ids, Instant now);
  /// EC2 gave no answer: they wait on.
  void put_off(Instant now) { not_before_ = now + kStrangersEvery; }
  /// It is in the view, or asked for by others.
  void forget(const std::string& id);
  /// Everything was listed: whoever was not shown is not there yet.
  void forget_waiting();

 private:
  struct Asked {
    Instant not_before{};
    Milliseconds pause{};
  };

  std::deque<std::string> waiting_;
  std::set<std::string> waits_;  ///< the same
  std::map<std::string, Asked> asked_;
  std::deque<std::string> asked_order_;
  Instant not_before_{};
};

}  // namespace warmroot::manager
