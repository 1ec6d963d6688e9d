// Credentials of a single sign-on: the cached token, its renewal, and what a person who has to log
// in is told; no error shows a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/credentials_provider.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kCache = "/home/op/.aws/sso/cache/";

const char kSsoConfig[] =
    "[profile p]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = Manager Role\n"
    "[profile old]\nsso_start_url = https://corp.example/start\nsso_region = eu-central-1\n"
    "sso_account_id = 111122223333\nsso_role_name = Manager Role\n"
    "[sso-session corp]\nsso_start_url = https://corp.example/start\nsso_region = eu-central-1\n"
    "sso_registration_scopes = sso:account:access\n";

std::string token_file(const std::string& expires) {
  return R"({"accessToken":"bearer-secret","expiresAt":")" + expires +
         R"(","region":"eu-central-1","startUrl":"https://corp.example/start",)"
         R"("refreshToken":"refresh-secret","clientId":"client","clientSecret":"client-secret",)"
         R"("registrationExpiresAt":"2026-03-01T00:00:00Z"})";
}

Result<HttpReply> portal(const HttpRequest& request) {
  if (request.url.find("/token") != std::string::npos)
    return ok(R"({"accessToken":"bearer-new","tokenType":"Bearer","expiresIn":3600,)"
              R"("refreshToken":"refresh-new"})");
  return ok(R"({"roleCredentials":{"accessKeyId":"ASIASSO","secretAccessKey":"s",)"
            R"("sessionToken":"t","expiration":1767326645000}})");
}

/// The file that the cache has for the session, whatever its name.
std::string cache_path(FakeSurroundings& fake, const std::string& profile) {
  std::string path;
  Surroundings from = fake.get();
  const auto read = from.read_file;
  from.read_file = [&](const std::string& name) {
    if (name.starts_with(kCache)) path = name;
    return read(name);
  };
  (void)resolve_credentials({profile, "", ""}, from);
  return path;
}

}  // namespace

TEST(Sso, the_cached_token_is_exchanged_for_the_roles_keys) {
  for (const char* profile : {"p", "old"}) {
    FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
    fake.peer = portal;
    const std::string path = cache_path(fake, profile);
    // `printf %s corp | sha1sum`, `printf %s https://corp.example/start | sha1sum`
    EXPECT_EQ(path, kCache + (std::string(profile) == "p"
                                  ? "ee0bfd2552fbd840c02cc48b6e823320543c450f.json"
                                  : "f7c9b39d0b4c7a7d82c79307585f77e1c5e74378.json"));
    fake.files[path] = token_file("2026-01-02T09:00:00Z");
    const auto found = fake.find(profile);
    EXPECT_EQ(keys_of(found), "ASIASSO/s/t");
    EXPECT_EQ(found->expires, parse_iso8601("2026-01-02T04:04:05Z"));
    ASSERT_EQ(fake.requests.size(), 1u);
    EXPECT_EQ(fake.requests[0].url,
              "https://portal.sso.eu-central-1.amazonaws.com/federation/credentials?role_name="
              "Manager%20Role&account_id=111122223333");
    EXPECT_EQ(header_of(fake.requests[0], "x-amz-sso_bearer_token"), "bearer-secret");
  }
}

