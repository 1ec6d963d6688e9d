// Keys that stand in the environment or in a file, and the files themselves: tables over
// surroundings that exist only here.
#include "manager/aws/credentials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "manager/aws/aws_ini.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

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

}  // namespace

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

TEST(AwsIni, keys_in_any_case_colons_quoted_names_and_continued_values_are_read_as_by_the_cli) {
  const auto ini = parse_aws_ini(
      "[profile \"two words\"]\nAWS_Access_Key_ID: AK\nsso_start_url = https://x.example/#/\n"
      "credential_process = /bin/keys\n    --account 1\nregion=r\n"
      "[profile 'q']\n    ec2 =\n      Endpoint_URL: http://a:1\n    output = json\n");
  ASSERT_TRUE(ini) << ini.error().message();
  EXPECT_EQ(ini->at("profile two words"),
            (AwsSection{{"aws_access_key_id", "AK"},
                        {"sso_start_url", "https://x.example/#/"},
                        {"credential_process", "/bin/keys\n--account 1"},
                        {"region", "r"}}));
  EXPECT_EQ(ini->at("profile q"),
            (AwsSection{{"ec2", ""}, {"ec2.endpoint_url", "http://a:1"}, {"output", "json"}}));
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

TEST(Credentials, a_sign_in_that_only_the_aws_cli_can_use_is_told_so) {
  const auto found = resolve_credentials(
      profile("p"), around({}, {{kConfig, "[profile p]\nlogin_session = arn:x\n"}}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(found.error().context, HasSubstr("profile p asks for login_session"));
  EXPECT_THAT(found.error().context, HasSubstr("export-credentials"));
}

TEST(Credentials, static_keys_of_the_credentials_file_go_before_a_process) {
  const Texts files = {{kCredentials, "[p]\naws_access_key_id = P\naws_secret_access_key = ps\n"},
                       {kConfig, "[profile p]\ncredential_process = /bin/keys\n"}};
  EXPECT_EQ(keys_of(resolve_credentials(profile("p"), around({}, files))), "P/ps/");
}

TEST(Credentials, finding_nothing_lists_where_it_looked) {
  const auto found = resolve_credentials({}, around({}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorised);
  for (const char* place : {"AWS_ACCESS_KEY_ID", kCredentials, kConfig, "profile default",
                            "no container", "169.254.169.254 does not answer"})
    EXPECT_THAT(found.error().context, HasSubstr(place));
}

TEST(Credentials, a_profile_that_is_named_but_in_no_file_is_a_mistake_and_not_the_hosts_role) {
  const Texts files = {{kConfig, "[profile good]\nregion = r\n[services s]\n"},
                       {kCredentials, "[old]\n"}};
  for (const bool by_variable : {false, true}) {
    const auto named = by_variable
                           ? resolve_credentials({}, around({{"AWS_PROFILE", "godo"}}, files))
                           : resolve_credentials(profile("godo"), around({}, files));
    ASSERT_FALSE(named);
    EXPECT_EQ(named.error().kind, ErrorKind::misconfigured);
    EXPECT_THAT(named.error().context, HasSubstr("has a profile godo; there are good, old"));
  }
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
