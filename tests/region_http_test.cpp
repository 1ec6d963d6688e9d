// The region's contract as the real EC2 client sees it, by both doors: what holds in one process
// under virtual time has to hold over signed HTTP in real time. What only HTTP has is
// region_server_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/paging.hpp"
#include "tests/region_doors.hpp"

using namespace warmroot;
using aws::AttachmentState;
using aws::InstanceState;
using aws::VolumeState;
using testing::HasSubstr;

namespace {

class Contract : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "http")
      door = std::make_unique<OverHttp>();
    else
      door = std::make_unique<InProcess>();
  }

  Result<aws::MutationAnswer> send(const aws::Mutation& mutation) {
    const aws::EncodedCall call = aws::encode(mutation);
    return door->ec2().send(std::span(&call, 1)).front();
  }
  std::string code(const aws::Mutation& mutation) {
    const auto answer = send(mutation);
    return answer ? "" : answer.error().code;
  }

  aws::CreateVolume volume_request(const std::string& token) {
    aws::CreateVolume request;
    request.availability_zone = kZone;
    request.snapshot_id = kSnapshot;
    request.client_token = token;
    request.tags = {{"warmroot:deployment", "test"}, {"warmroot:node", "n <&> 0"}};
    return request;
  }
  aws::RunInstances launch_request(const std::string& token) {
    aws::RunInstances request;
    request.image_id = kBase;
    request.instance_type = "g5.12xlarge";
    request.subnet_id = "subnet-01000000000000001";
    request.user_data = std::string("#!/bin/sh\n\0bytes", 16);
    request.client_token = token;
    request.instance_tags = {{"warmroot:deployment", "test"}};
    return request;
  }
  std::string create(const std::string& token = "v") {
    const auto made = send(volume_request(token));
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::get<aws::Volume>(*made).volume_id : "";
  }
  std::string launch(const std::string& token = "i") {
    const auto made = send(launch_request(token));
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::get<std::vector<aws::Instance>>(*made).front().instance_id : "";
  }

  std::optional<aws::Volume> volume(const std::string& id) {
    const auto found = door->ec2().describe_volumes(by_filter("volume-id", id));
    EXPECT_TRUE(found) << found.error().message();
    if (!found || found->items.empty()) return std::nullopt;
    return found->items.front();
  }
  std::optional<aws::Instance> instance(const std::string& id) {
    const auto found = door->ec2().describe_instances(by_filter("instance-id", id));
    EXPECT_TRUE(found) << found.error().message();
    if (!found || found->items.empty()) return std::nullopt;
    return found->items.front();
  }
  /// Passes time until `reached`; false when it never was.
  bool eventually(const std::function<bool()>& reached) {
    for (int step = 0; step < kMostSteps; ++step) {
      if (reached()) return true;
      door->pass(kStep);
    }
    return false;
  }
  bool becomes(const std::string& id, VolumeState state) {
    return eventually([&] { return volume(id) && volume(id)->state == state; });
  }
  bool becomes(const std::string& id, InstanceState state) {
    return eventually([&] { return instance(id) && instance(id)->state == state; });
  }

  std::unique_ptr<Door> door;
};

INSTANTIATE_TEST_SUITE_P(Doors, Contract, testing::Values("in_process", "http"),
                         [](const auto& door) { return std::string(door.param); });

