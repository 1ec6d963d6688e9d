// What warmroot needs of EC2, as its real client sees it, by three doors: the simulated region in
// one process under virtual time, the same over signed HTTP in real time, and a second emulation
// that others wrote, moto_server, where one runs (WARMROOT_MOTO, its endpoint;
// moto_contract_test.py starts one). Where moto answers otherwise a case says how, and who is
// right.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <cstdlib>

#include "manager/aws/paging.hpp"
#include "tests/region_doors.hpp"

namespace warmroot {

/// What an EC2 has before anybody asks it for anything.
struct Births {
  std::string base_ami, root_device, snapshot;
  int snapshot_gib = 0;
  std::string subnet_a, subnet_b;  ///< in us-east-1a and us-east-1b
};

inline Births births_of_the_region() {
  return {kBase, "/dev/xvda", kSnapshot, 8, "subnet-01000000000000001", "subnet-02000000000000002"};
}

class OverMoto : public Ec2Door {
 public:
  explicit OverMoto(const std::string& endpoint) : transport_(transport_to(endpoint, "any")) {
    httplib::Client admin(endpoint);
    EXPECT_TRUE(admin.Post("/moto-api/reset", "", "text/plain")) << "moto at " << endpoint;
  }
  aws::Ec2& ec2() override { return client_; }
  void pass(Milliseconds time) override { std::this_thread::sleep_for(time); }

  /// Of its images the first by id whose root is as the region's.
  Births births() {
    Births births;
    births.root_device = "/dev/xvda";
    aws::DescribeRequest request = by_filter("architecture", "x86_64");
    const auto images = aws::collect_all(client_, &aws::Ec2::describe_images, request);
    EXPECT_TRUE(images) << images.error().message();
    for (const aws::Image& image : images.value_or(std::vector<aws::Image>{})) {
      const bool fits = image.root_device_name == births.root_device && !image.mappings.empty();
      if (!fits || (!births.base_ami.empty() && births.base_ami < image.image_id)) continue;
      births.base_ami = image.image_id;
      births.snapshot = image.mappings.front().snapshot_id;
    }
    const auto snapshots = client_.describe_snapshots(by_id(births.snapshot));
    EXPECT_TRUE(snapshots) << snapshots.error().message();
    if (snapshots && !snapshots->items.empty())
      births.snapshot_gib = snapshots->items.front().volume_size_gib;
    births.subnet_a = subnet_in("us-east-1a");
    births.subnet_b = subnet_in("us-east-1b");
    return births;
  }

 private:
  std::string subnet_in(const std::string& zone) {
    const auto subnets = client_.describe_subnets(by_filter("availability-zone", zone));
    EXPECT_TRUE(subnets) << subnets.error().message();
    return subnets && !subnets->items.empty() ? subnets->items.front().subnet_id : "";
  }

  aws::HttpTransport transport_;
  aws::Ec2Client client_{transport_, [](Milliseconds time) { std::this_thread::sleep_for(time); },
                         [] { return 0.5; }};
};

/// The doors that there are here.
inline std::vector<std::string> all_doors() {
  std::vector<std::string> doors{"in_process", "http"};
  if (std::getenv("WARMROOT_MOTO")) doors.push_back("moto");
  return doors;
}

inline std::string door_name(const testing::TestParamInfo<std::string>& door) {
  return door.param;
}

class Contract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "moto") {
      auto moto = std::make_unique<OverMoto>(std::getenv("WARMROOT_MOTO"));
      births = moto->births();
      any = std::move(moto);
      return;
    }
    std::unique_ptr<Door> ours;
    if (GetParam() == "http")
      ours = std::make_unique<OverHttp>();
    else
      ours = std::make_unique<InProcess>();
    door = ours.get();
    any = std::move(ours);
    births = births_of_the_region();
  }

  bool is_moto() const { return GetParam() == "moto"; }
  /// What is expected of EC2, and of moto, which answers `moto` and is wrong, because `why`. The
  /// sentence is printed: the list of differences is this test's output.
  template <typename T>
  T differs(T ec2, T moto, const char* why) const {
    if (!is_moto()) return ec2;
    std::printf("moto differs: %s\n", why);
    return moto;
  }

  std::string refusal(const char* ec2, const char* moto, const char* why) const {
    return differs<std::string>(ec2, moto, why);
  }

  aws::Ec2& ec2() { return any->ec2(); }
  Result<aws::MutationAnswer> send(const aws::Mutation& mutation) {
    const aws::EncodedCall call = aws::encode(mutation);
    return ec2().send(std::span(&call, 1)).front();
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

  aws::CreateVolume volume_request(const std::string& token) {
    aws::CreateVolume request;
    request.availability_zone = kZone;
    request.snapshot_id = births.snapshot;
    request.client_token = token;
    request.tags = {{"warmroot:deployment", "test"}, {"warmroot:node", "n <&> 0"}};
    return request;
  }
  aws::RunInstances launch_request(const std::string& token) {
    aws::RunInstances request;
    request.image_id = births.base_ami;
    request.instance_type = "g5.12xlarge";
    request.subnet_id = births.subnet_a;
    request.user_data = std::string("#!/bin/sh\n\0bytes", 16);
    request.client_token = token;
    request.instance_tags = {{"warmroot:deployment", "test"}};
    return request;
  }
  std::string create(const std::string& token = "v") {
    return sent<aws::Volume>(volume_request(token)).volume_id;
  }
  std::string launch(const std::string& token = "i") {
    const auto made = sent<std::vector<aws::Instance>>(launch_request(token));
    return made.empty() ? "" : made.front().instance_id;
  }

  std::optional<aws::Volume> volume(const std::string& id) {
    const auto found = ec2().describe_volumes(by_filter("volume-id", id));
    EXPECT_TRUE(found) << found.error().message();
    if (!found || found->items.empty()) return std::nullopt;
    return found->items.front();
  }
  std::optional<aws::Instance> instance(const std::string& id) {
    const auto found = ec2().describe_instances(by_filter("instance-id", id));
    EXPECT_TRUE(found) << found.error().message();
    if (!found || found->items.empty()) return std::nullopt;
    return found->items.front();
  }
  /// Passes time until `reached`; false when it never was.
  bool eventually(const std::function<bool()>& reached) {
    for (int step = 0; step < kMostSteps; ++step) {
      if (reached()) return true;
      any->pass(kStep);
    }
    return false;
  }
  bool becomes(const std::string& id, aws::VolumeState state) {
    return eventually([&] { return volume(id) && volume(id)->state == state; });
  }
  bool becomes(const std::string& id, aws::InstanceState state) {
    return eventually([&] { return instance(id) && instance(id)->state == state; });
  }
  bool is_attached(const std::string& id) {
    return eventually([&] {
      const auto shown = volume(id);
      return shown && !shown->attachments.empty() &&
             shown->attachments.front().state == aws::AttachmentState::attached;
    });
  }

  Births births;
  std::unique_ptr<Ec2Door> any;
  Door* door = nullptr;  ///< the region's; nullptr for moto
};

/// Cases that change or look into the region itself.
class RegionContract : public Contract {};

}  // namespace warmroot
