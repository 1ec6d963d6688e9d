// Asks EC2 by a dry run whether it would launch a pool's instances, before anything is made for
// them: an unknown key pair, security group, instance profile or type is told while nothing costs
// money. Asked once for each content of a spec; the questions of a look go out together.
#pragma once

#include <map>
#include <string>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// What was accepted stays so until the spec changes or the day is over.
inline constexpr Milliseconds kCheckedFor{24 * 3'600'000};
/// What was refused may be corrected in EC2 (an instance profile is known some 10 s after it was
/// made).
inline constexpr Milliseconds kRefusedCheckFor{30'000};
/// Below EC2's bucket of RunInstances requests (5, refilled by 2 a second), which dry runs use too:
/// so many at once, repeated ones too, and then half of the refill, however often somebody looks.
inline constexpr std::size_t kAskedAtOnce = 4;
inline constexpr Milliseconds kOneAskedEvery{1'000};

class LaunchCheck {
 public:
  /// `ec2` has to outlive it.
  explicit LaunchCheck(aws::Ec2& ec2) : ec2_(ec2) {}

  /// Adds the answers that are known, and asks for each pool that lacks volumes or instances and
  /// has no other problem: for as many as the time since the last questions allows, those that were
  /// asked for longest ago; the others have an error that is transient, and wait for a later look.
  /// Nothing known (throttled, no dry runs at this endpoint) is no answer.
  /// Requires: `observed` holds the user-data.
  /// \return How many requests that took, repeated ones too: each took a token of EC2's bucket of
  /// RunInstances.
  int look(const core::Desired& desired, core::Observed& observed, Instant now);
  /// The last look left questions for a later one.
  bool postponed() const { return postponed_; }
  /// The next look asks kAskedAtOnce questions, whenever the last ones were: nobody looks later.
  void hurry() { spent_until_ = {}; }
  /// While true nothing is asked, and what was not is left out, as if it were no question.
  void leave_out(bool rest) { leaves_out_ = rest; }
  /// How many pools the last look left out.
  std::size_t left_out() const { return left_out_; }

 private:
  struct Answer {
    std::string content;
    core::Lookup<std::string> lookup;
    Instant until{};
  };
  struct Question {
    const std::string* pool;
    aws::RunInstances call;
    std::string content;
  };
  core::Lookup<std::string> ask(const aws::Mutation& call, Milliseconds& good_for, int& allowance);
  std::size_t allowed(Instant now) const;

  aws::Ec2& ec2_;
  std::map<std::string, Answer> answers_;  ///< by pool
  bool postponed_ = false;
  bool leaves_out_ = false;
  std::size_t left_out_ = 0;
  Instant spent_until_{};  ///< when every question asked so far has been made up for
};

}  // namespace warmroot::manager
