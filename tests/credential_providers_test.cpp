// Credentials that somebody else gives: containers, the instance, a program. Each place as a table
// over fake surroundings: what it asks, what it makes of the answers, and that no error shows a
// secret. Those that STS gives are credential_roles_test.cpp's.
#include "manager/aws/credentials_provider.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include "bootstrap/base/unique_fd.hpp"
#include "manager/aws/split_command.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};
static_assert(!Printable<Secret>, "a secret must not be printable");
static_assert(!Printable<Credentials>, "credentials must not be printable");
static_assert(!Printable<FoundCredentials>, "found credentials must not be printable");
static_assert(!fmt::is_formattable<Secret>::value, "a secret must not have a formatter");
static_assert(!fmt::is_formattable<Credentials>::value, "credentials must not have a formatter");
static_assert(!std::is_convertible_v<Secret, std::string>, "a secret must not become a string");

}  // namespace

// ---- container ----

TEST(Container, only_hosts_that_may_give_credentials_are_asked) {
  struct Case {
    const char* url;
    bool allowed;
  };
  for (const Case& test : std::vector<Case>{{"http://169.254.170.23/v1/credentials", true},
                                            {"http://169.254.170.2/x", true},
                                            {"http://[fd00:ec2::23]/v1/credentials", true},
                                            {"http://127.0.0.1:8080/a?b=c", true},
                                            {"http://127.9.8.7/", true},
                                            {"http://localhost:1/", true},
                                            {"http://[::1]:1/", true},
                                            {"https://anywhere.example/x", true},
                                            {"http://anywhere.example/x", false},
                                            {"http://169.254.169.254/x", false},
                                            {"http://127.0.0.1.evil.example/x", false},
                                            {"http://127.evil/x", false},
                                            {"http://localhost@evil.example/", false},
                                            {"ftp://localhost/", false},
                                            {"localhost", false}}) {
    FakeSurroundings fake({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", test.url}}, {});
    fake.peer = [](const HttpRequest&) -> Result<HttpReply> {
      return ok(R"({"AccessKeyId":"ASIAC","SecretAccessKey":"s","Token":"t",)"
                R"("Expiration":"2026-01-02T04:04:05Z"})");
    };
    const auto found = fake.find();
    EXPECT_EQ(found.has_value(), test.allowed) << test.url << ": " << keys_of(found);
    EXPECT_EQ(fake.requests.size(), test.allowed ? 1u : 0u) << test.url;
    if (!found) {
      EXPECT_EQ(found.error().kind, ErrorKind::misconfigured) << test.url;
    }
  }
}

TEST(Container, the_authorization_token_comes_from_its_file_first_and_has_no_line_breaks) {
  FakeSurroundings fake({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1"},
                         {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "from-variable"}},
                        {});
  fake.peer = [](const HttpRequest&) -> Result<HttpReply> {
    return ok(R"({"AccessKeyId":"ASIAC","SecretAccessKey":"s","Token":"t"})");
  };
  ASSERT_TRUE(fake.find());
  EXPECT_EQ(header_of(fake.requests.back(), "Authorization"), "from-variable");
  fake.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/var/token";
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("authorization token"));
  fake.files["/var/token"] = "from-file\n";
  ASSERT_TRUE(fake.find());
  EXPECT_EQ(header_of(fake.requests.back(), "Authorization"), "from-file");
  fake.files["/var/token"] = "from-file\r\nHost: evil";
  const auto found = fake.find();
  EXPECT_THAT(keys_of(found), HasSubstr("line break"));
  EXPECT_THAT(keys_of(found), Not(HasSubstr("evil")));
}

TEST(Container, trouble_is_tried_three_times_and_refusals_once) {
  FakeSurroundings fake({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}}, {});
  const auto with = [&](int status, const std::string& body) {
    fake.requests.clear();
    fake.peer = [status, body](const HttpRequest&) -> Result<HttpReply> {
      return HttpReply{status, {}, body};
    };
    return fake.find();
  };
  EXPECT_EQ(with(500, "secret").error().kind, ErrorKind::retry_later);
  EXPECT_EQ(fake.requests.size(), 3u);
  EXPECT_EQ(with(403, "secret").error().kind, ErrorKind::unauthorised);
  EXPECT_EQ(fake.requests.size(), 1u);
  EXPECT_THAT(keys_of(with(200, "{\"secret\":")), HasSubstr("it is no JSON"));
  EXPECT_THAT(keys_of(with(200, R"({"AccessKeyId":"A"})")), HasSubstr("no AccessKeyId or no"));
  EXPECT_THAT(keys_of(with(200, "secret-text")), Not(HasSubstr("secret-text")));
}

