// The credentials endpoint of ECS and of EKS pod identity, and any other that follows their rules.
#include <algorithm>
#include <array>
#include <string_view>

#include "manager/aws/credentials_provider.hpp"
#include "manager/aws/retry.hpp"

namespace warmroot::aws {
namespace {

constexpr const char* kEcs = "http://169.254.170.2";
/// As botocore's.
constexpr Milliseconds kContainerTimeout{2'000};

/// Where plain HTTP may go: this host, ECS, and EKS in both families.
bool may_be_plain(const std::string& host) {
  constexpr std::array<std::string_view, 6> kHosts = {
      "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "[fd00:ec2::2]"};
  if (std::find(kHosts.begin(), kHosts.end(), host) != kHosts.end()) return true;
  const bool dotted = std::all_of(host.begin(), host.end(),
                                  [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return dotted && host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3;
}

Ok check_url(const std::string& url) {
  const auto wrong = [](const std::string& what) {
    return fail(ErrorKind::misconfigured, "AWS_CONTAINER_CREDENTIALS_FULL_URI " + what);
  };
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return wrong("is no URL");
  const std::size_t path = url.find_first_of("/?#", scheme + 3);
  const auto endpoint = parse_endpoint(url.substr(0, path));
  if (!endpoint) return wrong("cannot be used: " + endpoint.error().context);
  if (endpoint->scheme == "https" || may_be_plain(endpoint->host)) return {};
  return wrong("names " + endpoint->host +
               ", where credentials may not be fetched by plain http: use https, this host, "
               "169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
}

/// The Authorization header's value; empty: none is wanted.
Result<Secret> authorization(const Surroundings& from) {
  std::string token = from.value("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  // Read each time: EKS writes a new token there.
  if (const std::string file = from.value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
      !file.empty()) {
    auto text = from.read_file(file);
    if (!text) return fail(std::move(text).error().within("the container's authorization token"));
    token = std::move(*text);
    if (token.ends_with('\n')) token.pop_back();
  }
  if (token.find_first_of("\r\n") != std::string::npos)
    return fail(ErrorKind::misconfigured,
                "the container's authorization token has a line break in it");
  return Secret(std::move(token));
}

}  // namespace

Looked find_container(const Lookup& lookup) {
  const Surroundings& from = lookup.from;
  const std::string relative = from.value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url = from.value("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && url.empty()) {
    lookup.looked.emplace_back("no container (AWS_CONTAINER_CREDENTIALS_*)");
    return std::optional<FoundCredentials>{};
  }
  HttpRequest request;
  if (!relative.empty()) {
    if (!relative.starts_with('/'))
      return fail(ErrorKind::misconfigured,
                  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI has to begin with /");
    url = kEcs + relative;
  } else {
    TRY(check_url(url));
    TRY_ASSIGN(const Secret token, authorization(from));
    if (!token.empty()) request.headers.emplace_back("Authorization", token.reveal());
    TRY_ASSIGN(request.ca_file, resolve_ca_file(lookup.choices, from));
  }
  request.url = url;
  request.headers.emplace_back("Accept", "application/json");
  request.connect_timeout = kContainerTimeout;
  request.timeout = kContainerTimeout;
  const std::string source = "the container's credentials endpoint";
  const auto reply = ask_repeatedly(
      from, [&] { return from.http(request); }, has_trouble);
  if (!reply) return fail(ErrorKind::retry_later, source + " does not answer");
  if (reply->status != 200) {
    const ErrorKind kind = reply->status >= 500 ? ErrorKind::retry_later : ErrorKind::unauthorised;
    return fail(kind, source + " answers " + std::to_string(reply->status));
  }
  auto keys = parse_metadata_credentials(reply->body);
  if (!keys) return fail(std::move(keys).error().within("the answer of " + source));
  return std::optional<FoundCredentials>(as_found(std::move(*keys), source));
}

}  // namespace warmroot::aws
