// A thread's turn before people's programs, for the rounds in which a release kills them. Used by
// release.
#pragma once

#include <sched.h>

namespace warmroot::bootstrap {

/// While it lives, this thread comes before everything that runs for people: behind thousands of
/// their programs it would wait for its turn for seconds. What it starts does not.
class AheadOfPeople {
 public:
  AheadOfPeople() {
    sched_param first{};
    first.sched_priority = 1;
    done_ = ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first) == 0;
  }
  ~AheadOfPeople() {
    const sched_param usual{};
    if (done_) ::sched_setscheduler(0, SCHED_OTHER, &usual);
  }
  AheadOfPeople(const AheadOfPeople&) = delete;
  AheadOfPeople& operator=(const AheadOfPeople&) = delete;

 private:
  bool done_ = false;
};

}  // namespace warmroot::bootstrap
