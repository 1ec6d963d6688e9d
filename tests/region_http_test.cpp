// The region's contract as the real EC2 client sees it, by both doors: in one process under virtual
// time, and over signed HTTP in real time. Below: what only HTTP has, signatures, clocks, the
// operator's control, metadata listeners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "bootstrap/base/http.hpp"
#include "manager/aws/ec2_client.hpp"
#include "manager/aws/http_transport.hpp"
#include "manager/aws/paging.hpp"
#include "tests/sim/region_transport.hpp"
#include "tests/sim/server.hpp"

using namespace warmroot;
using namespace std::chrono_literals;
using aws::AttachmentState;
using aws::InstanceState;
using aws::VolumeState;
using testing::HasSubstr;

namespace {

constexpr char kSnapshot[] = "snap-01000000000000001";
constexpr char kBase[] = "ami-02000000000000002";
constexpr char kZone[] = "us-east-1a";
constexpr Milliseconds kStep{20};
/// A loaded machine may need this long for what takes a few hundred milliseconds.
constexpr int kMostSteps = 1000;

sim::RegionTimes short_times() {
  sim::RegionTimes times;
  times.creating = 100ms;
  // Long enough to be met pending over HTTP on a busy machine.
  times.pending = 1500ms;
  times.attaching = times.detaching = times.deleting = 100ms;
  times.shutting_down = 200ms;
  times.notice = 1000ms;
  return times;
}

Instant wall_clock() {
  return std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
}

aws::DescribeRequest by_id(const std::string& id) {
  aws::DescribeRequest request;
  request.ids = {id};
  return request;
}

aws::DescribeRequest by_filter(const std::string& name, const std::string& value) {
  aws::DescribeRequest request;
  request.filters = {{name, {value}}};
  return request;
}

/// A region, the real client of it, and time that passes there.
class Door {
 public:
  virtual ~Door() = default;
  virtual aws::Ec2& ec2() = 0;
  virtual void pass(Milliseconds time) = 0;
  virtual void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) = 0;
  sim::NoHardware hardware;
};

sim::Catalog catalog() {
  return sim::builtin_catalog("us-east-1", {"us-east-1a", "us-east-1b"});
}

class InProcess : public Door {
 public:
  aws::Ec2& ec2() override { return client_; }
  void pass(Milliseconds time) override { region_.advance_by(time); }
  void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) override {
    what(region_, front_);
  }

 private:
  sim::Region region_{catalog(), short_times(), hardware, *parse_iso8601("2026-01-02T03:04:05Z")};
  sim::QueryFront front_{region_};
  sim::RegionTransport transport_{front_};
  aws::Ec2Client client_{transport_, [this](Milliseconds time) { region_.advance_by(time); },
                         [] { return 0.5; }};
};

aws::HttpTransport transport_to(const sim::RegionServer& server, const std::string& secret,
                                aws::WallClock clock = wall_clock) {
  aws::HttpTransportSettings settings;
  settings.endpoint = *aws::parse_endpoint(server.endpoint());
  settings.region = "us-east-1";
  return {settings,
          [secret] {
            return aws::Credentials{"AKIDEXAMPLE", aws::Secret(secret), aws::Secret()};
          },
          std::move(clock)};
}

class OverHttp : public Door {
 public:
  aws::Ec2& ec2() override { return client_; }
  void pass(Milliseconds time) override { std::this_thread::sleep_for(time); }
  void with(const std::function<void(sim::Region&, sim::QueryFront&)>& what) override {
    server_.with([&](sim::Region& region, sim::QueryFront& front) { what(region, front); });
  }
  sim::RegionServer& server() { return server_; }

 private:
  sim::Region region_{catalog(), short_times(), hardware, wall_clock()};
  sim::RegionServer server_{region_, {}};
  const bool started_ = server_.start().has_value();  // the port is known from here on
  aws::HttpTransport transport_ = transport_to(server_, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
  aws::Ec2Client client_{transport_, [](Milliseconds time) { std::this_thread::sleep_for(time); },
                         [] { return 0.5; }};
};

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

TEST_P(Contract, a_throttled_call_is_made_again_and_a_page_of_html_is_explained) {
  door->with([](sim::Region&, sim::QueryFront& front) {
    front.inject({"CreateVolume", sim::FaultKind::throttled, 2});
  });
  EXPECT_FALSE(create("throttled").empty());
  door->with([](sim::Region&, sim::QueryFront& front) {
    front.inject({"DescribeVolumes", sim::FaultKind::html});
  });
  const auto page = door->ec2().describe_volumes({});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().kind, ErrorKind::misconfigured) << page.error().message();
}

// ---- what only HTTP has ----

class HttpDoor : public testing::Test {
 protected:
  Result<HttpReply> describe(aws::HttpTransport& transport) {
    const std::string bodies[] = {"Action=DescribeVolumes&Version=2016-11-15"};
    return transport.post(bodies).front();
  }
  HttpReply control(const std::string& method, const std::string& what) {
    HttpRequest request;
    request.method = method;
    request.url = door.server().endpoint() + "/_control/" + what;
    const auto reply = http.perform(request);
    EXPECT_TRUE(reply) << reply.error().message();
    return reply ? *reply : HttpReply{};
  }
  OverHttp door;
  HttpClient http;
};

TEST_F(HttpDoor, a_wrong_secret_is_a_signature_that_does_not_match) {
  auto transport = transport_to(door.server(), "not the secret");
  const auto reply = describe(transport);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 403);
  EXPECT_THAT(reply->body, HasSubstr("<Code>SignatureDoesNotMatch</Code>"));
  EXPECT_EQ(reply->headers.at("connection"), "close");
}

