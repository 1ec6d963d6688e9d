// See instance_metadata.hpp.
#include "manager/aws/instance_metadata.hpp"

#include <algorithm>
#include <charconv>

namespace warmroot::aws {
namespace {

constexpr const char* kIpv4 = "http://169.254.169.254";
constexpr const char* kIpv6 = "http://[fd00:ec2::254]";
constexpr const char* kTokenSeconds = "21600";
/// A service that is there but has trouble (503, an answer that does not come) is asked so often at
/// least. Source: ec2.md 6.1; the SDKs make one attempt, and CI systems raise it.
constexpr int kAttemptsWhenThere = 3;
constexpr Milliseconds kPause{100};

/// A small whole number; nullopt when it is none.
std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr int kMost = 3600;
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMost)
    return std::nullopt;
  return value;
}

bool same_word(std::string text, const std::string& lower_word) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text == lower_word;
}

/// The variable, else the profile's setting, else empty.
std::string setting(const ChosenProfile& profile, const Surroundings& from, const char* variable,
                    const char* key) {
  const std::string value = from.value(variable);
  return value.empty() ? profile.value(key) : value;
}

}  // namespace

Result<std::optional<InstanceMetadata>> InstanceMetadata::of_settings(const ChosenProfile& profile,
                                                                      const Surroundings& from) {
  if (from.is_on("AWS_EC2_METADATA_DISABLED") || !from.http)
    return std::optional<InstanceMetadata>{};
  std::string address =
      setting(profile, from, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint");
  const std::string mode = setting(profile, from, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                   "ec2_metadata_service_endpoint_mode");
  if (address.empty()) address = same_word(mode, "ipv6") ? kIpv6 : kIpv4;
  while (address.ends_with('/')) address.pop_back();
  if (!address.starts_with("http://") && !address.starts_with("https://"))
    return fail(ErrorKind::misconfigured,
                "AWS_EC2_METADATA_SERVICE_ENDPOINT has to begin with http://");
  InstanceMetadata metadata(from, std::move(address));
  if (const auto seconds = number(
          setting(profile, from, "AWS_METADATA_SERVICE_TIMEOUT", "metadata_service_timeout")))
    metadata.timeout_ = std::chrono::seconds(*seconds);
  if (const auto attempts = number(setting(profile, from, "AWS_METADATA_SERVICE_NUM_ATTEMPTS",
                                           "metadata_service_num_attempts")))
    metadata.attempts_ = *attempts;
  return std::optional<InstanceMetadata>(std::move(metadata));
}

HttpRequest InstanceMetadata::request_for(const std::string& path) const {
  HttpRequest request;
  request.url = address_ + path;
  request.connect_timeout = timeout_;
  request.timeout = timeout_;
  return request;
}

Result<HttpReply> InstanceMetadata::ask(const HttpRequest& request) const {
  for (int attempt = 1;; ++attempt) {
    Result<HttpReply> reply = from_->http(request);
    const bool has_trouble = reply && reply->status >= 500;
    if (reply && !has_trouble) return reply;
    // No connection at all is what a host outside of EC2 looks like: no reason to insist.
    const bool is_there = reply || reply.error().kind == ErrorKind::unknown_outcome;
    const int most = is_there ? std::max(attempts_, kAttemptsWhenThere) : attempts_;
    if (attempt >= most) {
      if (reply)
        return fail(ErrorKind::retry_later,
                    "the instance metadata service answers " + std::to_string(reply->status));
      return fail(ErrorKind::retry_later,
                  "the instance metadata service at " + address_ + " does not answer");
    }
    if (from_->sleep) from_->sleep(kPause);
  }
}

Result<std::string> InstanceMetadata::get(const std::string& path) const {
  // A token for each question: they are minutes apart, and a kept one would have to be renewed.
  HttpRequest token_request = request_for("/latest/api/token");
  token_request.method = "PUT";
  token_request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", kTokenSeconds}};
  TRY_ASSIGN(HttpReply token, ask(token_request));
  if (token.status != 200)
    return fail(
        token.status == 403 ? ErrorKind::refused : ErrorKind::broken,
        "the instance metadata service gives no token (HTTP " + std::to_string(token.status) + ")");
  HttpRequest request = request_for(path);
  request.headers = {{"X-aws-ec2-metadata-token", token.body}};
  TRY_ASSIGN(HttpReply reply, ask(request));
  if (reply.status == 200) return std::move(reply.body);
  const ErrorKind kind = reply.status == 404   ? ErrorKind::gone
                         : reply.status == 403 ? ErrorKind::refused
                                               : ErrorKind::broken;
  return fail(kind, "the instance metadata service answers " + std::to_string(reply.status) +
                        " to " + path);
}

}  // namespace warmroot::aws
