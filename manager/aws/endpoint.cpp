// See endpoint.hpp.
#include "manager/aws/endpoint.hpp"

#include <algorithm>
#include <charconv>

namespace warmroot::aws {
namespace {

int default_port(std::string_view scheme) {
  return scheme == "https" ? 443 : 80;
}

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// DNS suffixes of the partitions other than "aws". Source: botocore's partitions data.
std::string_view dns_suffix(std::string_view region) {
  struct Partition {
    std::string_view prefix;
    std::string_view suffix;
  };
  static constexpr Partition kPartitions[] = {
      {"cn-", "amazonaws.com.cn"},    {"us-iso-", "c2s.ic.gov"},      {"us-isob-", "sc2s.sgov.gov"},
      {"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"}, {"eusc-", "amazonaws.eu"},
  };
  for (const Partition& partition : kPartitions)
    if (region.starts_with(partition.prefix)) return partition.suffix;
  return "amazonaws.com";
}

}  // namespace

std::string Endpoint::url() const {
  return scheme + "://" + host_header() + "/";
}

std::string Endpoint::host_header() const {
  const bool own_port = port == 0 || port == default_port(scheme);
  return own_port ? host : host + ":" + std::to_string(port);
}

Result<Endpoint> parse_endpoint(std::string_view url) {
  const auto wrong = [url](const char* what) {
    return fail(ErrorKind::misconfigured, "endpoint URL '" + std::string(url) + "': " + what);
  };
  Endpoint endpoint;
  std::string_view rest = url;
  for (const std::string_view scheme : {"https", "http"}) {
    const std::string start = std::string(scheme) + "://";
    if (!lower(url.substr(0, start.size())).starts_with(start)) continue;
    endpoint.scheme = scheme;
    rest.remove_prefix(start.size());
    break;
  }
  if (endpoint.scheme.empty()) return wrong("it has to begin with https:// or http://");
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#") != std::string_view::npos)
    return wrong("a path or query is not supported");
  if (rest.find('@') != std::string_view::npos) return wrong("user names are not supported");
  const std::size_t bracket = rest.rfind(']');
  const std::size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  endpoint.host = lower(rest.substr(0, colon));
  if (endpoint.host.empty()) return wrong("it has no host");
  if (endpoint.host.find_first_of(" \t\r\n") != std::string::npos) return wrong("it has a space");
  if (colon == std::string_view::npos) return endpoint;
  const std::string_view digits = rest.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  constexpr int kMaxPort = 65535;
  if (error != std::errc{} || end != digits.data() + digits.size() || endpoint.port < 1 ||
      endpoint.port > kMaxPort)
    return wrong("the port is no number from 1 to 65535");
  return endpoint;
}

Result<Endpoint> default_ec2_endpoint(std::string_view region) {
  const bool plausible = !region.empty() && std::all_of(region.begin(), region.end(), [](char c) {
    return is_lower_or_digit(c) || c == '-';
  });
  if (!plausible)
    return fail(ErrorKind::misconfigured,
                "'" + std::string(region) + "' is no Region's name (such as us-east-1)");
  return Endpoint{"https", "ec2." + std::string(region) + "." + std::string(dns_suffix(region)), 0};
}

}  // namespace warmroot::aws
