// Region, endpoints and certificates as the operator has set them: command line, environment and
// the files of the AWS CLI, with the names and the order of the AWS SDKs.
#pragma once

#include <string>

#include "manager/aws/endpoint.hpp"
#include "manager/aws/profile.hpp"
#include "manager/aws/sqs.hpp"

namespace warmroot::aws {

/// explicit > AWS_REGION > AWS_DEFAULT_REGION > the profile's > the instance's own. Errors:
/// misconfigured.
Result<std::string> resolve_region(const AwsChoices& choices, const Surroundings& from);

/// Where a service is, and for which Region requests to it are signed.
struct ServiceAddress {
  Endpoint endpoint;
  std::string signing_region;
};

/// explicit > AWS_ENDPOINT_URL_<SERVICE> > AWS_ENDPOINT_URL > the profile's services section > its
/// endpoint_url > the Region's own (FIPS and dual-stack ones where AWS_USE_FIPS_ENDPOINT and
/// AWS_USE_DUALSTACK_ENDPOINT or the profile ask for them).
/// AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true leaves the explicit one and the Region's. The explicit
/// one is EC2's; the other services are there as well unless its host is AWS's. Errors:
/// misconfigured.
Result<ServiceAddress> resolve_service(Service service, const AwsChoices& choices,
                                       const std::string& region, const Surroundings& from);

/// Where a queue is asked: at its URL's host, or at what resolve_service() says of SQS where that
/// is not the Region's plain endpoint, or where the URL names AWS and everything else is simulated.
/// The calls name the URL either way. Errors: misconfigured.
Result<QueueAddress> resolve_queue(const std::string& url, const AwsChoices& choices,
                                   const std::string& region, const Surroundings& from);

/// resolve_service() of EC2.
Result<Endpoint> resolve_endpoint(const AwsChoices& choices, const std::string& region,
                                  const Surroundings& from);

/// AWS_CA_BUNDLE, else the profile's ca_bundle, else empty: the system's.
Result<std::string> resolve_ca_file(const AwsChoices& choices, const Surroundings& from);

}  // namespace warmroot::aws
