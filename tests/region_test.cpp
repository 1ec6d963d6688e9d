// The simulated region in one process: waiting states under virtual time, and EC2's refusals one by
// one. Its protocol is region_query_test.cpp's, what the real client sees of it
// contract_test.cpp's.
#include "tests/region_fixture.hpp"
#include "tests/sim/query_form.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::HasSubstr;
using testing::Not;

namespace {

// ---- states and times ----

TEST_F(RegionTest, a_volume_is_creating_until_its_disk_is_made) {
  const auto id = volume();
  EXPECT_EQ(disk_state(id), "creating");
  EXPECT_TRUE(hardware.volumes.empty());
  region.advance_by(1499ms);
  EXPECT_EQ(disk_state(id), "creating");
  region.advance_by(1ms);
  EXPECT_EQ(disk_state(id), "available");
  EXPECT_TRUE(hardware.volumes.contains(id));
}

TEST_F(RegionTest, a_volume_whose_disk_cannot_be_made_ends_in_error) {
  hardware.fail_next_volume = true;
  const auto id = volume();
  region.advance_by(2s);
  EXPECT_EQ(disk_state(id), "error");
  EXPECT_EQ(code("Action=DeleteVolume&VolumeId=" + id), "");
}

TEST_F(RegionTest, an_instance_is_pending_while_its_machine_boots_already) {
  const auto id = instance();
  region.advance_by(1ms);
  EXPECT_EQ(guest_state(id), "pending");
  EXPECT_TRUE(hardware.machines.contains(id));
  region.advance_by(5s);
  EXPECT_EQ(guest_state(id), "running");
}

TEST_F(RegionTest, an_attach_waits_and_then_plugs_the_disk) {
  const auto disk = volume();
  const auto guest = instance();
  region.advance_by(10s);
  const auto reply = call(attach_form(disk, guest));
  EXPECT_EQ(element(reply.body, "status"), "attaching");
  EXPECT_EQ(element(reply.body, "deleteOnTermination"), "false");
  EXPECT_EQ(disk_state(disk), "in-use");
  EXPECT_TRUE(hardware.plugged.empty());
  region.advance_by(2s);
  EXPECT_EQ(link_state(disk), "attached");
  EXPECT_TRUE(hardware.plugged.contains({guest, disk}));
}

TEST_F(RegionTest, a_mounted_disk_stays_busy_and_leaves_by_itself_when_unmounted) {
  const auto [disk, guest] = attached_pair();
  hardware.mounted_volumes.insert(disk);
  EXPECT_EQ(element(call(detach_form(disk, guest)).body, "status"), "detaching");
  region.advance_by(60s);
  EXPECT_EQ(link_state(disk), "busy");
  const auto shown = call("Action=DescribeInstances&InstanceId.1=" + guest).body;
  EXPECT_THAT(shown, Not(HasSubstr("busy"))) << "the instance's side has no such word";
  hardware.mounted_volumes.clear();
  region.advance_by(250ms);
  EXPECT_EQ(disk_state(disk), "available");
  EXPECT_TRUE(hardware.plugged.empty());
}

TEST_F(RegionTest, a_forced_detach_takes_the_disk_from_a_guest_that_holds_it) {
  const auto [disk, guest] = attached_pair();
  hardware.mounted_volumes.insert(disk);
  EXPECT_EQ(code(detach_form(disk, guest) + "&Force=true"), "");
  region.advance_by(5s);
  EXPECT_EQ(disk_state(disk), "available");
}

TEST_F(RegionTest, volumes_come_free_only_when_the_instance_is_terminated) {
  const auto [disk, guest] = attached_pair();
  const auto root = region.instance(guest)->root_volume_id;
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + guest), "");
  region.advance_by(14s);
  EXPECT_EQ(guest_state(guest), "shutting-down");
  EXPECT_EQ(disk_state(disk), "in-use");
  region.advance_by(1s);
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_EQ(disk_state(disk), "available");
  EXPECT_EQ(region.volume(root), nullptr) << "the root has DeleteOnTermination";
  region.advance_by(3599s);
  EXPECT_NE(region.instance(guest), nullptr);
  region.advance_by(1s);
  EXPECT_EQ(region.instance(guest), nullptr);
}

