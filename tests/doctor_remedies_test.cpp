// That the doctor never says no without saying what to do: where every call fails in the same way,
// where one kind of read fails alone, and for every wording of IAM's.
#include <set>

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

/// Source: IAM user guide, "Troubleshoot access denied error messages", with our actions; EC2 puts
/// its own sentence in front, and newer answers name the policy behind.
TEST(DoctorWords, every_known_denier_has_its_own_remedy) {
  struct Row {
    const char* because;
    const char* remedy;
  };
  const Row rows[] = {
      {"with an explicit deny in a service control policy: "
       "arn:aws:organizations::777788889999:policy/o-example/service_control_policy/p-example",
       "so that no policy of this account can allow it: ask those who run the organisation"},
      {"because no service control policy allows the ec2:RunInstances action",
       "the organisation's service control policies do not allow it: ask those"},
      {"with an explicit deny in a VPC endpoint policy transitively through a service control "
       "policy",
       "by way of the VPC endpoint: ask those who run the organisation"},
      {"with an explicit deny in a resource control policy",
       "a resource control policy of the organisation denies it: ask those"},
      {"because no VPC endpoint policy allows the ec2:RunInstances action",
       "the VPC endpoint's policy does not allow it: change it"},
      {"with an explicit deny in a VPC endpoint policy",
       "the VPC endpoint's policy denies it: change it"},
      {"because no permissions boundary allows the ec2:RunInstances action",
       "the role's permissions boundary does not allow it: ask those who set it"},
      {"with an explicit deny in a permissions boundary: arn:aws:iam::123456789012:policy/edge",
       "the role's permissions boundary denies it: ask those who set it"},
      {"because no session policy allows the ec2:RunInstances action",
       "the session's policy does not allow it: begin another session"},
      {"with an explicit deny in a sessions policy",
       "the session's policy denies it: begin another session"},
      {"with an explicit deny in a session policy",
       "the session's policy denies it: begin another session"},
      {"because no resource-based policy allows the ec2:RunInstances action",
       "the resource's own policy does not allow it: ask the resource's owner"},
      {"with an explicit deny in a resource-based policy",
       "a policy of the resource denies it explicitly: change that policy"},
      {"because no identity-based policy allows the ec2:RunInstances action",
       "nothing allows it: add it to the policy of this user or role"},
      {"with an explicit deny in an identity-based policy: arn:aws:iam::123456789012:policy/no",
       "remove that statement; a further Allow does not help"},
  };
  std::set<std::string> remedies;
  for (const Row& row : rows) {
    const std::string message =
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:role/HR "
        "is not authorized to perform: ec2:RunInstances on resource: "
        "arn:aws:ec2:us-east-1:123456789012:instance/* " +
        std::string(row.because) + ". Encoded authorization failure message: AAAA";
    EXPECT_TRUE(says_denied(message));
    EXPECT_THAT(who_denies(message), HasSubstr(row.remedy)) << row.because;
    EXPECT_EQ(remedy_of({ErrorKind::unauthorised, message, "UnauthorizedOperation", ""}),
              who_denies(message));
    remedies.insert(who_denies(message));
  }
  for (const Denier& known : known_deniers())
    EXPECT_TRUE(remedies.contains(std::string(known.remedy))) << "no message has " << known.words;
  EXPECT_EQ(remedies.size(), known_deniers().size()) << "two deniers share a remedy";
}

TEST(DoctorWords, a_denier_that_is_not_known_is_said_to_be_so) {
  for (const char* message :
       {"You are not authorized to perform this operation. Encoded authorization failure message: "
        "AAAA",
        "... with an explicit deny", ""})
    EXPECT_THAT(who_denies(message), HasSubstr("decode-authorization-message")) << message;
}

}  // namespace
}  // namespace warmroot::manager
