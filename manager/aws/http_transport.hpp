// Transport over HTTP: signs with SigV4, posts through libcurl, puts a wrong clock and expired
// credentials right once. `connect_ec2()` makes everything between the operator's choices and a
// usable Ec2.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/aws/credentials.hpp"
#include "manager/aws/ec2_client.hpp"
#include "manager/aws/transport.hpp"

namespace warmroot::aws {

using WallClock = std::function<Instant()>;
/// Looks the credentials up again; called for the first request and when EC2 says that they
/// expired.
using CredentialSource = std::function<Result<Credentials>()>;

struct HttpTransportSettings {
  Endpoint endpoint;
  std::string region;
  Milliseconds connect_timeout{2'000};  ///< EC2 accepts within 100 ms; two SYN retries fit
  Milliseconds timeout{30'000};         ///< source: the EBS CSI driver's describe timeout
};

/// One thread.
class HttpTransport : public Transport {
 public:
  HttpTransport(HttpTransportSettings settings, CredentialSource source, WallClock clock);

  /// Replies that say RequestExpired, ExpiredToken or AuthFailure (all of them: not executed) are
  /// answered by a clock corrected from the Date header or by credentials read anew, and sent once
  /// more if that changed anything.
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override;

 private:
  HttpRequest signed_request(const std::string& body) const;
  std::vector<Result<HttpReply>> post_once(std::span<const std::string> bodies);
  bool correct_clock(const HttpReply& reply);
  bool renew_credentials();

  HttpTransportSettings settings_;
  CredentialSource source_;
  WallClock clock_;
  Milliseconds skew_{0};  ///< what has to be added to our clock
  std::optional<Credentials> credentials_;
  HttpClient http_;
};

/// The instant of an HTTP Date header ("Fri, 02 Jan 2026 03:04:05 GMT"); nullopt when malformed.
std::optional<Instant> parse_http_date(const std::string& text);

/// A live connection to EC2 and what it was made from.
struct Connection {
  AwsSettings settings;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Ec2> ec2;
};

/// Resolves credentials, Region and endpoint from the real surroundings and connects them. Sends
/// nothing. Errors: as resolve_aws().
Result<Connection> connect_ec2(const AwsChoices& choices);

}  // namespace warmroot::aws
