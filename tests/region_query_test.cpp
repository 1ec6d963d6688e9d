// The simulated region's Query front: client tokens, parameters, pages, filters, tags, knobs,
// faults and throttle.
#include "tests/region_fixture.hpp"
#include "tests/sim/query_listing.hpp"
#include "tests/sim/region_transport.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

// ---- client tokens ----

TEST_F(RegionTest, a_repeated_create_makes_no_second_volume) {
  const auto first = volume("&ClientToken=t1");
  region.advance_by(2s);
  const auto reply =
      call("Action=CreateVolume&ClientToken=t1&AvailabilityZone=us-east-1a&SnapshotId=" +
           std::string(kSnapshot));
  EXPECT_EQ(element(reply.body, "volumeId"), first);
  EXPECT_EQ(element(reply.body, "status"), "available") << "the answer shows today's state";
  EXPECT_EQ(
      code("Action=CreateVolume&ClientToken=t1&AvailabilityZone=us-east-1a&Size=9&SnapshotId=" +
           std::string(kSnapshot)),
      "IdempotentParameterMismatch");
  EXPECT_EQ(region.volumes().size(), 1U);
  EXPECT_EQ(code("Action=DeleteVolume&VolumeId=" + first), "");
  region.advance_by(2s);
  EXPECT_EQ(code("Action=CreateVolume&ClientToken=t1&AvailabilityZone=us-east-1a&SnapshotId=" +
                 std::string(kSnapshot)),
            "IdempotentParameterMismatch")
      << "the token is burned";
  region.advance_by(12h);
  EXPECT_NE(volume("&ClientToken=t1"), first) << "and forgotten after its life";
}

TEST_F(RegionTest, the_volume_limit_is_looked_at_before_the_token) {
  volume("&ClientToken=t1");
  region.knobs.volume_limit = 1;
  EXPECT_EQ(code("Action=CreateVolume&ClientToken=t1&AvailabilityZone=us-east-1a&SnapshotId=" +
                 std::string(kSnapshot)),
            "VolumeLimitExceeded");
}

TEST_F(RegionTest, a_launch_token_counts_in_its_zone) {
  const std::string in_a = "&ClientToken=t&SubnetId=subnet-01000000000000001";
  const std::string in_b = "&ClientToken=t&SubnetId=subnet-02000000000000002";
  const auto first = instance(in_a);
  EXPECT_EQ(instance(in_a), first);
  EXPECT_NE(instance(in_b), first) << "the same token launches once per zone";
  EXPECT_EQ(launch(in_a + "&KeyName=operator").code, "IdempotentParameterMismatch");
  EXPECT_EQ(code("Action=TerminateInstances&InstanceId.1=" + first), "");
  region.advance_by(1min);
  EXPECT_EQ(launch(in_a).code, "IdempotentInstanceTerminated");
}

// ---- the protocol ----

TEST_F(RegionTest, what_is_unknown_is_never_ignored) {
  EXPECT_EQ(code("Action=DescribeVolumes&Colour=red"), "UnknownParameter");
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId=vol-00000000000000000"), "UnknownParameter")
      << "a list without its index";
  EXPECT_EQ(code("Action=DescribeVolumes&Filter.1.Values.1=a"), "UnknownParameter");
  EXPECT_EQ(code("Action=DescribeAvailabilityZones&MaxResults=5"), "UnknownParameter");
  EXPECT_EQ(code("Action=MakeCoffee"), "InvalidAction");
  EXPECT_EQ(front.answer("Action=DescribeVolumes&Version=2006-01-01").code, "NoSuchVersion");
  EXPECT_EQ(front.answer("Action=DescribeVolumes").code, "MissingParameter");
  EXPECT_EQ(front.answer("Version=2016-11-15").code, "MissingAction");
  EXPECT_EQ(code("Action=DescribeVolumes&X=%zz"), "MalformedQueryString");
  EXPECT_EQ(code("Action=DetachVolume"), "MissingParameter");
}

TEST_F(RegionTest, a_dry_run_changes_nothing) {
  const auto reply = call("Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1&DryRun=true");
  EXPECT_EQ(reply.status, 412);
  EXPECT_EQ(reply.code, "DryRunOperation");
  EXPECT_TRUE(region.volumes().empty());
}

