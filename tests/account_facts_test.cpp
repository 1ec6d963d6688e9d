// Quotas and keys: what answers of Service Quotas and KMS mean, and the real client against the
// region's over signed HTTP.
#include "manager/aws/account_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/account_facts_client.hpp"
#include "tests/fake_surroundings.hpp"
#include "tests/region_doors.hpp"

namespace warmroot {
namespace {

using testing::HasSubstr;

TEST(AccountFacts, a_refusal_is_told_by_its_type_in_either_place) {
  struct Row {
    int status;
    const char* header;
    const char* body;
    ErrorKind kind;
  };
  const Row rows[] = {
      {400, "", R"({"__type":"AccessDeniedException","Message":"User: x is not authorized"})",
       ErrorKind::unauthorised},
      {400, "com.amazonaws.servicequotas#NoSuchResourceException:http://x", "{}", ErrorKind::gone},
      {400, "NotFoundException", R"({"message":"Alias is not found."})", ErrorKind::misconfigured},
      {400, "InvalidArnException", "{}", ErrorKind::misconfigured},
      {400, "TooManyRequestsException", "{}", ErrorKind::retry_later},
      {400, "ThrottlingException", "{}", ErrorKind::retry_later},
      {500, "KMSInternalException", "", ErrorKind::retry_later},
      {403, "", "<html>proxy</html>", ErrorKind::refused},
      {200, "", "<html>proxy</html>", ErrorKind::broken},
      {200, "", R"({"Quota":{"Value":"64"}})", ErrorKind::broken},
      {200, "", "[]", ErrorKind::broken},
      {200, "", R"({"KeyMetadata":{"KeyState":"Enabled"}})", ErrorKind::broken},
  };
  for (const Row& row : rows) {
    HttpReply reply{row.status, {}, row.body};
    if (*row.header) reply.headers["x-amzn-errortype"] = row.header;
    const auto quota = aws::decode_service_quota(reply);
    const auto key = aws::decode_key(reply);
    ASSERT_FALSE(quota || key) << row.body;
    EXPECT_EQ(quota.error().kind, row.kind) << row.header << row.body;
    EXPECT_EQ(key.error().kind, row.kind) << row.header << row.body;
  }
}

class RegionAccount : public testing::Test {
 protected:
  RegionAccount() {
    CHECK(server.start().has_value());
    auto surroundings = std::make_shared<aws::Surroundings>(around.get());
    surroundings->now = [] { return warmroot::wall_clock(); };
    connection.surroundings = surroundings;
    connection.settings.region = "us-east-1";
    connection.settings.choices.endpoint_url = server.endpoint();
    connection.credentials = std::make_shared<aws::CredentialCache>(
        []() -> Result<aws::FoundCredentials> {
          aws::FoundCredentials found;
          found.credentials = {"AKIDEXAMPLE",
                               aws::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                               aws::Secret()};
          return found;
        },
        surroundings->now, [] { return 0.5; });
  }
  ~RegionAccount() override { server.stop(); }

  template <typename What>
  void set(What what) {
    server.with([&](sim::Region& own, sim::QueryFront&) { what(own.knobs); });
  }

  aws::FakeSurroundings around;
  sim::NoHardware hardware;
  sim::Region region{catalog(), short_times(), hardware, warmroot::wall_clock()};
  sim::RegionServer server{region, {}};
  aws::Connection connection;
  aws::AccountFactsClient client{connection};
};

TEST_F(RegionAccount, a_quota_is_what_launches_will_meet) {
  set([](sim::RegionKnobs& knobs) { knobs.spot_vcpu_quota["standard"] = 96; });
  EXPECT_EQ(client.service_quota("ec2", "L-34B43A08").value_or(0), 96);
  EXPECT_EQ(client.service_quota("ebs", "L-7A658B76").value_or(0), 50);
  EXPECT_EQ(client.service_quota("ec2", "L-00000000").error().kind, ErrorKind::gone);
  set([](sim::RegionKnobs& knobs) {
    knobs.denied["servicequotas:GetServiceQuota"] = sim::Denial::implicit;
  });
  const auto denied = client.service_quota("ec2", "L-34B43A08");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().kind, ErrorKind::unauthorised);
  EXPECT_THAT(denied.error().message(), HasSubstr("no identity-based policy allows the servicequ"));
}

TEST_F(RegionAccount, a_key_is_described_by_any_of_its_names) {
  set([](sim::RegionKnobs& knobs) {
    knobs.kms_keys["alias/research"] = {};
    knobs.kms_keys["alias/signing"] = {"Enabled", "SIGN_VERIFY", "RSA_2048"};
  });
  const auto key = client.key("alias/research");
  ASSERT_TRUE(key) << key.error().message();
  EXPECT_EQ(key->state, "Enabled");
  EXPECT_EQ(key->usage, "ENCRYPT_DECRYPT");
  EXPECT_THAT(key->arn, HasSubstr("arn:aws:kms:us-east-1:"));
  EXPECT_EQ(client.key("alias/signing").value_or(aws::KmsKey{}).spec, "RSA_2048");
  EXPECT_EQ(client.key("alias/none").error().kind, ErrorKind::misconfigured);
  set([](sim::RegionKnobs& knobs) { knobs.revoked_keys = {"alias/research"}; });
  EXPECT_EQ(client.key("alias/research").value_or(aws::KmsKey{}).state, "Disabled");
}

TEST_F(RegionAccount, a_service_out_of_reach_is_asked_once_and_the_other_all_the_same) {
  around.variables["AWS_ENDPOINT_URL_SERVICE_QUOTAS"] = "http://127.0.0.1:1";
  set([](sim::RegionKnobs& knobs) { knobs.kms_keys["alias/research"] = {}; });
  const auto first = client.service_quota("ec2", "L-34B43A08");
  const auto second = client.service_quota("ec2", "L-3819A6DF");
  ASSERT_FALSE(first || second);
  EXPECT_EQ(first.error().message(), second.error().message());
  EXPECT_TRUE(client.key("alias/research"));
}

}  // namespace
}  // namespace warmroot
