// The simulated region's faults: answers that come late, twice or from another world, machines and
// volumes that fail, zones that go bad. Each is a knob or an injected Fault.
#include "tests/region_fixture.hpp"
#include "tests/sim/region_transport.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::HasSubstr;
using testing::Not;

namespace {

class RegionFaultsTest : public RegionTest {
 protected:
  void inject(const std::string& action, FaultKind kind, Milliseconds delay = {}) {
    Fault fault{action, kind};
    fault.delay = delay;
    front.inject(fault);
  }
  std::string create_form(const std::string& more = "") {
    return "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1" + more;
  }
  /// The volumes that a listing shows.
  int listed(const std::string& more = "") {
    return count_of(call("Action=DescribeVolumes" + more).body, "<createTime>");
  }
};

// ---- answers ----

TEST_F(RegionFaultsTest, a_late_request_is_executed_after_its_caller_gave_up) {
  inject("CreateVolume", FaultKind::late, 30s);
  EXPECT_TRUE(call(create_form("&ClientToken=t")).lost);
  EXPECT_TRUE(region.volumes().empty());
  region.advance_by(29s);
  EXPECT_TRUE(region.volumes().empty());
  region.advance_by(1s);
  EXPECT_EQ(region.volumes().size(), 1U);
  EXPECT_TRUE(front.calls().back().late);
  EXPECT_TRUE(front.calls().back().effective);
  EXPECT_EQ(code(create_form("&ClientToken=t")), "");
  EXPECT_EQ(region.volumes().size(), 1U) << "the token still counts";
}

TEST_F(RegionFaultsTest, a_slow_answer_lets_time_pass_before_or_after_the_effect) {
  inject("CreateVolume", FaultKind::slow_before, 10s);
  const auto first = volume();
  EXPECT_EQ(region.volume(first)->create_time, start_time() + 10s);
  inject("CreateVolume", FaultKind::slow_after, 10s);
  const auto second = volume();
  EXPECT_EQ(region.volume(second)->create_time, start_time() + 10s);
  EXPECT_EQ(region.now(), start_time() + 20s);
}

TEST_F(RegionFaultsTest, a_server_error_may_hide_an_effect) {
  int made = 0;
  for (const auto& [kind, name] : {std::pair{FaultKind::throttled_after, "RequestLimitExceeded"},
                                   {FaultKind::internal_after, "InternalError"},
                                   {FaultKind::unavailable_after, "Unavailable"}}) {
    inject("CreateVolume", kind);
    EXPECT_EQ(code(create_form()), name);
    EXPECT_EQ(region.volumes().size(), static_cast<std::size_t>(++made));
  }
}

TEST_F(RegionFaultsTest, a_spell_of_refused_credentials_ends) {
  Fault spell{"*", FaultKind::expired_token, Fault::kAlways};
  spell.until = region.now() + 60s;
  front.inject(spell);
  EXPECT_EQ(code("Action=DescribeVolumes"), "ExpiredToken");
  EXPECT_EQ(code(create_form()), "ExpiredToken");
  region.advance_by(60s);
  EXPECT_EQ(code("Action=DescribeVolumes"), "");
  EXPECT_EQ(front.faults().hits().at("expired_token"), 2);
  inject("*", FaultKind::auth_failure);
  EXPECT_EQ(call("Action=DescribeVolumes").status, 401);
  inject("*", FaultKind::unauthorized);
  EXPECT_EQ(code(create_form()), "UnauthorizedOperation");
}

TEST_F(RegionFaultsTest, any_refusal_can_be_asked_for) {
  Fault fault{"Describe*", FaultKind::refused};
  fault.status = 400;
  fault.code = "FilterLimitExceeded";
  front.inject(fault);
  EXPECT_EQ(code(create_form()), "");
  EXPECT_EQ(code("Action=DescribeInstances"), "FilterLimitExceeded");
  EXPECT_EQ(code("Action=DescribeInstances"), "");
}

TEST_F(RegionFaultsTest, a_share_of_the_calls_is_hit_by_the_seed) {
  const auto hits = [&](std::uint64_t seed) {
    front.faults().clear();
    front.faults().seed(seed);
    Fault fault{"DescribeVolumes", FaultKind::internal, Fault::kAlways};
    fault.share = 0.3;
    front.inject(fault);
    std::string pattern;
    for (int at = 0; at < 200; ++at) pattern += code("Action=DescribeVolumes").empty() ? '.' : 'x';
    return pattern;
  };
  const auto first = hits(7);
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), 'x')), 60, 20);
  EXPECT_EQ(hits(7), first);
  EXPECT_NE(hits(8), first);
}

