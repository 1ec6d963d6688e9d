// The EC2 codec: every request against its golden body (tests/golden/ec2/*.form, one parameter a
// line; rewritten by WARMROOT_ACCEPT=1), every answer from a golden XML file, and every way in
// which an answer can be none.
#include "manager/aws/ec2_codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "manager/aws/form.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string golden_path(const std::string& name) {
  return std::string(WARMROOT_GOLDEN_DIR) + "/ec2/" + name;
}

std::string read_golden(const std::string& name) {
  std::ifstream file(golden_path(name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

HttpReply xml_reply(std::string body, int status = 200) {
  return {status, {{"content-type", "text/xml;charset=UTF-8"}}, std::move(body)};
}

HttpReply answer(const std::string& action) {
  const std::string text = read_golden(action + ".xml");
  EXPECT_FALSE(text.empty()) << golden_path(action + ".xml");
  return xml_reply(text);
}

HttpReply refusal(const std::string& code, int status = 400, const std::string& message = "no.") {
  return xml_reply("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>" +
                       code + "</Code><Message>" + message +
                       "</Message></Error></Errors><RequestID>req-1</RequestID></Response>",
                   status);
}

Instant at(const char* text) {
  return *parse_iso8601(text);
}

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
      {"DetachVolume", encode(DetachVolume{"vol-1", "i-2"}).body},
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

/// What every decoder makes of a reply, as an error (or none).
std::optional<Error> error_of(const std::string& action, const HttpReply& reply) {
  const auto take = [](const auto& result) -> std::optional<Error> {
    if (result) return std::nullopt;
    return result.error();
  };
  if (action == "DescribeVolumes") return take(decode_volumes(reply));
  if (action == "DescribeInstances") return take(decode_instances(reply));
  if (action == "DescribeInstanceStatus") return take(decode_instance_status(reply));
  if (action == "DescribeSnapshots") return take(decode_snapshots(reply));
  if (action == "DescribeImages") return take(decode_images(reply));
  if (action == "DescribeAvailabilityZones") return take(decode_availability_zones(reply));
  if (action == "DescribeSubnets") return take(decode_subnets(reply));
  if (action == "DescribeSpotPriceHistory") return take(decode_spot_prices(reply));
  if (action == "DescribeInstanceTypeOfferings") return take(decode_instance_type_offerings(reply));
  if (action == "DescribeInstanceTypes") return take(decode_instance_types(reply));
  if (action == "DescribeVolumeStatus") return take(decode_volume_status(reply));
  if (action == "DescribeFastSnapshotRestores") return take(decode_fast_snapshot_restores(reply));
  if (action == "DescribeLaunchTemplates") return take(decode_launch_templates(reply));
  if (action == "GetSpotPlacementScores") return take(decode_spot_placement_scores(reply));
  return take(decode_answer(action, reply));
}

const std::vector<std::string> kActions = {"DescribeVolumes",
                                           "DescribeInstances",
                                           "DescribeInstanceStatus",
                                           "DescribeSnapshots",
                                           "DescribeImages",
                                           "DescribeAvailabilityZones",
                                           "DescribeSubnets",
                                           "DescribeSpotPriceHistory",
                                           "RunInstances",
                                           "CreateVolume",
                                           "AttachVolume",
                                           "DetachVolume",
                                           "DeleteVolume",
                                           "TerminateInstances",
                                           "CreateTags",
                                           "DeleteTags",
                                           "CreateFleet",
                                           "CreateLaunchTemplate",
                                           "DeleteLaunchTemplate",
                                           "ModifyInstanceAttribute",
                                           "CopyVolumes",
                                           "CreateSnapshot",
                                           "StopInstances",
                                           "DescribeInstanceTypeOfferings",
                                           "DescribeInstanceTypes",
                                           "DescribeVolumeStatus",
                                           "DescribeFastSnapshotRestores",
                                           "DescribeLaunchTemplates",
                                           "GetSpotPlacementScores"};

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
  EXPECT_EQ(summary_of(encode(DetachVolume{"vol-1", "i-2"}).body), "DetachVolume vol-1 from i-2");
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

TEST(Ec2Decode, volumes) {
  const auto page = decode_volumes(answer("DescribeVolumes"));
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->next_token, "AAMA-EFRSURBSGg==");
  ASSERT_EQ(page->items.size(), 2u);
  const Volume& used = page->items[0];
  EXPECT_EQ(used.volume_id, "vol-0aaaaaaaaaaaaaaaa");
  EXPECT_EQ(used.snapshot_id, "snap-0123456789abcdef0");
  EXPECT_EQ(used.availability_zone, "us-east-1a");
  EXPECT_EQ(used.volume_type, "gp3");
  EXPECT_EQ(used.size_gib, 100);
  EXPECT_EQ(used.iops, 3000);
  EXPECT_EQ(used.throughput_mib_s, 125);
  EXPECT_TRUE(used.encrypted);
  EXPECT_EQ(used.state, VolumeState::in_use);
  EXPECT_EQ(used.create_time, at("2026-01-02T03:04:05.678Z"));
  EXPECT_EQ(used.tags, (Tags{{"warmroot:pool", "imagenet"}, {"warmroot:quarantined", ""}}));
  ASSERT_EQ(used.attachments.size(), 1u);
  EXPECT_EQ(used.attachments[0].instance_id, "i-0123456789abcdef0");
  EXPECT_EQ(used.attachments[0].device, "/dev/sdf");
  EXPECT_EQ(used.attachments[0].state, AttachmentState::attached);
  EXPECT_FALSE(used.attachments[0].delete_on_termination);
  const Volume& free = page->items[1];
  EXPECT_EQ(free.snapshot_id, "");
  EXPECT_EQ(free.iops, std::nullopt);
  EXPECT_EQ(free.state, VolumeState::available);
  EXPECT_TRUE(free.attachments.empty());
  EXPECT_TRUE(free.tags.empty());
}

TEST(Ec2Decode, instances_of_all_reservations) {
  const auto page = decode_instances(answer("DescribeInstances"));
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->next_token, "");
  ASSERT_EQ(page->items.size(), 3u);
  const Instance& running = page->items[0];
  EXPECT_EQ(running.instance_id, "i-0123456789abcdef0");
  EXPECT_EQ(running.image_id, "ami-0123456789abcdef0");
  EXPECT_EQ(running.instance_type, "g5.xlarge");
  EXPECT_EQ(running.state, InstanceState::running);
  EXPECT_EQ(running.state_reason_code, "");
  EXPECT_EQ(running.availability_zone, "us-east-1a");
  EXPECT_EQ(running.subnet_id, "subnet-0123456789abcdef0");
  EXPECT_EQ(running.private_ip, "10.0.0.5");
  EXPECT_EQ(running.public_ip, "198.51.100.7");
  EXPECT_EQ(running.root_device_name, "/dev/sda1");
  EXPECT_EQ(running.client_token, "wr-research-imagenet-0-1");
  EXPECT_TRUE(running.spot);
  EXPECT_EQ(running.launch_time, at("2026-01-02T03:04:05Z"));
  ASSERT_EQ(running.block_devices.size(), 2u);
  EXPECT_EQ(running.block_devices[1].volume_id, "vol-0aaaaaaaaaaaaaaaa");
  EXPECT_EQ(running.block_devices[1].state, AttachmentState::attaching);
  EXPECT_TRUE(running.block_devices[0].delete_on_termination);
  EXPECT_EQ(running.tags.at("warmroot:pool"), "imagenet");
  EXPECT_EQ(page->items[1].state, InstanceState::terminated);
  EXPECT_EQ(page->items[1].state_reason_code, "Server.SpotInstanceTermination");
  EXPECT_EQ(page->items[2].state, InstanceState::shutting_down);
  EXPECT_TRUE(page->items[2].block_devices.empty());
}

TEST(Ec2Decode, the_other_listings) {
  const auto statuses = decode_instance_status(answer("DescribeInstanceStatus"));
  ASSERT_TRUE(statuses);
  EXPECT_EQ(statuses->items.at(0).system_status, "impaired");
  EXPECT_EQ(statuses->items.at(0).instance_status, "ok");
  EXPECT_EQ(statuses->items.at(0).state, InstanceState::running);
  const auto snapshots = decode_snapshots(answer("DescribeSnapshots"));
  ASSERT_TRUE(snapshots);
  EXPECT_EQ(snapshots->items.at(0).state, "completed");
  EXPECT_EQ(snapshots->items.at(0).owner_id, "111122223333");
  EXPECT_EQ(snapshots->items.at(0).volume_size_gib, 100);
  EXPECT_TRUE(snapshots->items.at(0).encrypted);
  EXPECT_EQ(snapshots->items.at(0).tags.at("Name"), "imagenet root");
  const auto images = decode_images(answer("DescribeImages"));
  ASSERT_TRUE(images);
  EXPECT_EQ(images->items.at(0).root_device_name, "/dev/xvda");
  EXPECT_EQ(images->items.at(0).architecture, "x86_64");
  ASSERT_EQ(images->items.at(0).mappings.size(), 1u) << "ephemeral0 is no EBS volume";
  EXPECT_EQ(images->items.at(0).mappings[0].snapshot_id, "snap-0eeeeeeeeeeeeeeee");
  EXPECT_EQ(images->items.at(0).mappings[0].volume_size_gib, 8);
  const auto zones = decode_availability_zones(answer("DescribeAvailabilityZones"));
  ASSERT_TRUE(zones);
  EXPECT_EQ(zones->at(1).zone_name, "us-east-1b");
  EXPECT_EQ(zones->at(1).state, "impaired");
  const auto subnets = decode_subnets(answer("DescribeSubnets"));
  ASSERT_TRUE(subnets);
  EXPECT_EQ(subnets->items.at(0).available_addresses, 251);
  EXPECT_EQ(subnets->items.at(0).availability_zone, "us-east-1a");
  const auto prices = decode_spot_prices(answer("DescribeSpotPriceHistory"));
  ASSERT_TRUE(prices);
  EXPECT_EQ(prices->items.at(0).price_usd_hour, "0.402100");
  EXPECT_EQ(prices->next_token, "") << "an empty nextToken is the last page";
}

TEST(Ec2Decode, answers_of_mutations) {
  const auto launched = decode_answer("RunInstances", answer("RunInstances"));
  ASSERT_TRUE(launched) << launched.error().message();
  const auto& instances = std::get<std::vector<Instance>>(*launched);
  ASSERT_EQ(instances.size(), 1u);
  EXPECT_EQ(instances[0].state, InstanceState::pending);
  EXPECT_EQ(instances[0].state_reason_code, "") << "{pending, pending} is no reason";
  const auto ended = decode_answer("TerminateInstances", answer("TerminateInstances"));
  ASSERT_TRUE(ended);
  const auto& ending = std::get<std::vector<Instance>>(*ended);
  ASSERT_EQ(ending.size(), 2u);
  EXPECT_EQ(ending[0].state, InstanceState::shutting_down);
  EXPECT_EQ(ending[1].state, InstanceState::terminated);
  const auto created = decode_answer("CreateVolume", answer("CreateVolume"));
  ASSERT_TRUE(created);
  EXPECT_EQ(std::get<Volume>(*created).state, VolumeState::creating);
  EXPECT_EQ(std::get<Volume>(*created).tags.at("warmroot:pool"), "imagenet");
  const auto attached = decode_answer("AttachVolume", answer("AttachVolume"));
  ASSERT_TRUE(attached);
  EXPECT_EQ(std::get<Attachment>(*attached).state, AttachmentState::attaching);
  const auto detached = decode_answer("DetachVolume", answer("DetachVolume"));
  ASSERT_TRUE(detached);
  EXPECT_EQ(std::get<Attachment>(*detached).state, AttachmentState::busy);
  for (const char* action : {"DeleteVolume", "CreateTags", "DeleteTags"}) {
    const auto done = decode_answer(action, answer(action));
    ASSERT_TRUE(done) << action;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(*done));
  }
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

TEST(Ec2Decode, a_listing_with_a_wrong_type_is_no_view_and_a_mutations_answer_still_counts) {
  const auto listing = [](const std::string& inner) {
    return decode_volumes(
        xml_reply("<DescribeVolumesResponse><volumeSet><item><volumeId>vol-1"
                  "</volumeId>" +
                  inner + "</item></volumeSet></DescribeVolumesResponse>"));
  };
  EXPECT_TRUE(listing("<size/><iops></iops><encrypted/>"));
  for (const char* wrong :
       {"<size>ten</size>", "<size>99999999999</size>", "<iops>3e3</iops>",
        "<encrypted>yes</encrypted>",
        "<attachmentSet><item><deleteOnTermination>0</deleteOnTermination></item>"
        "</attachmentSet>"}) {
    const auto page = listing(wrong);
    ASSERT_FALSE(page) << wrong;
    EXPECT_EQ(page.error().kind, ErrorKind::broken) << wrong;
    EXPECT_THAT(page.error().context, HasSubstr("which cannot be")) << wrong;
  }
  EXPECT_TRUE(decode_answer("CreateVolume",
                            xml_reply("<CreateVolumeResponse><volumeId>vol-1</volumeId><size>ten"
                                      "</size></CreateVolumeResponse>")));
}

TEST(Ec2Decode, depth_size_and_other_namespaces_are_errors_and_never_a_crash) {
  std::string deep = "<DescribeVolumesResponse>";
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_FALSE(decode_volumes(xml_reply(deep)));
  for (int i = 0; i < 100'000; ++i) deep += "</a>";
  EXPECT_FALSE(decode_volumes(xml_reply(deep + "</DescribeVolumesResponse>")));
  const auto prefixed = decode_volumes(
      xml_reply("<e:DescribeVolumesResponse xmlns:e=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"
                "</e:DescribeVolumesResponse>"));
  ASSERT_FALSE(prefixed);
  EXPECT_EQ(prefixed.error().kind, ErrorKind::broken);
  std::string huge = "<DescribeVolumesResponse><volumeSet>";
  const std::string item = "<item><volumeId>vol-1</volumeId></item>";
  while (huge.size() < (std::size_t{100} << 20)) huge += item;
  const HttpReply reply = xml_reply(huge + "</volumeSet></DescribeVolumesResponse>");
  const auto refused = decode_volumes(reply);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::broken);
  EXPECT_THAT(refused.error().context, HasSubstr("larger than 16 MiB"));
  EXPECT_EQ(error_of("CreateVolume", reply)->kind, ErrorKind::unknown_outcome);
}

TEST(Ec2Decode, entities_of_a_document_of_its_own_are_not_expanded) {
  const auto page = decode_volumes(xml_reply(
      "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>"
      "<DescribeVolumesResponse><volumeSet><item><volumeId>&b;</volumeId></item></volumeSet>"
      "</DescribeVolumesResponse>"));
  if (page) {
    EXPECT_EQ(page->items.at(0).volume_id, "&b;");
  }
}

TEST(Ec2Decode, a_fleet_tells_what_it_launched_and_what_it_could_not) {
  const auto decoded = decode_answer("CreateFleet", answer("CreateFleet"));
  ASSERT_TRUE(decoded) << decoded.error().message();
  const auto& fleet = std::get<FleetAnswer>(*decoded);
  EXPECT_EQ(fleet.fleet_id, "fleet-0123456789abcdef0");
  ASSERT_EQ(fleet.instances.size(), 3u);
  EXPECT_EQ(fleet.instances[1].instance_id, "i-0123456789abcdef1");
  EXPECT_EQ(fleet.instances[1].instance_type, "g5.xlarge");
  EXPECT_EQ(fleet.instances[1].availability_zone, "us-east-1a");
  EXPECT_TRUE(fleet.instances[1].spot);
  EXPECT_EQ(fleet.instances[2].instance_type, "g4dn.xlarge");
  EXPECT_EQ(fleet.instances[2].availability_zone, "us-east-1b");
  ASSERT_EQ(fleet.errors.size(), 1u);
  EXPECT_EQ(fleet.errors[0].code, "InsufficientInstanceCapacity");
  EXPECT_EQ(fleet.errors[0].instance_type, "g5.2xlarge");
  EXPECT_EQ(fleet.errors[0].availability_zone, "us-east-1a");
  EXPECT_EQ(fleet.errors[0].subnet_id, "subnet-a");
}

TEST(Ec2Decode, a_fleet_that_launched_nothing_is_still_an_answer) {
  const auto decoded = decode_answer(
      "CreateFleet",
      xml_reply("<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet><item><errorCode>"
                "Client.MaxSpotInstanceCountExceeded</errorCode></item></errorSet>"
                "</CreateFleetResponse>"));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::get<FleetAnswer>(*decoded).instances.empty());
  EXPECT_EQ(std::get<FleetAnswer>(*decoded).errors.at(0).code, "MaxSpotInstanceCountExceeded");
}

