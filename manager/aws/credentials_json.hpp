// The JSON that credentials arrive in: credential_process, container and instance endpoints, SSO's
// portal and its token cache. Pure: text in, structs out; the texts are other programs' and are not
// trusted. Errors never repeat any of the text, because it may be a secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/aws/sigv4.hpp"

namespace warmroot::aws {

/// Longer texts are refused. Source: the Java SDK's limit for credential_process is 64,000 bytes.
inline constexpr std::size_t kMaxCredentialsText = 64 * 1024;

/// Keys and when they end; nullopt: they do not.
struct TemporaryCredentials {
  Credentials credentials;
  std::optional<Instant> expires;
};

/// `{"Version":1,"AccessKeyId","SecretAccessKey","SessionToken"?,"Expiration"?}`.
Result<TemporaryCredentials> parse_process_credentials(std::string_view text);

/// The answer of a container's or an instance's metadata service: `{"Code"?,"AccessKeyId",
/// "SecretAccessKey","Token","Expiration"}`. A Code other than Success is an error although the
/// status was 200.
Result<TemporaryCredentials> parse_metadata_credentials(std::string_view text);

/// GetRoleCredentials of the SSO portal: `{"roleCredentials":{...,"expiration":<milliseconds>}}`.
Result<TemporaryCredentials> parse_sso_credentials(std::string_view text);

/// A file of ~/.aws/sso/cache.
struct SsoToken {
  Secret access_token;
  Instant expires{};
  Secret refresh_token;  ///< this and the next three: only where it can be renewed
  std::string client_id;
  Secret client_secret;
  std::optional<Instant> registration_expires;
};
Result<SsoToken> parse_sso_token(std::string_view text);

/// The JSON to ask for a new token with.
std::string sso_renewal_request(const SsoToken& token);

/// The text of the cache file after a renewal: what it was, with the token, its end and the refresh
/// token of `reply`. Errors: broken.
Result<std::string> renewed_sso_token(std::string_view file, std::string_view reply, Instant now);

/// ISO 8601 in the forms that the SDKs and their neighbours write: "Z", "UTC" or an offset at the
/// end, any number of decimals.
std::optional<Instant> parse_loose_time(std::string_view text);

}  // namespace warmroot::aws
