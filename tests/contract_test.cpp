// The contract (contract.hpp) for volumes, instances and attachments. Launch templates, fleets,
// copies and snapshots have launch_contract_test.cpp; what only HTTP has is
// region_server_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract.hpp"

using namespace warmroot;
using aws::AttachmentState;
using aws::InstanceState;
using aws::VolumeState;
using testing::HasSubstr;

namespace {

INSTANTIATE_TEST_SUITE_P(Doors, Contract, testing::ValuesIn(all_doors()), door_name);
INSTANTIATE_TEST_SUITE_P(Doors, RegionContract, testing::Values("in_process", "http"), door_name);

TEST_P(Contract, a_volume_is_made_as_asked) {
  const auto made = send(volume_request("v"));
  ASSERT_TRUE(made) << made.error().message();
  const auto& answer = std::get<aws::Volume>(*made);
  EXPECT_EQ(answer.state, differs(VolumeState::creating, VolumeState::available,
                                  "a new volume is available at once"));
  ASSERT_TRUE(becomes(answer.volume_id, VolumeState::available));
  const auto shown = *volume(answer.volume_id);
  EXPECT_EQ(shown.snapshot_id, births.snapshot);
  EXPECT_EQ(shown.availability_zone, kZone);
  EXPECT_EQ(shown.volume_type, "gp3");
  EXPECT_EQ(shown.size_gib, births.snapshot_gib);
  EXPECT_EQ(shown.iops, 3000);
  EXPECT_EQ(shown.throughput_mib_s,
            differs(std::optional(125), std::optional<int>(),
                    "a gp3 volume shows no throughput unless one was asked for"));
  EXPECT_EQ(shown.tags.at("warmroot:node"), "n <&> 0");
  EXPECT_TRUE(shown.create_time);
  EXPECT_TRUE(shown.attachments.empty());
}

TEST_P(Contract, an_instance_is_launched_as_asked) {
  const auto made = send(launch_request("i"));
  ASSERT_TRUE(made) << made.error().message();
  const auto& answer = std::get<std::vector<aws::Instance>>(*made).front();
  EXPECT_EQ(answer.state, InstanceState::pending);
  EXPECT_TRUE(answer.spot);
  ASSERT_TRUE(becomes(answer.instance_id, InstanceState::running));
  const auto shown = *instance(answer.instance_id);
  EXPECT_EQ(shown.image_id, births.base_ami);
  EXPECT_EQ(shown.instance_type, "g5.12xlarge");
  EXPECT_EQ(shown.availability_zone, kZone);
  EXPECT_EQ(shown.client_token, "i");
  EXPECT_EQ(shown.root_device_name, births.root_device);
  EXPECT_EQ(shown.tags.at("warmroot:deployment"), "test");
  ASSERT_EQ(shown.block_devices.size(), 1U) << "its root";
  EXPECT_EQ(shown.block_devices.front().state, AttachmentState::attached);
  EXPECT_TRUE(shown.block_devices.front().delete_on_termination);
  const auto status = ec2().describe_instance_status(by_id(answer.instance_id));
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(status->items.front().system_status, "ok");
}

TEST_P(RegionContract, a_guest_gets_its_user_data_byte_for_byte_and_ends_itself) {
  const std::string id = launch();
  door->with([&](sim::Region& region, sim::QueryFront&) {
    const auto* guest = region.instance(id);
    ASSERT_NE(guest, nullptr);
    EXPECT_EQ(guest->user_data, std::string("#!/bin/sh\n\0bytes", 16));
    EXPECT_TRUE(guest->metadata_tags);
    EXPECT_TRUE(guest->terminate_on_shutdown);
  });
}

TEST_P(Contract, several_instances_come_from_one_launch) {
  auto request = launch_request("many");
  request.min_count = request.max_count = 3;
  const auto made = send(request);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(std::get<std::vector<aws::Instance>>(*made).size(), 3U);
}

TEST_P(Contract, a_volume_moves_from_one_instance_to_the_next) {
  const auto disk = create();
  const auto first = launch("first"), second = launch("second");
  ASSERT_TRUE(becomes(disk, VolumeState::available));
  ASSERT_TRUE(becomes(first, InstanceState::running));
  const auto attached = send(aws::AttachVolume{disk, first, "/dev/sdf"});
  ASSERT_TRUE(attached) << attached.error().message();
  EXPECT_EQ(std::get<aws::Attachment>(*attached).state, AttachmentState::attaching);
  ASSERT_TRUE(eventually(
      [&] { return volume(disk)->attachments.front().state == AttachmentState::attached; }));
  const auto shown = volume(disk)->attachments.front();
  EXPECT_EQ(volume(disk)->state, VolumeState::in_use);
  EXPECT_EQ(shown.instance_id, first);
  EXPECT_EQ(shown.device, "/dev/sdf");
  EXPECT_FALSE(shown.delete_on_termination);
  ASSERT_TRUE(send(aws::DetachVolume{disk, first, ""}));
  ASSERT_TRUE(becomes(disk, VolumeState::available));
  EXPECT_TRUE(volume(disk)->attachments.empty());
  ASSERT_TRUE(becomes(second, InstanceState::running));
  ASSERT_TRUE(send(aws::AttachVolume{disk, second, "/dev/sdf"}));
}

TEST_P(Contract, a_pending_instance_takes_no_volume) {
  const auto disk = create();
  ASSERT_TRUE(becomes(disk, VolumeState::available));
  const auto guest = launch();
  const auto refused = send(aws::AttachVolume{disk, guest, "/dev/sdf"});
  ASSERT_EQ(refused.has_value(), differs(false, true, "a pending instance takes volumes"));
  if (refused) return;
  EXPECT_EQ(refused.error().code, "IncorrectState");
  EXPECT_FALSE(refused.error().request_id.empty());
  EXPECT_THAT(refused.error().message(), HasSubstr(disk));
}

TEST_P(Contract, refusals_arrive_with_ec2s_code) {
  const auto disk = create(), other = create("other");
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, InstanceState::running));
  ASSERT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  EXPECT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdg"}),
            refusal("VolumeInUse", "", "a volume in use is attached again"));
  EXPECT_EQ(code(aws::AttachVolume{other, guest, "/dev/sdf"}),
            refusal("InvalidParameterValue", "", "two volumes share one device name"));
  EXPECT_EQ(code(aws::DeleteVolume{disk}), "VolumeInUse");
  EXPECT_EQ(code(aws::DetachVolume{other, guest, ""}),
            refusal("IncorrectState", "", "a volume is detached that was refused before"));
  EXPECT_EQ(code(aws::DeleteVolume{"vol-00000000000000000"}), "InvalidVolume.NotFound");
  EXPECT_EQ(code(aws::TerminateInstances{{"i-00000000000000000"}}), "InvalidInstanceID.NotFound");
  auto launch_elsewhere = launch_request("elsewhere");
  launch_elsewhere.image_id = "ami-00000000000000000";
  EXPECT_EQ(code(launch_elsewhere),
            refusal("InvalidAMIID.NotFound", "", "an AMI that does not exist is launched"));
  auto unreadable = volume_request("unreadable");
  unreadable.snapshot_id = "snap-04000000000000004";
  EXPECT_EQ(code(unreadable), "InvalidSnapshot.NotFound");
  auto wrong_zone = volume_request("zone");
  wrong_zone.availability_zone = "us-east-1b";
  const auto made = send(wrong_zone);
  ASSERT_TRUE(made);
  const auto away = std::get<aws::Volume>(*made).volume_id;
  ASSERT_TRUE(becomes(away, VolumeState::available));
  EXPECT_EQ(code(aws::AttachVolume{away, guest, "/dev/sdh"}),
            refusal("InvalidVolume.ZoneMismatch", "", "a volume attaches across zones"));
}

