// The simulated region's instances after their launch: stop and start, power-off from inside,
// attributes, protection, and what becomes of their volumes.
#include "tests/region_fixture.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::HasSubstr;

namespace {

class PowerTest : public RegionTest {
 protected:
  std::string modify(const std::string& guest, const std::string& more) {
    return code("Action=ModifyInstanceAttribute&InstanceId=" + guest + more);
  }
  std::string attribute(const std::string& guest, const std::string& name) {
    return call("Action=DescribeInstanceAttribute&InstanceId=" + guest + "&Attribute=" + name).body;
  }
  std::string stop(const std::string& guest) {
    return code("Action=StopInstances&InstanceId.1=" + guest);
  }
  std::string start(const std::string& guest) {
    return code("Action=StartInstances&InstanceId.1=" + guest);
  }
  std::string terminate(const std::string& guest) {
    return code("Action=TerminateInstances&InstanceId.1=" + guest);
  }
  std::string running(const std::string& more = "") {
    const auto guest = instance(more);
    region.advance_by(10s);
    return guest;
  }
};

TEST_F(PowerTest, a_stopped_instance_keeps_its_volumes_and_has_them_again_when_started) {
  const auto disk = volume();
  const auto guest = running();
  ASSERT_EQ(code(attach_form(disk, guest)), "");
  region.advance_by(5s);
  const auto reply = call("Action=StopInstances&InstanceId.1=" + guest).body;
  EXPECT_THAT(reply, HasSubstr("<name>stopping</name>"));
  EXPECT_THAT(reply, HasSubstr("<name>running</name>"));
  region.advance_by(30s);
  EXPECT_EQ(guest_state(guest), "stopped");
  EXPECT_EQ(link_state(disk), "attached");
  EXPECT_EQ(region.instance(guest)->reason_code, "Client.UserInitiatedShutdown");
  EXPECT_FALSE(hardware.machines.contains(guest));
  EXPECT_TRUE(hardware.plugged.empty());
  EXPECT_EQ(stop(guest), "") << "stopping what is stopped is no error";
  EXPECT_EQ(start(guest), "");
  region.advance_by(1ms);
  EXPECT_EQ(guest_state(guest), "pending");
  EXPECT_TRUE(hardware.plugged.contains({guest, disk})) << "there from the first moment";
  EXPECT_EQ(region.instance(guest)->launch_mapping.at("ebs1"), "sdf") << "metadata of this start";
  region.advance_by(10s);
  EXPECT_EQ(guest_state(guest), "running");
  EXPECT_EQ(link_state(disk), "attached");
}

TEST_F(PowerTest, volumes_can_be_attached_to_and_detached_from_a_stopped_instance) {
  const auto disk = volume();
  const auto guest = running();
  ASSERT_EQ(stop(guest), "");
  region.advance_by(30s);
  EXPECT_EQ(code(attach_form(disk, guest)), "");
  region.advance_by(5s);
  EXPECT_EQ(link_state(disk), "attached");
  EXPECT_TRUE(hardware.plugged.empty());
  const auto root = region.instance(guest)->root_volume_id;
  EXPECT_EQ(code(detach_form(root, guest)), "") << "even the root";
  EXPECT_EQ(code(detach_form(disk, guest)), "");
  region.advance_by(5s);
  EXPECT_EQ(disk_state(disk), "available");
  EXPECT_EQ(disk_state(root), "available");
}

TEST_F(PowerTest, states_in_which_an_instance_cannot_be_stopped_or_started) {
  const auto guest = instance();
  EXPECT_EQ(stop(guest), "IncorrectInstanceState") << "pending";
  EXPECT_EQ(start(guest), "");
  region.advance_by(10s);
  EXPECT_EQ(start(guest), "") << "it runs already";
  EXPECT_EQ(stop(guest), "");
  EXPECT_EQ(start(guest), "IncorrectInstanceState") << "stopping";
  region.advance_by(30s);
  EXPECT_EQ(terminate(guest), "");
  EXPECT_EQ(start(guest), "IncorrectInstanceState");
  region.advance_by(30s);
  EXPECT_EQ(stop(guest), "IncorrectInstanceState");
  EXPECT_EQ(stop("i-00000000000000000"), "InvalidInstanceID.NotFound");
  EXPECT_EQ(code("Action=StopInstances"), "MissingParameter");
}

TEST_F(PowerTest, a_one_time_spot_instance_cannot_be_stopped) {
  const auto spot = spot_instance();
  region.advance_by(10s);
  EXPECT_EQ(stop(spot), "UnsupportedOperation");
  EXPECT_EQ(guest_state(spot), "running");
}

TEST_F(PowerTest, a_stopped_instance_gives_its_capacity_away_and_may_not_get_it_back) {
  region.knobs.capacity[{"g5.xlarge", "us-east-1a"}] = 1;
  const auto guest = running();
  EXPECT_EQ(launch().code, "InsufficientInstanceCapacity");
  ASSERT_EQ(stop(guest), "");
  EXPECT_EQ(launch().code, "InsufficientInstanceCapacity") << "not before it is stopped";
  region.advance_by(30s);
  const auto other = running();
  EXPECT_EQ(start(guest), "InsufficientInstanceCapacity");
  EXPECT_EQ(guest_state(guest), "stopped");
  ASSERT_EQ(terminate(other), "");
  region.advance_by(30s);
  EXPECT_EQ(start(guest), "");
}

TEST_F(PowerTest, a_machine_that_powers_itself_off_stops_or_terminates_as_its_instance_says) {
  const auto stays = running();
  const auto goes = running("&InstanceInitiatedShutdownBehavior=terminate");
  const auto changed = running();
  EXPECT_EQ(modify(changed, "&InstanceInitiatedShutdownBehavior.Value=terminate"), "");
  hardware.machines.clear();
  region.advance_by(1s);
  EXPECT_EQ(guest_state(stays), "stopping");
  EXPECT_EQ(guest_state(goes), "shutting-down");
  EXPECT_EQ(guest_state(changed), "shutting-down");
  region.advance_by(1min);
  EXPECT_EQ(guest_state(stays), "stopped");
  EXPECT_EQ(guest_state(goes), "terminated");
}

TEST_F(PowerTest, protection_saves_from_the_api_but_not_from_inside) {
  const auto guest = running("&InstanceInitiatedShutdownBehavior=terminate");
  EXPECT_EQ(modify(guest, "&DisableApiTermination.Value=true"), "");
  EXPECT_THAT(attribute(guest, "disableApiTermination"), HasSubstr("<value>true</value>"));
  EXPECT_EQ(terminate(guest), "OperationNotPermitted");
  EXPECT_EQ(guest_state(guest), "running");
  hardware.machines.clear();
  region.advance_by(1s);
  region.advance_by(1min);
  EXPECT_EQ(guest_state(guest), "terminated");
}

TEST_F(PowerTest, one_protected_instance_saves_its_zone_and_the_other_zone_is_gone) {
  const auto a = running("&DisableApiTermination=true");
  const auto same_zone = running();
  const auto other_zone = running("&Placement.AvailabilityZone=us-east-1b");
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + a + "&InstanceId.2=" + same_zone +
                 "&InstanceId.3=" + other_zone),
            "OperationNotPermitted");
  EXPECT_EQ(guest_state(a), "running");
  EXPECT_EQ(guest_state(same_zone), "running");
  EXPECT_EQ(guest_state(other_zone), "shutting-down") << "the call half succeeded";
}