TEST_F(RegionTest, an_error_is_ec2s_document) {
  const auto reply = call("Action=DescribeVolumes&VolumeId.1=vol-00000000000000000");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(element(reply.body, "Code"), "InvalidVolume.NotFound");
  EXPECT_EQ(element(reply.body, "Message"), "The volume 'vol-00000000000000000' does not exist.");
  EXPECT_EQ(element(reply.body, "RequestID"), reply.request_id);
}

TEST_F(RegionTest, form_bodies_are_decoded_as_browsers_write_them) {
  const auto id = volume(
      "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a+b"
      "&TagSpecification.1.Tag.1.Value=%C3%A9%20%26%3C");
  EXPECT_EQ(region.volume(id)->tags.at("a b"), "\xC3\xA9 &<");
  EXPECT_THAT(call("Action=DescribeVolumes").body, HasSubstr("\xC3\xA9 &amp;&lt;"));
}

TEST_F(RegionTest, pages_add_up_without_gaps_or_repeats) {
  std::set<std::string> made, seen;
  for (int i = 0; i < 13; ++i) made.insert(volume());
  std::string token;
  int pages = 0;
  do {
    const auto body =
        call("Action=DescribeVolumes&MaxResults=5" + (token.empty() ? "" : "&NextToken=" + token))
            .body;
    for (auto at = body.find("<volumeId>"); at != std::string::npos;
         at = body.find("<volumeId>", at + 1))
      EXPECT_TRUE(seen.insert(element(body, "volumeId", at)).second);
    token = element(body, "nextToken");
    for (auto at = token.find('='); at != std::string::npos; at = token.find('='))
      token.replace(at, 1, "%3D");
    // A deletion between pages must not shift the rest.
    if (++pages == 1) region.advance_by(2s);
  } while (!token.empty());
  EXPECT_EQ(seen, made);
  EXPECT_EQ(pages, 3);
}

TEST_F(RegionTest, pages_follow_ec2s_rules) {
  const auto id = volume();
  EXPECT_EQ(code("Action=DescribeVolumes&MaxResults=4"), "InvalidParameterValue");
  EXPECT_EQ(code("Action=DescribeVolumes&MaxResults=5000"), "") << "clamped, not refused";
  EXPECT_EQ(code("Action=DescribeVolumes&MaxResults=5&VolumeId.1=" + id),
            "InvalidParameterCombination");
  EXPECT_EQ(code("Action=DescribeVolumes&NextToken=bogus"), "InvalidNextToken");
  region.knobs.empty_first_page = true;
  const auto empty = call("Action=DescribeVolumes").body;
  EXPECT_THAT(empty, AllOf(HasSubstr("<nextToken>"), Not(HasSubstr(id))));
}

TEST_F(RegionTest, one_unknown_id_fails_a_whole_listing_but_a_filter_does_not) {
  const auto id = volume();
  const std::string unknown = "vol-00000000000000000";
  EXPECT_EQ(code("Action=DescribeVolumes&VolumeId.1=" + id + "&VolumeId.2=" + unknown),
            "InvalidVolume.NotFound");
  const auto body = call("Action=DescribeVolumes&Filter.1.Name=volume-id&Filter.1.Value.1=" + id +
                         "&Filter.1.Value.2=" + unknown)
                        .body;
  EXPECT_EQ(count_of(body, "<volumeId>"), 1);
}