TEST_F(RegionTest, a_guest_that_ignores_the_shutdown_is_cut_off) {
  const auto guest = instance();
  region.advance_by(10s);
  hardware.ignores_shutdown = true;
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + guest), "");
  region.advance_by(59s);
  EXPECT_EQ(guest_state(guest), "shutting-down");
  region.advance_by(1s);
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_TRUE(hardware.machines.empty());
}

TEST_F(RegionTest, a_machine_that_ends_by_itself_terminates_a_spot_instance_and_stops_another) {
  const auto spot = spot_instance();
  const auto other = instance();
  region.advance_by(10s);
  hardware.machines.clear();
  region.advance_by(1s);
  EXPECT_EQ(guest_state(spot), "shutting-down");
  EXPECT_EQ(region.instance(spot)->reason_code, "Client.InstanceInitiatedShutdown");
  EXPECT_EQ(guest_state(other), "stopping");
  region.advance_by(30s);
  EXPECT_EQ(guest_state(other), "stopped");
}

TEST_F(RegionTest, a_spot_notice_is_followed_by_the_reclaim) {
  const auto [disk, guest] = attached_pair();
  ASSERT_TRUE(region.interrupt(guest));
  region.advance_by(119s);
  EXPECT_EQ(guest_state(guest), "running");
  region.advance_by(1s);
  EXPECT_EQ(guest_state(guest), "shutting-down");
  EXPECT_EQ(region.instance(guest)->reason_code, "Server.SpotInstanceTermination");
  EXPECT_FALSE(region.interrupt(instance())) << "an on-demand instance gets no notice";
}

TEST_F(RegionTest, a_crash_cuts_the_power_at_once) {
  const auto [disk, guest] = attached_pair();
  hardware.mounted_volumes.insert(disk);
  ASSERT_TRUE(region.crash(guest));
  EXPECT_TRUE(hardware.machines.empty());
  region.advance_by(20s);
  EXPECT_EQ(disk_state(disk), "available") << "nobody holds a disk whose machine is off";
}

TEST_F(RegionTest, an_impaired_host_is_still_called_running) {
  const auto guest = spot_instance();
  region.advance_by(10s);
  ASSERT_TRUE(region.impair(guest));
  region.advance_by(60s);
  EXPECT_EQ(guest_state(guest), "running");
  EXPECT_EQ(element(call("Action=DescribeInstanceStatus").body, "status"), "impaired");
}

TEST_F(RegionTest, a_system_that_does_not_answer_fails_the_check_of_the_instance_alone) {
  const auto guest = spot_instance();
  region.advance_by(10s);
  const auto impaired = [&](const std::string& check) {
    return element(call("Action=DescribeInstanceStatus&Filter.1.Name=" + check +
                        ".status&Filter.1.Value.1=impaired")
                       .body,
                   "instanceId");
  };
  ASSERT_TRUE(region.set_reachable(guest, false));
  EXPECT_EQ(impaired("instance-status"), guest);
  EXPECT_EQ(impaired("system-status"), "");
  EXPECT_EQ(guest_state(guest), "running");
  ASSERT_TRUE(region.set_reachable(guest, true));
  EXPECT_EQ(impaired("instance-status"), "");
}

TEST_F(RegionTest, the_same_seed_gives_the_same_ids) {
  NoHardware other_hardware;
  Region other(builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"}), RegionTimes{},
               other_hardware, start_time());
  QueryFront other_front(other);
  const std::string form =
      "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1&Version=2016-11-15";
  EXPECT_EQ(element(front.answer(form).body, "volumeId"),
            element(other_front.answer(form).body, "volumeId"));
}

// ---- refusals ----

