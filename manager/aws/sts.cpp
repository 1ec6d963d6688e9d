// See sts.hpp.
#include "manager/aws/sts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "manager/aws/ec2_codec.hpp"
#include "manager/aws/ec2_xml.hpp"
#include "manager/aws/form.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kVersion = "2011-06-15";
/// An answer of STS is some 2 KiB; session tokens have no promised length.
constexpr std::size_t kMaxAnswer = 256 * 1024;

/// What STS refuses beside the codes that all services share.
struct StsCode {
  std::string_view code;
  ErrorKind kind;
  std::string_view remedy;
};
constexpr std::array kStsCodes = std::to_array<StsCode>({
    {"AccessDenied", ErrorKind::unauthorised,
     "The role does not trust this caller, or it is not allowed sts:AssumeRole: check the role's "
     "trust policy and the external id."},
    {"IDPCommunicationError", ErrorKind::retry_later,
     "STS could not reach the identity provider; warmroot tries again."},
    {"InvalidIdentityToken", ErrorKind::unauthorised,
     "The identity provider's token is not valid: check the token file and the role's provider."},
    {"ExpiredTokenException", ErrorKind::unauthorised,
     "The token has expired: whatever writes the token file has to write a new one."},
    {"IDPRejectedClaim", ErrorKind::unauthorised,
     "The identity provider rejects the token's claims: check the role's trust policy."},
    {"RegionDisabledException", ErrorKind::misconfigured,
     "Enable STS for this Region in the account, or choose another."},
    {"MalformedPolicyDocument", ErrorKind::misconfigured, "Correct the session policy."},
    {"PackedPolicyTooLarge", ErrorKind::misconfigured, "Shorten the session's tags or policy."},
});

void add_duration(Form& form, const std::optional<int>& seconds) {
  if (seconds) form.emplace_back("DurationSeconds", std::to_string(*seconds));
}

/// EC2's table knows the codes that all services share; STS's own go before it.
Error sts_refused(const HttpReply& reply) {
  Error error = refused("AssumeRole", reply);
  const auto* entry = std::find_if(kStsCodes.begin(), kStsCodes.end(),
                                   [&](const StsCode& each) { return each.code == error.code; });
  if (entry != kStsCodes.end()) {
    error.kind = entry->kind;
    error.context += " " + std::string(entry->remedy);
  }
  // Nothing here changes anything: what may or may not have happened can be asked for again.
  if (error.kind == ErrorKind::unknown_outcome) error.kind = ErrorKind::retry_later;
  return error;
}

/// `<XResponse><XResult>`; nullptr when the reply is something else.
const xml::Element* result_of(tinyxml2::XMLDocument& document, const HttpReply& reply,
                              const char* result) {
  if (reply.status != 200 || reply.body.size() > kMaxAnswer) return nullptr;
  if (!xml::parse(document, reply.body)) return nullptr;
  return xml::child(document.RootElement(), result);
}

}  // namespace

std::string encode_get_caller_identity() {
  return encode_form({{"Action", "GetCallerIdentity"}, {"Version", kVersion}});
}

std::string encode(const AssumeRole& call) {
  Form form = {{"Action", "AssumeRole"},
               {"Version", kVersion},
               {"RoleArn", call.role_arn},
               {"RoleSessionName", call.session_name}};
  if (!call.external_id.empty()) form.emplace_back("ExternalId", call.external_id);
  add_duration(form, call.duration_seconds);
  return encode_form(form);
}

Secret encode(const AssumeRoleWithWebIdentity& call) {
  Form form = {{"Action", "AssumeRoleWithWebIdentity"},
               {"Version", kVersion},
               {"RoleArn", call.role_arn},
               {"RoleSessionName", call.session_name},
               {"WebIdentityToken", call.token.reveal()}};
  add_duration(form, call.duration_seconds);
  return Secret(encode_form(form));
}

Result<CallerIdentity> decode_caller_identity(const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  const xml::Element* result = result_of(document, reply, "GetCallerIdentityResult");
  if (result == nullptr) return fail(sts_refused(reply));
  CallerIdentity identity{xml::text(result, "Account"), xml::text(result, "Arn")};
  if (identity.account.empty()) return fail(ErrorKind::broken, "the answer names no account");
  return identity;
}

Result<TemporaryCredentials> decode_assumed_role(const HttpReply& reply) {
  tinyxml2::XMLDocument document;
  const xml::Element* result = result_of(document, reply, "AssumeRoleResult");
  if (result == nullptr) result = result_of(document, reply, "AssumeRoleWithWebIdentityResult");
  if (result == nullptr) return fail(sts_refused(reply));
  const xml::Element* keys = xml::child(result, "Credentials");
  TemporaryCredentials out;
  out.credentials = {xml::text(keys, "AccessKeyId"), Secret(xml::text(keys, "SecretAccessKey")),
                     Secret(xml::text(keys, "SessionToken"))};
  out.expires = parse_loose_time(xml::text(keys, "Expiration"));
  if (out.credentials.access_key_id.empty() || out.credentials.secret_access_key.empty() ||
      out.credentials.session_token.empty() || !out.expires)
    return fail(ErrorKind::broken, "the answer has no whole set of credentials");
  return out;
}

}  // namespace warmroot::aws
