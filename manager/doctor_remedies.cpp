// What a person can do about an error that kept the doctor from an answer, and how a line is made:
// none that is not ok goes without.
#include "manager/aws/ec2_codec.hpp"
#include "manager/doctor.hpp"

namespace warmroot::manager {
namespace {

constexpr const char* kAgain = "run doctor again in a minute";

// Source: IAM user guide, "Troubleshoot access denied error messages". The first that fits is
// taken. It writes "session policy" and "sessions policy".
constexpr Denier kDeniers[] = {
    {"explicit deny in a service control policy",
     "a service control policy of the organisation denies it, so that no policy of this account "
     "can allow it: ask those who run the organisation"},
    {"transitively through a service control policy",
     "a service control policy of the organisation denies it by way of the VPC endpoint: ask those "
     "who run the organisation"},
    {"explicit deny in a resource control policy",
     "a resource control policy of the organisation denies it: ask those who run the "
     "organisation"},
    {"no service control policy allows",
     "the organisation's service control policies do not allow it: ask those who run the "
     "organisation"},
    {"explicit deny in a permissions boundary",
     "the role's permissions boundary denies it: ask those who set it"},
    {"no permissions boundary allows",
     "the role's permissions boundary does not allow it: ask those who set it"},
    {"explicit deny in a session", "the session's policy denies it: begin another session"},
    {"no session policy allows", "the session's policy does not allow it: begin another session"},
    {"explicit deny in a VPC endpoint policy", "the VPC endpoint's policy denies it: change it"},
    {"no VPC endpoint policy allows", "the VPC endpoint's policy does not allow it: change it"},
    {"explicit deny in an identity-based policy",
     "a policy of this user or role denies it explicitly: remove that statement; a further Allow "
     "does not help"},
    {"no identity-based policy allows",
     "nothing allows it: add it to the policy of this user or role (templates/iam-policy*.json)"},
    {"explicit deny in a resource-based policy",
     "a policy of the resource denies it explicitly: change that policy"},
    {"no resource-based policy allows",
     "the resource's own policy does not allow it: ask the resource's owner to add it there"},
};

bool says(std::string_view message, std::string_view words) {
  return message.find(words) != std::string_view::npos;
}

}  // namespace

Finding::Finding(Verdict is, std::string of_check, std::string of_pool, std::string found,
                 std::string what_to_do)
    : verdict(is),
      check(std::move(of_check)),
      pool(std::move(of_pool)),
      text(std::move(found)),
      remedy(std::move(what_to_do)) {
  CHECK(remedy.empty() == (verdict == Verdict::ok));
}

Finding Finding::ok(std::string check, std::string pool, std::string text) {
  return {Verdict::ok, std::move(check), std::move(pool), std::move(text), ""};
}

Finding Finding::wrong(std::string check, std::string pool, std::string text, std::string remedy) {
  return {Verdict::wrong, std::move(check), std::move(pool), std::move(text), std::move(remedy)};
}

Finding Finding::unknown(std::string check, std::string pool, std::string text,
                         std::string remedy) {
  return {Verdict::unknown, std::move(check), std::move(pool), std::move(text), std::move(remedy)};
}

std::string Finding::sentence() const {
  if (remedy.empty()) return text;
  return (text.ends_with('.') ? text.substr(0, text.size() - 1) : text) + ": " + remedy;
}

std::span<const Denier> known_deniers() {
  return kDeniers;
}

std::string who_denies(std::string_view message) {
  for (const Denier& known : kDeniers)
    if (says(message, known.words)) return std::string(known.remedy);
  return "EC2 does not say by whom: compare the IAM policy with templates/iam-policy.json; `aws "
         "sts decode-authorization-message` reads the encoded part of the message, if there is "
         "one";
}

bool says_denied(std::string_view words) {
  return says(words, "UnauthorizedOperation") || says(words, "not authorized to perform");
}

std::string remedy_of(const Error& error) {
  if (aws::bare_code(error.code) == "UnauthorizedOperation" || says_denied(error.context))
    return who_denies(error.context);
  if (aws::bare_code(error.code) == "OptInRequired")
    return "subscribe to the AMI's product in AWS Marketplace, or enable the Region for the "
           "account";
  switch (error.kind) {
    case ErrorKind::retry_later:
    case ErrorKind::unknown_outcome:
      return kAgain;
    case ErrorKind::unauthorised:
      return "renew or correct the credentials, or settle what the answer says of the account";
    case ErrorKind::gone:
    case ErrorKind::misconfigured:
      return "correct it in the spec, or --region and --endpoint-url";
    case ErrorKind::refused:
      return "settle what the answer names, then run doctor again";
    case ErrorKind::broken:
      break;
  }
  return "check --endpoint-url, else report this as a bug";
}

std::string remedy_of_quoted(std::string_view sentence) {
  if (says_denied(sentence)) return who_denies(sentence);
  return std::string(kAgain) +
         "; if it stays, compare the IAM policy with templates/iam-policy*.json";
}

}  // namespace warmroot::manager
