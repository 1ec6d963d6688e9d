// What an answer of EC2 means for the ledger: whether the call is decided, whether its client token
// is used up, whether what it wanted holds already. Pure; the reactions to error codes are the
// table of aws/ec2_codec.
#pragma once

#include <string>

#include "manager/aws/ec2.hpp"
#include "manager/core/model.hpp"

namespace warmroot::manager {

struct Outcome {
  core::IntentState state = core::IntentState::unknown;
  bool burns_token = false;     ///< the next create needs another generation
  bool refuses_device = false;  ///< EC2 does not take this device name on this instance
  bool keeps_lease =
      false;  ///< a refused attach whose volume is attached all the same: the next look tells where
  bool throttled = false;
  bool transient = false;  ///< passes by itself
  std::string code;
  std::string
      sentence;  ///< call, resource, EC2's code, request id and what to do; empty when accepted
};

Outcome judge(const core::Intent& intent, const Result<aws::MutationAnswer>& answer);

}  // namespace warmroot::manager
