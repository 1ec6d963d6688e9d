// The simulated region's launches: data volumes of a launch, DeleteOnTermination by the way a
// volume came, addresses, offerings, prices and quotas.
#include "tests/region_fixture.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::HasSubstr;

namespace {

class LaunchTest : public RegionTest {
 protected:
  /// The parameters of one mapping from the snapshot.
  static std::string mapping(const std::string& device, const std::string& more = "",
                             int number = 1) {
    const std::string start = "&BlockDeviceMapping." + std::to_string(number) + ".";
    return start + "DeviceName=" + device + start + "Ebs.SnapshotId=" + kSnapshot + more;
  }
  static std::string doomed(const char* value) {
    return std::string("&BlockDeviceMapping.1.Ebs.DeleteOnTermination=") + value;
  }
  /// The instance's data volumes.
  std::vector<std::string> data_disks(const std::string& guest) {
    std::vector<std::string> out;
    for (const auto& id : region.instance(guest)->disks)
      if (!region.volume(id)->root) out.push_back(id);
    return out;
  }
  void terminate(const std::string& guest) {
    EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + guest), "");
    region.advance_by(1min);
  }
};

TEST_F(LaunchTest, a_volume_of_the_launch_is_there_when_the_guest_boots) {
  const auto reply = launch(mapping("/dev/sdf", doomed("false")));
  const auto guest = element(reply.body, "instanceId");
  EXPECT_EQ(element(reply.body, "blockDeviceMapping"), "") << "not in the launch's own answer";
  const auto disks = data_disks(guest);
  ASSERT_EQ(disks.size(), 1U);
  EXPECT_EQ(disk_state(disks[0]), "in-use");
  EXPECT_EQ(region.volume(disks[0])->size_gib, 8) << "the snapshot's";
  region.advance_by(1ms);
  EXPECT_TRUE(hardware.machines.contains(guest));
  EXPECT_TRUE(hardware.plugged.contains({guest, disks[0]}));
  EXPECT_EQ(region.instance(guest)->launch_mapping.at("ebs1"), "sdf");
  region.advance_by(10s);
  EXPECT_EQ(link_state(disks[0]), "attached");
  EXPECT_THAT(call("Action=DescribeInstances&InstanceId.1=" + guest).body, HasSubstr(disks[0]));
  EXPECT_EQ(code(detach_form(disks[0], guest)), "") << "it is a volume like any other";
  region.advance_by(5s);
  EXPECT_EQ(disk_state(disks[0]), "available");
}

TEST_F(LaunchTest, delete_on_termination_by_the_way_the_volume_came) {
  const auto later = volume();
  const auto unsaid = instance(mapping("/dev/sdf"));
  const auto kept = instance(mapping("/dev/sdf", doomed("false")));
  const auto said = instance(mapping("/dev/sdf", doomed("true")));
  const auto unsaid_disk = data_disks(unsaid)[0], kept_disk = data_disks(kept)[0],
             said_disk = data_disks(said)[0];
  region.advance_by(10s);
  ASSERT_EQ(code(attach_form(later, unsaid, "/dev/sdg")), "");
  region.advance_by(5s);
  for (const auto& guest : {unsaid, kept, said}) terminate(guest);
  EXPECT_EQ(region.volume(unsaid_disk), nullptr) << "deleted unless the launch says otherwise";
  EXPECT_EQ(disk_state(kept_disk), "available");
  EXPECT_EQ(region.volume(said_disk), nullptr);
  EXPECT_EQ(disk_state(later), "available") << "what AttachVolume brought stays";

  region.knobs.launch_disks_die_with_instance = false;
  const auto guide = instance(mapping("/dev/sdf"));
  const auto guide_disk = data_disks(guide)[0];
  region.advance_by(10s);
  terminate(guide);
  EXPECT_EQ(disk_state(guide_disk), "available") << "as the user guide has it";
}

