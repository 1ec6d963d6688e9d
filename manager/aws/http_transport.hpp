// Transport over HTTP: signs with SigV4, posts through libcurl, puts a wrong clock and expired
// credentials right once. `connect_ec2()` makes everything between the operator's choices and a
// usable Ec2.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/base/http.hpp"
#include "bootstrap/base/units.hpp"
#include "manager/aws/credential_cache.hpp"
#include "manager/aws/ec2_client.hpp"
#include "manager/aws/http_date.hpp"
#include "manager/aws/sts_client.hpp"
#include "manager/aws/transport.hpp"

namespace warmroot::aws {

/// Less than this is not why a signature was refused.
inline constexpr std::chrono::minutes kSkewWorthCorrecting{1};
/// A refusal that new credentials, or a clock put right, may cure: services have several codes for
/// a signature of the wrong time. Source: the codes that AWS's SDKs take for clock skew.
bool may_be_expired(std::string_view code);
/// Of those, the ones that no clock brings about.
bool is_about_keys(std::string_view code);

using WallClock = std::function<Instant()>;
/// The credentials to sign with now; asked before every post, so it has to be cheap.
using CredentialSource = std::function<Result<Credentials>()>;

/// One request and what came of it, for logs: nothing in it is secret.
struct HttpExchange {
  std::string action;
  std::string host;
  int status = 0;     ///< 0: no answer
  std::string error;  ///< EC2's code, or why there is no answer
  std::string request_id;
  std::optional<Instant> date;  ///< what time it is there
};

struct HttpTransportSettings {
  Endpoint endpoint;
  std::string region;
  std::string ca_file;           ///< empty: the system's certificates
  Milliseconds timeout{30'000};  ///< source: the EBS CSI driver's describe timeout
  /// Told which credentials EC2 calls expired, before the source is asked again.
  std::function<void(const Credentials&)> on_refused;
  std::function<void(const HttpExchange&)> on_exchange;
};

/// One thread.
class HttpTransport : public Transport {
 public:
  HttpTransport(HttpTransportSettings settings, CredentialSource source, WallClock clock);

  /// Replies that say RequestExpired, ExpiredToken or AuthFailure (all of them: not executed) are
  /// answered by a clock corrected from the Date header or by credentials read anew, and sent once
  /// more if that changed anything. A session token that a refusal repeats is cut out of it.
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override;

  /// See HttpTransportSettings.
  void set_on_exchange(std::function<void(const HttpExchange&)> told) {
    settings_.on_exchange = std::move(told);
  }

 private:
  HttpRequest signed_request(const std::string& body) const;
  std::vector<Result<HttpReply>> post_once(std::span<const std::string> bodies);
  bool correct_clock(const HttpReply& reply);
  bool renew_credentials();
  void tell(const std::string& body, const Result<HttpReply>& result) const;

  HttpTransportSettings settings_;
  CredentialSource source_;
  WallClock clock_;
  Milliseconds skew_{0};  ///< what has to be added to our clock
  std::optional<Credentials> credentials_;
  HttpClient http_;
};

/// What a connection was made from.
struct AwsSettings {
  AwsChoices choices;
  std::string region;
  Endpoint endpoint;
  std::string ca_file;
};

/// A live connection to EC2. Everything else that signs (SQS, STS) shares its credentials.
struct Connection {
  AwsSettings settings;
  std::shared_ptr<const Surroundings> surroundings;
  std::shared_ptr<CredentialCache> credentials;
  std::unique_ptr<HttpTransport> transport;
  std::unique_ptr<Ec2> ec2;

  /// Asks STS whose credentials these are. Errors: as StsClient's and CredentialCache's.
  Result<CallerIdentity> identify() const;
};

/// Resolves Region, endpoint and credentials from the real surroundings and connects them. Asks
/// whoever gives the credentials (STS, SSO, ...), but not EC2. Errors: as theirs.
Result<Connection> connect_ec2(const AwsChoices& choices);

}  // namespace warmroot::aws