// ---- the instance ----

TEST(Instance, its_role_is_asked_for_with_a_token_of_version_2) {
  FakeSurroundings fake;
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    if (request.method == "PUT") {
      EXPECT_EQ(request.url, "http://169.254.169.254/latest/api/token");
      EXPECT_EQ(header_of(request, "X-aws-ec2-metadata-token-ttl-seconds"), "21600");
      return ok("imds-token");
    }
    EXPECT_EQ(header_of(request, "X-aws-ec2-metadata-token"), "imds-token");
    if (request.url.ends_with("/security-credentials/")) return ok("manager-role\n");
    EXPECT_THAT(request.url, testing::EndsWith("/security-credentials/manager-role"));
    return ok(R"({"Code":"Success","LastUpdated":"x","Type":"AWS-HMAC","AccessKeyId":"ASIAI",)"
              R"("SecretAccessKey":"s","Token":"t","Expiration":"2026-01-02T09:04:05Z"})");
  };
  const auto found = fake.find();
  EXPECT_EQ(keys_of(found), "ASIAI/s/t");
  EXPECT_EQ(found->source, "the instance's role manager-role");
  EXPECT_TRUE(found->outlive_expiry);
  fake.variables["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("AWS_EC2_METADATA_DISABLED is set"));
}

TEST(Instance, its_address_and_patience_follow_the_sdks_variables) {
  FakeSurroundings fake;
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    return fail(ErrorKind::retry_later, request.url + ": no connection");
  };
  EXPECT_FALSE(fake.find());
  EXPECT_EQ(fake.requests.size(), 1u) << "outside of EC2 one attempt has to do";
  EXPECT_EQ(fake.requests[0].timeout, Milliseconds(1000));
  fake.requests.clear();
  fake.variables["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "4";
  fake.variables["AWS_METADATA_SERVICE_TIMEOUT"] = "7";
  fake.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "IPv6";
  EXPECT_FALSE(fake.find());
  ASSERT_EQ(fake.requests.size(), 4u);
  EXPECT_EQ(fake.requests[0].url, "http://[fd00:ec2::254]/latest/api/token");
  EXPECT_EQ(fake.requests[0].timeout, Milliseconds(7000));
  fake.requests.clear();
  fake.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1338/";
  EXPECT_FALSE(fake.find());
  EXPECT_EQ(fake.requests[0].url, "http://127.0.0.1:1338/latest/api/token");
}

TEST(Instance, a_missing_role_is_nothing_and_a_broken_answer_is_trouble_that_may_pass) {
  FakeSurroundings fake;
  std::string answer;
  fake.peer = [&answer](const HttpRequest& request) -> Result<HttpReply> {
    if (request.method == "PUT") return ok("t");
    if (answer.empty()) return HttpReply{404, {}, "no"};
    return request.url.ends_with("/security-credentials/") ? ok("r") : ok(answer);
  };
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("the instance (it has no role)"));
  answer = R"({"Code":"AssumeRoleUnauthorizedAccess","Message":"EC2 cannot assume the role"})";
  const auto found = fake.find();
  EXPECT_THAT(keys_of(found), HasSubstr("it says AssumeRoleUnauthorizedAccess"));
  EXPECT_EQ(found.error().kind, ErrorKind::retry_later);
}

// ---- a program ----

