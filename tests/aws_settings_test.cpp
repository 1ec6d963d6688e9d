// Region, endpoints and certificates: the SDKs' variables and settings in their order, and the
// names of all partitions' endpoints as botocore makes them.
#include "manager/aws/aws_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "manager/aws/partition.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;

namespace {

/// The fake's functions point into it, so it lives as long as the test.
Surroundings around(const Texts& variables, const Texts& files = {}) {
  static std::deque<std::unique_ptr<FakeSurroundings>> kept;
  kept.push_back(std::make_unique<FakeSurroundings>(variables, files));
  return kept.back()->get();
}

AwsChoices profile(const std::string& name) {
  return {name, "", ""};
}

std::string url_of(const Result<ServiceAddress>& address) {
  if (!address) return "error: " + address.error().context;
  return address->endpoint.url() + " " + address->signing_region;
}

}  // namespace

TEST(Partition, every_region_has_its_suffixes_and_arns) {
  struct Case {
    const char* region;
    const char* partition;
    const char* suffix;
    const char* dual_stack;
  };
  for (const Case& test : std::vector<Case>{
           {"us-east-1", "aws", "amazonaws.com", "api.aws"},
           {"mx-central-1", "aws", "amazonaws.com", "api.aws"},
           {"eu-newplace-9", "aws", "amazonaws.com", "api.aws"},
           {"us-gov-west-1", "aws-us-gov", "amazonaws.com", "api.aws"},
           {"us-gov-newplace-12", "aws-us-gov", "amazonaws.com", "api.aws"},
           {"cn-northwest-1", "aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn"},
           {"eusc-de-east-1", "aws-eusc", "amazonaws.eu", "api.amazonwebservices.eu"},
           {"us-iso-west-1", "aws-iso", "c2s.ic.gov", "api.aws.ic.gov"},
           {"us-isob-east-1", "aws-iso-b", "sc2s.sgov.gov", "api.aws.scloud"},
           {"eu-isoe-west-1", "aws-iso-e", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"},
           {"us-isof-south-1", "aws-iso-f", "csp.hci.ic.gov", "api.aws.hci.ic.gov"},
           {"aws-cn-global", "aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn"}}) {
    const Partition& found = partition_of(test.region);
    EXPECT_EQ(found.id, test.partition) << test.region;
    EXPECT_EQ(found.dns_suffix, test.suffix) << test.region;
    EXPECT_EQ(found.dual_stack_suffix, test.dual_stack) << test.region;
    EXPECT_EQ(find_partition(test.partition), &found);
    EXPECT_TRUE(is_aws_host("ec2." + std::string(test.region) + "." + test.suffix));
  }
  EXPECT_FALSE(is_aws_host("127.0.0.1"));
  EXPECT_FALSE(is_aws_host("evilamazonaws.com"));
  EXPECT_TRUE(is_aws_host("vpce-1.ec2.us-east-1.vpce.amazonaws.com"));
}

TEST(Partition, arns_are_taken_apart) {
  const Arn arn = split_arn("arn:aws-cn:iam::111122223333:role/path/name:x");
  EXPECT_EQ(arn.partition, "aws-cn");
  EXPECT_EQ(arn.service, "iam");
  EXPECT_EQ(arn.account, "111122223333");
  EXPECT_EQ(arn.resource, "role/path/name:x");
  for (const char* bad : {"", "arn", "arn:aws:iam::1", "urn:aws:iam::1:role/x"})
    EXPECT_EQ(split_arn(bad).service, "") << bad;
}

TEST(EndpointOf, services_have_the_names_that_botocore_gives_them) {
  struct Case {
    Service service;
    const char* region;
    EndpointVariant variant;
    const char* host;
  };
  using enum Service;
  constexpr EndpointVariant kFips{true, false};
  constexpr EndpointVariant kDual{false, true};
  constexpr EndpointVariant kBoth{true, true};
  for (const Case& test : std::vector<Case>{
           {ec2, "us-east-1", {}, "ec2.us-east-1.amazonaws.com"},
           {ec2, "us-east-1", kFips, "ec2-fips.us-east-1.amazonaws.com"},
           {ec2, "us-east-1", kDual, "ec2.us-east-1.api.aws"},
           {ec2, "us-east-1", kBoth, "ec2-fips.us-east-1.api.aws"},
           {ec2, "us-gov-west-1", kFips, "ec2.us-gov-west-1.amazonaws.com"},
           {ec2, "us-gov-west-1", kBoth, "ec2-fips.us-gov-west-1.api.aws"},
           {ec2, "cn-north-1", {}, "ec2.cn-north-1.amazonaws.com.cn"},
           {ec2, "cn-north-1", kDual, "ec2.cn-north-1.api.amazonwebservices.com.cn"},
           {ec2, "us-iso-east-1", {}, "ec2.us-iso-east-1.c2s.ic.gov"},
           {ec2, "us-isob-east-1", {}, "ec2.us-isob-east-1.sc2s.sgov.gov"},
           {ec2, "us-isof-south-1", {}, "ec2.us-isof-south-1.csp.hci.ic.gov"},
           {ec2, "eu-isoe-west-1", {}, "ec2.eu-isoe-west-1.cloud.adc-e.uk"},
           {ec2, "eusc-de-east-1", {}, "ec2.eusc-de-east-1.amazonaws.eu"},
           {sts, "us-gov-east-1", kFips, "sts.us-gov-east-1.amazonaws.com"},
           {sts, "us-iso-east-1", kFips, "sts-fips.us-iso-east-1.c2s.ic.gov"},
           {sqs, "eusc-de-east-1", kDual, "sqs.eusc-de-east-1.api.amazonwebservices.eu"},
           {ebs, "us-gov-west-1", kFips, "ebs-fips.us-gov-west-1.amazonaws.com"},
           {ebs, "ap-southeast-1", {}, "ebs.ap-southeast-1.amazonaws.com"},
           {service_quotas, "us-gov-west-1", kFips, "servicequotas.us-gov-west-1.amazonaws.com"},
           {service_quotas, "cn-north-1", {}, "servicequotas.cn-north-1.amazonaws.com.cn"},
           {kms, "us-gov-west-1", kFips, "kms-fips.us-gov-west-1.amazonaws.com"},
           {kms, "eusc-de-east-1", {}, "kms.eusc-de-east-1.amazonaws.eu"},
           {sso, "us-east-1", {}, "portal.sso.us-east-1.amazonaws.com"},
           {sso, "us-isob-east-1", kFips, "portal.sso-fips.us-isob-east-1.sc2s.sgov.gov"},
           {sso_oidc, "cn-north-1", kBoth, "oidc-fips.cn-north-1.api.amazonwebservices.com.cn"}}) {
    const auto endpoint = default_endpoint(test.service, test.region, test.variant);
    ASSERT_TRUE(endpoint);
    EXPECT_EQ(endpoint->host, test.host);
    EXPECT_EQ(endpoint->scheme, "https");
  }
  for (const char* bad : {"", "us east", "us-east-1.evil.com", "US-EAST-1", "a/b"})
    EXPECT_EQ(default_ec2_endpoint(bad).error().kind, ErrorKind::misconfigured) << bad;
}

TEST(EndpointOf, fips_and_dual_stack_are_asked_for_by_variable_or_profile_and_own_urls_win) {
  const Texts files = {
      {kConfig, "[profile p]\nuse_fips_endpoint = true\nuse_dualstack_endpoint = True\n"}};
  const std::string region = "eu-west-1";
  const auto ec2 = [&](const AwsChoices& choices, const Texts& variables) {
    return url_of(resolve_service(Service::ec2, choices, region, around(variables, files)));
  };
  EXPECT_EQ(ec2({}, {{"AWS_USE_FIPS_ENDPOINT", "true"}}),
            "https://ec2-fips.eu-west-1.amazonaws.com/ eu-west-1");
  EXPECT_EQ(ec2({}, {{"AWS_USE_DUALSTACK_ENDPOINT", "TRUE"}}),
            "https://ec2.eu-west-1.api.aws/ eu-west-1");
  EXPECT_EQ(ec2(profile("p"), {}), "https://ec2-fips.eu-west-1.api.aws/ eu-west-1");
  EXPECT_EQ(ec2(profile("p"), {{"AWS_USE_FIPS_ENDPOINT", "false"}}),
            "https://ec2.eu-west-1.api.aws/ eu-west-1");
  EXPECT_EQ(ec2(profile("p"), {{"AWS_ENDPOINT_URL", "http://own:1"}}), "http://own:1/ eu-west-1");
}

TEST(EndpointOf, sts_is_regional_unless_the_legacy_one_is_asked_for) {
  const auto sts = [](const std::string& region, const Texts& variables) {
    return url_of(resolve_service(Service::sts, {}, region, around(variables)));
  };
  const Texts legacy = {{"AWS_STS_REGIONAL_ENDPOINTS", "legacy"}};
  EXPECT_EQ(sts("eu-west-1", {}), "https://sts.eu-west-1.amazonaws.com/ eu-west-1");
  EXPECT_EQ(sts("eu-west-1", legacy), "https://sts.amazonaws.com/ us-east-1");
  EXPECT_EQ(sts("ap-east-1", legacy), "https://sts.ap-east-1.amazonaws.com/ ap-east-1");
  EXPECT_EQ(sts("cn-north-1", legacy), "https://sts.cn-north-1.amazonaws.com.cn/ cn-north-1");
}

TEST(EndpointOf, an_explicit_url_is_ec2s_and_everybodys_only_where_it_is_not_aws) {
  const auto sts = [](const std::string& url, const Texts& variables = {}) {
    return url_of(resolve_service(Service::sts, {"", "", url}, "eu-west-1", around(variables)));
  };
  EXPECT_EQ(sts("http://127.0.0.1:8080"), "http://127.0.0.1:8080/ eu-west-1");
  EXPECT_EQ(sts("https://vpce-1.ec2.eu-west-1.vpce.amazonaws.com"),
            "https://sts.eu-west-1.amazonaws.com/ eu-west-1");
  EXPECT_EQ(sts("http://127.0.0.1:8080", {{"AWS_ENDPOINT_URL_STS", "http://sts:2"}}),
            "http://sts:2/ eu-west-1");
}

TEST(EndpointOf, a_queue_is_asked_where_sqs_was_configured_to_be_and_else_where_its_url_says) {
  constexpr const char* kQueue = "https://sqs.eu-west-1.amazonaws.com/111122223333/q";
  const auto queue = [&](const std::string& url, const Texts& variables,
                         const std::string& explicit_url = "") {
    const auto found = resolve_queue(url, {"", "", explicit_url}, "us-east-1", around(variables));
    return found ? found->endpoint.url() + " " + found->region : found.error().message();
  };
  EXPECT_EQ(queue(kQueue, {}), "https://sqs.eu-west-1.amazonaws.com/ eu-west-1");
  EXPECT_EQ(queue(kQueue, {{"AWS_USE_FIPS_ENDPOINT", "true"}}),
            "https://sqs-fips.eu-west-1.amazonaws.com/ eu-west-1");
  EXPECT_EQ(queue(kQueue, {{"AWS_ENDPOINT_URL_SQS", "https://vpce-1.sqs.eu-west-1.vpce.example"}}),
            "https://vpce-1.sqs.eu-west-1.vpce.example/ eu-west-1");
  EXPECT_EQ(queue("https://eu-west-1.queue.amazonaws.com/111122223333/q", {}),
            "https://eu-west-1.queue.amazonaws.com/ eu-west-1");
  EXPECT_EQ(queue(kQueue, {}, "http://127.0.0.1:8080"), "http://127.0.0.1:8080/ eu-west-1");
  EXPECT_EQ(queue("http://127.0.0.1:9/111122223333/q", {{"AWS_ENDPOINT_URL_SQS", "http://own:1"}}),
            "http://127.0.0.1:9/ us-east-1");
}

TEST(Certificates, the_bundle_comes_from_the_variable_or_the_profile) {
  const Texts files = {{kConfig, "[default]\nca_bundle = /etc/own.pem\n"}};
  EXPECT_EQ(*resolve_ca_file({}, around({{"AWS_CA_BUNDLE", "/v.pem"}}, files)), "/v.pem");
  EXPECT_EQ(*resolve_ca_file({}, around({}, files)), "/etc/own.pem");
  EXPECT_EQ(*resolve_ca_file({}, around({})), "");
}

TEST(Region, the_instances_own_is_the_last_resort) {
  FakeSurroundings fake;
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    if (request.method == "PUT") return HttpReply{200, {}, "token"};
    EXPECT_EQ(header_of(request, "X-aws-ec2-metadata-token"), "token");
    EXPECT_EQ(request.url, "http://169.254.169.254/latest/meta-data/placement/region");
    return HttpReply{200, {}, "ap-south-1"};
  };
  EXPECT_EQ(*resolve_region({}, fake.get()), "ap-south-1");
  fake.variables["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_FALSE(resolve_region({}, fake.get()));
}

TEST(Region, explicit_then_environment_then_profile) {
  const Texts files = {{kConfig, "[default]\nregion = r-default\n[profile p]\nregion = r-p\n"}};
  const Texts both = {{"AWS_REGION", "r-1"}, {"AWS_DEFAULT_REGION", "r-2"}};
  EXPECT_EQ(*resolve_region({"", "r-0", ""}, around(both, files)), "r-0");
  EXPECT_EQ(*resolve_region({}, around(both, files)), "r-1");
  EXPECT_EQ(*resolve_region({}, around({{"AWS_DEFAULT_REGION", "r-2"}}, files)), "r-2");
  EXPECT_EQ(*resolve_region({}, around({}, files)), "r-default");
  EXPECT_EQ(*resolve_region(profile("p"), around({}, files)), "r-p");
  EXPECT_EQ(resolve_region(profile("nope"), around({}, files)).error().kind,
            ErrorKind::misconfigured);
  const auto none = resolve_region({}, around({}));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().context, HasSubstr("--region"));
}