TEST_F(RegionTest, filters_and_their_wildcards) {
  const auto tag = [](const std::string& key, const std::string& value) {
    return "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=" + key +
           "&TagSpecification.1.Tag.1.Value=" + value;
  };
  const auto one = volume(tag("pool", "imagenet"));
  const auto two = volume(tag("pool", "coco"));
  volume();
  const auto found = [&](const std::string& filters) {
    return count_of(call("Action=DescribeVolumes" + filters).body, "<volumeId>");
  };
  const std::string pool = "&Filter.1.Name=tag:pool&Filter.1.Value.1=";
  EXPECT_EQ(found(pool + "imagenet"), 1);
  EXPECT_EQ(found(pool + "image*"), 1);
  EXPECT_EQ(found(pool + "c?co"), 1);
  EXPECT_EQ(found(pool + "*"), 2) << "the untagged volume has no value at all";
  EXPECT_EQ(found(pool + "Imagenet"), 0);
  EXPECT_EQ(found(pool + "imagenet&Filter.1.Value.2=coco"), 2) << "values are OR-ed";
  EXPECT_EQ(found(pool + "*&Filter.2.Name=volume-id&Filter.2.Value.1=" + one), 1)
      << "names are AND-ed";
  EXPECT_EQ(found("&Filter.1.Name=tag-key&Filter.1.Value.1=pool"), 2);
  EXPECT_EQ(found("&Filter.1.Name=status&Filter.1.Value.1=available"), 0);
  EXPECT_EQ(code("Action=DescribeVolumes&Filter.1.Name=colour&Filter.1.Value.1=red"),
            "InvalidParameterValue");
  std::string many = "Action=DescribeVolumes&Filter.1.Name=volume-id";
  for (int i = 1; i <= 201; ++i) many += "&Filter.1.Value." + std::to_string(i) + "=x";
  EXPECT_EQ(code(many), "FilterLimitExceeded");
}

TEST(WildcardMatch, knows_stars_question_marks_and_backslashes) {
  EXPECT_TRUE(wildcard_match("*", ""));
  EXPECT_TRUE(wildcard_match("a*c*e", "abcde"));
  EXPECT_FALSE(wildcard_match("a*c*e", "abcd"));
  EXPECT_TRUE(wildcard_match("a?c", "abc"));
  EXPECT_FALSE(wildcard_match("a?c", "ac"));
  EXPECT_TRUE(wildcard_match("a\\*c", "a*c"));
  EXPECT_FALSE(wildcard_match("a\\*c", "abc"));
}

TEST_F(RegionTest, other_listings_answer_their_filters) {
  const auto count = [&](const std::string& form, const std::string& part) {
    return count_of(call("Action=" + form).body, part);
  };
  EXPECT_EQ(count("DescribeSnapshots", "<snapshotId>"), 3) << "not the unreadable one";
  EXPECT_EQ(code("Action=DescribeSnapshots&SnapshotId.1=" + std::string(kUnreadable)),
            "InvalidSnapshot.NotFound");
  EXPECT_EQ(count("DescribeImages&Filter.1.Name=architecture&Filter.1.Value.1=arm64", kArm), 1);
  EXPECT_EQ(count("DescribeImages&Owner.1=self", "<imageId>"), 3);
  EXPECT_EQ(code("Action=DescribeImages&ImageId.1=ami-00000000000000000"), "InvalidAMIID.NotFound");
  EXPECT_EQ(count("DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1=us-east-1b",
                  "<subnetId>"),
            1);
  EXPECT_EQ(count("DescribeAvailabilityZones", "<zoneName>"), 2);
  EXPECT_EQ(count("DescribeSpotPriceHistory&InstanceType.1=g5.xlarge&AvailabilityZone=us-east-1a",
                  "<spotPrice>"),
            1);
  EXPECT_EQ(code("Action=DescribeSpotPriceHistory&StartTime=yesterday"), "InvalidParameterValue");
}

TEST_F(RegionTest, instances_are_found_by_what_is_true_of_them_now) {
  const auto spot = spot_instance("&ClientToken=c1");
  const auto other = instance();
  const auto found = [&](const std::string& name, const std::string& value) {
    return count_of(
        call("Action=DescribeInstances&Filter.1.Name=" + name + "&Filter.1.Value.1=" + value).body,
        "<instanceId>");
  };
  EXPECT_EQ(found("instance-state-name", "pending"), 2);
  EXPECT_EQ(found("instance-lifecycle", "spot"), 1);
  EXPECT_EQ(found("client-token", "c1"), 1);
  EXPECT_EQ(found("block-device-mapping.volume-id", region.instance(spot)->root_volume_id), 1);
  EXPECT_EQ(code("Action=DescribeInstances&Filter.1.Name=mood&Filter.1.Value.1=x"),
            "InvalidParameterValue");
  EXPECT_EQ(count_of(call("Action=DescribeInstanceStatus").body, "<instanceStatus>"), 0)
      << "running ones only";
  EXPECT_EQ(
      count_of(call("Action=DescribeInstanceStatus&IncludeAllInstances=true").body, "<instanceId>"),
      2);
  (void)other;
}

