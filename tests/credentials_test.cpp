// Where keys, Region and endpoint come from: tables over an environment and files that exist only
// here.
#include "manager/aws/credentials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "manager/aws/aws_ini.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

namespace {

using Texts = std::map<std::string, std::string>;

Surroundings around(Texts variables, Texts files = {}) {
  variables.try_emplace("HOME", "/home/op");
  return {[variables](const std::string& name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            if (found == variables.end()) return std::nullopt;
            return found->second;
          },
          [files](const std::string& path) -> Result<std::string> {
            const auto found = files.find(path);
            if (found == files.end()) return fail(ErrorKind::gone, path + ": no such file");
            return found->second;
          }};
}

constexpr const char* kCredentials = "/home/op/.aws/credentials";
constexpr const char* kConfig = "/home/op/.aws/config";

std::string keys_of(const Result<FoundCredentials>& found) {
  if (!found) return "error: " + found.error().context;
  return found->credentials.access_key_id + "/" + found->credentials.secret_access_key.reveal() +
         "/" + found->credentials.session_token.reveal();
}

AwsChoices profile(const std::string& name) {
  return {name, "", ""};
}

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};

}  // namespace

static_assert(!Printable<Secret>, "a secret must not be printable");
static_assert(!Printable<Credentials>, "credentials must not be printable");

TEST(AwsIni, comments_spaces_nested_blocks_and_crlf_are_understood) {
  const auto ini = parse_aws_ini(
      "\xef\xbb\xbf# a comment\r\n; another\r\n\r\n[ default ]\r\n  region = us-east-1  \r\n"
      "aws_access_key_id=AK  # mine\r\naws_secret_access_key = a=b#c;d+/\r\n"
      "[profile   research]\r\ns3 =\r\n  max_concurrent_requests = 20\r\n\tregion = no\r\n"
      "output = json\r\n  [services local]\nec2 =\n  endpoint_url = http://127.0.0.1:8080/#x\n");
  ASSERT_TRUE(ini) << ini.error().message();
  EXPECT_EQ(ini->at("default"), (AwsSection{{"region", "us-east-1"},
                                            {"aws_access_key_id", "AK"},
                                            {"aws_secret_access_key", "a=b#c;d+/"}}));
  EXPECT_EQ(ini->at("profile research"), (AwsSection{{"s3", ""},
                                                     {"s3.max_concurrent_requests", "20"},
                                                     {"s3.region", "no"},
                                                     {"output", "json"}}));
  EXPECT_EQ(ini->at("services local").at("ec2.endpoint_url"), "http://127.0.0.1:8080/#x");
}

TEST(AwsIni, repeated_sections_are_merged_and_the_last_value_wins) {
  const auto ini = parse_aws_ini("[a]\nx = 1\n[b]\n[a]\nx = 2\ny = 3\n");
  ASSERT_TRUE(ini);
  EXPECT_EQ(ini->at("a"), (AwsSection{{"x", "2"}, {"y", "3"}}));
}

TEST(AwsIni, a_broken_line_is_named_by_number_and_not_by_its_text) {
  for (const char* text :
       {"[a]\nsecret\n", "[a\nsecret = 1\n", "\nsecret = 1\n", "[a]\n= secret\n"}) {
    const auto ini = parse_aws_ini(text);
    ASSERT_FALSE(ini) << text;
    EXPECT_EQ(ini.error().kind, ErrorKind::misconfigured);
    EXPECT_THAT(ini.error().context, HasSubstr("line "));
    EXPECT_THAT(ini.error().message(), Not(HasSubstr("secret")));
  }
}

TEST(Credentials, the_environment_goes_first_unless_a_profile_is_chosen_explicitly) {
  const Texts variables = {{"AWS_ACCESS_KEY_ID", "E"},
                           {"AWS_SECRET_ACCESS_KEY", "es"},
                           {"AWS_SESSION_TOKEN", "et"},
                           {"AWS_PROFILE", "p"}};
  const Texts files = {{kCredentials, "[p]\naws_access_key_id = P\naws_secret_access_key = ps\n"}};
  EXPECT_EQ(keys_of(resolve_credentials({}, around(variables, files))), "E/es/et");
  EXPECT_EQ(keys_of(resolve_credentials(profile("p"), around(variables, files))), "P/ps/");
}

TEST(Credentials, profiles_come_from_either_file_and_by_either_name) {
  const Texts files = {{kCredentials,
                        "[default]\naws_access_key_id = D\naws_secret_access_key = ds\n"
                        "[both]\naws_access_key_id = C\naws_secret_access_key = cs\n"},
                       {kConfig,
                        "[profile conf]\naws_access_key_id = F\naws_secret_access_key = fs\n"
                        "aws_session_token = ft\n"
                        "[profile both]\naws_access_key_id = X\naws_secret_access_key = xs\n"}};
  EXPECT_EQ(keys_of(resolve_credentials({}, around({}, files))), "D/ds/");
  EXPECT_EQ(keys_of(resolve_credentials(profile("conf"), around({}, files))), "F/fs/ft");
  EXPECT_EQ(keys_of(resolve_credentials(profile("both"), around({}, files))), "C/cs/");
  EXPECT_EQ(keys_of(resolve_credentials({}, around({{"AWS_PROFILE", "conf"}}, files))), "F/fs/ft");
  EXPECT_EQ(keys_of(resolve_credentials({}, around({{"AWS_DEFAULT_PROFILE", "both"}}, files))),
            "C/cs/");
  EXPECT_EQ(resolve_credentials(profile("conf"), around({}, files))->source,
            "profile conf in /home/op/.aws/config");
}