TEST_F(RegionTest, attach_refuses_what_ec2_refuses) {
  const auto disk = volume();
  EXPECT_EQ(code(attach_form(disk, spot_instance())), "IncorrectState") << "volume is creating";
  region.advance_by(2s);
  const auto pending = spot_instance();
  const auto reply = call(attach_form(disk, pending));
  EXPECT_EQ(reply.code, "IncorrectState");
  EXPECT_EQ(element(reply.body, "Message"), "Instance '" + pending + "' is not 'running'.");
  region.advance_by(10s);

  EXPECT_EQ(code(attach_form("vol-00000000000000000", pending)), "InvalidVolume.NotFound");
  EXPECT_EQ(code(attach_form(disk, "i-00000000000000000")), "InvalidInstanceID.NotFound");
  EXPECT_EQ(code(attach_form("vol-xyz", pending)), "InvalidVolumeID.Malformed");
  EXPECT_EQ(code(attach_form("disk", pending)), "InvalidParameterValue");
  for (const char* device : {"/dev/sdk1", "/dev/nvme1n1", "/dev/sdba", "/dev/xvdeo", "sd", "/tmp"})
    EXPECT_EQ(code(attach_form(disk, pending, device)), "InvalidParameterValue") << device;
  EXPECT_EQ(code(attach_form(disk, pending, "/dev/xvda")), "InvalidParameterValue") << "the root's";

  const auto away = spot_instance("&SubnetId=subnet-02000000000000002");
  region.advance_by(10s);
  EXPECT_EQ(code(attach_form(disk, away)), "InvalidVolume.ZoneMismatch");

  EXPECT_EQ(code(attach_form(disk, pending)), "");
  EXPECT_EQ(code(attach_form(disk, pending)), "VolumeInUse") << "even by the same instance";
  const auto second = volume();
  region.advance_by(2s);
  const auto taken = call(attach_form(second, pending, "sdf"));
  EXPECT_EQ(taken.code, "InvalidParameterValue") << "with and without /dev/ it is one name";
  EXPECT_THAT(taken.body, HasSubstr("Attachment point sdf is already in use"));
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + pending), "");
  EXPECT_EQ(code(attach_form(second, pending, "/dev/sdg")), "IncorrectState");
}

TEST_F(RegionTest, attach_refuses_more_than_the_instance_type_takes) {
  region.knobs.attachment_limit = 2;
  const auto guest = spot_instance();
  std::vector<std::string> disks = {volume(), volume(), volume()};
  region.advance_by(10s);
  EXPECT_EQ(code(attach_form(disks[0], guest, "/dev/sdf")), "");
  EXPECT_EQ(code(attach_form(disks[1], guest, "/dev/sdg")), "");
  EXPECT_EQ(code(attach_form(disks[2], guest, "/dev/sdh")), "AttachmentLimitExceeded");
}

TEST_F(RegionTest, detach_refuses_what_ec2_refuses) {
  const auto [disk, guest] = attached_pair();
  const auto other = spot_instance();
  const auto free_disk = volume();
  region.advance_by(10s);
  EXPECT_EQ(code(detach_form(disk, other)), "InvalidAttachment.NotFound");
  EXPECT_EQ(code(detach_form(disk, guest) + "&Device=/dev/sdz"), "InvalidAttachment.NotFound");
  EXPECT_EQ(code(detach_form("vol-00000000000000000", guest)), "InvalidVolume.NotFound");
  const auto reply = call(detach_form(free_disk, guest));
  EXPECT_EQ(reply.code, "IncorrectState");
  EXPECT_EQ(element(reply.body, "Message"),
            "Volume '" + free_disk + "' is in the 'available' state.");
  EXPECT_EQ(code(detach_form(region.instance(guest)->root_volume_id, guest)),
            "OperationNotPermitted");
  EXPECT_EQ(code(detach_form(disk, guest)), "");
  EXPECT_EQ(code(detach_form(disk, guest)), "") << "a second request changes nothing";
}

TEST_F(RegionTest, delete_refuses_what_ec2_refuses) {
  const auto fresh = volume();
  EXPECT_EQ(code("Action=DeleteVolume&VolumeId=" + fresh), "IncorrectState");
  const auto [disk, guest] = attached_pair();
  EXPECT_EQ(code("Action=DeleteVolume&VolumeId=" + disk), "VolumeInUse");
  EXPECT_EQ(code("Action=DeleteVolume&VolumeId=" + fresh), "");
  EXPECT_EQ(disk_state(fresh), "deleting");
  region.advance_by(2s);
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + fresh), "InvalidVolume.NotFound");
  EXPECT_FALSE(hardware.volumes.contains(fresh));
}