TEST_P(Contract, the_same_bytes_again_make_nothing_new) {
  const auto disk = create("same");
  EXPECT_EQ(create("same") == disk,
            differs(true, false, "CreateVolume's client token is not heeded"));
  const auto guest = launch("same");
  EXPECT_EQ(launch("same") == guest,
            differs(true, false, "RunInstances' client token is not heeded"));
  auto other = volume_request("same");
  other.size_gib = 20;
  EXPECT_EQ(code(other), refusal("IdempotentParameterMismatch", "",
                                 "a token is taken again for something else"));
}

TEST_P(RegionContract, a_busy_volume_leaves_when_the_guest_lets_go) {
  const auto disk = create();
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, InstanceState::running));
  ASSERT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  ASSERT_TRUE(eventually(
      [&] { return volume(disk)->attachments.front().state == AttachmentState::attached; }));
  door->with([&](sim::Region&, sim::QueryFront&) { door->hardware.mounted_volumes.insert(disk); });
  ASSERT_EQ(code(aws::DetachVolume{disk, guest, ""}), "");
  ASSERT_TRUE(
      eventually([&] { return volume(disk)->attachments.front().state == AttachmentState::busy; }));
  door->with([&](sim::Region&, sim::QueryFront&) { door->hardware.mounted_volumes.clear(); });
  EXPECT_TRUE(becomes(disk, VolumeState::available));
}