TEST(Ec2Decode, a_fleets_item_without_instances_leaves_the_outcome_open) {
  for (const char* ids : {"", "<instanceIds/>", "<instanceIds><item/></instanceIds>"}) {
    const auto error =
        error_of("CreateFleet",
                 xml_reply("<CreateFleetResponse><fleetInstanceSet><item>" + std::string(ids) +
                           "</item></fleetInstanceSet>"
                           "</CreateFleetResponse>"));
    ASSERT_TRUE(error) << ids;
    EXPECT_EQ(error->kind, ErrorKind::unknown_outcome);
  }
}

TEST(Ec2Decode, answers_of_templates_copies_snapshots_and_stops) {
  const auto made = decode_answer("CreateLaunchTemplate", answer("CreateLaunchTemplate"));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(std::get<LaunchTemplate>(*made).launch_template_id, "lt-0123456789abcdef0");
  EXPECT_EQ(std::get<LaunchTemplate>(*made).name, "warmroot-research-imagenet-1");
  EXPECT_EQ(std::get<LaunchTemplate>(*made).tags.at("warmroot:pool"), "imagenet");
  const auto copy = decode_answer("CopyVolumes", answer("CopyVolumes"));
  ASSERT_TRUE(copy) << copy.error().message();
  EXPECT_EQ(std::get<Volume>(*copy).volume_id, "vol-0bbbbbbbbbbbbbbbb");
  EXPECT_EQ(std::get<Volume>(*copy).source_volume_id, "vol-0aaaaaaaaaaaaaaaa");
  EXPECT_EQ(std::get<Volume>(*copy).snapshot_id, "");
  const auto snapshot = decode_answer("CreateSnapshot", answer("CreateSnapshot"));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(std::get<Snapshot>(*snapshot).snapshot_id, "snap-0123456789abcdef1");
  EXPECT_EQ(std::get<Snapshot>(*snapshot).state, "pending");
  const auto stopped = decode_answer("StopInstances", answer("StopInstances"));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(std::get<std::vector<Instance>>(*stopped).at(0).state, InstanceState::stopping);
  for (const char* action : {"DeleteLaunchTemplate", "ModifyInstanceAttribute"}) {
    const auto done = decode_answer(action, answer(action));
    ASSERT_TRUE(done) << action;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(*done));
  }
  EXPECT_EQ(error_of("CopyVolumes", xml_reply("<CopyVolumesResponse><volumeSet/>"
                                              "</CopyVolumesResponse>"))
                ->kind,
            ErrorKind::unknown_outcome);
}

