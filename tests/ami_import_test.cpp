// `warmroot ami import` through the real client against the region, under virtual time: the whole
// way, and again after the process died or an answer was lost at each call.
#include "manager/ami_import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/aws/ec2_client.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"
#include "tests/sim/region_transport.hpp"

namespace warmroot::manager {
namespace {

using Stage = core::ImportStep::Stage;
using ::testing::HasSubstr;

const Instant kStart{std::chrono::hours{24 * 20'000}};
constexpr const char* kPublicAmi = "ami-04000000000000004";
constexpr const char* kOwnAmi = "ami-01000000000000001";

struct World {
  explicit World(sim::Catalog catalog = sim::builtin_catalog("us-east-1", {"us-east-1a"}))
      : region(std::move(catalog), {}, hardware, kStart),
        front(region),
        door(front),
        client(
            door, [this](Milliseconds wait) { region.advance_by(wait); }, [] { return 0.5; }) {}

  void restart(const std::string& ami = kPublicAmi) {
    import.emplace(client, core::ImportWish{"research", ami, "", ""}, region.now());
  }

  /// Guests of the AMI clean themselves and power off a minute after they run.
  void guests_live() {
    for (const auto& [id, instance] : region.instances()) {
      if (instance.state != sim::GuestState::running) continue;
      if (!running_since.contains(id)) running_since[id] = region.now();
      if (region.now() - running_since[id] >= std::chrono::minutes{1}) hardware.machines.erase(id);
    }
  }

  /// One process until it ends, is refused, or `seconds` have passed.
  Result<core::ImportStep> run(int seconds = 1'800) {
    Result<core::ImportStep> last = core::ImportStep{};
    for (int i = 0; i < seconds; ++i) {
      last = import->step(region.now());
      if (!last || !goes_on(last->stage)) return last;
      region.advance_by(std::chrono::seconds{1});
      guests_live();
    }
    return last;
  }

  int snapshots() const {
    int count = 0;
    for (const auto& snapshot : region.catalog().snapshots)
      count += snapshot.tags.contains(core::kTagImport);
    return count;
  }

  void expect_one_import() {
    const auto last = run();
    ASSERT_TRUE(last.has_value()) << last.error().message();
    ASSERT_EQ(static_cast<int>(last->stage), static_cast<int>(Stage::done)) << last->text;
    EXPECT_EQ(snapshots(), 1);
    const auto* snapshot = region.snapshot(last->snapshot_id);
    ASSERT_NE(snapshot, nullptr);
    EXPECT_EQ(snapshot->tags.at(core::kTagImport), kPublicAmi);
    int launched = 0;
    for (const auto& [id, instance] : region.instances()) {
      ++launched;
      EXPECT_TRUE(instance.state == sim::GuestState::terminated ||
                  instance.state == sim::GuestState::shutting_down);
    }
    EXPECT_EQ(launched, 1);
  }

  sim::NoHardware hardware;
  sim::Region region;
  sim::QueryFront front;
  sim::RegionTransport door;
  aws::Ec2Client client;
  std::optional<AmiImport> import;
  std::map<std::string, Instant> running_since;
};

TEST(AmiImport, makes_a_snapshot_that_a_pool_can_use) {
  World world;
  world.restart();
  const auto terms = world.import->terms();
  ASSERT_TRUE(terms.has_value()) << terms.error().message();
  EXPECT_THAT(*terms, HasSubstr("t3.medium"));
  world.expect_one_import();
}

TEST(AmiImport, leaves_none_of_the_instances_disks_behind_whatever_the_image_says) {
  auto catalog = sim::builtin_catalog("us-east-1", {"us-east-1a"});
  for (auto& image : catalog.images)
    if (image.id == kPublicAmi)
      image.extra = {{"/dev/sdb", catalog.snapshots.front().id, 8, false, ""},
                     {"/dev/sdc", catalog.snapshots.front().id, 8, std::nullopt, ""},
                     {"/dev/sdd", "", 0, std::nullopt, "ephemeral0"}};
  World world(std::move(catalog));
  world.restart();
  world.expect_one_import();
  world.region.advance_by(std::chrono::minutes{5});
  EXPECT_TRUE(world.region.volumes().empty());
}

TEST(AmiImport, goes_on_after_a_new_run_at_any_time) {
  for (int seconds = 1; seconds <= 240; seconds += 12) {
    SCOPED_TRACE(seconds);
    World world;
    world.restart();
    ASSERT_TRUE(world.run(seconds).has_value());
    world.restart();
    world.expect_one_import();
  }
}

TEST(AmiImport, lost_answers_and_lost_requests_neither_double_nor_stop_it) {
  for (const char* action : {"RunInstances", "CreateSnapshot", "TerminateInstances"})
    for (const auto kind : {sim::FaultKind::lost_before, sim::FaultKind::lost_after,
                            sim::FaultKind::internal, sim::FaultKind::throttled}) {
      SCOPED_TRACE(std::string(action) + " " + std::string(to_string(kind)));
      World world;
      world.front.inject({action, kind, 1});
      world.restart();
      world.expect_one_import();
    }
}

TEST(AmiImport, an_ami_whose_snapshot_may_be_used_is_not_imported) {
  World world;
  world.restart(kOwnAmi);
  const auto last = world.run();
  ASSERT_TRUE(last.has_value());
  EXPECT_THAT(last->text, HasSubstr("needs no import"));
  EXPECT_TRUE(world.region.instances().empty());
}

TEST(AmiImport, an_ami_that_does_not_exist_is_refused) {
  World world;
  world.restart("ami-0999999999999999f");
  const auto last = world.run();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(static_cast<int>(last->stage), static_cast<int>(Stage::refused));
  EXPECT_THAT(last->text, HasSubstr("is no AMI that this account can see"));
}

TEST(AmiImport, an_account_that_may_take_no_snapshot_is_told_before_the_system_is_cleaned) {
  World world;
  world.front.inject({"CreateSnapshot", sim::FaultKind::unauthorized, 1});
  world.restart();
  const auto last = world.run(60);
  ASSERT_TRUE(last.has_value()) << last.error().message();
  EXPECT_EQ(static_cast<int>(last->stage), static_cast<int>(Stage::failed));
  EXPECT_THAT(last->text, HasSubstr("ec2:CreateSnapshot is not allowed"));
  world.region.advance_by(std::chrono::minutes{2});
  for (const auto& [id, instance] : world.region.instances())
    EXPECT_EQ(instance.state, sim::GuestState::terminated) << id;
}

TEST(AmiImport, a_launch_that_has_to_wait_says_why_and_is_asked_for_ever_more_seldom) {
  World world;
  world.region.knobs.capacity[{"*", "us-east-1a"}] = 0;
  world.restart();
  const auto last = world.run(300);
  ASSERT_TRUE(last.has_value()) << last.error().message();
  EXPECT_THAT(last->text, HasSubstr("EC2 says: "));
  EXPECT_THAT(last->text, HasSubstr("InsufficientInstanceCapacity"));
  int launches = 0;
  for (const auto& call : world.front.calls()) launches += call.action == "RunInstances";
  EXPECT_LE(launches, 12);
  world.region.knobs.capacity.clear();
  world.expect_one_import();
}

TEST(AmiImport, a_launch_that_ec2_refuses_for_good_is_told) {
  World world;
  sim::Fault fault{"RunInstances", sim::FaultKind::unauthorized, 1};
  world.front.inject(fault);
  world.restart();
  const auto last = world.run();
  ASSERT_FALSE(last.has_value());
  EXPECT_THAT(last.error().message(), HasSubstr("UnauthorizedOperation"));
}

}  // namespace
}  // namespace warmroot::manager
