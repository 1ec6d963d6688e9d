// The contract (contract.hpp) for what launches and fills pools: launch templates, fleets, launches
// that make a volume, copies, snapshots, types, statuses, dry runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract.hpp"

using namespace warmroot;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

namespace {

INSTANTIATE_TEST_SUITE_P(Doors, Contract, testing::ValuesIn(all_doors()), door_name);
INSTANTIATE_TEST_SUITE_P(Doors, RegionContract, testing::Values("in_process", "http"), door_name);

aws::NewBlockDevice data_device(const Births& births) {
  aws::NewBlockDevice device;
  device.device_name = "/dev/sdf";
  device.snapshot_id = births.snapshot;
  return device;
}

aws::CreateLaunchTemplate template_of(const aws::RunInstances& launch, const Births& births) {
  aws::CreateLaunchTemplate request;
  request.name = "warmroot-test-pool";
  request.launch = launch;
  request.launch.block_devices = {data_device(births)};
  request.client_token = "t";
  request.tags = {{"warmroot:deployment", "test"}};
  return request;
}

aws::CreateFleet fleet_of(const std::string& template_id, const Births& births) {
  aws::CreateFleet request;
  request.launch_template_id = template_id;
  request.launch_template_version = "1";
  request.overrides = {{"g5.12xlarge", births.subnet_a, "us-east-1a", ""},
                       {"g4dn.xlarge", births.subnet_b, "us-east-1b", "0.4"}};
  request.target_capacity = 3;
  request.client_token = "f";
  request.instance_tags = {{"warmroot:pool", "p"}};
  return request;
}

TEST_P(Contract, a_launch_template_is_made_once_listed_and_deleted) {
  const auto request = template_of(launch_request("i"), births);
  const auto made = sent<aws::LaunchTemplate>(request);
  EXPECT_EQ(made.name, "warmroot-test-pool");
  EXPECT_EQ(code(request),
            refusal("", "InvalidLaunchTemplateName.AlreadyExistsException",
                    "the same CreateLaunchTemplate with its token again is refused"));
  const auto listed = ec2().describe_launch_templates(by_filter("tag:warmroot:deployment", "test"));
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_EQ(listed->items.size(), 1U);
  EXPECT_EQ(listed->items.front().launch_template_id, made.launch_template_id);
  EXPECT_EQ(code(aws::DeleteLaunchTemplate{made.launch_template_id}), "");
  EXPECT_EQ(
      code(aws::DeleteLaunchTemplate{made.launch_template_id}),
      refusal("InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateName.NotFoundException",
              "a launch template that is not found by its id is not found by its name"));
}

TEST_P(Contract, a_fleet_launches_as_many_as_asked_with_their_volumes) {
  const auto made = sent<aws::LaunchTemplate>(template_of(launch_request("i"), births));
  const auto fleet = sent<aws::FleetAnswer>(fleet_of(made.launch_template_id, births));
  ASSERT_EQ(fleet.instances.size(), 3U);
  EXPECT_THAT(fleet.errors, IsEmpty());
  const std::string id = fleet.instances.front().instance_id;
  ASSERT_TRUE(becomes(id, aws::InstanceState::running));
  const auto shown = *instance(id);
  EXPECT_EQ(shown.tags.at("warmroot:pool"), "p");
  EXPECT_EQ(shown.block_devices.size(),
            differs<std::size_t>(2, 1, "a fleet leaves out the template's block devices"))
      << "its root and the template's volume";
}

TEST_P(RegionContract, a_fleet_says_what_it_could_not_launch_and_is_one_by_its_token) {
  const auto made = sent<aws::LaunchTemplate>(template_of(launch_request("i"), births));
  door->with([](sim::Region& region, sim::QueryFront&) {
    region.knobs.capacity[{"g5.12xlarge", "us-east-1a"}] = 1;
    region.knobs.spot_prices[{"g4dn.xlarge", "us-east-1b"}] = 45'000;
  });
  const auto request = fleet_of(made.launch_template_id, births);
  const auto fleet = sent<aws::FleetAnswer>(request);
  ASSERT_EQ(fleet.instances.size(), 1U);
  EXPECT_EQ(fleet.instances[0].instance_type, "g5.12xlarge");
  EXPECT_EQ(fleet.instances[0].availability_zone, "us-east-1a");
  std::vector<std::string> codes;
  for (const auto& error : fleet.errors)
    codes.push_back(error.code + " " + error.instance_type + " " + error.availability_zone);
  EXPECT_THAT(codes, UnorderedElementsAre("InsufficientInstanceCapacity g5.12xlarge us-east-1a",
                                          "SpotMaxPriceTooLow g4dn.xlarge us-east-1b"));
  EXPECT_EQ(sent<aws::FleetAnswer>(request).fleet_id, fleet.fleet_id);
  door->with([&](sim::Region& region, sim::QueryFront&) {
    EXPECT_EQ(region.instances().size(), 1U);
    const auto* guest = region.instance(fleet.instances[0].instance_id);
    EXPECT_EQ(guest->user_data, std::string("#!/bin/sh\n\0bytes", 16));
  });
}

TEST_P(Contract, a_launch_makes_a_volume_that_outlives_the_instance) {
  auto request = launch_request("i");
  request.block_devices = {data_device(births)};
  const auto made = sent<std::vector<aws::Instance>>(request);
  ASSERT_EQ(made.size(), 1U);
  ASSERT_TRUE(becomes(made[0].instance_id, aws::InstanceState::running));
  aws::DescribeRequest by_instance;
  by_instance.filters = {{"attachment.instance-id", {made[0].instance_id}},
                         {"attachment.device", {"/dev/sdf"}}};
  const auto disks = ec2().describe_volumes(by_instance);
  ASSERT_TRUE(disks) << disks.error().message();
  ASSERT_EQ(disks->items.size(), 1U);
  EXPECT_EQ(disks->items[0].snapshot_id, births.snapshot);
  EXPECT_EQ(code(aws::TerminateInstances{{made[0].instance_id}}), "");
  EXPECT_TRUE(becomes(disks->items[0].volume_id, aws::VolumeState::available));
}

TEST_P(Contract, a_protected_instance_is_not_terminated_and_a_spot_one_not_stopped) {
  const std::string id = launch();
  ASSERT_TRUE(becomes(id, aws::InstanceState::running));
  aws::ModifyInstanceAttribute protect;
  protect.instance_id = id;
  protect.disable_api_termination = true;
  EXPECT_EQ(code(protect), "");
  EXPECT_EQ(code(aws::TerminateInstances{{id}}), "OperationNotPermitted");
  protect.disable_api_termination = false;
  EXPECT_EQ(code(protect), "");
  EXPECT_EQ(code(aws::StopInstances{{id}}),
            refusal("UnsupportedOperation", "", "a one-time spot instance can be stopped"));
  EXPECT_EQ(code(aws::TerminateInstances{{id}}), "");
}

TEST_P(Contract, a_volume_is_copied_and_its_copy_says_how_far_it_is) {
  const auto source = create();
  ASSERT_TRUE(becomes(source, aws::VolumeState::available));
  aws::CopyVolumes copy;
  copy.source_volume_id = source;
  copy.client_token = "c";
  copy.tags = {{"warmroot:role", "spare"}};
  const auto answer = send(copy);
  if (is_moto()) {
    EXPECT_FALSE(answer);
    differs(0, 0, "it has no CopyVolumes");
    return;
  }
  ASSERT_TRUE(answer) << answer.error().message();
  const auto made = std::get<aws::Volume>(*answer);
  EXPECT_EQ(made.snapshot_id, "");
  copy.client_token = "d";
  EXPECT_EQ(code(copy), "ConcurrentCopyVolumeLimitExceeded");
  EXPECT_TRUE(eventually([&] {
    const auto status = ec2().describe_volume_status(by_id(made.volume_id));
    return status && status->items.size() == 1 &&
           status->items[0].initialization_type == "volume-copy" &&
           status->items[0].initialization_state == "completed" &&
           status->items[0].initialization_percent == 100;
  }));
}

TEST_P(Contract, a_snapshot_is_made_and_completes) {
  const auto source = create();
  ASSERT_TRUE(becomes(source, aws::VolumeState::available));
  aws::CreateSnapshot request;
  request.volume_id = source;
  request.description = "root of an image";
  const auto made = sent<aws::Snapshot>(request);
  EXPECT_EQ(made.state, refusal("pending", "completed", "a snapshot is completed at once"));
  EXPECT_EQ(code(request), refusal("SnapshotCreationPerVolumeRateExceeded", "",
                                   "snapshots of one volume follow at once"));
  EXPECT_TRUE(eventually([&] {
    const auto shown = ec2().describe_snapshots(by_id(made.snapshot_id));
    return shown && shown->items.size() == 1 && shown->items[0].state == "completed" &&
           shown->items[0].volume_size_gib == births.snapshot_gib;
  }));
}

TEST_P(Contract, types_and_offerings_are_listed) {
  aws::DescribeRequest types;
  types.ids = {"m4.large", "t4g.medium"};
  const auto listed = aws::collect_all(ec2(), &aws::Ec2::describe_instance_types, types);
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_EQ(listed->size(), 2U);
  std::map<std::string, aws::InstanceType> facts;
  for (const auto& each : *listed) facts[each.instance_type] = each;
  EXPECT_EQ(facts["m4.large"].hypervisor, "xen");
  EXPECT_EQ(facts["m4.large"].vcpus, 2);
  EXPECT_TRUE(facts["t4g.medium"].burstable);
  EXPECT_THAT(facts["t4g.medium"].architectures, ElementsAre("arm64"));
  const auto offerings =
      ec2().describe_instance_type_offerings(by_filter("instance-type", "p4d.24xlarge"));
  ASSERT_TRUE(offerings) << offerings.error().message();
  std::vector<std::string> zones;
  for (const auto& each : offerings->items) zones.push_back(each.availability_zone);
  EXPECT_THAT(zones, Contains("us-east-1a"));
}

TEST_P(RegionContract, scores_and_fast_restores_are_listed) {
  aws::GetSpotPlacementScores ask;
  ask.instance_types = {"g4dn.xlarge", "g5.xlarge", "g6.xlarge"};
  ask.target_capacity = 4;
  ask.region = "us-east-1";
  const auto scores = ec2().get_spot_placement_scores(ask);
  ASSERT_TRUE(scores) << scores.error().message();
  ASSERT_EQ(scores->size(), 2U);
  EXPECT_EQ(scores->front().score, 9);
  door->with([](sim::Region& region, sim::QueryFront&) {
    ASSERT_TRUE(region.enable_fast_restore(kSnapshot, "us-east-1a"));
  });
  const auto restores = ec2().describe_fast_snapshot_restores({});
  ASSERT_TRUE(restores) << restores.error().message();
  ASSERT_EQ(restores->items.size(), 1U);
  EXPECT_EQ(restores->items[0].state, "enabling");
}

TEST_P(Contract, a_dry_run_says_yes_and_makes_nothing) {
  EXPECT_TRUE(ec2().dry_run(launch_request("dry")));
  const auto all = aws::collect_all(ec2(), &aws::Ec2::describe_instances, aws::DescribeRequest{});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_THAT(*all, IsEmpty());
}

TEST_P(RegionContract, dry_runs_say_yes_or_who_says_no) {
  EXPECT_TRUE(ec2().dry_run(aws::DeleteVolume{"vol-00000000000000000"}));
  EXPECT_TRUE(ec2().dry_run(fleet_of("lt-00000000000000000", births)));
  door->with([](sim::Region& region, sim::QueryFront&) {
    region.knobs.denied["ec2:RunInstances"] = sim::Denial::organisation;
  });
  const auto denied = ec2().dry_run(launch_request("dry"));
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, "UnauthorizedOperation");
  EXPECT_THAT(denied.error().message(), HasSubstr("service control policy"));
}

TEST_P(RegionContract, the_shape_of_an_answer_changes_nothing) {
  const auto disk = create();
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, aws::InstanceState::running));
  EXPECT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  ASSERT_TRUE(is_attached(disk));
  for (const auto lists : {sim::XmlShape::EmptyLists::left_out, sim::XmlShape::EmptyLists::written})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      door->with([&](sim::Region&, sim::QueryFront& front) { front.set_shape({lists, seed}); });
      const auto volumes = ec2().describe_volumes({});
      ASSERT_TRUE(volumes) << volumes.error().message();
      EXPECT_EQ(volumes->items.size(), 2U);
      const auto instances = ec2().describe_instances({});
      ASSERT_TRUE(instances) << instances.error().message();
      ASSERT_EQ(instances->items.size(), 1U) << "seed=" << seed;
      EXPECT_EQ(instances->items[0].instance_id, guest);
      const auto nothing = ec2().describe_volumes(by_filter("volume-type", "sc1"));
      ASSERT_TRUE(nothing) << nothing.error().message();
      EXPECT_THAT(nothing->items, IsEmpty());
    }
}

}  // namespace