TEST(Ec2Decode, offerings_types_statuses_restores_templates_and_scores) {
  const auto offerings = decode_instance_type_offerings(answer("DescribeInstanceTypeOfferings"));
  ASSERT_TRUE(offerings) << offerings.error().message();
  EXPECT_EQ(offerings->items.at(1).instance_type, "g5.xlarge");
  EXPECT_EQ(offerings->items.at(1).availability_zone, "us-east-1b");
  const auto types = decode_instance_types(answer("DescribeInstanceTypes"));
  ASSERT_TRUE(types);
  EXPECT_EQ(types->items.at(0).architectures, (std::vector<std::string>{"x86_64"}));
  EXPECT_EQ(types->items.at(0).hypervisor, "nitro");
  EXPECT_EQ(types->items.at(0).vcpus, 2);
  EXPECT_TRUE(types->items.at(0).burstable);
  EXPECT_EQ(types->items.at(0).max_attachments, 27);
  EXPECT_EQ(types->items.at(1).max_attachments, std::nullopt);
  EXPECT_EQ(types->items.at(1).hypervisor, "xen");
  EXPECT_FALSE(types->items.at(1).burstable);
  const auto statuses = decode_volume_status(answer("DescribeVolumeStatus"));
  ASSERT_TRUE(statuses);
  EXPECT_EQ(statuses->items.at(0).status, "ok");
  EXPECT_EQ(statuses->items.at(0).initialization_state, "initializing");
  EXPECT_EQ(statuses->items.at(0).initialization_type, "provisioned-rate");
  EXPECT_EQ(statuses->items.at(0).initialization_percent, 37);
  EXPECT_EQ(statuses->items.at(1).initialization_state, "");
  EXPECT_EQ(statuses->items.at(1).initialization_percent, std::nullopt);
  const auto restores = decode_fast_snapshot_restores(answer("DescribeFastSnapshotRestores"));
  ASSERT_TRUE(restores);
  EXPECT_EQ(restores->items.at(0).state, "optimizing");
  const auto templates = decode_launch_templates(answer("DescribeLaunchTemplates"));
  ASSERT_TRUE(templates);
  EXPECT_EQ(templates->items.at(0).launch_template_id, "lt-0123456789abcdef0");
  EXPECT_EQ(templates->next_token, "t2");
  const auto scores = decode_spot_placement_scores(answer("GetSpotPlacementScores"));
  ASSERT_TRUE(scores);
  EXPECT_EQ(scores->at(0).zone_id, "use1-az1");
  EXPECT_EQ(scores->at(0).score, 9);
}

