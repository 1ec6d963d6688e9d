// Credentials of roles that STS gives: assumed with the keys of a profile or another place, or with
// a web identity's token. What is asked for, what errors say, and that none shows a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "manager/aws/credentials.hpp"
#include "manager/aws/form.hpp"
#include "tests/fake_surroundings.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

const std::string kRole = "arn:aws:iam::111122223333:role/manager";
const Texts kRegion = {{"AWS_REGION", "eu-west-1"}};

std::string assumed(const std::string& result, const std::string& key) {
  return "<" + result + "Response><" + result + "Result><Credentials><AccessKeyId>" + key +
         "</AccessKeyId><SecretAccessKey>" + key + "-secret</SecretAccessKey><SessionToken>" + key +
         "-token</SessionToken><Expiration>2026-01-02T04:04:05Z</Expiration></Credentials></" +
         result + "Result></" + result + "Response>";
}

HttpReply sts_error(const std::string& code, const std::string& message, int status = 403) {
  return {status,
          {},
          "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>" + message +
              "</Message></Error><RequestId>r-1</RequestId></ErrorResponse>"};
}

/// STS that gives keys named after the last part of the role's name.
Result<HttpReply> sts(const HttpRequest& request) {
  const Form form = parse_form(request.body);
  const std::string action(form_value(form, "Action"));
  const std::string role(form_value(form, "RoleArn"));
  return ok(assumed(action, "ASIA" + role.substr(role.rfind('/') + 1)));
}

std::string parameter(const HttpRequest& request, const std::string& name) {
  return std::string(form_value(parse_form(request.body), name));
}

}  // namespace

// ---- roles ----

TEST(AssumedRole, of_a_source_profile_is_asked_for_with_its_keys_and_all_settings) {
  FakeSurroundings fake(
      {}, {{kCredentials, "[base]\naws_access_key_id = AKBASE\naws_secret_access_key = s\n"},
           {kConfig, "[profile p]\nregion = eu-west-1\nrole_arn = " + kRole +
                         "\nsource_profile = base\nexternal_id = tenant 7\n"
                         "role_session_name = op@example\nduration_seconds = 900\n"}});
  fake.peer = sts;
  const auto found = fake.find("p");
  EXPECT_EQ(keys_of(found), "ASIAmanager/ASIAmanager-secret/ASIAmanager-token");
  EXPECT_EQ(found->expires, parse_iso8601("2026-01-02T04:04:05Z"));
  EXPECT_EQ(found->source, "role " + kRole + " of profile p");
  ASSERT_EQ(fake.requests.size(), 1u);
  const HttpRequest& asked = fake.requests[0];
  EXPECT_EQ(asked.url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_EQ(asked.body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%"
            "2Fmanager&RoleSessionName=op%40example&ExternalId=tenant%207&DurationSeconds=900");
  EXPECT_THAT(header_of(asked, "Authorization"),
              StartsWith("AWS4-HMAC-SHA256 Credential=AKBASE/20260102/eu-west-1/sts/aws4_request"));
}

TEST(AssumedRole, roles_are_chained_each_with_the_keys_of_the_one_before) {
  FakeSurroundings fake(kRegion, {{kConfig, "[profile a]\nrole_arn = " + kRole +
                                                "-a\nsource_profile = b\n"
                                                "[profile b]\nrole_arn = " +
                                                kRole +
                                                "-b\nsource_profile = c\n"
                                                "[profile c]\naws_access_key_id = AKC\n"
                                                "aws_secret_access_key = s\n"}});
  fake.peer = sts;
  EXPECT_EQ(keys_of(fake.find("a")), "ASIAmanager-a/ASIAmanager-a-secret/ASIAmanager-a-token");
  ASSERT_EQ(fake.requests.size(), 2u);
  EXPECT_EQ(parameter(fake.requests[0], "RoleArn"), kRole + "-b");
  EXPECT_THAT(header_of(fake.requests[0], "Authorization"), HasSubstr("Credential=AKC/"));
  EXPECT_THAT(header_of(fake.requests[1], "Authorization"), HasSubstr("Credential=ASIAmanager-b/"));
  EXPECT_EQ(header_of(fake.requests[1], "x-amz-security-token"), "ASIAmanager-b-token");
  EXPECT_EQ(parameter(fake.requests[1], "RoleSessionName"), "warmroot");
}

TEST(AssumedRole, a_source_profile_may_be_itself_with_keys_a_process_or_a_web_identity) {
  FakeSurroundings fake(
      kRegion, {{kCredentials, "[self]\naws_access_key_id = AKSELF\naws_secret_access_key = s\n"},
                {"/token", "jwt-of-the-provider\n"},
                {kConfig, "[profile self]\nrole_arn = " + kRole + "\nsource_profile = self\n" +
                              "[profile p]\nrole_arn = " + kRole + "\nsource_profile = program\n" +
                              "[profile program]\ncredential_process = /bin/keys 'a b'\n" +
                              "[profile w]\nrole_arn = " + kRole + "\nsource_profile = web\n" +
                              "[profile web]\nrole_arn = " + kRole +
                              "-web\nweb_identity_token_file = /token\n"}});
  fake.peer = sts;
  fake.program = [](const auto&, const auto&) -> Result<Secret> {
    return Secret(R"({"Version":1,"AccessKeyId":"AKPROGRAM","SecretAccessKey":"s"})");
  };
  EXPECT_THAT(keys_of(fake.find("self")), StartsWith("ASIAmanager/"));
  EXPECT_THAT(header_of(fake.requests.back(), "Authorization"), HasSubstr("Credential=AKSELF/"));
  EXPECT_THAT(keys_of(fake.find("p")), StartsWith("ASIAmanager/"));
  EXPECT_THAT(header_of(fake.requests.back(), "Authorization"), HasSubstr("Credential=AKPROGRAM/"));
  EXPECT_THAT(keys_of(fake.find("w")), StartsWith("ASIAmanager/"));
  EXPECT_THAT(header_of(fake.requests.back(), "Authorization"),
              HasSubstr("Credential=ASIAmanager-web/"));
}

TEST(AssumedRole, the_credential_source_is_one_of_three_places) {
  FakeSurroundings fake(
      kRegion,
      {{kConfig, "[profile e]\nrole_arn = " + kRole + "\ncredential_source = Environment\n" +
                     "[profile i]\nrole_arn = " + kRole +
                     "\ncredential_source = Ec2InstanceMetadata\n" +
                     "[profile c]\nrole_arn = " + kRole + "\ncredential_source = EcsContainer\n"}});
  fake.variables["AWS_ACCESS_KEY_ID"] = "AKENV";
  fake.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  fake.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x";
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    const auto keys = [](const std::string& id) {
      return ok(R"({"AccessKeyId":")" + id +
                R"(","SecretAccessKey":"s","Token":"t","Expiration":)" +
                R"("2026-01-02T04:04:05Z"})");
    };
    if (request.url == "http://169.254.170.2/v2/x") return keys("ASIACONTAINER");
    if (request.method == "PUT") return ok("imds");
    if (request.url.ends_with("security-credentials/")) return ok("host-role");
    if (request.url.ends_with("security-credentials/host-role")) return keys("ASIAHOST");
    return sts(request);
  };
  const auto signer = [&](const std::string& profile) {
    const auto found = fake.find(profile);
    return found ? header_of(fake.requests.back(), "Authorization").substr(17, 24)
                 : found.error().message();
  };
  EXPECT_THAT(signer("e"), HasSubstr("Credential=AKENV"));
  EXPECT_THAT(signer("i"), HasSubstr("Credential=ASIAHOST"));
  EXPECT_THAT(signer("c"), HasSubstr("Credential=ASIACONTAIN"));
}

