// What the manager's client sees of the region's newer actions: templates, fleets, copies,
// snapshots, types and statuses, as its codec writes and reads them. In one process; the older
// actions have region_http_test, which goes over HTTP as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/ec2_client.hpp"
#include "tests/sim/region_transport.hpp"

using namespace warmroot;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

constexpr char kSnapshot[] = "snap-01000000000000001";
constexpr char kBase[] = "ami-02000000000000002";
constexpr char kSubnetA[] = "subnet-01000000000000001";
constexpr char kSubnetB[] = "subnet-02000000000000002";

class RegionContract : public testing::Test {
 protected:
  Result<aws::MutationAnswer> send(const aws::Mutation& mutation) {
    const aws::EncodedCall call = aws::encode(mutation);
    return ec2.send(std::span(&call, 1)).front();
  }
  template <typename T>
  T sent(const aws::Mutation& mutation) {
    const auto answer = send(mutation);
    EXPECT_TRUE(answer) << answer.error().message();
    return answer ? std::get<T>(*answer) : T{};
  }
  std::string code(const aws::Mutation& mutation) {
    const auto answer = send(mutation);
    return answer ? "" : answer.error().code;
  }

  std::string volume() {
    aws::CreateVolume request;
    request.availability_zone = "us-east-1a";
    request.snapshot_id = kSnapshot;
    request.client_token = "v" + std::to_string(++tokens);
    const auto id = sent<aws::Volume>(request).volume_id;
    region.advance_by(5s);
    return id;
  }
  static aws::NewBlockDevice data_device() {
    aws::NewBlockDevice device;
    device.device_name = "/dev/sdf";
    device.snapshot_id = kSnapshot;
    return device;
  }
  aws::RunInstances launch_request() {
    aws::RunInstances request;
    request.image_id = kBase;
    request.instance_type = "g5.xlarge";
    request.subnet_id = kSubnetA;
    request.user_data = "#!/bin/sh\n";
    request.client_token = "i" + std::to_string(++tokens);
    return request;
  }
  aws::CreateLaunchTemplate template_request() {
    aws::CreateLaunchTemplate request;
    request.name = "warmroot-test-pool";
    request.launch = launch_request();
    request.launch.block_devices = {data_device()};
    request.client_token = "t";
    request.tags = {{"warmroot:deployment", "test"}};
    return request;
  }
  aws::CreateFleet fleet_request(const std::string& template_id) {
    aws::CreateFleet request;
    request.launch_template_id = template_id;
    request.launch_template_version = "1";
    request.overrides = {{"g5.xlarge", kSubnetA, "us-east-1a", ""},
                         {"g4dn.xlarge", kSubnetB, "us-east-1b", "0.4"}};
    request.target_capacity = 3;
    request.client_token = "f";
    request.instance_tags = {{"warmroot:pool", "p"}};
    return request;
  }

  int tokens = 0;
  sim::NoHardware hardware;
  sim::Region region{sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}),
                     sim::RegionTimes{}, hardware, *parse_iso8601("2026-01-02T03:04:05Z")};
  sim::QueryFront front{region};
  sim::RegionTransport transport{front};
  aws::Ec2Client ec2{transport, [this](Milliseconds time) { region.advance_by(time); },
                     [] { return 0.5; }};
};