TEST(Ec2Decode, a_dry_run_is_ok_only_when_ec2_says_that_it_would) {
  EXPECT_TRUE(decode_dry_run("StopInstances", refusal("DryRunOperation", 412)));
  const auto denied = decode_dry_run("StopInstances", refusal("UnauthorizedOperation", 403));
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().kind, ErrorKind::unauthorised);
  const auto carried_out = decode_dry_run("StopInstances", answer("StopInstances"));
  ASSERT_FALSE(carried_out);
  EXPECT_EQ(carried_out.error().kind, ErrorKind::broken);
}

TEST(Ec2Decode, absent_and_empty_lists_and_unknown_members_read_alike) {
  for (const char* inner :
       {"", "<volumeSet/>", "<volumeSet></volumeSet>", "<futureSet><item/></futureSet>"}) {
    const auto page = decode_volumes(
        xml_reply("<DescribeVolumesResponse>" + std::string(inner) + "</DescribeVolumesResponse>"));
    ASSERT_TRUE(page) << inner;
    EXPECT_TRUE(page->items.empty());
  }
}

TEST(Ec2Decode, an_empty_page_can_have_a_successor) {
  const auto page = decode_volumes(xml_reply(
      "<DescribeVolumesResponse><volumeSet/><nextToken>t</nextToken></DescribeVolumesResponse>"));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->next_token, "t");
}