TEST_F(LaunchTest, the_root_can_be_kept) {
  const auto guest = instance("&BlockDeviceMapping.1.DeviceName=/dev/xvda" + doomed("false"));
  const auto root = region.instance(guest)->root_volume_id;
  EXPECT_TRUE(data_disks(guest).empty());
  region.advance_by(10s);
  terminate(guest);
  EXPECT_EQ(disk_state(root), "available");
}

TEST_F(LaunchTest, each_instance_of_a_launch_gets_volumes_of_its_own_with_the_launchs_tags) {
  const auto reply =
      call("Action=RunInstances&MinCount=3&MaxCount=3&InstanceType=g5.xlarge&ImageId=" +
           std::string(kBase) + mapping("/dev/sdf") + mapping("/dev/sdg", "", 2) +
           "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=pool"
           "&TagSpecification.1.Tag.1.Value=p");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(region.volumes().size(), 9U) << "three roots and six data volumes";
  for (const auto& [id, disk] : region.volumes()) EXPECT_EQ(disk.tags.at("pool"), "p");
}

TEST_F(LaunchTest, mappings_that_ec2_refuses) {
  const std::string one = "&BlockDeviceMapping.1.";
  const std::pair<std::string, const char*> table[] = {
      {mapping("/dev/sdf", one + "Ebs.VolumeSize=7"), "InvalidBlockDeviceMapping"},
      {one + "DeviceName=/dev/sdf", "InvalidBlockDeviceMapping"},
      {mapping("/dev/nvme1n1"), "InvalidBlockDeviceMapping"},
      {mapping("/dev/sdf") + mapping("sdf", "", 2), "InvalidBlockDeviceMapping"},
      {one + "DeviceName=/dev/sdf" + one + "Ebs.SnapshotId=" + kUnreadable,
       "InvalidSnapshot.NotFound"},
      {mapping("/dev/sdf", one + "Ebs.VolumeInitializationRate=99"), "InvalidParameterValue"},
      {one + "DeviceName=/dev/sdf" + one + "Ebs.VolumeSize=9" + one +
           "Ebs.VolumeInitializationRate=200",
       "InvalidParameterDependency"},
      {mapping("/dev/sdf", one + "Ebs.VolumeType=gp9"), "UnknownVolumeType"},
      {one + "Ebs.VolumeSize=9", "MissingParameter"},
  };
  for (const auto& [more, wanted] : table) EXPECT_EQ(launch(more).code, wanted) << more;
  EXPECT_TRUE(region.instances().empty());
  EXPECT_TRUE(region.volumes().empty());
}

TEST_F(LaunchTest, a_launch_whose_volume_cannot_be_made_ends_and_leaves_nothing) {
  hardware.fail_next_volume = true;
  const auto guest = instance(mapping("/dev/sdf", doomed("false")));
  region.advance_by(1min);
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_EQ(region.instance(guest)->reason_code, "Client.InternalError");
  EXPECT_TRUE(region.volumes().empty());
}

TEST_F(LaunchTest, a_launch_over_the_volume_quota_is_accepted_and_then_ends) {
  region.knobs.volume_limit = 1;
  const auto guest = instance(mapping("/dev/sdf"));
  region.advance_by(1min);
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_EQ(region.instance(guest)->reason_code, "Client.VolumeLimitExceeded");
  EXPECT_TRUE(region.volumes().empty());
}