TEST_P(Contract, a_volume_is_made_as_asked) {
  const auto made = send(volume_request("v"));
  ASSERT_TRUE(made) << made.error().message();
  const auto& answer = std::get<aws::Volume>(*made);
  EXPECT_EQ(answer.state, VolumeState::creating);
  ASSERT_TRUE(becomes(answer.volume_id, VolumeState::available));
  const auto shown = *volume(answer.volume_id);
  EXPECT_EQ(shown.snapshot_id, kSnapshot);
  EXPECT_EQ(shown.availability_zone, kZone);
  EXPECT_EQ(shown.volume_type, "gp3");
  EXPECT_EQ(shown.size_gib, 8);
  EXPECT_EQ(shown.iops, 3000);
  EXPECT_EQ(shown.throughput_mib_s, 125);
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
  EXPECT_EQ(shown.image_id, kBase);
  EXPECT_EQ(shown.instance_type, "g5.12xlarge");
  EXPECT_EQ(shown.availability_zone, kZone);
  EXPECT_EQ(shown.client_token, "i");
  EXPECT_EQ(shown.root_device_name, "/dev/xvda");
  EXPECT_EQ(shown.tags.at("warmroot:deployment"), "test");
  ASSERT_EQ(shown.block_devices.size(), 1U) << "its root";
  EXPECT_EQ(shown.block_devices.front().state, AttachmentState::attached);
  EXPECT_TRUE(shown.block_devices.front().delete_on_termination);
  door->with([&](sim::Region& region, sim::QueryFront&) {
    const auto* guest = region.instance(answer.instance_id);
    EXPECT_EQ(guest->user_data, std::string("#!/bin/sh\n\0bytes", 16)) << "byte for byte";
    EXPECT_TRUE(guest->metadata_tags);
    EXPECT_TRUE(guest->terminate_on_shutdown);
  });
  const auto status = door->ec2().describe_instance_status(by_id(answer.instance_id));
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(status->items.front().system_status, "ok");
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
  ASSERT_TRUE(send(aws::DetachVolume{disk, first}));
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
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "IncorrectState");
  EXPECT_FALSE(refused.error().request_id.empty());
  EXPECT_THAT(refused.error().message(), HasSubstr(disk));
}

TEST_P(Contract, refusals_arrive_with_ec2s_code) {
  const auto disk = create(), other = create("other");
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, InstanceState::running));
  ASSERT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  EXPECT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdg"}), "VolumeInUse");
  EXPECT_EQ(code(aws::AttachVolume{other, guest, "/dev/sdf"}), "InvalidParameterValue");
  EXPECT_EQ(code(aws::DeleteVolume{disk}), "VolumeInUse");
  EXPECT_EQ(code(aws::DetachVolume{other, guest}), "IncorrectState");
  EXPECT_EQ(code(aws::DeleteVolume{"vol-00000000000000000"}), "InvalidVolume.NotFound");
  EXPECT_EQ(code(aws::TerminateInstances{{"i-00000000000000000"}}), "InvalidInstanceID.NotFound");
  auto launch_elsewhere = launch_request("elsewhere");
  launch_elsewhere.image_id = "ami-00000000000000000";
  EXPECT_EQ(code(launch_elsewhere), "InvalidAMIID.NotFound");
  auto unreadable = volume_request("unreadable");
  unreadable.snapshot_id = "snap-04000000000000004";
  EXPECT_EQ(code(unreadable), "InvalidSnapshot.NotFound");
  auto wrong_zone = volume_request("zone");
  wrong_zone.availability_zone = "us-east-1b";
  const auto made = send(wrong_zone);
  ASSERT_TRUE(made);
  const auto away = std::get<aws::Volume>(*made).volume_id;
  ASSERT_TRUE(becomes(away, VolumeState::available));
  EXPECT_EQ(code(aws::AttachVolume{away, guest, "/dev/sdh"}), "InvalidVolume.ZoneMismatch");
}

TEST_P(Contract, the_same_bytes_again_make_nothing_new) {
  const auto disk = create("same");
  EXPECT_EQ(create("same"), disk);
  const auto guest = launch("same");
  EXPECT_EQ(launch("same"), guest);
  auto other = volume_request("same");
  other.size_gib = 20;
  EXPECT_EQ(code(other), "IdempotentParameterMismatch");
}

