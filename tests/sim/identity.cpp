// See the header.
#include "tests/sim/identity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/sim/query_form.hpp"
#include "tests/sim/xml_writer.hpp"

namespace warmroot::sim {

namespace {

constexpr char kXmlns[] = "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"";
/// A role with this name wants this external id; one whose name begins so trusts nobody.
constexpr char kTenantRole[] = "tenant";
constexpr char kTenantId[] = "tenant-7";
constexpr char kDenied[] = "denied";
constexpr char kHostRole[] = "host-role";

/// Times without milliseconds, as STS and the metadata services write them. Rounded down: nobody is
/// told more than what holds.
std::string seconds_text(Instant instant) {
  return to_iso8601(instant).substr(0, 19) + "Z";
}

DoorReply json_reply(const nlohmann::json& body, int status = 200) {
  return {status, "application/json", body.dump()};
}

DoorReply trouble() {
  return {503, "text/plain", "Service Unavailable"};
}

struct RoleName {
  std::string account;
  std::string name;
};

/// Of arn:aws:iam::ACCOUNT:role/NAME.
std::optional<RoleName> role_of(const std::string& arn) {
  constexpr std::string_view kStart = "arn:aws:iam::";
  constexpr std::string_view kRole = ":role/";
  const auto role = arn.find(kRole);
  if (!arn.starts_with(kStart) || role == std::string::npos) return std::nullopt;
  return RoleName{arn.substr(kStart.size(), role - kStart.size()), arn.substr(role + kRole.size())};
}

Caller session_of(const RoleName& role, const std::string& session) {
  return {role.account,
          "arn:aws:sts::" + role.account + ":assumed-role/" + role.name + "/" + session};
}

std::string text_at(const std::map<std::string, std::string>& form, const std::string& name) {
  const auto found = form.find(name);
  return found == form.end() ? std::string{} : found->second;
}

}  // namespace

std::string service_of(const SignedRequest& request) {
  const std::string header = header_of(request, "authorization");
  const auto credential = header.find("Credential=");
  if (credential == std::string::npos) return {};
  // key/date/region/service/aws4_request
  std::string scope = header.substr(credential, header.find(',', credential) - credential);
  for (int part = 0; part < 3; ++part) {
    const auto slash = scope.find('/');
    if (slash == std::string::npos) return {};
    scope.erase(0, slash + 1);
  }
  return scope.substr(0, scope.find('/'));
}

Identity::Identity(SigningKeys keys, std::string account_id)
    : keys_(std::move(keys)), account_id_(std::move(account_id)) {}

Answer<Caller> Identity::verify(const SignedRequest& request, const std::string& service,
                                Instant now) {
  const bool is_sts = service == "sts";
  const std::string key = access_key_of(request);
  const auto found = issued_.find(key);
  SigningKeys keys = keys_;
  if (found != issued_.end()) {
    keys.access_key = found->second.access_key;
    keys.secret_key = found->second.secret_key;
  }
  if (is_sts && !key.empty() && key != keys.access_key)
    return refuse("InvalidClientTokenId", "The security token included in the request is invalid.",
                  403);
  if (auto verified = verify_signature(request, keys, now, service); !verified) {
    if (repeats_requests && verified.error().code == "SignatureDoesNotMatch")
      verified.error().message +=
          " The Canonical String for this request should have been 'POST x-"
          "amz-security-token:" +
          header_of(request, "x-amz-security-token") + "'";
    return tl::unexpected(verified.error());
  }
  if (found == issued_.end())
    return Caller{account_id_, "arn:aws:iam::" + account_id_ + ":user/operator"};
  if (header_of(request, "x-amz-security-token") != found->second.session_token)
    return is_sts ? refuse("InvalidClientTokenId", "The security token is invalid.", 403)
                  : refuse("AuthFailure",
                           "AWS was not able to validate the provided access "
                           "credentials",
                           401);
  if (found->second.expires <= now)
    return is_sts ? refuse("ExpiredToken", "The security token included in the request is expired",
                           403)
                  : refuse("RequestExpired", "Request has expired.");
  return found->second.caller;
}

const IssuedKeys& Identity::issue(Caller caller, Instant now, std::optional<Milliseconds> at_most) {
  const std::string number = std::to_string(++count_);
  IssuedKeys keys;
  keys.access_key = "ASIAISSUED" + number;
  keys.secret_key = "issuedSecretAccessKey+" + number + "/x";
  keys.session_token = "issuedSessionToken+" + number + "/AQoDYXdzEXAMPLE==";
  keys.expires = now + std::min(life, at_most.value_or(life));
  keys.caller = std::move(caller);
  return issued_[keys.access_key] = keys;
}

DoorReply Identity::sts_error(const ApiError& error) const {
  XmlWriter xml;
  xml.open("ErrorResponse", kXmlns);
  xml.open("Error");
  xml.text("Type", "Sender");
  xml.text("Code", error.code);
  xml.text("Message", error.message);
  xml.close();
  xml.text("RequestId", "sts-" + std::to_string(count_));
  xml.close();
  return {error.status, "text/xml", xml.take()};
}

DoorReply Identity::assume_role(const std::map<std::string, std::string>& form,
                                const std::optional<Caller>& caller, Instant now) {
  const std::string arn = text_at(form, "RoleArn");
  const std::string session = text_at(form, "RoleSessionName");
  const auto role = role_of(arn);
  if (!role || session.empty())
    return sts_error({400, "ValidationError", "RoleArn or RoleSessionName is not valid"});
  const bool wants_id = role->name == kTenantRole;
  if (role->name.starts_with(kDenied) || (wants_id && text_at(form, "ExternalId") != kTenantId))
    return sts_error({403, "AccessDenied",
                      "User: " + (caller ? caller->arn : "anonymous") +
                          " is not authorized to perform: sts:AssumeRole on resource: " + arn});
  std::optional<Milliseconds> at_most;
  if (const std::string seconds = text_at(form, "DurationSeconds"); !seconds.empty())
    at_most = std::chrono::seconds(std::atoi(seconds.c_str()));
  const IssuedKeys& keys = issue(session_of(*role, session), now, at_most);
  const std::string action = text_at(form, "Action");
  XmlWriter xml;
  xml.open(action + "Response", kXmlns);
  xml.open(action + "Result");
  xml.open("Credentials");
  xml.text("AccessKeyId", keys.access_key);
  xml.text("SecretAccessKey", keys.secret_key);
  xml.text("SessionToken", keys.session_token);
  xml.text("Expiration", seconds_text(keys.expires));
  xml.close();
  xml.open("AssumedRoleUser");
  xml.text("AssumedRoleId", "AROAEXAMPLE:" + session);
  xml.text("Arn", keys.caller.arn);
  xml.close();
  xml.close();
  xml.open("ResponseMetadata");
  xml.text("RequestId", "sts-" + std::to_string(count_));
  xml.close();
  xml.close();
  return {200, "text/xml", xml.take()};
}

DoorReply Identity::sts(const SignedRequest& request, Instant now) {
  if (down.contains("sts")) return trouble();
  const auto form = Form::parse(request.body);
  if (!form) return sts_error(form.error());
  const std::string action = form->text("Action");
  if (action == "AssumeRoleWithWebIdentity") {
    const std::string token = form->text("WebIdentityToken");
    if (!token.starts_with(kWebIdentityPrefix))
      return sts_error({400, "InvalidIdentityToken", "No OpenIDConnect provider found: " + token});
    if (token.starts_with(std::string(kWebIdentityPrefix) + "expired"))
      return sts_error({400, "ExpiredTokenException", "Token expired: " + token});
    return assume_role(form->values(), std::nullopt, now);
  }
  const auto caller = verify(request, "sts", now);
  if (!caller) return sts_error(caller.error());
  if (action == "AssumeRole") return assume_role(form->values(), *caller, now);
  if (action != "GetCallerIdentity")
    return sts_error({400, "InvalidAction", "Could not find operation " + action});
  XmlWriter xml;
  xml.open("GetCallerIdentityResponse", kXmlns);
  xml.open("GetCallerIdentityResult");
  xml.text("Arn", caller->arn);
  xml.text("UserId", "AIDAEXAMPLE");
  xml.text("Account", caller->account);
  xml.close();
  xml.open("ResponseMetadata");
  xml.text("RequestId", "sts-" + std::to_string(count_));
  xml.close();
  xml.close();
  return {200, "text/xml", xml.take()};
}

DoorReply Identity::container(const std::string& authorization, Instant now) {
  if (down.contains("container")) return trouble();
  if (authorization != kContainerToken)
    return json_reply({{"code", "AccessDenied"}, {"message", "bad token " + authorization}}, 401);
  const IssuedKeys& keys = issue(session_of({account_id_, "task-role"}, "task"), now);
  return json_reply({{"AccessKeyId", keys.access_key},
                     {"SecretAccessKey", keys.secret_key},
                     {"Token", keys.session_token},
                     {"RoleArn", keys.caller.arn},
                     {"Expiration", seconds_text(keys.expires)}});
}

DoorReply Identity::metadata(const std::string& method, const std::string& path,
                             const std::string& token, Instant now) {
  if (down.contains("imds")) return trouble();
  constexpr char kToken[] = "hostMetadataToken0123456789";
  const auto text = [](const std::string& body) { return DoorReply{200, "text/plain", body}; };
  if (method == "PUT" && path == "/latest/api/token") return text(kToken);
  if (token != kToken) return {401, "text/plain", "Unauthorized"};
  const std::string roles = "/latest/meta-data/iam/security-credentials/";
  if (path == "/latest/meta-data/placement/region") return text(keys_.region);
  if (path == roles) return text(kHostRole);
  if (path != roles + kHostRole) return {404, "text/plain", "Not Found"};
  const Milliseconds left = host_ ? host_->expires - now : Milliseconds(0);
  if (left < life / 2 || left > life)  // `life` may have become shorter meanwhile
    host_ = issue(session_of({account_id_, kHostRole}, "i-0123456789abcdef0"), now);
  return json_reply({{"Code", "Success"},
                     {"LastUpdated", seconds_text(now)},
                     {"Type", "AWS-HMAC"},
                     {"AccessKeyId", host_->access_key},
                     {"SecretAccessKey", host_->secret_key},
                     {"Token", host_->session_token},
                     {"Expiration", seconds_text(host_->expires)}});
}

DoorReply Identity::sso_credentials(const std::string& bearer, const std::string& account,
                                    const std::string& role, Instant now) {
  if (down.contains("sso")) return trouble();
  if (bearer != "ssoBearerToken" + std::to_string(sso_generation_))
    return json_reply({{"message", "Session token not found or invalid: " + bearer}}, 401);
  if (role.starts_with(kDenied)) return json_reply({{"message", "No access"}}, 403);
  const IssuedKeys& keys = issue(session_of({account, "AWSReservedSSO_" + role}, "person"), now);
  return json_reply({{"roleCredentials",
                      {{"accessKeyId", keys.access_key},
                       {"secretAccessKey", keys.secret_key},
                       {"sessionToken", keys.session_token},
                       {"expiration", keys.expires.time_since_epoch().count()}}}});
}

DoorReply Identity::sso_token(const std::string& body) {
  if (down.contains("sso")) return trouble();
  const auto asked = nlohmann::json::parse(body, nullptr, false);
  const bool right =
      asked.is_object() && asked.value("grantType", "") == "refresh_token" &&
      asked.value("refreshToken", "") == "ssoRefreshToken" + std::to_string(sso_generation_);
  if (!right) return json_reply({{"error", "invalid_grant"}}, 400);
  const std::string next = std::to_string(++sso_generation_);  // the old ones are used up
  return json_reply({{"accessToken", "ssoBearerToken" + next},
                     {"tokenType", "Bearer"},
                     {"expiresIn", std::chrono::duration_cast<std::chrono::seconds>(life).count()},
                     {"refreshToken", "ssoRefreshToken" + next}});
}

void Identity::revoke(Instant now) {
  for (auto& [key, issued] : issued_) issued.expires = std::min(issued.expires, now);
  host_.reset();
}

std::vector<std::string> Identity::secrets() const {
  std::vector<std::string> out = {keys_.secret_key, kContainerToken, "ssoBearerToken",
                                  "ssoRefreshToken"};
  for (const auto& [key, issued] : issued_) {
    out.push_back(issued.secret_key);
    out.push_back(issued.session_token);
  }
  return out;
}

}  // namespace warmroot::sim