TEST_F(RegionTest, tags_of_a_call_are_set_on_all_resources_or_on_none) {
  const auto disk = volume();
  const std::string tag = "&Tag.1.Key=owner&Tag.1.Value=me";
  EXPECT_EQ(
      code("Action=CreateTags&ResourceId.1=" + disk + "&ResourceId.2=vol-00000000000000000" + tag),
      "InvalidVolume.NotFound");
  EXPECT_TRUE(region.volume(disk)->tags.empty());
  EXPECT_EQ(code("Action=CreateTags&ResourceId.1=" + disk + tag), "");
  EXPECT_EQ(
      count_of(call("Action=DescribeTags&Filter.1.Name=value&Filter.1.Value.1=me").body, "<item>"),
      1);
  EXPECT_EQ(code("Action=DeleteTags&ResourceId.1=" + disk + "&Tag.1.Key=owner&Tag.1.Value=you"),
            "");
  EXPECT_EQ(region.volume(disk)->tags.size(), 1U) << "another value is not deleted";
  EXPECT_EQ(code("Action=DeleteTags&ResourceId.1=" + disk + "&Tag.1.Key=owner"), "");
  EXPECT_TRUE(region.volume(disk)->tags.empty());
  std::string many = "Action=CreateTags&ResourceId.1=" + disk;
  for (int i = 1; i <= 51; ++i) many += "&Tag." + std::to_string(i) + ".Key=k" + std::to_string(i);
  EXPECT_EQ(code(many), "TagLimitExceeded");
}

TEST_F(RegionTest, volume_tags_of_a_launch_go_to_the_root_too) {
  const auto guest = instance(
      "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a"
      "&TagSpecification.1.Tag.1.Value=b");
  EXPECT_EQ(region.volume(region.instance(guest)->root_volume_id)->tags.at("a"), "b");
  EXPECT_TRUE(region.instance(guest)->tags.empty());
}

// ---- knobs ----

TEST_F(RegionTest, new_resources_can_be_invisible_for_a_while) {
  RegionTimes times;
  times.visibility = 3s;
  NoHardware none;
  Region slow(builtin_catalog("us-east-1", {"us-east-1a"}), times, none, start_time());
  QueryFront slow_front(slow);
  const auto ask = [&](const std::string& form) {
    return slow_front.answer(form + "&Version=2016-11-15");
  };
  const auto id =
      element(ask("Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1").body, "volumeId");
  EXPECT_EQ(ask("Action=DescribeVolumes&VolumeId.1=" + id).code, "InvalidVolume.NotFound");
  EXPECT_THAT(ask("Action=DescribeVolumes").body, Not(HasSubstr(id)));
  slow.advance_by(3s);
  EXPECT_EQ(ask("Action=DescribeVolumes&VolumeId.1=" + id).code, "");
}

TEST_F(RegionTest, an_attach_can_be_made_to_stick) {
  const auto disk = volume();
  const auto guest = spot_instance();
  region.advance_by(10s);
  region.knobs.stuck_attaches = 1;
  EXPECT_EQ(code(attach_form(disk, guest)), "");
  region.advance_by(10min);
  EXPECT_EQ(link_state(disk), "attaching");
  EXPECT_EQ(code(detach_form(disk, guest)), "");
  region.advance_by(5s);
  EXPECT_EQ(disk_state(disk), "available");
  region.knobs.reused_device_sticks = true;
  EXPECT_EQ(code(attach_form(disk, guest)), "");
  region.advance_by(1min);
  EXPECT_EQ(link_state(disk), "attaching") << "the same name again";
}