TEST(AssumedRole, what_cannot_work_is_said_in_one_sentence_before_anybody_is_asked) {
  struct Case {
    std::string settings;
    std::string said;
  };
  const std::string role = "role_arn = " + kRole + "\n";
  for (const Case& test : std::vector<Case>{
           {role + "source_profile = k\nmfa_serial = arn:aws:iam::1:mfa/x\n",
            "wants a code of mfa_serial"},
           {role, "role_arn needs source_profile, credential_source or web_identity_token_file"},
           {role + "source_profile = k\ncredential_source = Environment\n", "both source_profile"},
           {role + "source_profile = nope\n", "has a profile nope; there are k, loop, p"},
           {role + "source_profile = loop\n", "source_profile p leads back to itself"},
           {role + "source_profile = p\n", "source_profile p leads back to itself"},
           {role + "credential_source = Magic\n", "credential_source has to be Environment"},
           {role + "credential_source = EcsContainer\n", "EcsContainer has no credentials"},
           {role + "source_profile = k\nduration_seconds = 60\n", "from 900 to 43200"},
           {role + "source_profile = k\nrole_session_name = a b\n", "role_session_name has to be"},
           {"role_arn = manager\nsource_profile = k\n", "is no role's ARN"},
           {"role_arn = arn:aws-cn:iam::1:role/x\nsource_profile = k\n",
            "is of partition aws-cn, but Region eu-west-1 is of aws"}}) {
    FakeSurroundings fake(
        kRegion, {{kCredentials, "[k]\naws_access_key_id = K\naws_secret_access_key = s\n"},
                  {kConfig, "[profile p]\n" + test.settings + "[profile loop]\n" + role +
                                "source_profile = p\n"}});
    fake.peer = sts;
    const auto found = fake.find("p");
    ASSERT_FALSE(found) << test.settings;
    EXPECT_EQ(found.error().kind, ErrorKind::misconfigured) << test.settings;
    EXPECT_THAT(found.error().context, HasSubstr(test.said));
    EXPECT_TRUE(fake.requests.empty()) << test.settings;
  }
}

