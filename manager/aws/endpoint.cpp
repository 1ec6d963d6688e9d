// See endpoint.hpp.
#include "manager/aws/endpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "bootstrap/base/words.hpp"
#include "manager/aws/partition.hpp"

namespace warmroot::aws {
namespace {

int default_port(std::string_view scheme) {
  return scheme == "https" ? 443 : 80;
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

const ServiceNames& names_of(Service service) {
  static constexpr std::array kNames = std::to_array<ServiceNames>({
      {"ec2", "ec2", "EC2", "ec2"},
      {"sts", "sts", "STS", "sts"},
      {"sqs", "sqs", "SQS", "sqs"},
      {"ebs", "ebs", "EBS", "ebs"},
      {"", "portal.sso", "SSO", "sso"},
      {"", "oidc", "SSO_OIDC", "sso_oidc"},
      {"servicequotas", "servicequotas", "SERVICE_QUOTAS", "service_quotas"},
      {"kms", "kms", "KMS", "kms"},
  });
  return kNames.at(static_cast<std::size_t>(service));
}

Result<Endpoint> default_endpoint(Service service, std::string_view region,
                                  EndpointVariant variant) {
  if (!is_region_name(region))
    return fail(ErrorKind::misconfigured,
                "'" + std::string(region) + "' is no Region's name (such as us-east-1)");
  const Partition& partition = partition_of(region);
  std::string host(names_of(service).host);
  // The ordinary endpoints of GovCloud are FIPS endpoints, but for EBS direct's and KMS's.
  const bool is_fips_anyway = partition.id == "aws-us-gov" && !variant.dual_stack &&
                              service != Service::ebs && service != Service::kms;
  if (variant.fips && !is_fips_anyway) host += "-fips";
  host += "." + std::string(region) + ".";
  host += variant.dual_stack ? partition.dual_stack_suffix : partition.dns_suffix;
  return Endpoint{"https", host, 0};
}

Result<Endpoint> default_ec2_endpoint(std::string_view region) {
  return default_endpoint(Service::ec2, region);
}

bool has_legacy_sts(std::string_view region) {
  static constexpr std::array kRegions = std::to_array<std::string_view>(
      {"ap-northeast-1", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "aws-global",
       "ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3",
       "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2"});
  return std::find(kRegions.begin(), kRegions.end(), region) != kRegions.end();
}

}  // namespace warmroot::aws