TEST_F(RegionContract, a_fleet_launches_by_a_template_and_says_what_it_could_not) {
  const auto made = sent<aws::LaunchTemplate>(template_request());
  EXPECT_EQ(made.name, "warmroot-test-pool");
  EXPECT_EQ(sent<aws::LaunchTemplate>(template_request()).launch_template_id,
            made.launch_template_id)
      << "a replay";
  region.knobs.capacity[{"g5.xlarge", "us-east-1a"}] = 1;
  region.knobs.spot_prices[{"g4dn.xlarge", "us-east-1b"}] = 45'000;
  const auto fleet = sent<aws::FleetAnswer>(fleet_request(made.launch_template_id));
  ASSERT_EQ(fleet.instances.size(), 1U);
  EXPECT_EQ(fleet.instances[0].instance_type, "g5.xlarge");
  EXPECT_EQ(fleet.instances[0].availability_zone, "us-east-1a");
  ASSERT_EQ(fleet.errors.size(), 2U);
  std::vector<std::string> codes;
  for (const auto& error : fleet.errors)
    codes.push_back(error.code + " " + error.instance_type + " " + error.availability_zone);
  EXPECT_THAT(codes,
              testing::UnorderedElementsAre("InsufficientInstanceCapacity g5.xlarge us-east-1a",
                                            "SpotMaxPriceTooLow g4dn.xlarge us-east-1b"));
  const auto* guest = region.instance(fleet.instances[0].instance_id);
  EXPECT_EQ(guest->user_data, "#!/bin/sh\n");
  EXPECT_EQ(guest->disks.size(), 2U);
  EXPECT_EQ(guest->tags.at("warmroot:pool"), "p");
  EXPECT_EQ(sent<aws::FleetAnswer>(fleet_request(made.launch_template_id)).fleet_id,
            fleet.fleet_id);
  EXPECT_EQ(region.instances().size(), 1U);

  aws::DescribeRequest by_tag;
  by_tag.filters = {{"tag:warmroot:deployment", {"test"}}};
  const auto listed = ec2.describe_launch_templates(by_tag);
  ASSERT_TRUE(listed) << listed.error().message();
  EXPECT_EQ(listed->items.size(), 1U);
  EXPECT_EQ(code(aws::DeleteLaunchTemplate{made.launch_template_id}), "");
  EXPECT_EQ(code(aws::DeleteLaunchTemplate{made.launch_template_id}),
            "InvalidLaunchTemplateId.NotFound");
}

TEST_F(RegionContract, a_launch_makes_a_volume_that_stays) {
  auto request = launch_request();
  request.block_devices = {data_device()};
  request.block_devices[0].initialization_rate = 200;
  const auto made = sent<std::vector<aws::Instance>>(request);
  ASSERT_EQ(made.size(), 1U);
  region.advance_by(10s);
  aws::DescribeRequest by_instance;
  by_instance.filters = {{"attachment.instance-id", {made[0].instance_id}},
                         {"attachment.device", {"/dev/sdf"}}};
  const auto disks = ec2.describe_volumes(by_instance);
  ASSERT_TRUE(disks);
  ASSERT_EQ(disks->items.size(), 1U);
  EXPECT_EQ(sent<std::vector<aws::Instance>>(request).front().instance_id, made[0].instance_id);
  aws::ModifyInstanceAttribute protect;
  protect.instance_id = made[0].instance_id;
  protect.disable_api_termination = true;
  EXPECT_EQ(code(protect), "");
  EXPECT_EQ(code(aws::TerminateInstances{{made[0].instance_id}}), "OperationNotPermitted");
  protect.disable_api_termination = false;
  EXPECT_EQ(code(protect), "");
  EXPECT_EQ(code(aws::StopInstances{{made[0].instance_id}}), "UnsupportedOperation") << "spot";
  EXPECT_EQ(code(aws::TerminateInstances{{made[0].instance_id}}), "");
  region.advance_by(1min);
  EXPECT_NE(region.volume(disks->items[0].volume_id), nullptr);
}

TEST_F(RegionContract, copies_snapshots_and_how_far_they_are) {
  const auto source = volume();
  aws::CopyVolumes copy;
  copy.source_volume_id = source;
  copy.client_token = "c";
  copy.tags = {{"warmroot:role", "spare"}};
  const auto made = sent<aws::Volume>(copy);
  EXPECT_EQ(made.snapshot_id, "");
  copy.client_token = "d";
  EXPECT_EQ(code(copy), "ConcurrentCopyVolumeLimitExceeded");
  region.advance_by(5min);
  aws::DescribeRequest by_id;
  by_id.ids = {made.volume_id};
  const auto status = ec2.describe_volume_status(by_id);
  ASSERT_TRUE(status) << status.error().message();
  ASSERT_EQ(status->items.size(), 1U);
  EXPECT_EQ(status->items[0].initialization_type, "volume-copy");
  EXPECT_EQ(status->items[0].initialization_state, "completed");
  EXPECT_EQ(status->items[0].initialization_percent, 100);

  aws::CreateSnapshot snapshot;
  snapshot.volume_id = source;
  snapshot.description = "root of an image";
  const auto kept = sent<aws::Snapshot>(snapshot);
  EXPECT_EQ(kept.state, "pending");
  EXPECT_EQ(code(snapshot), "SnapshotCreationPerVolumeRateExceeded");
}

