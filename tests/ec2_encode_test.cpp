// Every request to EC2 against its golden body (tests/golden/ec2/*.form, one parameter a line;
// rewritten by WARMROOT_ACCEPT=1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "manager/aws/form.hpp"
#include "tests/ec2_answers.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

namespace {

struct RequestCase {
  std::string name;
  std::string body;
};

RunInstances launch_request() {
  RunInstances run;
  run.image_id = "ami-1";
  run.instance_type = "g5.xlarge";
  run.subnet_id = "subnet-1";
  run.availability_zone = "us-east-1a";
  run.security_group_ids = {"sg-1", "sg-2"};
  run.key_name = "research";
  run.instance_profile = "arn:aws:iam::111122223333:instance-profile/x";
  run.user_data = "#cloud-boothook\n\xff";
  run.client_token = "token-1";
  run.max_price = "0.5";
  run.instance_tags = {{"warmroot:deployment", "research"}, {"warmroot:pool", "a b"}};
  run.volume_tags = {{"Name", ""}};
  return run;
}

NewBlockDevice first_volume() {
  NewBlockDevice device;
  device.device_name = "/dev/sdf";
  device.snapshot_id = "snap-1";
  device.size_gib = 100;
  device.iops = 4000;
  device.throughput_mib_s = 250;
  device.initialization_rate = 200;
  device.encrypted = true;
  device.kms_key = "alias/x";
  return device;
}

CreateFleet fleet_request() {
  CreateFleet fleet;
  fleet.launch_template_id = "lt-1";
  fleet.launch_template_version = "1";
  fleet.overrides = {{"g5.xlarge", "subnet-a", "us-east-1a", "0.5"},
                     {"g5.2xlarge", "", "us-east-1b", ""}};
  fleet.target_capacity = 3;
  fleet.client_token = "token-3";
  fleet.fleet_tags = {{"warmroot:deployment", "research"}};
  fleet.instance_tags = {{"warmroot:deployment", "research"}, {"warmroot:pool", "a b"}};
  fleet.volume_tags = {{"Name", ""}};
  return fleet;
}

ModifyInstanceAttribute keep_volume() {
  ModifyInstanceAttribute modify;
  modify.instance_id = "i-1";
  modify.device_name = "/dev/sdf";
  modify.delete_on_termination = false;
  return modify;
}

std::vector<RequestCase> launch_cases() {
  RunInstances first = launch_request();
  first.block_devices = {first_volume()};
  CreateFleet on_demand = fleet_request();
  on_demand.overrides.resize(1);
  on_demand.spot = false;
  CreateLaunchTemplate plan{
      "warmroot-research-imagenet-1", first, "token-4", {{"warmroot:deployment", "research"}}};
  ModifyInstanceAttribute protect;
  protect.instance_id = "i-1";
  protect.disable_api_termination = false;
  CreateVolume paid;
  paid.availability_zone = "us-east-1a";
  paid.snapshot_id = "snap-1";
  paid.initialization_rate = 300;
  CopyVolumes copy{"vol-1", 200, "gp3", 4000, 250, "token-5", {{"warmroot:role", "spare"}}};
  return {
      {"RunInstances-volume", encode(first).body},
      {"CreateFleet", encode(fleet_request()).body},
      {"CreateFleet-on-demand", encode(on_demand).body},
      {"CreateLaunchTemplate", encode(plan).body},
      {"DeleteLaunchTemplate", encode(DeleteLaunchTemplate{"lt-1"}).body},
      {"ModifyInstanceAttribute", encode(keep_volume()).body},
      {"ModifyInstanceAttribute-protection", encode(protect).body},
      {"CreateVolume-paid", encode(paid).body},
      {"CopyVolumes", encode(copy).body},
      {"CreateSnapshot", encode(CreateSnapshot{"vol-1", "root", {{"Name", "x"}}}).body},
      {"StopInstances", encode(StopInstances{{"i-1"}}).body},
      {"StopInstances-dry-run", encode_dry_run(StopInstances{{"i-1"}})},
      {"GetSpotPlacementScores",
       encode(GetSpotPlacementScores{{"g5.xlarge", "g5.2xlarge"}, 3, "us-east-1"})},
  };
}

std::vector<RequestCase> read_cases() {
  DescribeRequest by_type;
  by_type.filters = {{"instance-type", {"g5.xlarge"}}};
  by_type.max_results = 100;
  DescribeRequest by_id;
  by_id.ids = {"x-1", "x-2"};
  DescribeRequest restores;
  restores.filters = {{"snapshot-id", {"snap-1"}}};
  DescribeRequest ours;
  ours.filters = {{"tag:warmroot:deployment", {"research"}}};
  return {
      {"DescribeInstanceTypeOfferings", encode(Describe::instance_type_offerings, by_type)},
      {"DescribeInstanceTypes", encode(Describe::instance_types, by_id)},
      {"DescribeVolumeStatus", encode(Describe::volume_status, by_id)},
      {"DescribeFastSnapshotRestores", encode(Describe::fast_snapshot_restores, restores)},
      {"DescribeLaunchTemplates", encode(Describe::launch_templates, ours)},
  };
}

std::vector<RequestCase> first_request_cases() {
  DescribeRequest filtered;
  filtered.filters = {{"tag:warmroot:pool", {"a b", "c*"}}, {"status", {"available"}}};
  filtered.max_results = 500;
  filtered.next_token = "AA/+=";
  DescribeRequest by_id;
  by_id.ids = {"x-1", "x-2"};
  by_id.include_all_instances = true;
  DescribeRequest owned;
  owned.owners = {"self"};
  CreateVolume create;
  create.availability_zone = "us-east-1a";
  create.snapshot_id = "snap-1";
  create.size_gib = 100;
  create.iops = 4000;
  create.throughput_mib_s = 250;
  create.encrypted = true;
  create.kms_key = "alias/x";
  create.client_token = "token-2";
  create.tags = {{"warmroot:node", "imagenet-0"}};
  RunInstances bare;
  bare.image_id = "ami-1";
  bare.instance_type = "m7i.large";
  bare.availability_zone = "us-east-1b";
  bare.instance_profile = "profile";
  bare.spot = false;
  CreateVolume plain;
  plain.availability_zone = "us-east-1a";
  plain.snapshot_id = "snap-1";
  return {
      {"DescribeVolumes", encode(Describe::volumes, filtered)},
      {"DescribeInstances", encode(Describe::instances, by_id)},
      {"DescribeInstanceStatus", encode(Describe::instance_status, by_id)},
      {"DescribeSnapshots", encode(Describe::snapshots, owned)},
      {"DescribeImages", encode(Describe::images, by_id)},
      {"DescribeSubnets", encode(Describe::subnets, by_id)},
      {"DescribeAvailabilityZones", encode_describe_availability_zones()},
      {"DescribeSpotPriceHistory",
       encode(DescribeSpotPrices{
           {"g5.xlarge", "g4dn.xlarge"}, "us-east-1a", at("2026-01-02T03:04:05Z"), 100, "t"})},
      {"RunInstances", encode(launch_request()).body},
      {"RunInstances-bare", encode(bare).body},
      {"CreateVolume", encode(create).body},
      {"CreateVolume-plain", encode(plain).body},
      {"AttachVolume", encode(AttachVolume{"vol-1", "i-2", "/dev/sdf"}).body},
      {"DetachVolume", encode(DetachVolume{"vol-1", "i-2", "/dev/sdf"}).body},
      {"DeleteVolume", encode(DeleteVolume{"vol-1"}).body},
      {"TerminateInstances", encode(TerminateInstances{{"i-1", "i-2"}}).body},
      {"CreateTags", encode(CreateTags{{"vol-1", "vol-2"}, {{"a", "1"}, {"b", ""}}}).body},
      {"DeleteTags", encode(DeleteTags{{"vol-1"}, {"a", "b"}}).body},
  };
}

std::vector<RequestCase> request_cases() {
  std::vector<RequestCase> cases = first_request_cases();
  for (const auto& more : {launch_cases(), read_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

std::string one_per_line(std::string body) {
  for (char& c : body)
    if (c == '&') c = '\n';
  return body + "\n";
}

}  // namespace

TEST(Ec2Encode, every_request_has_its_golden_body) {
  const bool accept = std::getenv("WARMROOT_ACCEPT") != nullptr;
  for (const RequestCase& test : request_cases()) {
    const std::string text = one_per_line(test.body);
    if (accept) std::ofstream(golden_path(test.name + ".form")) << text;
    EXPECT_EQ(text, read_golden(test.name + ".form")) << test.name;
  }
  if (accept) GTEST_SKIP() << "golden bodies rewritten; look at the difference before committing";
}

TEST(Ec2Encode, every_body_parses_back_to_its_action_and_version) {
  for (const RequestCase& test : request_cases()) {
    const Form form = parse_form(test.body);
    EXPECT_EQ(form_value(form, "Action"), test.name.substr(0, test.name.find('-')));
    EXPECT_EQ(form_value(form, "Version"), "2016-11-15");
  }
}

TEST(Ec2Encode, a_launch_is_spot_one_time_and_guarded) {
  const Form form = parse_form(encode(launch_request()).body);
  EXPECT_EQ(form_value(form, "InstanceMarketOptions.MarketType"), "spot");
  EXPECT_EQ(form_value(form, "InstanceMarketOptions.SpotOptions.SpotInstanceType"), "one-time");
  EXPECT_EQ(form_value(form, "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"),
            "terminate");
  EXPECT_EQ(form_value(form, "InstanceInitiatedShutdownBehavior"), "terminate");
  EXPECT_EQ(form_value(form, "MetadataOptions.HttpTokens"), "required");
  EXPECT_EQ(form_value(form, "MetadataOptions.HttpPutResponseHopLimit"), "1");
  EXPECT_EQ(form_value(form, "MetadataOptions.InstanceMetadataTags"), "enabled");
  EXPECT_EQ(form_value(form, "UserData"), "I2Nsb3VkLWJvb3Rob29rCv8=");
  EXPECT_EQ(form_value(form, "Placement.AvailabilityZone"), "") << "the subnet says the zone";
}

TEST(Ec2Encode, empty_lists_are_not_sent_but_empty_tag_values_are) {
  EXPECT_EQ(encode(Describe::volumes, {}), "Action=DescribeVolumes&Version=2016-11-15");
  EXPECT_THAT(encode(CreateTags{{"vol-1"}, {{"k", ""}}}).body,
              HasSubstr("Tag.1.Key=k&Tag.1.Value="));
  EXPECT_THAT(encode(DeleteTags{{"vol-1"}, {"k"}}).body, Not(HasSubstr("Value")));
}

TEST(Ec2Encode, a_volume_always_names_its_type) {
  CreateVolume create;
  create.availability_zone = "us-east-1a";
  create.snapshot_id = "snap-1";
  EXPECT_THAT(encode(create).body, HasSubstr("&VolumeType=gp3"));
  EXPECT_THAT(encode(create).body, Not(HasSubstr("&Size=")));
}

TEST(Ec2Encode, the_same_mutation_gives_the_same_bytes) {
  EXPECT_EQ(encode(launch_request()).body, encode(launch_request()).body);
}

TEST(Ec2Encode, a_summary_names_the_call_and_its_resources) {
  EXPECT_EQ(summary_of(encode(AttachVolume{"vol-1", "i-2", "/dev/sdf"}).body),
            "AttachVolume vol-1 to i-2");
  EXPECT_EQ(summary_of(encode(DetachVolume{"vol-1", "i-2", ""}).body),
            "DetachVolume vol-1 from i-2");
  EXPECT_EQ(summary_of(encode(DeleteVolume{"vol-1"}).body), "DeleteVolume vol-1");
  EXPECT_EQ(summary_of(encode(launch_request()).body),
            "RunInstances g5.xlarge from ami-1 in subnet-1");
  EXPECT_EQ(summary_of(encode(TerminateInstances{{"i-1", "i-2"}}).body),
            "TerminateInstances i-1, i-2");
  EXPECT_EQ(summary_of(encode(CreateTags{{"a", "b", "c", "d"}, {{"k", "v"}}}).body),
            "CreateTags on a and 3 more");
  EXPECT_EQ(summary_of(encode_describe_availability_zones()), "DescribeAvailabilityZones");
  CreateVolume create;
  create.availability_zone = "us-east-1a";
  create.snapshot_id = "snap-1";
  EXPECT_EQ(summary_of(encode(create).body), "CreateVolume from snap-1 in us-east-1a");
}

TEST(Ec2Encode, a_launch_template_carries_the_guards_and_no_price_zone_or_type) {
  const Form form =
      parse_form(encode(CreateLaunchTemplate{"name", launch_request(), "token", {}}).body);
  const std::string data = "LaunchTemplateData.";
  EXPECT_EQ(form_value(form, data + "MetadataOptions.HttpTokens"), "required");
  EXPECT_EQ(form_value(form, data + "MetadataOptions.HttpPutResponseHopLimit"), "1");
  EXPECT_EQ(form_value(form, data + "MetadataOptions.InstanceMetadataTags"), "enabled");
  EXPECT_EQ(form_value(form, data + "InstanceInitiatedShutdownBehavior"), "terminate");
  EXPECT_EQ(form_value(form, data + "UserData"), "I2Nsb3VkLWJvb3Rob29rCv8=");
  for (const auto& [key, value] : form) {
    EXPECT_THAT(key, Not(HasSubstr("InstanceType")));
    EXPECT_THAT(key, Not(HasSubstr("Subnet")));
    EXPECT_THAT(key, Not(HasSubstr("MarketOptions")));
    EXPECT_THAT(key, Not(HasSubstr("Count")));
    EXPECT_THAT(key, Not(HasSubstr("TagSpecification")));
  }
}

TEST(Ec2Encode, a_dry_run_is_the_same_call_and_says_so) {
  const Mutation stop = StopInstances{{"i-1"}};
  EXPECT_EQ(encode_dry_run(stop), encode(stop).body + "&DryRun=true");
  EXPECT_EQ(summary_of(encode_dry_run(stop)), "dry run of StopInstances i-1");
}

TEST(Ec2Encode, summaries_of_fleets_templates_and_copies) {
  EXPECT_EQ(summary_of(encode(fleet_request()).body), "CreateFleet 3 of 2 types and zones");
  CreateFleet one = fleet_request();
  one.overrides.resize(1);
  EXPECT_EQ(summary_of(encode(one).body), "CreateFleet 3 of g5.xlarge in us-east-1a");
  EXPECT_EQ(summary_of(encode(CreateLaunchTemplate{"n", {}, "", {}}).body),
            "CreateLaunchTemplate n");
  EXPECT_EQ(summary_of(encode(DeleteLaunchTemplate{"lt-1"}).body), "DeleteLaunchTemplate lt-1");
  EXPECT_EQ(summary_of(encode(keep_volume()).body), "ModifyInstanceAttribute i-1");
  EXPECT_EQ(summary_of(encode(CopyVolumes{"vol-1", 0, "gp3", {}, {}, "", {}}).body),
            "CopyVolumes of vol-1");
  EXPECT_EQ(summary_of(encode(CreateSnapshot{"vol-1", "", {}}).body), "CreateSnapshot vol-1");
}