TEST_P(Contract, a_busy_volume_leaves_when_the_guest_lets_go) {
  const auto disk = create();
  const auto guest = launch();
  ASSERT_TRUE(becomes(guest, InstanceState::running));
  ASSERT_EQ(code(aws::AttachVolume{disk, guest, "/dev/sdf"}), "");
  ASSERT_TRUE(eventually(
      [&] { return volume(disk)->attachments.front().state == AttachmentState::attached; }));
  door->with([&](sim::Region&, sim::QueryFront&) { door->hardware.mounted_volumes.insert(disk); });
  ASSERT_EQ(code(aws::DetachVolume{disk, guest}), "");
  ASSERT_TRUE(
      eventually([&] { return volume(disk)->attachments.front().state == AttachmentState::busy; }));
  door->with([&](sim::Region&, sim::QueryFront&) { door->hardware.mounted_volumes.clear(); });
  EXPECT_TRUE(becomes(disk, VolumeState::available));
}

TEST_P(Contract, an_interrupted_instance_gives_its_volume_back_once_terminated) {
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

TEST_P(Contract, listings_are_read_to_their_end) {
  for (int number = 0; number < 7; ++number) create("v" + std::to_string(number));
  door->with([](sim::Region& region, sim::QueryFront&) {
    region.knobs.page_cap = 3;
    region.knobs.empty_first_page = true;
  });
  const auto all =
      aws::collect_all(door->ec2(), &aws::Ec2::describe_volumes, aws::DescribeRequest{});
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->size(), 7U);
}

TEST_P(Contract, what_the_region_was_born_with_is_listed) {
  auto& ec2 = door->ec2();
  const auto images = ec2.describe_images(by_id("ami-01000000000000001"));
  ASSERT_TRUE(images) << images.error().message();
  EXPECT_EQ(images->items.front().mappings.front().snapshot_id, kSnapshot);
  EXPECT_EQ(images->items.front().architecture, "x86_64");
  const auto snapshots = ec2.describe_snapshots(by_id(kSnapshot));
  ASSERT_TRUE(snapshots) << snapshots.error().message();
  EXPECT_EQ(snapshots->items.front().volume_size_gib, 8);
  const auto zones = ec2.describe_availability_zones();
  ASSERT_TRUE(zones) << zones.error().message();
  EXPECT_EQ(zones->size(), 2U);
  const auto subnets = ec2.describe_subnets(by_id("subnet-02000000000000002"));
  ASSERT_TRUE(subnets) << subnets.error().message();
  EXPECT_EQ(subnets->items.front().availability_zone, "us-east-1b");
  EXPECT_GT(subnets->items.front().available_addresses, 1000);
  aws::DescribeSpotPrices asked;
  asked.instance_types = {"g5.12xlarge"};
  asked.availability_zone = kZone;
  asked.start_time = wall_clock();
  const auto prices = ec2.describe_spot_price_history(asked);
  ASSERT_TRUE(prices) << prices.error().message();
  ASSERT_EQ(prices->items.size(), 1U);
  EXPECT_GT(std::stod(prices->items.front().price_usd_hour), 0);
}

TEST_P(Contract, tags_are_changed) {
  const auto disk = create();
  EXPECT_EQ(code(aws::CreateTags{{disk}, {{"warmroot:quarantined", "yes"}}}), "");
  EXPECT_EQ(volume(disk)->tags.at("warmroot:quarantined"), "yes");
  const auto found = door->ec2().describe_volumes(by_filter("tag:warmroot:quarantined", "*"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->items.size(), 1U);
  EXPECT_EQ(code(aws::DeleteTags{{disk}, {"warmroot:quarantined"}}), "");
  EXPECT_FALSE(volume(disk)->tags.contains("warmroot:quarantined"));
}

TEST_P(Contract, a_lost_answer_is_an_unknown_outcome_and_the_replay_is_harmless) {
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

TEST_P(Contract,
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
  const auto page = door->ec2().describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::misconfigured) << page.error().message();
}

}  // namespace