TEST_F(RegionFaultsTest, a_listing_fails_in_the_middle) {
  region.knobs.page_cap = 2;
  for (int at = 0; at < 5; ++at) volume();
  Fault fault{"DescribeVolumes", FaultKind::internal};
  fault.containing = "NextToken=";
  front.inject(fault);
  inject("DescribeVolumes", FaultKind::token_expired);
  const auto first = call("Action=DescribeVolumes");
  EXPECT_EQ(first.status, 200);
  const auto next = "Action=DescribeVolumes&NextToken=" + element(first.body, "nextToken");
  EXPECT_EQ(code(next), "InternalError");
  EXPECT_EQ(code(next), "InvalidNextToken");
  EXPECT_EQ(code(next), "");
}

TEST_F(RegionFaultsTest, an_empty_page_goes_on) {
  region.knobs.page_cap = 2;
  for (int at = 0; at < 3; ++at) volume();
  const auto first = call("Action=DescribeVolumes");
  inject("DescribeVolumes", FaultKind::empty_page);
  auto reply = call("Action=DescribeVolumes&NextToken=" + element(first.body, "nextToken"));
  EXPECT_EQ(count_of(reply.body, "<volumeId>"), 0);
  reply = call("Action=DescribeVolumes&NextToken=" + element(reply.body, "nextToken"));
  EXPECT_EQ(count_of(reply.body, "<volumeId>"), 1) << "the page after the first two";
}

TEST_F(RegionFaultsTest, another_account_sees_nothing_of_ours) {
  const auto [disk, guest] = attached_pair();
  front.inject({"*", FaultKind::wrong_account, Fault::kAlways});
  EXPECT_EQ(listed(), 0);
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + disk), "InvalidVolume.NotFound");
  EXPECT_EQ(code("Action=DescribeInstances&InstanceId.1=" + guest), "InvalidInstanceID.NotFound");
  EXPECT_EQ(code(detach_form(disk, guest)), "InvalidVolume.NotFound");
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + guest), "InvalidInstanceID.NotFound");
  EXPECT_EQ(launch("&SubnetId=subnet-01000000000000001").code, "InvalidSubnetID.NotFound");
  EXPECT_EQ(
      code("Action=CreateVolume&AvailabilityZone=us-east-1a&SnapshotId=" + std::string(kSnapshot)),
      "InvalidSnapshot.NotFound");
  const auto images = call("Action=DescribeImages").body;
  EXPECT_THAT(images, HasSubstr("public-image"));
  EXPECT_THAT(images, Not(HasSubstr("session-root")));
  front.faults().clear();
  EXPECT_EQ(listed(), 2) << "the volume and the instance's root";
  EXPECT_EQ(link_state(disk), "attached");
}

TEST_F(RegionFaultsTest, a_replica_shows_the_world_of_before) {
  const auto [disk, guest] = attached_pair();
  front.set_replicas({{3000ms, 0ms}});
  region.advance_by(10s);
  ASSERT_EQ(code(detach_form(disk, guest)), "");
  EXPECT_EQ(link_state(disk), "detaching") << "the region itself knows";
  const auto status = [&] {
    return element(
        call("Action=DescribeVolumes&Filter.1.Name=volume-id&Filter.1.Value.1=" + disk).body,
        "status");
  };
  EXPECT_EQ(status(), "in-use");
  region.advance_by(2500ms);
  EXPECT_EQ(link_state(disk), "none");
  EXPECT_EQ(status(), "in-use");
  region.advance_by(3s);
  EXPECT_EQ(status(), "available");
  const auto fresh = volume();
  EXPECT_EQ(listed(), 2) << "one's own write is not read";
  region.advance_by(3s);
  EXPECT_EQ(listed(), 3);
}