TEST(Process, what_it_prints_is_read_and_its_arguments_are_not_shown) {
  FakeSurroundings fake({}, {{kConfig,
                              "[profile p]\ncredential_process = \"/opt/my keys\" --pin "
                              "4711-secret\n"}});
  std::string printed;
  fake.program = [&printed](const auto&, const ProcessLimits& limits) -> Result<Secret> {
    EXPECT_EQ(limits.timeout, Milliseconds(60'000));
    if (printed.empty()) return fail(ErrorKind::refused, "/opt/my keys ended with status 3");
    return Secret(printed);
  };
  printed = R"({"Version":1,"AccessKeyId":"ASIAP","SecretAccessKey":"s","SessionToken":"t",)"
            R"("Expiration":"2026-01-02T05:04:05.123456+01:00","Extra":[]})";
  const auto found = fake.find("p");
  EXPECT_EQ(keys_of(found), "ASIAP/s/t");
  EXPECT_EQ(found->expires, parse_iso8601("2026-01-02T04:04:05Z"));
  EXPECT_THAT(fake.runs[0], ElementsAre("/opt/my keys", "--pin", "4711-secret"));
  for (const char* bad :
       {"", "no json: 4711-secret", "{}", "[]", R"({"Version":2,"AccessKeyId":"A"})",
        R"({"Version":1,"AccessKeyId":"A"})",
        R"({"Version":1,"AccessKeyId":1,"SecretAccessKey":2})",
        R"({"Version":1,"AccessKeyId":"A","SecretAccessKey":"4711-secret","Expiration":"soon"})",
        R"({"Version":1,"AccessKeyId":"A\r\nX: y","SecretAccessKey":"4711-secret"})"}) {
    printed = bad;
    const auto wrong = fake.find("p");
    ASSERT_FALSE(wrong) << bad;
    EXPECT_THAT(wrong.error().message(), HasSubstr("credential_process of profile p"));
    EXPECT_THAT(wrong.error().message(), Not(HasSubstr("4711")));
  }
}

TEST(Process, a_command_line_is_split_by_quotes_and_nothing_is_expanded) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split_command("a  b\tc"), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_command(R"("a b" 'c "d' e\ f '' "x\"y\n")"),
            (Words{"a b", "c \"d", "e f", "", "x\"y\\n"}));
  EXPECT_EQ(split_command("$HOME/x; *"), (Words{"$HOME/x;", "*"}));
  EXPECT_EQ(split_command("  "), Words{});
  for (const char* bad : {"'a", "\"a", "a\\"}) EXPECT_EQ(split_command(bad), std::nullopt) << bad;
}

/// systemd sets no HOME for services of root: ~/.aws of such a manager was "/.aws".
TEST(Process, a_process_without_home_has_that_of_its_user) {
  const Surroundings real = real_surroundings();
  const passwd* user = ::getpwuid(::geteuid());
  if (user == nullptr) GTEST_SKIP() << "this user has no entry";
  const std::string home = user->pw_dir;
  const char* set = std::getenv("HOME");
  const std::string before = set != nullptr ? set : "";
  ::unsetenv("HOME");
  EXPECT_EQ(real.value("HOME"), home);
  ::setenv("HOME", "", 1);
  EXPECT_EQ(real.value("HOME"), home);
  ::setenv("HOME", "/elsewhere", 1);
  EXPECT_EQ(real.value("HOME"), "/elsewhere");
  if (set != nullptr)
    ::setenv("HOME", before.c_str(), 1);
  else
    ::unsetenv("HOME");
}

TEST(Process, a_real_program_is_bounded_in_time_and_output_and_leaves_no_children) {
  const Surroundings real = real_surroundings();
  const auto printed = real.run({"/bin/sh", "-c", "printf '%s' \"$0\"", "hello"}, {});
  ASSERT_TRUE(printed) << printed.error().message();
  EXPECT_EQ(printed->reveal(), "hello");
  const auto status = real.run({"/bin/sh", "-c", "echo secret; exit 3"}, {});
  EXPECT_THAT(status.error().message(), HasSubstr("/bin/sh ended with status 3"));
  EXPECT_THAT(status.error().message(), Not(HasSubstr("secret")));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(real.run({"/bin/sh", "-c", "sleep 60 & sleep 60"}, {Milliseconds(300), 100})
                  .error()
                  .message(),
              HasSubstr("did not end within"));
  EXPECT_THAT(real.run({"/usr/bin/yes"}, {Milliseconds(20'000), 100'000}).error().message(),
              HasSubstr("wrote more than"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  EXPECT_EQ(real.run({"/no/such/program"}, {}).error().kind, ErrorKind::gone);
  const UniqueFd inherited(::dup(STDERR_FILENO));  // not closed by an exec, as some libraries' are
  EXPECT_EQ(real.run({"/bin/sh", "-c", "ls /proc/self/fd | tr '\\n' ' '"}, {})->reveal(),
            "0 1 2 3 ")
      << "3 is ls's own";
}

TEST(LooseTime, all_forms_that_tools_write) {
  const auto wanted = parse_iso8601("2026-01-02T03:04:05Z");
  for (const char* text :
       {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05UTC",
        "2026-01-02T03:04:05+00:00", "2026-01-02T04:34:05+01:30", "2026-01-01T19:04:05-0800"})
    EXPECT_EQ(parse_loose_time(text), wanted) << text;
  for (const char* bad : {"", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05+1",
                          "2026-01-02T03:04:05 Z", "2026-13-02T03:04:05Z"})
    EXPECT_EQ(parse_loose_time(bad), std::nullopt) << bad;
}