TEST(AssumedRole, refusals_of_sts_name_role_and_remedy) {
  FakeSurroundings fake(kRegion,
                        {{kCredentials,
                          "[k]\naws_access_key_id = K\naws_secret_access_key = s\n"
                          "aws_session_token = the-session-token\n"},
                         {kConfig, "[profile p]\nrole_arn = " + kRole + "\nsource_profile = k\n"}});
  fake.peer = [](const HttpRequest&) -> Result<HttpReply> {
    return sts_error("AccessDenied", "User K is not authorized; token the-session-token");
  };
  const auto denied = fake.find("p");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().kind, ErrorKind::unauthorised);
  EXPECT_THAT(denied.error().message(), HasSubstr("profile p: assuming " + kRole));
  EXPECT_THAT(denied.error().message(), HasSubstr("trust policy"));
  EXPECT_THAT(denied.error().message(), HasSubstr("(AccessDenied) [request r-1]"));
  EXPECT_THAT(denied.error().message(), Not(HasSubstr("the-session-token")));
  fake.requests.clear();
  fake.peer = [](const HttpRequest&) -> Result<HttpReply> {
    return HttpReply{503, {}, "<html>busy</html>"};
  };
  EXPECT_EQ(fake.find("p").error().kind, ErrorKind::retry_later);
  EXPECT_EQ(fake.requests.size(), 3u) << "three attempts, as the SDKs make";
}

TEST(AssumedRole, a_wrong_clock_is_corrected_from_the_answers_date) {
  FakeSurroundings fake(kRegion,
                        {{kCredentials, "[k]\naws_access_key_id = K\naws_secret_access_key = s\n"},
                         {kConfig, "[profile p]\nrole_arn = " + kRole + "\nsource_profile = k\n"}});
  fake.peer = [](const HttpRequest& request) -> Result<HttpReply> {
    if (header_of(request, "x-amz-date") == "20260102T040405Z") return sts(request);
    HttpReply reply = sts_error("SignatureDoesNotMatch", "Signature expired");
    reply.headers["date"] = "Fri, 02 Jan 2026 04:04:05 GMT";
    return reply;
  };
  EXPECT_THAT(keys_of(fake.find("p")), StartsWith("ASIAmanager/"));
}

// ---- web identity ----

TEST(WebIdentity, the_environments_token_file_is_read_each_time_and_sent_unsigned) {
  FakeSurroundings fake({{"AWS_REGION", "eu-west-1"},
                         {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                         {"AWS_ROLE_ARN", kRole},
                         {"AWS_ROLE_SESSION_NAME", "pod-1"}},
                        {{"/token", "jwt.one\n"}});
  fake.peer = sts;
  EXPECT_EQ(keys_of(fake.find()), "ASIAmanager/ASIAmanager-secret/ASIAmanager-token");
  EXPECT_EQ(header_of(fake.requests[0], "Authorization"), "");
  EXPECT_EQ(parameter(fake.requests[0], "WebIdentityToken"), "jwt.one");
  EXPECT_EQ(parameter(fake.requests[0], "RoleSessionName"), "pod-1");
  fake.files["/token"] = "jwt.two";
  EXPECT_TRUE(fake.find());
  EXPECT_EQ(parameter(fake.requests[1], "WebIdentityToken"), "jwt.two");
  EXPECT_THAT(keys_of(fake.find("nowhere")), StartsWith("error:"))
      << "an explicit profile hides the environment's";
}

TEST(WebIdentity, errors_name_the_file_and_never_the_token) {
  FakeSurroundings fake({{"AWS_REGION", "eu-west-1"}, {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}},
                        {{"/token", "jwt-secret-text"}});
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("set AWS_ROLE_ARN"));
  fake.variables["AWS_ROLE_ARN"] = kRole;
  struct Case {
    const char* code;
    ErrorKind kind;
    const char* said;
  };
  for (const Case& test : std::vector<Case>{
           {"ExpiredTokenException", ErrorKind::unauthorised, "has to write a new one"},
           {"InvalidIdentityToken", ErrorKind::unauthorised, "check the token file"},
           {"IDPRejectedClaim", ErrorKind::unauthorised, "rejects the token's claims"},
           {"IDPCommunicationError", ErrorKind::retry_later, "identity provider"},
           {"RegionDisabledException", ErrorKind::misconfigured, "Enable STS"}}) {
    fake.peer = [&](const HttpRequest&) -> Result<HttpReply> {
      return sts_error(test.code, "No: jwt-secret-text", 400);
    };
    const auto found = fake.find();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, test.kind) << test.code;
    EXPECT_THAT(found.error().message(), HasSubstr(test.said));
    EXPECT_THAT(found.error().message(), HasSubstr("with the token in /token"));
    EXPECT_THAT(found.error().message(), Not(HasSubstr("jwt-secret-text")));
  }
  fake.files["/token"] = " \n";
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("is empty"));
  fake.files.erase("/token");
  EXPECT_THAT(keys_of(fake.find()), HasSubstr("no such file"));
}
