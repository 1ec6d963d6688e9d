// See the header.
#include "manager/aws/sqs_client.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kJsonType = "application/x-amz-json-1.0";
/// Of a call that does not wait, and beyond the wait of one that does.
constexpr Milliseconds kCallTimeout{10'000};
/// Less than this is not why a signature was refused.
constexpr std::chrono::minutes kSkewWorthCorrecting{1};

/// Codes that new credentials, or a clock put right, may cure.
bool says_expired(const std::string& code) {
  return code == "ExpiredToken" || code == "ExpiredTokenException" || code == "RequestExpired" ||
         code == "InvalidClientTokenId" || code == "UnrecognizedClientException" ||
         code == "SignatureDoesNotMatch" || code == "AuthFailure" ||
         code == "InvalidSignatureException";
}

}  // namespace

SqsClient::SqsClient(QueueAddress queue, const Connection& connection,
                     const std::atomic<bool>* give_up)
    : queue_(std::move(queue)),
      credentials_(connection.credentials),
      clock_(connection.surroundings->now),
      ca_file_(connection.settings.ca_file),
      give_up_(give_up) {}

Result<HttpReply> SqsClient::post_once(const SqsCall& call, const Credentials& keys,
                                       Milliseconds timeout) {
  HttpRequest request;
  request.method = "POST";
  request.url = queue_.endpoint.url();
  request.body = call.body;
  request.ca_file = ca_file_;
  request.timeout = timeout;
  request.give_up = give_up_;
  SigningRequest signing;
  signing.body = call.body;
  signing.headers = {{"content-type", kJsonType},
                     {"host", queue_.endpoint.host_header()},
                     {"x-amz-target", call.target}};
  request.headers = sign(signing, keys, {clock_() + skew_, queue_.region, "sqs"});
  request.headers.emplace_back("content-type", kJsonType);
  request.headers.emplace_back("x-amz-target", call.target);
  auto reply = http_.perform(request);
  if (reply && reply->status >= 400) reply->body = hide(std::move(reply->body), keys.session_token);
  return reply;
}

Result<HttpReply> SqsClient::post(const SqsCall& call, Milliseconds timeout) {
  TRY_ASSIGN(Credentials keys, credentials_->get());
  auto reply = post_once(call, keys, timeout);
  if (!reply || !says_expired(sqs_code_of(*reply))) return reply;
  const auto date = reply->headers.find("date");
  const auto theirs = date == reply->headers.end() ? std::nullopt : parse_http_date(date->second);
  bool changed = false;
  if (theirs && std::chrono::abs(*theirs - clock_() - skew_) >= kSkewWorthCorrecting) {
    skew_ = *theirs - clock_();
    changed = true;
  } else {
    credentials_->refused(keys);
    TRY_ASSIGN(Credentials fresh, credentials_->get());
    changed = !(fresh == keys);
    keys = std::move(fresh);
  }
  return changed ? post_once(call, keys, timeout) : reply;
}

Result<std::vector<QueueMessage>> SqsClient::receive(std::chrono::seconds wait,
                                                     std::chrono::seconds visibility) {
  TRY_ASSIGN(const HttpReply reply,
             post(encode_receive(queue_.url, wait, visibility), kCallTimeout + wait));
  return decode_receive(reply);
}

Result<std::vector<std::size_t>> SqsClient::remove(std::span<const std::string> receipts) {
  TRY_ASSIGN(const HttpReply reply, post(encode_delete(queue_.url, receipts), kCallTimeout));
  return decode_delete(reply, receipts.size());
}

Ok SqsClient::probe() {
  TRY_ASSIGN(const HttpReply reply, post(encode_attributes(queue_.url), kCallTimeout));
  return decode_attributes(reply);
}

}  // namespace warmroot::aws