TEST(Ec2Decode, states_that_are_not_known_yet_are_unknown_and_no_error) {
  const auto page = decode_volumes(
      xml_reply("<DescribeVolumesResponse><volumeSet><item><volumeId>vol-1</volumeId><status>"
                "frozen</status></item></volumeSet></DescribeVolumesResponse>"));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->items[0].state, VolumeState::unknown);
}

TEST(Ec2Decode, state_words_read_back) {
  for (const auto state : {VolumeState::creating, VolumeState::available, VolumeState::in_use,
                           VolumeState::deleting, VolumeState::deleted, VolumeState::error})
    EXPECT_EQ(volume_state(to_string(state)), state);
  for (const auto state :
       {AttachmentState::attaching, AttachmentState::attached, AttachmentState::detaching,
        AttachmentState::detached, AttachmentState::busy})
    EXPECT_EQ(attachment_state(to_string(state)), state);
  for (const auto state :
       {InstanceState::pending, InstanceState::running, InstanceState::shutting_down,
        InstanceState::terminated, InstanceState::stopping, InstanceState::stopped})
    EXPECT_EQ(instance_state(to_string(state)), state);
  EXPECT_EQ(to_string(VolumeState::in_use), "in-use");
  EXPECT_EQ(to_string(InstanceState::shutting_down), "shutting-down");
}

