// Where AWS's services are: a parsed endpoint URL, and the default one of a service in a Region.
// Pure. Which of them the operator's settings choose is aws_settings.cpp's business.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/base/result.hpp"

namespace warmroot::aws {

struct Endpoint {
  std::string scheme;  ///< http | https
  std::string host;    ///< lower case; an IPv6 address keeps its brackets
  int port = 0;        ///< 0: the scheme's own

  /// "http://127.0.0.1:8080/"
  std::string url() const;
  /// The Host header as libcurl will send it, and as it has to be signed: with the port where it is
  /// not the scheme's.
  std::string host_header() const;
};

/// Parses `http[s]://host[:port][/]`. Errors: misconfigured, saying what is wrong.
Result<Endpoint> parse_endpoint(std::string_view url);

/// The services we call.
enum class Service { ec2, sts, sqs, ebs, sso, sso_oidc, service_quotas, kms };

struct ServiceNames {
  std::string_view signing;   ///< in SigV4's scope; SSO's two are not signed
  std::string_view host;      ///< first part of the host name
  std::string_view variable;  ///< AWS_ENDPOINT_URL_<this>
  std::string_view setting;   ///< its block in a `[services ...]` section
};
const ServiceNames& names_of(Service service);

/// Which of a Region's endpoints.
struct EndpointVariant {
  bool fips = false;
  bool dual_stack = false;
};

/// https://<service>.<region>.<suffix of the Region's partition>, with the names of FIPS and
/// dual-stack endpoints. Errors: misconfigured for what cannot be a Region's name.
Result<Endpoint> default_endpoint(Service service, std::string_view region,
                                  EndpointVariant variant = {});

/// default_endpoint() of EC2.
Result<Endpoint> default_ec2_endpoint(std::string_view region);

/// True for the Regions whose STS calls went to sts.amazonaws.com (signed for us-east-1) before
/// there were regional endpoints, and still do with AWS_STS_REGIONAL_ENDPOINTS=legacy.
bool has_legacy_sts(std::string_view region);

}  // namespace warmroot::aws