TEST(Sso, a_token_near_its_end_is_renewed_and_the_cli_finds_the_new_one) {
  FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
  fake.peer = portal;
  const std::string path = cache_path(fake, "p");
  fake.files[path] = token_file("2026-01-02T03:10:00UTC");
  EXPECT_EQ(keys_of(fake.find("p")), "ASIASSO/s/t");
  ASSERT_EQ(fake.requests.size(), 2u);
  EXPECT_EQ(fake.requests[0].url, "https://oidc.eu-central-1.amazonaws.com/token");
  EXPECT_EQ(fake.requests[0].body,
            R"({"clientId":"client","clientSecret":"client-secret","grantType":"refresh_token",)"
            R"("refreshToken":"refresh-secret"})");
  EXPECT_EQ(header_of(fake.requests[1], "x-amz-sso_bearer_token"), "bearer-new");
  EXPECT_THAT(fake.files[path], HasSubstr(R"("accessToken":"bearer-new")"));
  EXPECT_THAT(fake.files[path], HasSubstr(R"("expiresAt":"2026-01-02T04:04:05Z")"));
  EXPECT_THAT(fake.files[path], HasSubstr(R"("refreshToken":"refresh-new")"));
  EXPECT_THAT(fake.files[path], HasSubstr(R"("startUrl":"https://corp.example/start")"));
}

TEST(Sso, whoever_has_to_log_in_is_told_the_command) {
  struct Case {
    const char* file;  ///< nullptr: none
    int status;
    const char* said;
  };
  const std::string good = token_file("2026-01-02T09:00:00Z");
  const std::string expired = token_file("2026-01-02T03:00:00Z");
  for (const Case& test : std::vector<Case>{{nullptr, 200, "nobody has logged in yet"},
                                            {"{\"accessToken\":", 200, "cannot be read"},
                                            {expired.c_str(), 400, "has expired"},
                                            {good.c_str(), 401, "has ended"}}) {
    FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
    const std::string path = cache_path(fake, "p");
    if (test.file != nullptr) fake.files[path] = test.file;
    fake.peer = [&](const HttpRequest&) -> Result<HttpReply> {
      return HttpReply{test.status, {}, R"({"error":"invalid_grant","message":"bearer-secret"})"};
    };
    const auto found = fake.find("p");
    ASSERT_FALSE(found) << test.said;
    EXPECT_EQ(found.error().kind, ErrorKind::unauthorised);
    EXPECT_THAT(found.error().message(), HasSubstr(test.said));
    EXPECT_THAT(found.error().message(), HasSubstr("run `aws sso login --profile p`"));
    EXPECT_THAT(found.error().message(), Not(HasSubstr("secret")));
  }
}

TEST(Sso, a_renewal_that_fails_leaves_a_token_that_still_holds_in_use) {
  FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
  const std::string path = cache_path(fake, "p");
  fake.files[path] = token_file("2026-01-02T03:10:00Z");
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    if (request.url.find("/token") != std::string::npos) return HttpReply{400, {}, "{}"};
    return portal(request);
  };
  EXPECT_EQ(keys_of(fake.find("p")), "ASIASSO/s/t");
  EXPECT_EQ(fake.files[path], token_file("2026-01-02T03:10:00Z"));
}

TEST(Sso, a_portal_in_trouble_is_asked_three_times_and_a_token_never_renewed_twice) {
  for (const int status : {0, 429, 500, 503}) {
    FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
    const std::string path = cache_path(fake, "p");
    fake.files[path] = token_file("2026-01-02T09:00:00Z");
    int asked = 0;
    int works_from = 3;
    fake.peer = [&](const HttpRequest& request) -> Result<HttpReply> {
      if (++asked >= works_from) return portal(request);
      if (status == 0) return fail(ErrorKind::retry_later, "no connection");
      return HttpReply{status, {}, "{}"};
    };
    EXPECT_EQ(keys_of(fake.find("p")), "ASIASSO/s/t") << status;
    EXPECT_EQ(asked, 3);
    asked = 0;
    works_from = 4;
    const auto found = fake.find("p");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::retry_later) << found.error().message();
    EXPECT_EQ(asked, 3);
  }
  FakeSurroundings fake({}, {{kConfig, kSsoConfig}});
  const std::string path = cache_path(fake, "p");
  fake.files[path] = token_file("2026-01-02T03:10:00Z");
  int renewals = 0;
  fake.peer = [&](const HttpRequest& request) -> Result<HttpReply> {
    if (request.url.find("/token") == std::string::npos) return portal(request);
    ++renewals;
    return HttpReply{503, {}, "{}"};
  };
  EXPECT_EQ(keys_of(fake.find("p")), "ASIASSO/s/t");
  EXPECT_EQ(renewals, 1);
}

TEST(Sso, a_session_without_account_and_role_asks_for_no_credentials) {
  FakeSurroundings fake({},
                        {{kConfig,
                          "[profile p]\nsso_session = corp\naws_access_key_id = AK\n"
                          "aws_secret_access_key = s\n[sso-session corp]\nsso_region = eu-west-1\n"
                          "sso_start_url = u\n"}});
  EXPECT_EQ(keys_of(fake.find("p")), "AK/s/");
}

TEST(Sso, settings_that_are_missing_or_differ_are_named) {
  struct Case {
    const char* config;
    const char* said;
  };
  for (const Case& test : std::vector<Case>{
           {"[profile p]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n",
            "there is no [sso-session corp]"},
           {"[profile p]\nsso_start_url = u\nsso_region = r\nsso_account_id = 1\n",
            "SSO needs sso_role_name too"},
           {"[profile p]\nsso_session = c\nsso_region = other\nsso_account_id = 1\n"
            "sso_role_name = r\n[sso-session c]\nsso_region = eu-west-1\nsso_start_url = u\n",
            "sso_region differs from that of its sso-session"}}) {
    FakeSurroundings fake({}, {{kConfig, test.config}});
    const auto found = fake.find("p");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::misconfigured);
    EXPECT_THAT(found.error().context, HasSubstr(test.said));
  }
}
