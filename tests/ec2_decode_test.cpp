// Every answer of EC2 from a golden XML file, and every way in which an answer can be none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ec2_answers.hpp"

using namespace warmroot;
using namespace warmroot::aws;
using testing::HasSubstr;

namespace {

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
  EXPECT_EQ(snapshots->items.at(0).full_bytes, std::int64_t{20} << 30);
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
