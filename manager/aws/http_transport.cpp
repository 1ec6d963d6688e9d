// See http_transport.hpp.
#include "manager/aws/http_transport.hpp"

#include <algorithm>
#include <random>

namespace warmroot::aws {
namespace {

/// Byte for byte what is signed; the SDKs send the same.
constexpr const char* kFormType = "application/x-www-form-urlencoded; charset=utf-8";

/// Connections at once. Source: our choice; the burst that EC2's bucket of attaches holds goes out
/// in one round.
constexpr std::size_t kMaxInFlight = 64;

}  // namespace

bool is_about_keys(std::string_view code) {
  return code == "ExpiredToken" || code == "ExpiredTokenException" ||
         code == "InvalidClientTokenId" || code == "UnrecognizedClientException";
}

bool may_be_expired(std::string_view code) {
  return code == "ExpiredToken" || code == "ExpiredTokenException" || code == "RequestExpired" ||
         code == "InvalidClientTokenId" || code == "UnrecognizedClientException" ||
         code == "SignatureDoesNotMatch" || code == "AuthFailure" ||
         code == "InvalidSignatureException" || code == "InvalidSignature";
}

HttpTransport::HttpTransport(HttpTransportSettings settings, CredentialSource source,
                             WallClock clock)
    : settings_(std::move(settings)), source_(std::move(source)), clock_(std::move(clock)) {}

HttpRequest HttpTransport::signed_request(const std::string& body) const {
  HttpRequest request;
  request.method = "POST";
  request.url = settings_.endpoint.url();
  request.body = body;
  request.ca_file = settings_.ca_file;
  request.timeout = settings_.timeout;
  SigningRequest signing;
  signing.body = body;
  // libcurl makes the Host header itself, from the URL; what is signed here has to be equal to it.
  signing.headers = {{"content-type", kFormType}, {"host", settings_.endpoint.host_header()}};
  request.headers = sign(signing, *credentials_, {clock_() + skew_, settings_.region, "ec2"});
  request.headers.emplace_back("content-type", kFormType);
  return request;
}

std::vector<Result<HttpReply>> HttpTransport::post_once(std::span<const std::string> bodies) {
  std::vector<Result<HttpReply>> results;
  results.reserve(bodies.size());
  while (!bodies.empty()) {
    const auto batch = bodies.first(std::min(bodies.size(), kMaxInFlight));
    bodies = bodies.subspan(batch.size());
    // Signed just before it is sent: the last of many must not be old already.
    std::vector<HttpRequest> requests;
    for (const std::string& body : batch) requests.push_back(signed_request(body));
    auto replies = http_.perform_all(requests);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      // Some refusals repeat the whole request as it should have been signed.
      if (replies[i] && replies[i]->status >= 400)
        replies[i]->body = hide(std::move(replies[i]->body), credentials_->session_token);
      if (settings_.on_exchange) tell(batch[i], replies[i]);
      results.push_back(std::move(replies[i]));
    }
  }
  return results;
}

void HttpTransport::tell(const std::string& body, const Result<HttpReply>& result) const {
  HttpExchange exchange;
  exchange.action = form_value(parse_form(body), "Action");
  exchange.host = settings_.endpoint.host_header();
  if (result) {
    exchange.status = result->status;
    exchange.error = code_of(*result);
    if (const auto id = result->headers.find("x-amzn-requestid"); id != result->headers.end())
      exchange.request_id = id->second;
    if (const auto date = result->headers.find("date"); date != result->headers.end())
      exchange.date = parse_http_date(date->second);
  } else {
    exchange.error = result.error().context;
  }
  settings_.on_exchange(exchange);
}

bool HttpTransport::correct_clock(const HttpReply& reply) {
  const auto date = reply.headers.find("date");
  if (date == reply.headers.end()) return false;
  const std::optional<Instant> theirs = parse_http_date(date->second);
  if (!theirs) return false;
  const Milliseconds skew = *theirs - clock_();
  if (std::chrono::abs(skew - skew_) < kSkewWorthCorrecting) return false;
  skew_ = skew;
  return true;
}

bool HttpTransport::renew_credentials() {
  if (settings_.on_refused) settings_.on_refused(*credentials_);
  Result<Credentials> found = source_();
  if (!found || credentials_ == *found) return false;
  credentials_ = std::move(*found);
  return true;
}

std::vector<Result<HttpReply>> HttpTransport::post(std::span<const std::string> bodies) {
  Result<Credentials> found = source_();
  if (!found) {
    std::vector<Result<HttpReply>> results;
    for (std::size_t i = 0; i < bodies.size(); ++i) results.push_back(fail(found.error()));
    return results;
  }
  credentials_ = std::move(*found);
  std::vector<Result<HttpReply>> results = post_once(bodies);
  std::vector<std::size_t> expired;
  bool changed = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    if (!may_be_expired(code_of(*results[i]))) continue;
    if (expired.empty()) {
      const bool corrected = correct_clock(*results[i]);
      // A clock that is a little off does not make keys expire.
      changed = (is_about_keys(code_of(*results[i])) || !corrected) && renew_credentials();
      changed = changed || corrected;
    }
    expired.push_back(i);
  }
  if (!changed) return results;
  std::vector<std::string> again;
  for (const std::size_t i : expired) again.push_back(bodies[i]);
  std::vector<Result<HttpReply>> repeated = post_once(again);
  for (std::size_t n = 0; n < expired.size(); ++n) results[expired[n]] = std::move(repeated[n]);
  return results;
}

Result<CallerIdentity> Connection::identify() const {
  TRY_ASSIGN(const StsClient sts,
             StsClient::of_settings(settings.choices, settings.region, *surroundings));
  TRY_ASSIGN(const Credentials keys, credentials->get());
  return sts.get_caller_identity(keys);
}

Result<Connection> connect_ec2(const AwsChoices& choices) {
  Connection connection;
  connection.surroundings = std::make_shared<const Surroundings>(real_surroundings());
  const Surroundings& from = *connection.surroundings;
  connection.settings.choices = choices;
  TRY_ASSIGN(connection.settings.region, resolve_region(choices, from));
  TRY_ASSIGN(connection.settings.endpoint,
             resolve_endpoint(choices, connection.settings.region, from));
  TRY_ASSIGN(connection.settings.ca_file, resolve_ca_file(choices, from));
  const auto random = [engine = std::mt19937_64(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
  };
  AwsChoices chosen = choices;
  chosen.region = connection.settings.region;
  connection.credentials = std::make_shared<CredentialCache>(
      [chosen, shared = connection.surroundings] { return resolve_credentials(chosen, *shared); },
      from.now, random);
  TRY(connection.credentials->get());  // a mistake is told before anything else is done
  HttpTransportSettings settings;
  settings.endpoint = connection.settings.endpoint;
  settings.region = connection.settings.region;
  settings.ca_file = connection.settings.ca_file;
  settings.on_refused = [cache = connection.credentials](const Credentials& keys) {
    cache->refused(keys);
  };
  const auto source = [cache = connection.credentials] { return cache->get(); };
  connection.transport = std::make_unique<HttpTransport>(std::move(settings), source, from.now);
  connection.ec2 = std::make_unique<Ec2Client>(*connection.transport, from.sleep, random);
  return connection;
}

}  // namespace warmroot::aws
