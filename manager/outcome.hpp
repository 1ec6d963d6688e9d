// What an answer of EC2 means for the ledger: whether the call is decided, whether its client token
// is used up, whether what it wanted holds already. Pure; the reactions to error codes are the
// table of aws/ec2_codec.
#pragma once

#include <string>
#include <vector>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

/// An offer that a launch asked for and EC2 did not have.
struct OfferRefusal {
  core::Offer offer;
  std::string code;
  std::string sentence;
};

struct Outcome {
  core::IntentState state = core::IntentState::unknown;
  bool burns_token = false;     ///< the next create needs another generation
  bool token_was_used = false;  ///< and nothing else was judged: the next one may be tried at once
  bool refuses_device = false;  ///< EC2 does not take this device name on this instance
  bool keeps_lease =
      false;  ///< a refused attach whose volume is attached all the same: the next look tells where
  bool refuses_instance = false;  ///< it takes no further volume, or not yet: another one may
  bool awaits_silent = false;     ///< refused, but an earlier attempt may be carried out yet
  bool forbidden = false;         ///< the account may not use the call at all
  bool throttled = false;
  bool transient = false;                    ///< passes by itself
  std::vector<OfferRefusal> refused_offers;  ///< of a launch, also of an accepted one
  bool only_offers =
      false;  ///< the refusal is about those alone: other offers may be tried at once
  std::string code;
  std::string
      sentence;  ///< call, resource, EC2's code, request id and what to do; empty when accepted
};

/// The offers that an accepted launch got instances of.
std::vector<core::Offer> offers_met(const core::Intent& intent, const aws::MutationAnswer& answer);

/// A fleet that launched nothing is refused, although EC2 answers with HTTP 200: with the code that
/// tells the most (one that somebody has to act on before one that passes), and its token is burnt,
/// because the same token would get the same nothing again.
Outcome judge(const core::Intent& intent, const Result<aws::MutationAnswer>& answer);

/// The same for a call sent again at `now`. A create that EC2 refuses while an earlier attempt of
/// it was without an answer until lately is not decided: that attempt may be carried out after all,
/// and another create planned meanwhile would make a second one of the same. Nor is an attach whose
/// instance was not ready: another volume would be a second one on it. One that somebody else
/// answers for EC2 again and again is refused like a throttled one, and told.
Outcome judge_again(const core::Intent& intent, const Result<aws::MutationAnswer>& answer,
                    Instant now);

/// What one of a fleet's errors means for the override that it names.
Outcome judge(const aws::FleetError& error);

}  // namespace warmroot::manager