TEST_F(RegionFaultsTest, a_new_volume_is_not_found_by_a_replica_that_has_not_heard_of_it) {
  front.set_replicas({{0ms, 4000ms}, {0ms, 0ms}}, 5);
  const auto disk = volume();
  const auto guest = instance();
  int unknown = 0, untagged = 0;
  for (int at = 0; at < 100; ++at) {
    unknown += code("Action=DescribeVolumes&VolumeId.1=" + disk) == "InvalidVolume.NotFound";
    untagged += code("Action=CreateTags&Tag.1.Key=a&Tag.1.Value=b&ResourceId.1=" + guest) ==
                "InvalidInstanceID.NotFound";
  }
  EXPECT_NEAR(unknown, 50, 20);
  EXPECT_NEAR(untagged, 50, 20);
  region.advance_by(4s);
  for (int at = 0; at < 20; ++at) EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + disk), "");
}

TEST_F(RegionFaultsTest, a_neighbour_eats_its_share_of_the_buckets) {
  const auto passed = [&](double share) {
    front.set_throttle_scale(1);
    front.set_neighbour(share);
    region.advance_by(1h);
    int count = 0;
    while (code("Action=DeleteTags&ResourceId.1=" + std::string(kSnapshot)).empty()) ++count;
    return count;
  };
  EXPECT_EQ(passed(0), 100);
  EXPECT_EQ(passed(0.3), 70);
}

// ---- machines ----

TEST_F(RegionFaultsTest, a_launch_stays_pending_for_ever) {
  region.knobs.pending_for_ever = 1;
  const auto guest = instance();
  region.advance_by(1h);
  EXPECT_EQ(guest_state(guest), "pending");
  const auto next = instance();
  region.advance_by(10s);
  EXPECT_EQ(guest_state(next), "running");
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + guest), "");
  region.advance_by(1min);
  EXPECT_EQ(guest_state(guest), "terminated");
}

TEST_F(RegionFaultsTest, a_launch_ends_with_its_reason) {
  region.knobs.failing_launches = 1;
  region.knobs.launch_failure = "Client.VolumeLimitExceeded";
  const auto guest = instance("&ClientToken=t");
  region.advance_by(6s);
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_THAT(call("Action=DescribeInstances&InstanceId.1=" + guest).body,
              HasSubstr("<code>Client.VolumeLimitExceeded</code>"));
  EXPECT_EQ(launch("&ClientToken=t").code, "IdempotentInstanceTerminated");
  EXPECT_EQ(region.fault_counts().at("failing_launches"), 1);
}

TEST_F(RegionFaultsTest, capacity_may_lack_in_part_in_a_zone_or_everywhere) {
  region.knobs.capacity[{"*", "us-east-1a"}] = 2;
  const std::string in_a = "&Placement.AvailabilityZone=us-east-1a";
  const std::string in_b = "&Placement.AvailabilityZone=us-east-1b";
  const auto some =
      call("Action=RunInstances&MinCount=1&MaxCount=5&InstanceType=g5.xlarge&ImageId=" +
           std::string(kBase) + in_a);
  EXPECT_EQ(count_of(some.body, "<instanceId>"), 2);
  EXPECT_EQ(launch(in_a).code, "InsufficientInstanceCapacity");
  EXPECT_EQ(launch(in_b).code, "");
  region.knobs.capacity[{"*", "*"}] = 0;
  EXPECT_EQ(launch(in_b).code, "InsufficientInstanceCapacity");
}

TEST_F(RegionFaultsTest, an_instance_is_gone_between_two_calls) {
  const auto [disk, guest] = attached_pair();
  ASSERT_TRUE(region.end_now(guest).has_value());
  EXPECT_EQ(guest_state(guest), "terminated");
  EXPECT_EQ(disk_state(disk), "available");
  EXPECT_EQ(code(attach_form(disk, guest)), "IncorrectState");
}

TEST_F(RegionFaultsTest, a_stopped_instance_keeps_its_volumes) {
  const auto [disk, guest] = attached_pair();
  ASSERT_TRUE(region.stop(guest).has_value());
  region.advance_by(1min);
  EXPECT_EQ(guest_state(guest), "stopped");
  EXPECT_EQ(link_state(disk), "attached");
}

TEST_F(RegionFaultsTest, an_instance_is_reclaimed_while_its_volume_is_detached) {
  const auto [disk, guest] = attached_pair();
  hardware.mounted_volumes.insert(disk);
  region.knobs.reclaimed_while_detaching = 1;
  ASSERT_EQ(code(detach_form(disk, guest)), "");
  region.advance_by(1s);
  EXPECT_EQ(guest_state(guest), "shutting-down");
  EXPECT_EQ(link_state(disk), "detaching");
  region.advance_by(2min);
  EXPECT_EQ(disk_state(disk), "available");
}