TEST_P(RegionContract, an_interrupted_instance_gives_its_volume_back_once_terminated) {
  const auto disk = create();
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, InstanceState::running));
  ASSERT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  door->with([&](sim::Region& region, sim::QueryFront&) { EXPECT_TRUE(region.interrupt(guest)); });
  ASSERT_TRUE(becomes(guest, InstanceState::terminated));
  EXPECT_EQ(instance(guest)->state_reason_code, "Server.SpotInstanceTermination");
  EXPECT_TRUE(becomes(disk, VolumeState::available));
  EXPECT_EQ(code(aws::DeleteVolume{disk}), "");
  EXPECT_TRUE(eventually([&] { return !volume(disk); }));
}

TEST_P(RegionContract, listings_are_read_to_their_end) {
  for (int number = 0; number < 7; ++number) create("v" + std::to_string(number));
  door->with([](sim::Region& region, sim::QueryFront&) {
    region.knobs.page_cap = 3;
    region.knobs.empty_first_page = true;
  });
  const auto all = aws::collect_all(ec2(), &aws::Ec2::describe_volumes, aws::DescribeRequest{});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 7U);
}

TEST_P(Contract, what_was_there_before_is_listed) {
  const auto images = ec2().describe_images(by_id(births.base_ami));
  ASSERT_TRUE(images) << images.error().message();
  EXPECT_FALSE(images->items.front().mappings.front().snapshot_id.empty());
  EXPECT_EQ(images->items.front().architecture, "x86_64");
  const auto snapshots = ec2().describe_snapshots(by_id(births.snapshot));
  ASSERT_TRUE(snapshots) << snapshots.error().message();
  EXPECT_EQ(snapshots->items.front().volume_size_gib, births.snapshot_gib);
  EXPECT_EQ(snapshots->items.front().state, "completed");
  const auto zones = ec2().describe_availability_zones();
  ASSERT_TRUE(zones) << zones.error().message();
  EXPECT_GE(zones->size(), 2U);
  const auto subnets = ec2().describe_subnets(by_id(births.subnet_b));
  ASSERT_TRUE(subnets) << subnets.error().message();
  EXPECT_EQ(subnets->items.front().availability_zone, "us-east-1b");
  EXPECT_GT(subnets->items.front().available_addresses, 1000);
  aws::DescribeSpotPrices asked;
  asked.instance_types = {"g5.12xlarge"};
  asked.availability_zone = kZone;
  asked.start_time = wall_clock();
  const auto prices = ec2().describe_spot_price_history(asked);
  ASSERT_TRUE(prices) << prices.error().message();
  ASSERT_FALSE(prices->items.empty());
  EXPECT_EQ(prices->items.size() == 1,
            differs(true, false, "DescribeSpotPriceHistory does not heed the zone asked for"));
  EXPECT_GT(std::stod(prices->items.front().price_usd_hour), 0);
}

TEST_P(Contract, tags_are_changed) {
  const auto disk = create();
  EXPECT_EQ(code(aws::CreateTags{{disk}, {{"warmroot:quarantined", "yes"}}}), "");
  EXPECT_EQ(volume(disk)->tags.at("warmroot:quarantined"), "yes");
  const auto found = ec2().describe_volumes(by_filter("tag:warmroot:quarantined", "*"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->items.size(), 1U);
  EXPECT_EQ(code(aws::DeleteTags{{disk}, {"warmroot:quarantined"}}), "");
  EXPECT_FALSE(volume(disk)->tags.contains("warmroot:quarantined"));
}

TEST_P(RegionContract, a_lost_answer_is_an_unknown_outcome_and_the_replay_is_harmless) {
  door->with([](sim::Region&, sim::QueryFront& front) {
    front.inject({"CreateVolume", sim::FaultKind::lost_after});
  });
  const auto lost = send(volume_request("lost"));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unknown_outcome);
  const auto disk = create("lost");
  door->with([&](sim::Region& region, sim::QueryFront&) {
    EXPECT_EQ(region.volumes().size(), 1U);
    EXPECT_NE(region.volume(disk), nullptr);
  });
}

TEST_P(RegionContract,
       a_throttled_call_did_nothing_and_may_be_made_again_and_a_page_of_html_is_explained) {
  door->with([](sim::Region&, sim::QueryFront& front) {
    front.inject({"CreateVolume", sim::FaultKind::throttled, 1});
  });
  const auto throttled = send(volume_request("throttled"));
  ASSERT_FALSE(throttled);
  EXPECT_EQ(throttled.error().kind, ErrorKind::retry_later);
  EXPECT_FALSE(create("throttled").empty());
  door->with([](sim::Region&, sim::QueryFront& front) {
    front.inject({"DescribeVolumes", sim::FaultKind::html});
  });
  const auto page = ec2().describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::misconfigured) << page.error().message();
}

}  // namespace