TEST(Ec2Decode, an_item_without_its_id_is_no_answer) {
  const HttpReply reply = xml_reply(
      "<DescribeVolumesResponse><volumeSet><item><size>1</size></item></volumeSet>"
      "</DescribeVolumesResponse>");
  EXPECT_EQ(error_of("DescribeVolumes", reply)->kind, ErrorKind::broken);
}

TEST(Ec2Decode, every_prefix_of_every_answer_is_an_error_and_never_a_crash) {
  for (const std::string& action : kActions) {
    const std::string whole = read_golden(action + ".xml");
    const std::size_t end = whole.rfind("</" + action + "Response>");
    ASSERT_NE(end, std::string::npos) << action;
    const ErrorKind expected =
        is_read(action) ? ErrorKind::retry_later : ErrorKind::unknown_outcome;
    for (std::size_t length = 0; length <= end; ++length) {
      const auto error = error_of(action, xml_reply(whole.substr(0, length)));
      ASSERT_TRUE(error) << action << " cut at " << length;
      ASSERT_EQ(error->kind, expected) << action << " cut at " << length << error->message();
    }
  }
}

TEST(Ec2Decode, every_prefix_of_a_refusal_is_an_error_and_never_a_success) {
  const std::string whole = read_golden("error-IncorrectState.xml");
  const std::size_t end = whole.rfind("</Response>");
  ASSERT_NE(end, std::string::npos);
  for (std::size_t length = 1; length <= end; ++length) {
    const HttpReply cut = xml_reply(whole.substr(0, length), 400);
    EXPECT_EQ(error_of("DescribeVolumes", cut)->kind, ErrorKind::retry_later) << length;
    EXPECT_EQ(error_of("AttachVolume", cut)->kind, ErrorKind::unknown_outcome) << length;
  }
}