TEST_F(PowerTest, protection_against_stopping) {
  const auto guest = running("&DisableApiStop=true");
  EXPECT_EQ(stop(guest), "OperationNotPermitted");
  EXPECT_EQ(modify(guest, "&DisableApiStop.Value=false"), "");
  EXPECT_EQ(stop(guest), "");
}

TEST_F(PowerTest, delete_on_termination_can_be_flipped_and_is_true_when_left_out) {
  const auto [disk, guest] = attached_pair();
  const std::string mapping = "&BlockDeviceMapping.1.DeviceName=/dev/sdf";
  EXPECT_EQ(modify(guest, mapping + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true"), "");
  EXPECT_TRUE(region.volume(disk)->link->delete_on_termination);
  EXPECT_EQ(modify(guest, mapping + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false"), "");
  EXPECT_FALSE(region.volume(disk)->link->delete_on_termination);
  EXPECT_EQ(modify(guest, mapping), "");
  EXPECT_TRUE(region.volume(disk)->link->delete_on_termination) << "left out, it becomes true";
  EXPECT_THAT(attribute(guest, "blockDeviceMapping"),
              HasSubstr("<deleteOnTermination>true</deleteOnTermination>"));
  EXPECT_EQ(modify(guest, "&BlockDeviceMapping.1.DeviceName=/dev/sdz"),
            "InvalidInstanceAttributeValue");
  ASSERT_EQ(terminate(guest), "");
  region.advance_by(1min);
  EXPECT_EQ(region.volume(disk), nullptr);
}

TEST_F(PowerTest, one_attribute_a_call_and_some_only_while_stopped) {
  const auto guest = running();
  EXPECT_EQ(modify(guest, ""), "InvalidParameterCombination");
  EXPECT_EQ(modify(guest, "&DisableApiStop.Value=true&DisableApiTermination.Value=true"),
            "InvalidParameterCombination");
  EXPECT_EQ(modify(guest, "&DisableApiStop.Value=maybe"), "InvalidParameterValue");
  EXPECT_EQ(modify(guest, "&Attribute=disableApiTermination&Value=true"), "") << "the old form";
  EXPECT_EQ(terminate(guest), "OperationNotPermitted");
  EXPECT_EQ(modify(guest, "&UserData.Value=aGk%3D"), "IncorrectInstanceState");
  ASSERT_EQ(stop(guest), "");
  region.advance_by(30s);
  EXPECT_EQ(modify(guest, "&UserData.Value=aGk%3D"), "");
  EXPECT_THAT(attribute(guest, "userData"), HasSubstr("aGk="));
  EXPECT_EQ(code("Action=DescribeInstanceAttribute&Attribute=mood&InstanceId=" + guest),
            "InvalidParameterValue");
  EXPECT_EQ(modify("i-00000000000000000", "&DisableApiStop.Value=true"),
            "InvalidInstanceID.NotFound");
}

}  // namespace