TEST_F(LaunchTest, an_images_own_devices_come_with_each_launch_unless_left_out) {
  Catalog catalog = builtin_catalog("us-east-1", {"us-east-1a"});
  catalog.images[1].extra = {{"/dev/sdh", kSnapshot, 0, false, ""},
                             {"/dev/sdb", "", 0, std::nullopt, "ephemeral0"}};
  Region own(catalog, RegionTimes{}, hardware, start_time());
  QueryFront own_front(own);
  const std::string run =
      "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&InstanceType=g5.xlarge"
      "&ImageId=" +
      std::string(kBase);
  const auto guest = element(own_front.answer(run).body, "instanceId");
  own.advance_by(10s);
  EXPECT_EQ(own.instance(guest)->disks.size(), 2U);
  EXPECT_EQ(own.instance(guest)->launch_mapping.at("ephemeral0"), "sdb");
  const auto disk = element(own_front
                                .answer("Action=CreateVolume&Version=2016-11-15&Size=1"
                                        "&AvailabilityZone=us-east-1a")
                                .body,
                            "volumeId");
  own.advance_by(5s);
  const auto taken = own_front.answer(attach_form(disk, guest, "/dev/sdb") + "&Version=2016-11-15");
  EXPECT_EQ(taken.code, "InvalidParameterValue") << "taken, although no mapping lists it";
  const auto bare = element(own_front
                                .answer(run + "&BlockDeviceMapping.1.DeviceName=/dev/sdh"
                                              "&BlockDeviceMapping.1.NoDevice=")
                                .body,
                            "instanceId");
  EXPECT_EQ(own.instance(bare)->disks.size(), 1U);
}

// ---- places ----

TEST_F(LaunchTest, addresses_are_given_from_the_lowest_and_come_back) {
  const auto first = instance(), second = instance();
  EXPECT_EQ(region.instance(first)->private_ip, "10.0.0.4");
  EXPECT_EQ(region.instance(second)->private_ip, "10.0.0.5");
  EXPECT_EQ(region.free_addresses("subnet-01000000000000001"), 4096 - 5 - 2);
  region.advance_by(10s);
  terminate(first);
  EXPECT_EQ(region.free_addresses("subnet-01000000000000001"), 4096 - 5 - 1);
  EXPECT_EQ(region.instance(instance())->private_ip, "10.0.0.4");
  EXPECT_EQ(region.instance(instance())->private_ip, "10.0.0.6");
}

TEST_F(LaunchTest, a_small_subnet_runs_out_of_addresses) {
  Catalog catalog = builtin_catalog("us-east-1", {"us-east-1a"});
  catalog.subnets[0].cidr = "10.0.0.0/28";
  Region small(catalog, RegionTimes{}, hardware, start_time());
  RunInstancesArgs args;
  args.image_id = kBase;
  args.type = "g5.xlarge";
  args.max_count = 20;
  EXPECT_EQ(small.run_instances(args)->size(), 11U) << "sixteen less AWS's five";
  EXPECT_EQ(small.run_instances(args).error().code, "InsufficientFreeAddressesInSubnet");
}

TEST_F(LaunchTest, a_zone_that_does_not_offer_the_type_names_those_that_do) {
  const auto reply = launch("&Placement.AvailabilityZone=us-east-1b&InstanceType=p4d.24xlarge");
  EXPECT_EQ(reply.code, "MalformedQueryString") << "the fixture names a type already";
  const auto hole = call(
      "Action=RunInstances&MinCount=1&MaxCount=1&InstanceType=p4d.24xlarge"
      "&Placement.AvailabilityZone=us-east-1b&ImageId=" +
      std::string(kBase));
  EXPECT_EQ(hole.code, "Unsupported");
  EXPECT_THAT(hole.body, HasSubstr("choosing us-east-1a"));
  region.knobs.not_offered.insert({"g5.xlarge", "us-east-1b"});
  EXPECT_EQ(launch("&Placement.AvailabilityZone=us-east-1b").code, "Unsupported");
}

TEST_F(LaunchTest, prices_are_those_of_the_history) {
  region.knobs.spot_prices[{"g5.xlarge", "us-east-1a"}] = 50'000;
  const auto history = call(
                           "Action=DescribeSpotPriceHistory&InstanceType.1=g5.xlarge"
                           "&AvailabilityZone=us-east-1a")
                           .body;
  EXPECT_EQ(element(history, "spotPrice"), "0.500000");
  const std::string spot = "&InstanceMarketOptions.MarketType=spot";
  const std::string price = spot + "&InstanceMarketOptions.SpotOptions.MaxPrice=";
  EXPECT_EQ(launch(price + "0.5").code, "");
  const auto low = launch(price + "0.4999");
  EXPECT_EQ(low.code, "SpotMaxPriceTooLow");
  EXPECT_THAT(low.body, HasSubstr("fulfillment price of 0.5000."));
  region.knobs.spot_prices[{"g5.xlarge", "us-east-1a"}] = 200'000;
  EXPECT_EQ(launch(spot).code, "SpotMaxPriceTooLow") << "capped at on-demand when nothing is said";
}

