// AWS Signature Version 4, header form. Pure: the time is an argument, the only library behind it
// is OpenSSL's digests. http_transport signs with it; the simulated region checks signatures with
// the same functions. Which header EC2 wants (host, content-type) is the caller's business, as is
// sending exactly what was signed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/secret.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/aws/form.hpp"

namespace warmroot::aws {

using warmroot::Secret;

struct Credentials {
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;  ///< empty for long-term keys
  bool operator==(const Credentials&) const = default;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

/// What goes over the wire. `path` is as sent (already percent-encoded); `query` is decoded pairs,
/// to be sent as canonical_query() writes them. `headers` must hold Host exactly as it will be
/// sent.
struct SigningRequest {
  std::string method = "POST";
  std::string path = "/";
  Form query;
  Headers headers;
  std::string body;
};

/// Whose clock, Region and service ("ec2", "ebs", "sqs", "sts") the signature is for.
struct SigningScope {
  Instant time;
  std::string region;
  std::string service = "ec2";
};

struct CanonicalRequest {
  std::string text;
  std::string signed_headers;  ///< "content-type;host;x-amz-date"
};

/// Lower-case hex SHA-256.
std::string sha256_hex(std::string_view text);

/// Dot segments and duplicate slashes removed, a trailing slash kept, then percent-encoded: a path
/// that is encoded already is encoded a second time, as every service but S3 wants it. Empty
/// becomes "/".
std::string canonical_path(std::string_view path);

/// Encoded, sorted by encoded key then encoded value; `key=` where there is no value.
std::string canonical_query(const Form& query);

/// All headers are signed but the hop-by-hop and mutable ones (connection, user-agent, ...).
CanonicalRequest canonical_request(const SigningRequest& request);

std::string string_to_sign(const SigningScope& scope, std::string_view canonical_text);

/// The 32 raw bytes of the day's key for this secret, Region and service.
std::string signing_key(const Secret& secret, const SigningScope& scope);

/// Lower-case hex signature of a string to sign.
std::string signature(std::string_view key, std::string_view text);

/// The headers to send beside the request's own: x-amz-date, x-amz-security-token (where there is a
/// token) and Authorization. A retry has to call this again with the time of the retry.
Headers sign(const SigningRequest& request, const Credentials& credentials,
             const SigningScope& scope);

}  // namespace warmroot::aws
