// See the header.
#include "manager/aws/signed_http.hpp"

namespace warmroot::aws {

SignedHttp::SignedHttp(ServiceAddress address, std::string service, const Connection& connection,
                       const std::atomic<bool>* give_up)
    : address_(std::move(address)),
      service_(std::move(service)),
      credentials_(connection.credentials),
      clock_(connection.surroundings->now),
      ca_file_(connection.settings.ca_file),
      give_up_(give_up) {}

Result<HttpReply> SignedHttp::send_once(SigningRequest signing, const Credentials& keys,
                                        Milliseconds timeout) {
  HttpRequest request;
  request.method = signing.method;
  request.url = address_.endpoint.url() + signing.path.substr(1);
  if (!signing.query.empty()) request.url += "?" + canonical_query(signing.query);
  request.body = signing.body;
  request.ca_file = ca_file_;
  request.timeout = timeout;
  request.give_up = give_up_;
  request.headers = signing.headers;
  signing.headers.emplace_back("host", address_.endpoint.host_header());
  for (auto& header : sign(signing, keys, {clock_() + skew_, address_.signing_region, service_}))
    request.headers.push_back(std::move(header));
  auto reply = http_.perform(request);
  if (reply && reply->status >= 400) reply->body = hide(std::move(reply->body), keys.session_token);
  return reply;
}

Result<HttpReply> SignedHttp::send(const SigningRequest& request, Milliseconds timeout,
                                   const CodeOf& code_of) {
  CHECK(request.path.starts_with('/'));
  TRY_ASSIGN(Credentials keys, credentials_->get());
  auto reply = send_once(request, keys, timeout);
  if (!reply || !may_be_expired(code_of(*reply))) return reply;
  const auto date = reply->headers.find("date");
  const auto theirs = date == reply->headers.end() ? std::nullopt : parse_http_date(date->second);
  bool changed = theirs && std::chrono::abs(*theirs - clock_() - skew_) >= kSkewWorthCorrecting;
  if (changed) skew_ = *theirs - clock_();
  if (!changed || is_about_keys(code_of(*reply))) {
    credentials_->refused(keys);
    Result<Credentials> fresh = credentials_->get();
    if (!fresh && !changed) return fail(fresh.error());
    changed = changed || !(*fresh == keys);
    if (fresh) keys = std::move(*fresh);
  }
  return changed ? send_once(request, keys, timeout) : reply;
}

}  // namespace warmroot::aws