TEST_F(RegionTest, create_volume_refuses_what_ec2_refuses) {
  const std::string create = "Action=CreateVolume&AvailabilityZone=us-east-1a";
  const std::pair<const char*, const char*> table[] = {
      {"", "MissingParameter"},
      {"&SnapshotId=snap-00000000000000000", "InvalidSnapshot.NotFound"},
      {"&SnapshotId=snap-04000000000000004", "InvalidSnapshot.NotFound"},
      {"&SnapshotId=snap-xyz", "InvalidSnapshotID.Malformed"},
      {"&SnapshotId=snap-01000000000000001&Size=7", "InvalidParameterValue"},
      {"&Size=0", "InvalidParameterValue"},
      {"&Size=16385", "InvalidParameterValue"},
      {"&Size=10&VolumeType=st1", "InvalidParameterValue"},
      {"&Size=ten", "InvalidParameterValue"},
      {"&Size=10&VolumeType=gp9", "UnknownVolumeType"},
      {"&Size=10&Iops=3000", "InvalidParameterCombination"},
      {"&Size=10&VolumeType=gp3&Iops=2999", "InvalidParameterValue"},
      {"&Size=10&VolumeType=gp3&Iops=5001", "InvalidParameterCombination"},
      {"&Size=10&VolumeType=gp3&Throughput=124", "InvalidParameterValue"},
      {"&Size=10&VolumeType=gp3&Throughput=751", "InvalidParameterCombination"},
      {"&Size=10&Throughput=200", "InvalidParameterCombination"},
      {"&Size=10&VolumeType=io2", "MissingParameter"},
      {"&Size=10&KmsKeyId=k", "InvalidParameterDependency"},
      {"&Size=10&Encrypted=yes", "InvalidParameterValue"},
      {"&Size=10&MultiAttachEnabled=true", "InvalidParameterCombination"},
      {"&Size=10&VolumeInitializationRate=200", "InvalidParameterDependency"},
      {"&Size=10&AvailabilityZoneId=use1-az1", "InvalidParameterCombination"},
      {"&Size=10&TagSpecification.1.ResourceType=instance", "InvalidParameterValue"},
      {"&Size=10&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=aws:x",
       "InvalidParameterValue"},
  };
  for (const auto& [more, wanted] : table) EXPECT_EQ(code(create + more), wanted) << more;
  EXPECT_EQ(code("Action=CreateVolume&Size=1&AvailabilityZone=us-east-1z"), "InvalidZone.NotFound");
  EXPECT_EQ(code("Action=CreateVolume&Size=1"), "MissingParameter");
  EXPECT_TRUE(region.volumes().empty()) << "a refused call makes nothing";
}

TEST_F(RegionTest, create_volume_has_ec2s_defaults) {
  const auto plain = call("Action=CreateVolume&AvailabilityZoneId=use1-az2&Size=10").body;
  EXPECT_EQ(element(plain, "volumeType"), "gp2");
  EXPECT_EQ(element(plain, "availabilityZone"), "us-east-1b");
  const auto from =
      call("Action=CreateVolume&AvailabilityZone=us-east-1a&VolumeType=gp3&SnapshotId=" +
           std::string(kSnapshot))
          .body;
  EXPECT_EQ(element(from, "size"), "8") << "the snapshot's";
  EXPECT_EQ(element(from, "iops"), "3000");
  EXPECT_EQ(element(from, "throughput"), "125");
}