TEST_F(RegionContract, types_offerings_scores_and_fast_restores_are_listed) {
  aws::DescribeRequest types;
  types.ids = {"p3.16xlarge", "t4g.medium"};
  const auto facts = ec2.describe_instance_types(types);
  ASSERT_TRUE(facts) << facts.error().message();
  ASSERT_EQ(facts->items.size(), 2U);
  EXPECT_EQ(facts->items[0].hypervisor, "xen");
  EXPECT_EQ(facts->items[0].vcpus, 64);
  EXPECT_TRUE(facts->items[1].burstable);
  EXPECT_THAT(facts->items[1].architectures, ElementsAre("arm64"));
  aws::DescribeRequest where;
  where.filters = {{"instance-type", {"p4d.24xlarge"}}};
  const auto offerings = ec2.describe_instance_type_offerings(where);
  ASSERT_TRUE(offerings) << offerings.error().message();
  ASSERT_EQ(offerings->items.size(), 1U);
  EXPECT_EQ(offerings->items[0].availability_zone, "us-east-1a");
  aws::GetSpotPlacementScores ask;
  ask.instance_types = {"g4dn.xlarge", "g5.xlarge", "g6.xlarge"};
  ask.target_capacity = 4;
  ask.region = "us-east-1";
  const auto scores = ec2.get_spot_placement_scores(ask);
  ASSERT_TRUE(scores) << scores.error().message();
  ASSERT_EQ(scores->size(), 2U);
  EXPECT_EQ(scores->front().score, 9);
  ASSERT_TRUE(region.enable_fast_restore(kSnapshot, "us-east-1a"));
  const auto restores = ec2.describe_fast_snapshot_restores({});
  ASSERT_TRUE(restores) << restores.error().message();
  ASSERT_EQ(restores->items.size(), 1U);
  EXPECT_EQ(restores->items[0].state, "enabling");
}

TEST_F(RegionContract, dry_runs_say_yes_or_who_says_no) {
  EXPECT_TRUE(ec2.dry_run(launch_request()));
  EXPECT_TRUE(ec2.dry_run(aws::DeleteVolume{"vol-00000000000000000"}));
  EXPECT_TRUE(ec2.dry_run(fleet_request("lt-00000000000000000")));
  region.knobs.denied["ec2:RunInstances"] = sim::Denial::organisation;
  const auto denied = ec2.dry_run(launch_request());
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, "UnauthorizedOperation");
  EXPECT_THAT(denied.error().message(), HasSubstr("service control policy"));
}

TEST_F(RegionContract, the_shape_of_an_answer_changes_nothing) {
  const auto disk = volume();
  const auto guest = sent<std::vector<aws::Instance>>(launch_request()).front().instance_id;
  region.advance_by(10s);
  EXPECT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  region.advance_by(5s);
  for (const auto lists : {sim::XmlShape::EmptyLists::left_out, sim::XmlShape::EmptyLists::written})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      front.set_shape({lists, seed});
      const auto volumes = ec2.describe_volumes({});
      ASSERT_TRUE(volumes) << volumes.error().message();
      EXPECT_EQ(volumes->items.size(), 2U);
      const auto instances = ec2.describe_instances({});
      ASSERT_TRUE(instances) << instances.error().message();
      ASSERT_EQ(instances->items.size(), 1U) << "seed=" << seed;
      EXPECT_EQ(instances->items[0].instance_id, guest);
      aws::DescribeRequest none;
      none.filters = {{"volume-type", {"sc1"}}};
      const auto nothing = ec2.describe_volumes(none);
      ASSERT_TRUE(nothing) << nothing.error().message();
      EXPECT_THAT(nothing->items, IsEmpty());
    }
}

}  // namespace