TEST_F(HttpDoor, a_body_changed_on_the_way_is_refused) {
  HttpRequest request;
  request.method = "POST";
  request.url = door.server().endpoint() + "/";
  request.body = "Action=DescribeVolumes&Version=2016-11-15";
  const auto endpoint = *aws::parse_endpoint(door.server().endpoint());
  aws::SigningRequest signing;
  signing.headers = {{"host", endpoint.host_header()},
                     {"content-type", "application/x-www-form-urlencoded; charset=utf-8"}};
  signing.body = request.body;
  const aws::Credentials keys{
      "AKIDEXAMPLE", aws::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), aws::Secret()};
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  for (const auto& header : aws::sign(signing, keys, {wall_clock(), "us-east-1", "ec2"}))
    request.headers.push_back(header);
  const auto untouched = http.perform(request);
  ASSERT_TRUE(untouched) << untouched.error().message();
  EXPECT_EQ(untouched->status, 200) << untouched->body;
  request.body += "&MaxResults=100";
  const auto changed = http.perform(request);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->status, 403);
  EXPECT_THAT(changed->body, HasSubstr("SignatureDoesNotMatch"));
}

TEST_F(HttpDoor, a_query_string_is_signed_and_answered_as_well) {
  const auto endpoint = *aws::parse_endpoint(door.server().endpoint());
  aws::SigningRequest signing;
  signing.method = "GET";
  signing.query = {{"Action", "DescribeVolumes"},
                   {"Version", "2016-11-15"},
                   {"Filter.1.Name", "tag:a b"},
                   {"Filter.1.Value.1", "c*"}};
  signing.headers = {{"host", endpoint.host_header()}};
  const aws::Credentials keys{
      "AKIDEXAMPLE", aws::Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), aws::Secret()};
  HttpRequest request;
  request.url = door.server().endpoint() + "/?" + aws::canonical_query(signing.query);
  request.headers = aws::sign(signing, keys, {wall_clock(), "us-east-1", "ec2"});
  const auto reply = http.perform(request);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 200) << reply->body;
}

TEST_F(HttpDoor, a_clock_that_is_wrong_is_corrected_from_the_answer) {
  auto transport = transport_to(door.server(), "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                [] { return wall_clock() - 1h; });
  const auto reply = describe(transport);
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 200) << "the Date header of RequestExpired says the time";
}

TEST_F(HttpDoor, user_data_of_sixteen_kib_passes_and_more_does_not) {
  std::mt19937 random(1);
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  request.client_token = "big";
  while (request.user_data.size() < 16384) request.user_data += static_cast<char>(random());
  const auto send = [&] {
    const auto call = aws::encode(aws::Mutation(request));
    return door.ec2().send(std::span(&call, 1)).front();
  };
  const auto made = send();
  ASSERT_TRUE(made) << made.error().message();
  request.client_token = "bigger";
  request.user_data += 'x';
  const auto refused = send();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "InvalidUserData.Malformed");
}

TEST_F(HttpDoor, an_operator_interrupts_and_crashes_instances) {
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  const auto call = aws::encode(aws::Mutation(request));
  const auto made = door.ec2().send(std::span(&call, 1)).front();
  ASSERT_TRUE(made) << made.error().message();
  const auto id = std::get<std::vector<aws::Instance>>(*made).front().instance_id;
  EXPECT_EQ(control("POST", "interrupt?instance=" + id).status, 200);
  EXPECT_EQ(control("POST", "interrupt?instance=i-00000000000000000").status, 404);
  EXPECT_EQ(control("GET", "interrupt?instance=" + id).status, 405);
  const auto state = nlohmann::json::parse(control("GET", "state").body);
  ASSERT_EQ(state["instances"].size(), 1U);
  EXPECT_EQ(state["instances"][0]["instance_id"], id);
  EXPECT_TRUE(state["instances"][0]["spot"]);
  EXPECT_TRUE(state["instances"][0]["interrupted_at"].is_string());
  EXPECT_EQ(state["volumes"].size(), 0U) << "roots of instances are not shown";
  EXPECT_EQ(control("POST", "crash?instance=" + id).status, 200);
  EXPECT_EQ(nlohmann::json::parse(control("GET", "state").body)["instances"][0]["state"],
            "shutting-down");
  EXPECT_EQ(control("POST", "dance").status, 404);
}

TEST_F(HttpDoor, an_instance_reads_its_metadata_from_a_port_of_its_own) {
  aws::RunInstances request;
  request.image_id = kBase;
  request.instance_type = "g5.12xlarge";
  request.user_data = "ticket";
  const auto call = aws::encode(aws::Mutation(request));
  const auto made = door.ec2().send(std::span(&call, 1)).front();
  ASSERT_TRUE(made) << made.error().message();
  const auto id = std::get<std::vector<aws::Instance>>(*made).front().instance_id;
  int port = 0;
  for (int step = 0; step < kMostSteps && port == 0; ++step) {
    door.with(
        [&](sim::Region& region, sim::QueryFront&) { port = region.instance(id)->imds_port; });
    door.pass(kStep);
  }
  ASSERT_NE(port, 0);
  const std::string base = "http://127.0.0.1:" + std::to_string(port) + "/latest/";
  HttpRequest ask;
  ask.method = "PUT";
  ask.url = base + "api/token";
  ask.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "60"}};
  const auto token = http.perform(ask);
  ASSERT_TRUE(token) << token.error().message();
  ASSERT_EQ(token->status, 200);
  HttpRequest read;
  read.url = base + "user-data";
  EXPECT_EQ(http.perform(read)->status, 401);
  read.headers = {{"X-aws-ec2-metadata-token", token->body}};
  EXPECT_EQ(http.perform(read)->body, "ticket");
  read.url = base + "meta-data/instance-id";
  EXPECT_EQ(http.perform(read)->body, id);
}

}  // namespace