TEST_F(RegionTest, run_instances_refuses_what_ec2_refuses) {
  const std::string long_data = base64_encode(std::string(16385, 'x'));
  std::string encoded;
  for (const char letter : long_data)
    encoded += letter == '+' ? "%2B" : letter == '=' ? "%3D" : std::string(1, letter);
  const std::pair<std::string, const char*> table[] = {
      {"&ImageId=ami-00000000000000000&InstanceType=g5.xlarge", "InvalidAMIID.NotFound"},
      {"&ImageId=image&InstanceType=g5.xlarge", "InvalidAMIID.Malformed"},
      {"&ImageId=ami-02000000000000002&InstanceType=huge", "InvalidParameterValue"},
      {"&ImageId=ami-03000000000000003&InstanceType=g5.xlarge", "InvalidParameterValue"},
      {"&ImageId=ami-02000000000000002", "MissingParameter"},
  };
  for (const auto& [more, wanted] : table)
    EXPECT_EQ(code("Action=RunInstances&MinCount=1&MaxCount=1" + more), wanted) << more;
  const std::pair<std::string, const char*> options[] = {
      {"&KeyName=nobody", "InvalidKeyPair.NotFound"},
      {"&SecurityGroupId.1=sg-09", "InvalidGroup.NotFound"},
      {"&SubnetId=subnet-00000000000000000", "InvalidSubnetID.NotFound"},
      {"&SubnetId=subnet-01000000000000001&Placement.AvailabilityZone=us-east-1b",
       "InvalidParameterValue"},
      {"&IamInstanceProfile.Name=nobody", "InvalidParameterValue"},
      {"&UserData=%21%21", "InvalidUserData.Malformed"},
      {"&UserData=" + encoded, "InvalidUserData.Malformed"},
      {"&InstanceMarketOptions.MarketType=bazaar", "InvalidParameterValue"},
      {"&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.002",
       "SpotMaxPriceTooLow"},
      {"&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.001",
       "InvalidParameterValue"},
      {"&BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeSize=3",
       "InvalidBlockDeviceMapping"},
      {"&LaunchTemplate.LaunchTemplateId=lt-1", "InvalidLaunchTemplateId.Malformed"},
      {"&MetadataOptions.InstanceMetadataTags=enabled&TagSpecification.1.ResourceType=instance"
       "&TagSpecification.1.Tag.1.Key=a/b&TagSpecification.1.Tag.1.Value=",
       "InvalidParameterValue"},
      {"&ClientToken=" + std::string(65, 't'), "InvalidParameterValue"},
  };
  for (const auto& [more, wanted] : options) EXPECT_EQ(launch(more).code, wanted) << more;
  EXPECT_TRUE(region.instances().empty());
}

TEST_F(RegionTest, counts_and_capacity_of_a_launch) {
  region.knobs.capacity[{"g5.xlarge", "us-east-1a"}] = 3;
  const std::string run =
      "Action=RunInstances&InstanceType=g5.xlarge&ImageId=" + std::string(kBase);
  EXPECT_EQ(code(run + "&MinCount=2&MaxCount=1"), "InvalidParameterCombination");
  EXPECT_EQ(code(run + "&MinCount=0&MaxCount=1"), "InvalidParameterValue");
  EXPECT_EQ(code(run + "&MinCount=4&MaxCount=4"), "InsufficientInstanceCapacity");
  const auto reply = call(run + "&MinCount=1&MaxCount=5").body;
  EXPECT_EQ(count_of(reply, "<instanceId>"), 3) << "as many as there is room for";
  EXPECT_EQ(count_of(reply, "<reservationId>"), 1);
  EXPECT_EQ(launch().status, 500);
  EXPECT_EQ(launch("&Placement.AvailabilityZone=us-east-1b").code, "");
}

TEST_F(RegionTest, terminate_is_all_or_nothing_and_can_be_repeated) {
  const auto id = spot_instance();
  region.advance_by(10s);
  const std::string form = "Action=TerminateInstances&InstanceId.1=" + id;
  EXPECT_EQ(code(form + "&InstanceId.2=i-00000000000000000"), "InvalidInstanceID.NotFound");
  EXPECT_EQ(guest_state(id), "running");
  EXPECT_EQ(code("Action=TerminateInstances"), "MissingParameter");
  EXPECT_EQ(code(form), "");
  region.advance_by(20s);
  const auto again = call(form).body;
  EXPECT_EQ(count_of(again, "terminated"), 2) << again;
}

}  // namespace
