// Codes are matched, never texts: EC2's wording drifts.
#include "manager/outcome.hpp"

#include "manager/aws/ec2_codec.hpp"

namespace warmroot::manager {

namespace {

using aws::Reaction;
using core::IntentState;

/// The call wanted a state that holds already.
bool already_so(const std::string& action, const std::string& code, Reaction reaction) {
  if (action == "DetachVolume" || action == "DeleteVolume")
    return reaction == Reaction::absent || code == "InvalidVolume.NotFound";
  return false;
}

/// A create whose token cannot be used again. Every accepted create uses its token up as well.
bool token_is_burnt(Reaction reaction) {
  return reaction == Reaction::new_token;
}

bool passes_by_itself(const Error& error, Reaction reaction) {
  return error.kind == ErrorKind::retry_later || reaction == Reaction::throttled ||
         reaction == Reaction::wait || reaction == Reaction::change ||
         reaction == Reaction::new_token;
}

}  // namespace

Outcome judge(const core::Intent& intent, const Result<aws::MutationAnswer>& answer) {
  const std::string& action = intent.call.action;
  Outcome outcome;
  if (answer) {
    outcome.state = IntentState::accepted;
    outcome.burns_token = !intent.token.empty();
    return outcome;
  }
  const Error& error = answer.error();
  const std::string code(aws::bare_code(error.code));
  const Reaction reaction = aws::reaction_for(error.code, action);
  outcome.code = code;
  outcome.sentence = error.message();
  if (already_so(action, code, reaction)) {
    outcome.state = IntentState::accepted;
    return outcome;
  }
  if (error.kind == ErrorKind::unknown_outcome || reaction == Reaction::transient) {
    outcome.state = IntentState::unknown;
    return outcome;
  }
  outcome.state = IntentState::refused;
  outcome.burns_token = !intent.token.empty() && token_is_burnt(reaction);
  outcome.throttled = reaction == Reaction::throttled;
  outcome.transient = passes_by_itself(error, reaction);
  if (action == "AttachVolume") {
    outcome.keeps_lease = code == "VolumeInUse";
    outcome.refuses_device = code == "InvalidParameterValue";
  }
  return outcome;
}

}  // namespace warmroot::manager
