// Each reaction of aws/ec2_codes.cpp becomes flags here; codes and texts are not looked at.
#include "manager/outcome.hpp"

#include <algorithm>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/form.hpp"
#include "manager/core/offers.hpp"
#include "manager/core/unanswered.hpp"

namespace warmroot::manager {

namespace {

using aws::Reaction;
using core::IntentState;

/// Whoever stands between us and EC2 answers for it so often in a row: then the spec or the
/// endpoint is to blame, and people have to know.
constexpr int kMostPages = 5;

/// Another type, zone or market may do. Source: Karpenter's set of codes, with what the table says.
bool is_about_the_offer(std::string_view code, std::string_view action) {
  return aws::reaction_for(code, action) == Reaction::change || core::is_full_quota(code);
}

/// What a RunInstances asked for.
core::Offer offer_of(const core::Intent& intent) {
  const auto form = aws::parse_form(intent.call.body);
  return {std::string(aws::form_value(form, "InstanceType")), intent.zone,
          aws::form_value(form, "InstanceMarketOptions.MarketType") == "spot"};
}

bool is_spot_fleet(const core::Intent& intent) {
  return aws::form_value(aws::parse_form(intent.call.body),
                         "TargetCapacitySpecification.DefaultTargetCapacityType") == "spot";
}

/// It is worth trying again although nobody does anything about it.
bool passes_by_itself(ErrorKind kind, Reaction reaction) {
  switch (reaction) {
    case Reaction::throttled:
    case Reaction::transient:
    case Reaction::look:
    case Reaction::wait:
    case Reaction::device:
    case Reaction::new_token:
      return true;
    case Reaction::absent:  // what we saw a moment ago, unlike what the spec names
    case Reaction::change:
      return kind != ErrorKind::misconfigured;
    default:
      return kind == ErrorKind::retry_later;
  }
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
    empty.forbidden = empty.forbidden || one.forbidden;
    all_throttled = all_throttled && one.throttled;
  }
  empty.throttled = all_throttled;
  empty.only_offers = !fleet.errors.empty() &&
                      std::all_of(fleet.errors.begin(), fleet.errors.end(),
                                  [](const auto& error) { return judge(error).only_offers; });
  return empty;
}

/// Each error of a fleet belongs to the override that it names; the others may have launched all
/// the same.
std::vector<OfferRefusal> offers_refused(const core::Intent& intent,
                                         const aws::FleetAnswer& fleet) {
  std::vector<OfferRefusal> refused;
  const bool spot = is_spot_fleet(intent);
  for (const auto& error : fleet.errors) {
    const Outcome one = judge(error);
    const auto& zone = error.availability_zone.empty() ? intent.zone : error.availability_zone;
    if (one.only_offers)
      refused.push_back({{error.instance_type, zone, spot}, one.code, one.sentence});
  }
  return refused;
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
  outcome.forbidden = outcome.code == "UnauthorizedOperation";
  outcome.only_offers = is_about_the_offer(outcome.code, "CreateFleet");
  return outcome;
}

std::vector<core::Offer> offers_met(const core::Intent& intent, const aws::MutationAnswer& answer) {
  std::vector<core::Offer> met;
  if (const auto* fleet = std::get_if<aws::FleetAnswer>(&answer)) {
    const bool spot = is_spot_fleet(intent);
    for (const auto& instance : fleet->instances)
      met.push_back({instance.instance_type,
                     instance.availability_zone.empty() ? intent.zone : instance.availability_zone,
                     spot});
  }
  const auto* instances = std::get_if<std::vector<aws::Instance>>(&answer);
  if (intent.call.action == "RunInstances" && instances && !instances->empty())
    met.push_back(offer_of(intent));
  return met;
}

namespace {

/// What an earlier attempt may still do although EC2 has just refused the same call: a create makes
/// what it is for, whatever the refusal; an attach, where the instance only was not ready yet.
bool may_yet_be_done(const core::Intent& intent, const Outcome& refusal) {
  if (!intent.token.empty()) return !refusal.burns_token;
  return intent.call.action == "AttachVolume" &&
         (refusal.throttled || (refusal.refuses_instance && refusal.transient));
}

}  // namespace

Outcome judge_again(const core::Intent& intent, const Result<aws::MutationAnswer>& answer,
                    Instant now) {
  Outcome outcome = judge(intent, answer);
  if (outcome.state == IntentState::unknown && outcome.code == aws::kNotEc2 &&
      !intent.token.empty() && intent.attempts >= kMostPages) {
    outcome.state = IntentState::refused;
    outcome.throttled = true;  // as one: it may have been carried out, and its token is kept
    return outcome;
  }
  if (outcome.state != IntentState::refused || !may_yet_be_done(intent, outcome) ||
      !core::may_yet_be_carried_out(intent.silent, now))
    return outcome;
  Outcome open;
  open.state = IntentState::unknown;
  open.awaits_silent = true;
  open.throttled = outcome.throttled;
  open.code = std::move(outcome.code);
  open.sentence = std::move(outcome.sentence);
  return open;
}

Outcome judge(const core::Intent& intent, const Result<aws::MutationAnswer>& answer) {
  const std::string& action = intent.call.action;
  Outcome outcome;
  if (answer) {
    const auto* fleet = std::get_if<aws::FleetAnswer>(&*answer);
    if (fleet != nullptr && fleet->instances.empty()) outcome = judge_empty(intent, *fleet);
    if (fleet != nullptr) outcome.refused_offers = offers_refused(intent, *fleet);
    if (outcome.state == IntentState::refused) return outcome;
    outcome.state = IntentState::accepted;
    outcome.burns_token = !intent.token.empty();
    return outcome;
  }
  const Error& error = answer.error();
  const Reaction reaction = aws::reaction_for(error.code, action);
  outcome.code = std::string(aws::bare_code(error.code));
  outcome.sentence = error.message();
  if (reaction == Reaction::done) {
    outcome.state = IntentState::accepted;
    return outcome;
  }
  if (error.kind == ErrorKind::unknown_outcome || reaction == Reaction::transient ||
      error.code == aws::kNotEc2) {
    outcome.state = IntentState::unknown;
    return outcome;
  }
  outcome.state = IntentState::refused;
  outcome.token_was_used = !intent.token.empty() && reaction == Reaction::new_token;
  outcome.burns_token = outcome.token_was_used;
  outcome.forbidden = outcome.code == "UnauthorizedOperation";
  outcome.throttled = reaction == Reaction::throttled;
  outcome.transient = passes_by_itself(error.kind, reaction);
  if (action == "RunInstances" && is_about_the_offer(outcome.code, action)) {
    outcome.refused_offers = {{offer_of(intent), outcome.code, outcome.sentence}};
    outcome.only_offers = true;
  }
  outcome.keeps_lease = reaction == Reaction::look;
  outcome.refuses_device = reaction == Reaction::device;
  // Which of the two is not ready, EC2 says in its text alone; the volume was seen free.
  outcome.refuses_instance =
      action == "AttachVolume" && (reaction == Reaction::change || reaction == Reaction::wait);
  return outcome;
}

}  // namespace warmroot::manager