TEST_F(RegionTest, members_can_come_in_any_order_and_empty_lists_be_absent) {
  const auto guest = instance();
  const std::string form = "Action=DescribeInstances&InstanceId.1=" + guest;
  const auto usual = call(form).body;
  front.set_shape({XmlShape::EmptyLists::as_usual, 7});
  const auto once = call(form).body, twice = call(form).body;
  EXPECT_NE(once, twice) << "each answer has its own order";
  EXPECT_EQ(once.size(), usual.size()) << "and nothing is lost";
  EXPECT_EQ(element(once, "instanceId"), guest);
  EXPECT_THAT(usual, HasSubstr("<networkInterfaceSet/>"));
  front.set_shape({XmlShape::EmptyLists::left_out, 0});
  EXPECT_THAT(call(form).body, Not(HasSubstr("<networkInterfaceSet")));
  EXPECT_THAT(call("Action=DescribeVolumes&Filter.1.Name=size&Filter.1.Value.1=77").body,
              Not(HasSubstr("volumeSet")));
  front.set_shape({XmlShape::EmptyLists::written, 0});
  EXPECT_THAT(call(form).body, HasSubstr("<tagSet/>"));
}

TEST_F(RegionTest, the_throttle_has_ec2s_buckets) {
  front.set_throttle_scale(1);
  region.knobs.capacity.clear();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(launch().code, "");
  const auto reply = launch();
  EXPECT_EQ(reply.code, "RequestLimitExceeded");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(code("Action=DescribeVolumes"), "") << "each action has its own";
  region.advance_by(1s);
  EXPECT_EQ(launch().code, "");
  EXPECT_EQ(launch().code, "");
  EXPECT_EQ(launch().code, "RequestLimitExceeded");
}

TEST_F(RegionTest, faults_hit_the_calls_that_they_name) {
  RegionTransport transport(front);
  const std::string create =
      "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1&Version=2016-11-15&ClientToken=";
  const auto post = [&](const std::string& token) {
    const std::string bodies[] = {create + token};
    return transport.post(bodies).front();
  };
  front.inject({"CreateVolume", FaultKind::lost_after});
  EXPECT_EQ(post("a").error().kind, ErrorKind::unknown_outcome);
  EXPECT_EQ(region.volumes().size(), 1U) << "it happened";
  front.inject({"CreateVolume", FaultKind::lost_before});
  EXPECT_EQ(post("b").error().kind, ErrorKind::unknown_outcome);
  front.inject({"*", FaultKind::unreachable});
  EXPECT_EQ(post("c").error().kind, ErrorKind::retry_later);
  EXPECT_EQ(region.volumes().size(), 1U) << "these did not";
  front.inject({"CreateVolume", FaultKind::throttled, 2, 1});
  EXPECT_EQ(post("d")->status, 200);
  EXPECT_EQ(post("e")->status, 503);
  EXPECT_EQ(post("e")->status, 503);
  EXPECT_EQ(post("e")->status, 200);
  front.inject({"CreateVolume", FaultKind::html});
  EXPECT_THAT(post("f")->body, HasSubstr("<html>"));
  front.inject({"CreateVolume", FaultKind::truncated});
  EXPECT_THAT(post("g")->body, Not(HasSubstr("</CreateVolumeResponse>")));
  EXPECT_EQ(front.calls().back().action, "CreateVolume");
  EXPECT_TRUE(front.calls().back().effective);
}

TEST_F(RegionTest, jitter_moves_the_waiting_times_within_its_share) {
  RegionTimes times;
  times.jitter = 0.5;
  NoHardware none;
  Region moved(builtin_catalog("us-east-1", {"us-east-1a"}), times, none, start_time(), 7);
  CreateVolumeArgs args;
  args.zone = "us-east-1a";
  args.size_gib = 1;
  std::set<std::string> early;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(moved.create_volume(args));
  const auto available = [&] {
    return std::count_if(moved.volumes().begin(), moved.volumes().end(), [](const auto& entry) {
      return entry.second.state == DiskState::available;
    });
  };
  moved.advance_by(749ms);
  EXPECT_EQ(available(), 0);
  moved.advance_by(751ms);
  EXPECT_GT(available(), 5);
  EXPECT_LT(available(), 45);
  moved.advance_by(751ms);
  EXPECT_EQ(available(), 50);
}

}  // namespace
