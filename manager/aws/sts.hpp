// STS: who we are and temporary credentials for roles, in its Query protocol. Pure: forms out, XML
// in. What sends them is sts_client.cpp; the region of the tests answers them. Source: ec2.md 7.1.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/http.hpp"
#include "manager/aws/credentials_json.hpp"

namespace warmroot::aws {

/// Limits of RoleSessionName and DurationSeconds. Source: botocore's sts model.
inline constexpr int kMinRoleSeconds = 900;
inline constexpr int kMaxRoleSeconds = 43'200;

struct AssumeRole {
  std::string role_arn;
  std::string session_name;
  std::string external_id;              ///< empty: none
  std::optional<int> duration_seconds;  ///< nullopt: STS's own, an hour
};

struct AssumeRoleWithWebIdentity {
  std::string role_arn;
  std::string session_name;
  Secret token;
  std::optional<int> duration_seconds;
};

struct CallerIdentity {
  std::string account;
  std::string arn;
};

/// The form bodies. That of web identity holds the token: it is sent, and shown to nobody.
std::string encode_get_caller_identity();
std::string encode(const AssumeRole& call);
Secret encode(const AssumeRoleWithWebIdentity& call);

/// The answers of the calls, from replies with any status. Errors: unauthorised for what STS
/// denies, retry_later for its own trouble and the identity provider's, misconfigured for what has
/// to change in the profile; the code is STS's.
Result<CallerIdentity> decode_caller_identity(const HttpReply& reply);
Result<TemporaryCredentials> decode_assumed_role(const HttpReply& reply);

}  // namespace warmroot::aws
