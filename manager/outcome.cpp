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
  return action == "DeleteLaunchTemplate" && reaction == Reaction::absent;
}

/// A create whose token cannot be used again. Every accepted create uses its token up as well.
bool token_is_burnt(Reaction reaction) {
  return reaction == Reaction::new_token;
}

bool passes_by_itself(ErrorKind kind, Reaction reaction) {
  return kind == ErrorKind::retry_later || reaction == Reaction::throttled ||
         reaction == Reaction::wait || reaction == Reaction::change ||
         reaction == Reaction::new_token;
}

/// "MaxSpotInstanceCountExceeded for g5.xlarge in us-east-1a: Max spot instance count exceeded.
/// ..."
std::string sentence_of(const aws::FleetError& error) {
  const std::string& place =
      error.availability_zone.empty() ? error.subnet_id : error.availability_zone;
  const std::string where = error.instance_type + (place.empty() ? "" : " in " + place);
  const std::string_view remedy = aws::remedy_for(error.code, "CreateFleet");
  return error.code + (where.empty() ? "" : " for " + where) + ": " + error.message +
         (error.message.ends_with('.') ? "" : ".") +
         (remedy.empty() ? "" : " " + std::string(remedy));
}

/// A fleet that launched nothing.
Outcome judge_empty(const core::Intent& intent, const aws::FleetAnswer& fleet) {
  Outcome empty;
  empty.state = IntentState::refused;
  empty.burns_token = !intent.token.empty();
  empty.transient = fleet.errors.empty();
  empty.sentence = aws::summary_of(intent.call.body) +
                   ": EC2 launched nothing and gave no reason. " + "It is asked for again.";
  bool all_throttled = !fleet.errors.empty();
  bool needs_somebody = false;
  for (const aws::FleetError& error : fleet.errors) {
    const Outcome one = judge(error);
    const bool tells_more = empty.code.empty() || (!needs_somebody && !one.transient);
    if (tells_more) {
      empty.code = one.code;
      empty.sentence = aws::summary_of(intent.call.body) + ": " + one.sentence;
    }
    needs_somebody = needs_somebody || !one.transient;
    empty.transient = empty.transient || one.transient;
    all_throttled = all_throttled && one.throttled;
  }
  empty.throttled = all_throttled;
  return empty;
}

}  // namespace

Outcome judge(const aws::FleetError& error) {
  const aws::CodeEntry* entry = aws::find_code(error.code, "CreateFleet");
  Outcome outcome;
  outcome.state = IntentState::refused;
  outcome.code = std::string(aws::bare_code(error.code));
  outcome.sentence = sentence_of(error);
  outcome.throttled = entry != nullptr && entry->reaction == Reaction::throttled;
  outcome.transient = entry != nullptr && passes_by_itself(entry->kind, entry->reaction);
  return outcome;
}

Outcome judge(const core::Intent& intent, const Result<aws::MutationAnswer>& answer) {
  const std::string& action = intent.call.action;
  Outcome outcome;
  if (answer) {
    const auto* fleet = std::get_if<aws::FleetAnswer>(&*answer);
    if (fleet != nullptr && fleet->instances.empty()) return judge_empty(intent, *fleet);
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
  outcome.token_was_used = !intent.token.empty() && token_is_burnt(reaction);
  outcome.burns_token = outcome.token_was_used;
  outcome.throttled = reaction == Reaction::throttled;
  outcome.transient = passes_by_itself(error.kind, reaction);
  if (action == "AttachVolume") {
    outcome.keeps_lease = code == "VolumeInUse";
    outcome.refuses_device = code == "InvalidParameterValue";
  }
  return outcome;
}

}  // namespace warmroot::manager