TEST(EndpointOf, explicit_then_environment_then_services_then_profile_then_region) {
  const Texts files = {{kConfig,
                        "[profile p]\nendpoint_url = http://p:1\nservices = s\n"
                        "[profile q]\nendpoint_url = http://q:1\n"
                        "[services s]\nec2 =\n  endpoint_url = http://s:1\n"}};
  const Texts both = {{"AWS_ENDPOINT_URL_EC2", "http://ec2:1"},
                      {"AWS_ENDPOINT_URL", "http://all:1"}};
  const auto url = [](const Result<Endpoint>& endpoint) {
    return endpoint ? endpoint->url() : endpoint.error().context;
  };
  const std::string region = "us-east-1";
  EXPECT_EQ(url(resolve_endpoint({"", "", "http://x:9"}, region, around(both, files))),
            "http://x:9/");
  EXPECT_EQ(url(resolve_endpoint({}, region, around(both, files))), "http://ec2:1/");
  EXPECT_EQ(
      url(resolve_endpoint({}, region, around({{"AWS_ENDPOINT_URL", "http://all:1"}}, files))),
      "http://all:1/");
  EXPECT_EQ(url(resolve_endpoint(profile("p"), region, around({}, files))), "http://s:1/");
  EXPECT_EQ(url(resolve_endpoint(profile("q"), region, around({}, files))), "http://q:1/");
  EXPECT_EQ(url(resolve_endpoint({}, region, around({}, files))),
            "https://ec2.us-east-1.amazonaws.com/");
  Texts ignoring = both;
  ignoring["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(url(resolve_endpoint(profile("p"), region, around(ignoring, files))),
            "https://ec2.us-east-1.amazonaws.com/");
}

TEST(EndpointOf, urls_are_parsed_and_the_host_header_names_ports_that_are_not_the_schemes) {
  struct Case {
    const char* url;
    const char* host_header;
  };
  for (const Case& test :
       std::vector<Case>{{"http://127.0.0.1:8080", "127.0.0.1:8080"},
                         {"HTTP://LocalHost/", "localhost"},
                         {"https://ec2.us-east-1.amazonaws.com:443", "ec2.us-east-1.amazonaws.com"},
                         {"http://x:443/", "x:443"},
                         {"http://[::1]:8080/", "[::1]:8080"},
                         {"https://[::1]", "[::1]"}}) {
    const auto endpoint = parse_endpoint(test.url);
    ASSERT_TRUE(endpoint) << test.url << ": " << endpoint.error().context;
    EXPECT_EQ(endpoint->host_header(), test.host_header);
  }
  for (const char* bad :
       {"", "ec2.amazonaws.com", "ftp://x", "http://", "http://x:0", "http://x:99999",
        "http://x:", "http://x:8o", "http://x/path", "http://u@x", "http://x y"})
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
}
