#include "bootstrap/imds.hpp"

#include <algorithm>
#include <cstdlib>

namespace warmroot::bootstrap {
namespace {

constexpr char kDefaultEndpoint[] = "http://169.254.169.254";
/// The SDKs use one second; the service is one hop away.
constexpr std::chrono::milliseconds kConnectTimeout{1000};
constexpr std::chrono::milliseconds kRequestTimeout{2000};
constexpr char kTokenSeconds[] = "21600";  // the longest life a token can have
constexpr std::chrono::milliseconds kFirstPause{1000}, kLastPause{30'000};
/// cloud-init waits 240 s for the service.
constexpr int kPromptAttempts = 240;

}  // namespace

Imds::Imds(std::optional<std::string> endpoint) {
  const char* environment = std::getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint)
    endpoint_ = *endpoint;
  else if (environment != nullptr && *environment != '\0')
    endpoint_ = environment;
  else
    endpoint_ = kDefaultEndpoint;
  while (!endpoint_.empty() && endpoint_.back() == '/') endpoint_.pop_back();
}

Ok Imds::renew_token() {
  HttpRequest request;
  request.method = "PUT";
  request.url = endpoint_ + "/latest/api/token";
  request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", kTokenSeconds}};
  request.connect_timeout = kConnectTimeout;
  request.timeout = kRequestTimeout;
  TRY_ASSIGN(const HttpReply reply, http_.perform(request));
  if (reply.status != 200 || reply.body.empty())
    return fail(ErrorKind::refused,
                "the metadata service answered " + std::to_string(reply.status) + " for a token");
  token_ = reply.body;
  return {};
}

Result<std::optional<std::string>> Imds::find(const std::string& path) {
  for (int attempt = 0;; ++attempt) {
    if (token_.empty()) TRY(renew_token());
    HttpRequest request;
    request.url = endpoint_ + "/latest/" + path;
    request.headers = {{"X-aws-ec2-metadata-token", token_}};
    request.connect_timeout = kConnectTimeout;
    request.timeout = kRequestTimeout;
    TRY_ASSIGN(HttpReply reply, http_.perform(request));
    if (reply.status == 200) return std::optional<std::string>(std::move(reply.body));
    if (reply.status == 404) return std::optional<std::string>();
    token_.clear();
    if (reply.status != 401 || attempt > 0)
      return fail(ErrorKind::refused,
                  "the metadata service answered " + std::to_string(reply.status) + " for " + path);
  }
}

Result<LaunchFacts> Imds::launch_facts() {
  LaunchFacts facts;
  TRY_ASSIGN(const auto instance_id, find("meta-data/instance-id"));
  TRY_ASSIGN(const auto zone, find("meta-data/placement/availability-zone"));
  TRY_ASSIGN(const auto mapping, find("meta-data/block-device-mapping/"));
  for (const auto& entry : mapping_entries(mapping.value_or(""))) {
    TRY_ASSIGN(const auto device, find("meta-data/block-device-mapping/" + entry));
    if (device) add_device(facts, *device);
  }
  TRY_ASSIGN(const auto key, find("meta-data/public-keys/0/openssh-key"));
  TRY(set_identity(facts, instance_id.value_or(""), zone.value_or(""), key.value_or("")));
  return facts;
}

std::string Imds::instance_type() {
  const auto type = find("meta-data/instance-type");
  return type && *type ? instance_type_of(**type) : std::string();
}

Result<LaunchFacts> ask_until_answered(
    const std::function<Result<LaunchFacts>()>& ask,
    const std::function<bool(std::chrono::milliseconds)>& stops_within,
    const std::function<void(const Error&)>& on_silence) {
  std::chrono::milliseconds pause = kFirstPause;
  for (int attempt = 1;; ++attempt) {
    auto facts = ask();
    if (facts) return facts;
    if (attempt == kPromptAttempts) on_silence(facts.error());
    if (attempt >= kPromptAttempts) pause = std::min(2 * pause, kLastPause);
    if (stops_within(pause)) return facts;
  }
}

Result<std::optional<std::string>> Imds::identity_signature() {
  auto signature = find("dynamic/instance-identity/rsa2048");
  if (signature && *signature && (*signature)->size() > kMaxSignatureBytes) return std::nullopt;
  return signature;
}

}  // namespace warmroot::bootstrap
