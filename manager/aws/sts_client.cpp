// See sts_client.hpp.
#include "manager/aws/sts_client.hpp"

#include "manager/aws/http_date.hpp"
#include "manager/aws/retry.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kFormType = "application/x-www-form-urlencoded; charset=utf-8";
constexpr Milliseconds kStsTimeout{10'000};
/// STS refuses signatures that are five minutes off; less than this is not the reason.
constexpr std::chrono::minutes kStsSkewWorthCorrecting{4};

/// How far the reply's clock is ahead of ours; 0 where it does not say or the difference is small.
Milliseconds skew_of(const HttpReply& reply, Instant now) {
  const auto date = reply.headers.find("date");
  const auto theirs = date == reply.headers.end() ? std::nullopt : parse_http_date(date->second);
  if (!theirs || std::chrono::abs(*theirs - now) < kStsSkewWorthCorrecting) return Milliseconds(0);
  return *theirs - now;
}

/// A refusal may repeat what was sent; whatever is secret is cut out of it.
Error without(Error error, const Secret& secret) {
  error.context = hide(std::move(error.context), secret);
  return error;
}

}  // namespace

Result<StsClient> StsClient::of_settings(const AwsChoices& choices, const std::string& region,
                                         const Surroundings& from) {
  StsClient client(from);
  TRY_ASSIGN(client.address_, resolve_service(Service::sts, choices, region, from));
  TRY_ASSIGN(client.ca_file_, resolve_ca_file(choices, from));
  return client;
}

HttpRequest StsClient::request_for(const std::string& body, const Credentials* credentials,
                                   Milliseconds skew) const {
  HttpRequest request;
  request.method = "POST";
  request.url = address_.endpoint.url();
  request.body = body;
  request.ca_file = ca_file_;
  request.timeout = kStsTimeout;
  if (credentials != nullptr) {
    SigningRequest signing;
    signing.body = body;
    signing.headers = {{"content-type", kFormType}, {"host", address_.endpoint.host_header()}};
    request.headers =
        sign(signing, *credentials, {from_->now() + skew, address_.signing_region, "sts"});
  }
  request.headers.emplace_back("content-type", kFormType);
  return request;
}

Result<HttpReply> StsClient::post(const std::string& body, const Credentials* credentials) const {
  Milliseconds skew{0};
  const auto ask = [&] { return from_->http(request_for(body, credentials, skew)); };
  return ask_repeatedly(*from_, ask, [&](const Result<HttpReply>& reply) {
    if (has_trouble(reply)) return true;
    const bool clock_may_be_wrong =
        reply->status >= 400 && credentials != nullptr && skew == Milliseconds(0);
    if (clock_may_be_wrong) skew = skew_of(*reply, from_->now());
    return clock_may_be_wrong && skew != Milliseconds(0);
  });
}

Result<CallerIdentity> StsClient::get_caller_identity(const Credentials& credentials) const {
  auto reply = post(encode_get_caller_identity(), &credentials);
  if (!reply) {
    reply.error().kind = ErrorKind::retry_later;
    return fail(std::move(reply).error());
  }
  auto identity = decode_caller_identity(*reply);
  if (!identity) return fail(without(std::move(identity).error(), credentials.session_token));
  return identity;
}

Result<TemporaryCredentials> StsClient::assume_role(const Credentials& credentials,
                                                    const AssumeRole& call) const {
  TRY_ASSIGN(const HttpReply reply, post(encode(call), &credentials));
  auto found = decode_assumed_role(reply);
  if (!found) return fail(without(std::move(found).error(), credentials.session_token));
  return found;
}

Result<TemporaryCredentials> StsClient::assume_role(const AssumeRoleWithWebIdentity& call) const {
  TRY_ASSIGN(const HttpReply reply, post(encode(call).reveal(), nullptr));
  auto found = decode_assumed_role(reply);
  if (!found) return fail(without(std::move(found).error(), call.token));
  return found;
}

}  // namespace warmroot::aws