TEST(Ec2Errors, a_refusal_has_kind_code_request_id_message_and_remedy) {
  const auto error =
      error_of("DetachVolume", xml_reply(read_golden("error-IncorrectState.xml"), 400));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::gone);
  EXPECT_EQ(error->code, "IncorrectState");
  EXPECT_EQ(error->request_id, "4a1b2c3d-0000-4000-8000-000000000001");
  EXPECT_THAT(error->context, HasSubstr("is in the 'available' state. The volume is not attached"));
}

TEST(Ec2Errors, codes_have_their_kinds) {
  struct Case {
    const char* action;
    const char* code;
    int status;
    ErrorKind kind;
  };
  for (const Case& test : std::vector<Case>{
           {"AttachVolume", "RequestLimitExceeded", 503, ErrorKind::retry_later},
           {"DescribeVolumes", "RequestLimitExceeded", 503, ErrorKind::retry_later},
           {"AttachVolume", "InternalError", 500, ErrorKind::unknown_outcome},
           {"DescribeVolumes", "InternalError", 500, ErrorKind::retry_later},
           {"AttachVolume", "Unavailable", 503, ErrorKind::unknown_outcome},
           {"AttachVolume", "IncorrectState", 400, ErrorKind::retry_later},
           {"DetachVolume", "IncorrectState", 400, ErrorKind::gone},
           {"DeleteVolume", "InvalidVolume.NotFound", 400, ErrorKind::gone},
           {"DeleteVolume", "Client.InvalidVolume.NotFound", 400, ErrorKind::gone},
           {"AttachVolume", "VolumeInUse", 400, ErrorKind::refused},
           {"AttachVolume", "InvalidParameterValue", 400, ErrorKind::refused},
           {"RunInstances", "InvalidParameterValue", 400, ErrorKind::misconfigured},
           {"RunInstances", "Server.InsufficientInstanceCapacity", 500, ErrorKind::retry_later},
           {"RunInstances", "MaxSpotInstanceCountExceeded", 400, ErrorKind::refused},
           {"RunInstances", "UnauthorizedOperation", 403, ErrorKind::unauthorised},
           {"RunInstances", "SomethingNew", 400, ErrorKind::refused},
           {"RunInstances", "SomethingNew", 500, ErrorKind::unknown_outcome},
           {"DescribeVolumes", "SomethingNew", 500, ErrorKind::retry_later},
       }) {
    const auto error = error_of(test.action, refusal(test.code, test.status));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, test.kind) << test.action << " " << test.code;
  }
}