TEST_F(RegionFaultsTest, a_busy_detach_fires_when_the_disk_is_given_up) {
  const auto [disk, guest] = attached_pair();
  hardware.mounted_volumes.insert(disk);
  ASSERT_EQ(code(detach_form(disk, guest)), "");
  region.advance_by(10min);
  EXPECT_EQ(link_state(disk), "busy");
  hardware.mounted_volumes.clear();
  region.advance_by(1s);
  EXPECT_EQ(link_state(disk), "none");
}

TEST_F(RegionFaultsTest, a_zone_goes_bad_and_comes_back) {
  const auto disk = volume();
  const auto guest = instance("&Placement.AvailabilityZone=us-east-1a");
  const auto elsewhere = instance("&Placement.AvailabilityZone=us-east-1b");
  region.advance_by(10s);
  ASSERT_TRUE(region.impair_zone("us-east-1a", true).has_value());
  EXPECT_EQ(code("Action=DescribeInstances&InstanceId.1=" + guest), "Unavailable");
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + disk), "Unavailable");
  EXPECT_EQ(code("Action=DescribeInstances&InstanceId.1=" + elsewhere), "");
  EXPECT_EQ(code("Action=DescribeInstances"), "") << "only by-id looks fail";
  EXPECT_EQ(launch("&Placement.AvailabilityZone=us-east-1a").code, "InsufficientInstanceCapacity");
  EXPECT_THAT(call("Action=DescribeInstanceStatus").body, HasSubstr("impaired"));
  EXPECT_THAT(call("Action=DescribeAvailabilityZones").body, HasSubstr("impaired"));
  EXPECT_EQ(code(attach_form(disk, guest)), "");
  region.advance_by(5min);
  EXPECT_EQ(link_state(disk), "attaching");
  ASSERT_TRUE(region.impair_zone("us-east-1a", false).has_value());
  region.advance_by(2s);
  EXPECT_EQ(link_state(disk), "attached");
}

// ---- volumes ----

TEST_F(RegionFaultsTest, a_create_ends_in_error_or_in_nothing) {
  region.knobs.failing_creates = 1;
  const auto broken = volume("&ClientToken=t1");
  region.advance_by(2s);
  EXPECT_EQ(disk_state(broken), "error");
  region.knobs.vanishing_creates = 1;
  const auto gone = volume("&ClientToken=t2");
  EXPECT_EQ(disk_state(gone), "creating");
  region.advance_by(2s);
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + gone), "InvalidVolume.NotFound");
  EXPECT_EQ(code("Action=CreateVolume&ClientToken=t2&AvailabilityZone=us-east-1a&SnapshotId=" +
                 std::string(kSnapshot)),
            "IdempotentParameterMismatch")
      << "the token is burned";
}

TEST_F(RegionFaultsTest, a_key_is_revoked_between_create_and_attach) {
  const auto disk = volume("&Encrypted=true&KmsKeyId=key-1");
  const auto plain = volume();
  const auto guest = instance();
  region.advance_by(10s);
  region.knobs.revoked_keys = {"key-1"};
  EXPECT_EQ(code(attach_form(disk, guest)), "CustomerKeyHasBeenRevoked");
  EXPECT_EQ(disk_state(disk), "available");
  EXPECT_EQ(code(attach_form(plain, guest)), "");
  const auto late = volume("&Encrypted=true&KmsKeyId=key-1");
  region.advance_by(2s);
  EXPECT_EQ(region.volume(late), nullptr) << "creating under such a key leaves nothing";
  region.knobs.revoked_keys.clear();
  EXPECT_EQ(code(attach_form(disk, guest, "/dev/sdg")), "");
}

TEST_F(RegionFaultsTest, a_name_is_taken_by_the_image) {
  const auto disk = volume();
  const auto guest = instance();
  region.advance_by(10s);
  region.knobs.ami_devices = {"sdf"};
  const auto reply = call(attach_form(disk, guest, "/dev/sdf"));
  EXPECT_EQ(reply.code, "InvalidParameterValue");
  EXPECT_THAT(reply.body, HasSubstr("already in use"));
  EXPECT_EQ(code(attach_form(disk, guest, "/dev/sdg")), "");
}

}  // namespace
