// That the doctor never says no without saying what to do: where every call fails in the same way,
// where one kind of read fails alone, and for every wording of IAM's.
#include "tests/doctor_fixture.hpp"

namespace warmroot::manager {
namespace {

using ::testing::HasSubstr;

/// Every call fails in the same way.
struct FailingDoor : aws::Transport {
  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override {
    return std::vector<Result<HttpReply>>(bodies.size(), answer);
  }
  Result<HttpReply> answer = fail(ErrorKind::retry_later, "no connection");
};

Result<HttpReply> ec2_error(int status, const std::string& code, const std::string& message) {
  return HttpReply{status,
                   {},
                   "<Response><Errors><Error><Code>" + code + "</Code><Message>" + message +
                       "</Message></Error></Errors><RequestID>r-1</RequestID></Response>"};
}

TEST_F(DoctorTest, where_everything_fails_every_line_says_what_to_do) {
  desired.pools.push_back(pool_spec("asg", 1, 1));
  desired.pools.back().launch.reset();
  desired.pools.back().auto_scaling_group = "workers";
  pool().launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  pool().launch->tags = {{"team/name", "x"}};
  pool().volumes.encrypted = true;
  pool().volumes.kms_key = "alias/research";
  pool().snapshot = "snap-01000000000000001";
  pool().ami.clear();
  account.clear();
  skew.reset();
  user_data = fail(ErrorKind::misconfigured, "it begins with neither #! nor #cloud-config");
  struct Row {
    Result<HttpReply> answer;
    const char* remedy;  ///< of the listing of volumes
  };
  const Row rows[] = {
      {fail(ErrorKind::retry_later, "no connection"), ": run doctor again in a minute"},
      {fail(ErrorKind::unknown_outcome, "reset"), ": run doctor again in a minute"},
      {ec2_error(503, "RequestLimitExceeded", "Slower."), ": run doctor again in a minute"},
      {ec2_error(400, "ExpiredToken", "Expired."), ": renew or correct the credentials"},
      {ec2_error(403, "UnauthorizedOperation", "You are not authorized."), "decode-authorization"},
      {ec2_error(400, "NeverHeardOf", "No."), ": settle what the answer names"},
      {ec2_error(400, "InvalidParameterValue", "No."), ": correct it in the spec"},
      {ec2_error(400, "MissingParameter", "No."), ": check --endpoint-url"},
      {HttpReply{200, {{"content-type", "text/html"}}, "<html>"}, ": correct it in the spec"},
  };
  for (const Row& row : rows) {
    FailingDoor failing;
    failing.answer = row.answer;
    aws::Ec2Client client(
        failing, [](Milliseconds) {}, [] { return 0.5; });
    const Error error = client.describe_volumes({}).error();
    DoctorFacts asked = facts();
    asked.list_blocks = [&](auto&&...) { return Ok{fail(error)}; };
    asked.read_queue = [&] { return Ok{fail(error)}; };
    asked.quota = [&](auto&&...) { return Result<double>(fail(error)); };
    asked.key = [&](auto&&...) { return Result<aws::KmsKey>(fail(error)); };
    const auto found = with_remedies(examine(client, asked));
    EXPECT_FALSE(healthy(found)) << row.remedy;
    EXPECT_THAT(lines(found), HasSubstr("wrong permissions: DescribeVolumes"));
    EXPECT_THAT(lines(found), HasSubstr(row.remedy));
    for (const char* line :
         {"unknown clock: ", "unknown account: ", " permissions: ec2:RunInstances ",
          " events: ", "unknown instance type: g5.xlarge could not be looked up",
          "unknown attachments: ", "unknown subnet: ", "wrong instance tags: ", "wrong user-data: ",
          "unknown quota: ", " KMS key: ", " block list: ",
          "unknown group: Auto Scaling group workers cannot be seen"})
      EXPECT_THAT(lines(found), HasSubstr(line)) << row.remedy;
  }
}

TEST_F(DoctorTest, what_alone_cannot_be_read_says_what_to_do) {
  pool().launch->subnets["us-east-1a"] = "subnet-01000000000000001";
  pool().stock.spares = 1;
  for (const char* action :
       {"DescribeImages", "DescribeSnapshots", "DescribeSubnets", "DescribeAvailabilityZones",
        "DescribeSpotPriceHistory", "DescribeVolumeStatus", "DescribeFastSnapshotRestores",
        "DescribeLaunchTemplates", "DescribeInstanceStatus", "GetSpotPlacementScores"})
    for (const auto kind : {sim::FaultKind::unavailable, sim::FaultKind::unauthorized,
                            sim::FaultKind::expired_token}) {
      front.faults().clear();
      front.faults().inject({action, kind, sim::Fault::kAlways});
      findings();
    }
  front.faults().clear();
  region.knobs.denied["ec2:DescribeImages"] = sim::Denial::implicit;
  EXPECT_THAT(lines(findings()), HasSubstr("wrong source: DescribeImages"));
  EXPECT_THAT(lines(findings()), HasSubstr(": nothing allows it: add it to the policy"));
  region.knobs.denied.clear();
  front.faults().inject({"DescribeSnapshots", sim::FaultKind::unavailable, sim::Fault::kAlways});
  EXPECT_THAT(lines(findings()), HasSubstr("unknown source: DescribeSnapshots"));
}

TEST(DoctorWords, every_known_denier_has_its_own_remedy_and_the_rest_is_said_to_be_unknown) {
  EXPECT_THAT(who_denies("... with an explicit deny in a permissions boundary: arn"),
              HasSubstr("permissions boundary denies it"));
  EXPECT_THAT(who_denies("... because no session policy allows the ec2:RunInstances action"),
              HasSubstr("session's policy"));
  EXPECT_THAT(who_denies("You are not authorized to perform this operation. Encoded: abc"),
              HasSubstr("decode-authorization-message"));
}

}  // namespace
}  // namespace warmroot::manager