TEST_F(LaunchTest, vcpu_quotas_are_counted_by_class_and_market) {
  region.knobs.spot_vcpu_quota["g"] = 8;
  region.knobs.on_demand_vcpu_quota["g"] = 4;
  const auto first = spot_instance();
  spot_instance();
  EXPECT_EQ(launch("&InstanceMarketOptions.MarketType=spot").code, "MaxSpotInstanceCountExceeded");
  instance();
  EXPECT_EQ(launch().code, "VcpuLimitExceeded");
  region.advance_by(10s);
  terminate(first);
  EXPECT_EQ(launch("&InstanceMarketOptions.MarketType=spot").code, "");
}

TEST_F(LaunchTest, a_right_that_is_missing_is_said_in_dry_runs_too) {
  region.knobs.denied["ec2:CreateTags"] = Denial::implicit;
  region.knobs.denied["ec2:DeleteVolume"] = Denial::organisation;
  const std::string tagged =
      "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a"
      "&TagSpecification.1.Tag.1.Value=b";
  EXPECT_EQ(launch("&DryRun=true").code, "DryRunOperation");
  const auto denied = launch("&DryRun=true" + tagged);
  EXPECT_EQ(denied.code, "UnauthorizedOperation");
  EXPECT_EQ(denied.status, 403);
  EXPECT_THAT(denied.body, HasSubstr("no identity-based policy allows the ec2:CreateTags action"));
  EXPECT_THAT(call("Action=DeleteVolume&VolumeId=vol-00000000000000000").body,
              HasSubstr("explicit deny in a service control policy"));
}

// ---- throttles ----

TEST_F(LaunchTest, the_second_bucket_counts_instances) {
  front.set_throttle_scale(1);
  const std::string run =
      "Action=RunInstances&InstanceType=g5.xlarge&ImageId=" + std::string(kBase) +
      "&MinCount=1&MaxCount=";
  EXPECT_EQ(code(run + "900"), "");
  EXPECT_EQ(code(run + "101"), "RequestLimitExceeded") << "100 left";
  EXPECT_EQ(code(run + "100"), "");
  region.advance_by(1s);
  EXPECT_EQ(code(run + "3"), "RequestLimitExceeded");
  EXPECT_EQ(code(run + "2"), "") << "refilled by two a second";
}

TEST_F(LaunchTest, a_listing_without_filter_or_page_has_the_smaller_bucket) {
  front.set_throttle_scale(1);
  const auto passed = [&](const std::string& form) {
    int count = 0;
    while (count < 200 && code(form) == "") ++count;
    return count;
  };
  EXPECT_EQ(passed("Action=DescribeVolumes"), 50);
  EXPECT_EQ(passed("Action=DescribeVolumes&MaxResults=5"), 100) << "paged";
  EXPECT_EQ(passed("Action=DescribeVolumes&Filter.1.Name=status&Filter.1.Value.1=error"), 0)
      << "the same bucket as the paged ones";
  EXPECT_EQ(passed("Action=DescribeImages"), 100) << "images have one bucket only";
  RunInstancesArgs args;
  args.image_id = kBase;
  args.type = "g5.xlarge";
  const auto made = region.run_instances(args)->front().id;
  EXPECT_EQ(passed("Action=DescribeInstances&InstanceId.1=" + made), 50) << "ids do not help";
  region.knobs.ids_count_as_filtered = true;
  EXPECT_EQ(passed("Action=DescribeInstances&InstanceId.1=" + made), 100);
}

}  // namespace