TEST(Ec2Errors, prefixes_are_stripped_and_every_remedy_is_a_sentence) {
  EXPECT_EQ(bare_code("Client.InvalidVolume.NotFound"), "InvalidVolume.NotFound");
  EXPECT_EQ(bare_code("Server.InternalError"), "InternalError");
  EXPECT_EQ(bare_code("InvalidVolume.NotFound"), "InvalidVolume.NotFound");
  EXPECT_EQ(reaction_for("Client.RequestLimitExceeded"), Reaction::throttled);
  EXPECT_EQ(reaction_for("NoSuchCode"), Reaction::unknown);
  EXPECT_EQ(remedy_for("NoSuchCode"), "");
  for (const char* code : {"RequestLimitExceeded", "AuthFailure", "VolumeLimitExceeded",
                           "InvalidSnapshot.NotFound", "UnauthorizedOperation", "InternalError"}) {
    ASSERT_FALSE(remedy_for(code).empty()) << code;
    EXPECT_EQ(remedy_for(code).back(), '.') << code;
  }
}

TEST(Ec2Errors, html_is_a_wrong_endpoint_unless_it_is_a_server_error) {
  for (const int status : {200, 301, 404, 405}) {
    const HttpReply html{status, {{"content-type", "text/html"}}, "<!DOCTYPE html><p>hello<br>"};
    for (const char* action : {"DescribeVolumes", "AttachVolume"}) {
      const auto error = error_of(action, html);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind, ErrorKind::misconfigured) << status;
      EXPECT_EQ(error->context,
                "the endpoint did not answer like EC2 (text/html): check --endpoint-url");
    }
  }
  const HttpReply bad_gateway{502, {{"content-type", "text/html"}}, "<html>502</html>"};
  EXPECT_EQ(error_of("DescribeVolumes", bad_gateway)->kind, ErrorKind::retry_later);
  EXPECT_EQ(error_of("AttachVolume", bad_gateway)->kind, ErrorKind::unknown_outcome);
}

TEST(Ec2Errors, an_empty_reply_is_transient_for_reads_and_unknown_for_mutations) {
  for (const int status : {200, 500, 503}) {
    const HttpReply empty{status, {}, ""};
    EXPECT_EQ(error_of("DescribeVolumes", empty)->kind, ErrorKind::retry_later) << status;
    EXPECT_EQ(error_of("CreateVolume", empty)->kind, ErrorKind::unknown_outcome) << status;
  }
}

TEST(Ec2Errors, another_actions_answer_is_broken_for_reads_and_unknown_for_mutations) {
  EXPECT_EQ(error_of("DescribeVolumes", answer("DescribeInstances"))->kind, ErrorKind::broken);
  EXPECT_EQ(error_of("AttachVolume", answer("DescribeInstances"))->kind,
            ErrorKind::unknown_outcome);
}

TEST(Ec2Errors, the_code_of_a_refusal_can_be_read_without_decoding) {
  EXPECT_EQ(code_of(refusal("Client.RequestExpired")), "RequestExpired");
  EXPECT_EQ(code_of(answer("DescribeVolumes")), "");
  EXPECT_EQ(code_of({400, {}, "<html>"}), "");
}
