// See aws_settings.hpp. The order of places is botocore's.
#include "manager/aws/aws_settings.hpp"

#include "manager/aws/instance_metadata.hpp"
#include "manager/aws/partition.hpp"

namespace warmroot::aws {
namespace {

/// A switch: the variable, else the profile's setting.
bool is_on(const Surroundings& from, const ChosenProfile& profile, const char* variable,
           const char* setting) {
  const std::string value = from.value(variable);
  return says_true(value.empty() ? profile.value(setting) : value);
}

Result<ServiceAddress> configured(const std::string& url, const std::string& region) {
  TRY_ASSIGN(Endpoint endpoint, parse_endpoint(url));
  return ServiceAddress{std::move(endpoint), region};
}

/// What the operator has written down for the service; empty: nothing.
std::string configured_url(Service service, const ChosenProfile& profile,
                           const Surroundings& from) {
  const ServiceNames& names = names_of(service);
  for (const std::string& name :
       {"AWS_ENDPOINT_URL_" + std::string(names.variable), std::string("AWS_ENDPOINT_URL")})
    if (const std::string url = from.value(name); !url.empty()) return url;
  if (const AwsSection* services =
          profile.files.config.section("services " + profile.value("services"))) {
    const auto found = services->find(std::string(names.setting) + ".endpoint_url");
    if (found != services->end() && !found->second.empty()) return found->second;
  }
  return profile.value("endpoint_url");
}

Result<ServiceAddress> of_region(Service service, const std::string& region,
                                 const ChosenProfile& profile, const Surroundings& from) {
  const EndpointVariant variant{
      is_on(from, profile, "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
      is_on(from, profile, "AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")};
  std::string sts = from.value("AWS_STS_REGIONAL_ENDPOINTS");
  if (sts.empty()) sts = profile.value("sts_regional_endpoints");
  const bool plain = !variant.fips && !variant.dual_stack;
  if (service == Service::sts && sts == "legacy" && plain && has_legacy_sts(region))
    return ServiceAddress{{"https", "sts.amazonaws.com", 0}, "us-east-1"};
  TRY_ASSIGN(Endpoint endpoint, default_endpoint(service, region, variant));
  return ServiceAddress{std::move(endpoint), region};
}

}  // namespace

Result<std::string> resolve_region(const AwsChoices& choices, const Surroundings& from) {
  std::string region = choices.region;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (region.empty()) region = from.value(name);
  if (!region.empty()) return region;
  TRY_ASSIGN(const ChosenProfile profile, load_profile(choices, from));
  region = profile.value("region");
  if (!region.empty()) return region;
  TRY_ASSIGN(const auto metadata, InstanceMetadata::of_settings(profile, from));
  if (metadata)
    if (const auto answer = metadata->get("/latest/meta-data/placement/region"))
      if (is_region_name(*answer)) return *answer;
  return fail(ErrorKind::misconfigured,
              "no Region: give --region, or set AWS_REGION, or set region for profile " +
                  profile.choice.name + " in " + profile.files.config.path);
}

Result<ServiceAddress> resolve_service(Service service, const AwsChoices& choices,
                                       const std::string& region, const Surroundings& from) {
  if (!choices.endpoint_url.empty() && service == Service::ec2)
    return configured(choices.endpoint_url, region);
  TRY_ASSIGN(const ChosenProfile profile, load_profile(choices, from));
  const bool ignored = is_on(from, profile, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                             "ignore_configured_endpoint_urls");
  if (const std::string url = configured_url(service, profile, from); !ignored && !url.empty())
    return configured(url, region);
  if (!choices.endpoint_url.empty()) {
    // A simulated Region has everything at one address; a VPC endpoint is EC2's alone.
    TRY_ASSIGN(ServiceAddress address, configured(choices.endpoint_url, region));
    if (!is_aws_host(address.endpoint.host)) return address;
  }
  return of_region(service, region, profile, from);
}

Result<QueueAddress> resolve_queue(const std::string& url, const AwsChoices& choices,
                                   const std::string& region, const Surroundings& from) {
  TRY_ASSIGN(QueueAddress queue, parse_queue_url(url, region));
  if (!is_aws_host(queue.endpoint.host)) return queue;
  TRY_ASSIGN(ServiceAddress address, resolve_service(Service::sqs, choices, queue.region, from));
  TRY_ASSIGN(const Endpoint plain, default_endpoint(Service::sqs, queue.region, {}));
  // Variants of the Region's own name do not replace a VPC's endpoint.
  const bool of_vpc = queue.endpoint.host.find(".vpce.") != std::string::npos;
  if (address.endpoint.url() != plain.url() && !(of_vpc && is_aws_host(address.endpoint.host)))
    queue.endpoint = std::move(address.endpoint);
  return queue;
}

Result<Endpoint> resolve_endpoint(const AwsChoices& choices, const std::string& region,
                                  const Surroundings& from) {
  TRY_ASSIGN(ServiceAddress address, resolve_service(Service::ec2, choices, region, from));
  return std::move(address.endpoint);
}

Result<std::string> resolve_ca_file(const AwsChoices& choices, const Surroundings& from) {
  if (const std::string file = from.value("AWS_CA_BUNDLE"); !file.empty()) return file;
  TRY_ASSIGN(const ChosenProfile profile, load_profile(choices, from));
  return profile.value("ca_bundle");
}

}  // namespace warmroot::aws