TEST(Credentials, the_files_can_be_elsewhere) {
  const Texts variables = {{"AWS_SHARED_CREDENTIALS_FILE", "/etc/keys"}, {"AWS_CONFIG_FILE", "/c"}};
  const Texts files = {{"/etc/keys", "[default]\naws_access_key_id=A\naws_secret_access_key=s\n"},
                       {"/c", "[default]\nregion = eu-west-1\n"}};
  EXPECT_EQ(keys_of(resolve_credentials({}, around(variables, files))), "A/s/");
  EXPECT_EQ(*resolve_region({}, around(variables, files)), "eu-west-1");
}

TEST(Credentials, half_a_key_pair_is_a_mistake_and_not_skipped) {
  const auto in_environment = resolve_credentials({}, around({{"AWS_ACCESS_KEY_ID", "E"}}));
  ASSERT_FALSE(in_environment);
  EXPECT_EQ(in_environment.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(in_environment.error().context, HasSubstr("AWS_SECRET_ACCESS_KEY"));
  const auto in_file =
      resolve_credentials({}, around({}, {{kCredentials, "[default]\naws_access_key_id = A\n"}}));
  ASSERT_FALSE(in_file);
  EXPECT_THAT(in_file.error().context, HasSubstr("aws_secret_access_key"));
}

TEST(Credentials, profiles_that_ask_for_more_than_static_keys_are_told_so) {
  for (const char* setting :
       {"role_arn = arn:aws:iam::1:role/x", "sso_session = corp", "sso_start_url = https://x/#/",
        "web_identity_token_file = /t", "credential_process = /bin/keys", "login_session = x"}) {
    const auto found = resolve_credentials(
        profile("p"), around({}, {{kConfig, "[profile p]\n" + std::string(setting) + "\n"}}));
    ASSERT_FALSE(found) << setting;
    EXPECT_EQ(found.error().kind, ErrorKind::misconfigured);
    const std::string name = std::string(setting).substr(0, std::string(setting).find(' '));
    EXPECT_THAT(found.error().context, HasSubstr("profile p asks for " + name));
    EXPECT_THAT(found.error().context, HasSubstr("export-credentials"));
  }
}

TEST(Credentials, static_keys_of_the_credentials_file_go_before_a_process) {
  const Texts files = {{kCredentials, "[p]\naws_access_key_id = P\naws_secret_access_key = ps\n"},
                       {kConfig, "[profile p]\ncredential_process = /bin/keys\n"}};
  EXPECT_EQ(keys_of(resolve_credentials(profile("p"), around({}, files))), "P/ps/");
}

TEST(Credentials, finding_nothing_lists_where_it_looked) {
  const auto found =
      resolve_credentials({}, around({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"}}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorised);
  for (const char* place : {"AWS_ACCESS_KEY_ID", kCredentials, kConfig, "profile default",
                            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is set but not read"})
    EXPECT_THAT(found.error().context, HasSubstr(place));
  const auto named = resolve_credentials(profile("nope"), around({}));
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().context, HasSubstr("neither has such a profile"));
}

TEST(Credentials, a_broken_or_unreadable_file_is_an_error_and_not_skipped) {
  const auto broken = resolve_credentials({}, around({}, {{kConfig, "[default\n"}}));
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().context, HasSubstr(std::string(kConfig) + ": line 1"));
  Surroundings locked = around({});
  locked.read_file = [](const std::string& path) -> Result<std::string> {
    return fail(ErrorKind::refused, path + ": Permission denied", "EACCES");
  };
  EXPECT_EQ(resolve_credentials({}, locked).error().kind, ErrorKind::refused);
}

TEST(Region, explicit_then_environment_then_profile) {
  const Texts files = {{kConfig, "[default]\nregion = r-default\n[profile p]\nregion = r-p\n"}};
  const Texts both = {{"AWS_REGION", "r-1"}, {"AWS_DEFAULT_REGION", "r-2"}};
  EXPECT_EQ(*resolve_region({"", "r-0", ""}, around(both, files)), "r-0");
  EXPECT_EQ(*resolve_region({}, around(both, files)), "r-1");
  EXPECT_EQ(*resolve_region({}, around({{"AWS_DEFAULT_REGION", "r-2"}}, files)), "r-2");
  EXPECT_EQ(*resolve_region({}, around({}, files)), "r-default");
  EXPECT_EQ(*resolve_region(profile("p"), around({}, files)), "r-p");
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

TEST(EndpointOf, regions_of_other_partitions_have_other_suffixes) {
  EXPECT_EQ(default_ec2_endpoint("cn-north-1")->host, "ec2.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(default_ec2_endpoint("eusc-de-east-1")->host, "ec2.eusc-de-east-1.amazonaws.eu");
  EXPECT_EQ(default_ec2_endpoint("us-gov-west-1")->host, "ec2.us-gov-west-1.amazonaws.com");
  for (const char* bad : {"", "us east", "us-east-1.evil.com", "US-EAST-1", "a/b"})
    EXPECT_EQ(default_ec2_endpoint(bad).error().kind, ErrorKind::misconfigured) << bad;
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

TEST(Settings, all_three_are_resolved_together) {
  const auto settings =
      resolve_aws({"", "eu-west-1", "http://127.0.0.1:8080"},
                  around({{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "es"}}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->region, "eu-west-1");
  EXPECT_EQ(settings->endpoint.url(), "http://127.0.0.1:8080/");
  EXPECT_EQ(settings->found.source, "the environment");
}
