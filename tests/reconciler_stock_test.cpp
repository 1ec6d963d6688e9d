// Spares and rollouts of the real manager on the region: what survives crashes, lost answers and a
// lost ledger.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::PoolSpec with_spares(int nodes, int running, int spares) {
  auto pool = pool_spec("p", nodes, running);
  pool.stock.spares = spares;
  return pool;
}

void expect_settled(Fleet& fleet, std::size_t nodes, std::size_t spares) {
  EXPECT_THAT(fleet.violations, IsEmpty());
  std::map<std::string, int> owners;
  for (const auto* volume : fleet.pool_volumes()) ++owners[volume->tags.at("warmroot:node")];
  EXPECT_EQ(owners.size(), nodes);
  for (const auto& [node, count] : owners) EXPECT_EQ(count, 1) << node;
  EXPECT_THAT(fleet.stock_volumes(), SizeIs(spares));
}

TEST(ReconcilerStock, a_pool_is_stable_with_its_spares_and_a_new_node_takes_one) {
  Fleet fleet(with_spares(1, 1, 2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  expect_settled(fleet, 1, 2);
  const int made = fleet.calls_of("CreateVolume");
  EXPECT_EQ(made, 3);
  fleet.desired.pools[0].nodes = fleet.desired.pools[0].running = 2;
  fleet.reconciler->set_desired(fleet.desired);
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  expect_settled(fleet, 2, 2);
  EXPECT_EQ(fleet.volume_of("p-1")->tags.at("warmroot:role"), "node");
  EXPECT_FALSE(fleet.instance_of("p-1").empty());
}

TEST(ReconcilerStock, a_node_whose_volume_is_quarantined_goes_on_with_a_spare) {
  Fleet fleet(with_spares(1, 0, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto broken = fleet.volume_of("p-0")->id;
  const auto spare = fleet.stock_volumes().front()->id;
  fleet.people_interfere = true;
  ASSERT_TRUE(fleet.client
                  ->send(std::vector{aws::encode(
                      aws::CreateTags{{broken}, {{"warmroot:quarantined", "by hand"}}})})
                  .front()
                  .has_value());
  fleet.violations.clear();  // that call was a person's, not the manager's
  ASSERT_TRUE(fleet.until([&] { return fleet.last.plan.nodes.at(0).volume_id == spare; }));
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_EQ(fleet.region.volume(spare)->tags.at("warmroot:node"), "p-0");
  EXPECT_THAT(fleet.stock_volumes(), SizeIs(1)) << "filled up again";
}

/// Grows a pool that has a spare, dying at one effect; `lose`: the ledger dies too.
void grow_dying_at(int die_at, bool lose) {
  SCOPED_TRACE("die_at=" + std::to_string(die_at) + (lose ? " and the ledger is lost" : ""));
  Fleet fleet(with_spares(1, 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.desired.pools[0].nodes = fleet.desired.pools[0].running = 2;
  fleet.reconciler->set_desired(fleet.desired);
  fleet.effects = 0;
  fleet.die_at = die_at;
  try {
    fleet.until_stable();
  } catch (const Crash&) {
    fleet.die_at = 0;
    if (lose) fleet.lose_ledger();
    fleet.region.advance_by(Milliseconds{700});
    fleet.start();
  }
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  expect_settled(fleet, 2, 1);
  EXPECT_NE(fleet.volume_of("p-0")->id, fleet.volume_of("p-1")->id);
}

TEST(ReconcilerStock, a_crash_at_any_statement_gives_a_spare_to_one_node_and_fills_up_once) {
  for (int die_at = 1; die_at <= 24; ++die_at) grow_dying_at(die_at, false);
}

TEST(ReconcilerStock, a_crash_with_a_lost_ledger_does_the_same) {
  for (int die_at = 1; die_at <= 24; ++die_at) grow_dying_at(die_at, true);
}

TEST(ReconcilerStock, lost_answers_of_the_tag_call_do_not_give_the_spare_away_twice) {
  for (const bool executed : {true, false}) {
    Fleet fleet(with_spares(1, 0, 1));
    fleet.start();
    ASSERT_TRUE(fleet.until_stable());
    fleet.front.inject(
        {"CreateTags", executed ? sim::FaultKind::lost_after : sim::FaultKind::lost_before, 2});
    fleet.desired.pools[0].nodes = 3;
    fleet.reconciler->set_desired(fleet.desired);
    ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
    expect_settled(fleet, 3, 1);
  }
}

/// Ten an hour; the bucket starts empty.
TEST(ReconcilerStock, a_spare_with_a_deadline_is_restored_fast_where_the_snapshot_may_be) {
  auto pool = with_spares(1, 0, 1);
  pool.stock.ready_within = std::chrono::minutes{5};
  Fleet fleet(pool);
  const std::string snapshot = fleet.region.image(pool.ami)->snapshot_id;
  ASSERT_TRUE(fleet.region.enable_fast_restore(snapshot, "us-east-1a").has_value());
  fleet.region.advance_by(std::chrono::hours{1});
  ASSERT_EQ(fleet.region.fast_restore_state({snapshot, "us-east-1a"}), "enabled");
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  expect_settled(fleet, 1, 1);
  const auto* spare = fleet.stock_volumes().front();
  EXPECT_TRUE(spare->fast_restored);
  EXPECT_FALSE(spare->init_rate) << "nobody pays for what is free";
}

// ---- golden volumes ----

struct Golden {
  Golden() : fleet(spec()) {
    fleet.start();
    EXPECT_TRUE(fleet.until_stable()) << fleet.note_text();
  }
  static core::PoolSpec spec() {
    auto pool = with_spares(1, 0, 1);
    pool.stock.golden = true;
    pool.stock.ready_within = std::chrono::minutes{5};
    pool.stock.copy_usd_gib = "0.0001";
    return pool;
  }
  const sim::VolumeRecord* golden() const {
    for (const auto* volume : fleet.stock_volumes())
      if (volume->tags.at("warmroot:role") == "golden") return volume;
    return nullptr;
  }
  bool warm() {
    return fleet.until(
        [this] {
          const auto& statuses = fleet.last.observed.volume_statuses;
          const auto found = statuses.find(golden()->id);
          return found != statuses.end() && found->second.initialization_state == "completed";
        },
        std::chrono::minutes{30});
  }
  void grow() {
    ++fleet.desired.pools[0].nodes;
    fleet.reconciler->set_desired(fleet.desired);
    EXPECT_TRUE(fleet.until_stable(std::chrono::minutes{30})) << fleet.note_text();
    EXPECT_THAT(fleet.violations, IsEmpty());
  }
  Fleet fleet;
};

TEST(ReconcilerGolden, spares_are_copied_from_it_once_ec2_says_that_it_is_read) {
  Golden world;
  ASSERT_NE(world.golden(), nullptr);
  EXPECT_EQ(world.golden()->init_rate, 200) << "in time at the cheaper rate";
  world.grow();
  EXPECT_EQ(world.fleet.calls_of("CopyVolumes"), 0) << "not warm yet";
  ASSERT_TRUE(world.warm()) << world.fleet.note_text();
  world.grow();
  EXPECT_EQ(world.fleet.calls_of("CopyVolumes"), 1);
  EXPECT_FALSE(world.golden()->link);
  for (const auto* volume : world.fleet.stock_volumes())
    if (volume->tags.at("warmroot:role") == "spare") {
      EXPECT_EQ(volume->source_volume_id, world.golden()->id);
    }
}

TEST(ReconcilerGolden, a_refused_copy_falls_back_to_a_paid_rate) {
  Golden world;
  ASSERT_TRUE(world.warm()) << world.fleet.note_text();
  sim::Fault fault{"CopyVolumes", sim::FaultKind::refused, 1};
  fault.code = "CopyVolumesLimitExceeded";
  fault.message = "You have reached the limit of 5 copies.";
  world.fleet.front.inject(fault);
  const int made = world.fleet.calls_of("CreateVolume");
  world.grow();
  EXPECT_EQ(world.fleet.calls_of("CreateVolume"), made + 1);
}

TEST(ReconcilerGolden, a_refused_rate_falls_back_to_free_loading) {
  auto pool = Golden::spec();
  pool.stock.golden = false;
  Fleet fleet(pool);
  fleet.region.knobs.init_rate_quota = 0;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
  EXPECT_THAT(fleet.stock_volumes(), SizeIs(1));
  EXPECT_FALSE(fleet.stock_volumes().front()->init_rate);
}

// ---- rollout ----

/// People's bootstraps, as far as the manager sees them: mounted while attached, and when asked to
/// drain they release after a look.
void nodes_report(Fleet& fleet) {
  for (const auto* instance : fleet.live_instances()) {
    const sim::VolumeRecord* held = nullptr;
    for (const auto& [id, volume] : fleet.region.volumes())
      if (volume.link && volume.link->instance_id == instance->id &&
          volume.link->state == sim::LinkState::attached && volume.tags.contains("warmroot:node"))
        held = &volume;
    if (!held) continue;
    const bool drains = fleet.last.plan.drains.contains(instance->id);
    if (drains || fleet.released.contains(instance->id))
      fleet.report(instance->id, held->id, NodeStage::released);
    else
      fleet.report(instance->id, held->id, NodeStage::ready);
  }
}

struct Rolling {
  explicit Rolling(int nodes, int running, int max_unavailable = 1) : fleet(spec(nodes, running)) {
    fleet.desired.pools[0].rollout.max_unavailable = max_unavailable;
    fleet.on_tick = [this] {
      nodes_report(fleet);
      watch();
    };
    fleet.start();
  }
  static core::PoolSpec spec(int nodes, int running) {
    auto pool = pool_spec("p", nodes, running);
    pool.rollout.policy = core::RolloutSpec::Policy::replace;
    return pool;
  }
  /// The root snapshot of the region's other AMI is the newer source.
  void set_source(const char* ami) {
    fleet.desired.pools[0].ami = ami;
    fleet.reconciler->set_desired(fleet.desired);
  }
  /// Nodes that had an instance and have none: never more than allowed, once all were served.
  void watch() {
    if (!watching) return;
    int down = 0;
    for (const auto& row : fleet.last.plan.nodes)
      if (row.wanted && !is_served(row.node)) ++down;
    most_down = std::max(most_down, down);
  }
  bool is_served(const std::string& node) const {
    for (const auto* volume : fleet.pool_volumes())
      if (volume->tags.at("warmroot:node") == node && volume->link) return true;
    return false;
  }
  std::string lineage_of(const std::string& node) {
    return fleet.volume_of(node) ? fleet.volume_of(node)->tags.at("warmroot:lineage") : "";
  }
  std::vector<const sim::VolumeRecord*> retired() const {
    std::vector<const sim::VolumeRecord*> found;
    for (const auto& [id, volume] : fleet.region.volumes())
      if (volume.tags.contains("warmroot:retired")) found.push_back(&volume);
    return found;
  }
  Fleet fleet;
  bool watching = false;
  int most_down = 0;
};

TEST(ReconcilerRollout, replaces_node_by_node_and_goes_back_to_the_same_volumes) {
  Rolling world(3, 2);
  ASSERT_TRUE(world.fleet.until_stable()) << world.fleet.note_text();
  const auto old_lineage = world.lineage_of("p-0");
  std::map<std::string, std::string> first;
  for (const char* node : {"p-0", "p-1", "p-2"}) first[node] = world.fleet.volume_of(node)->id;

  world.watching = true;
  world.set_source(kBaseAmi);
  ASSERT_TRUE(world.fleet.until_stable(std::chrono::minutes{60})) << world.fleet.note_text();
  EXPECT_THAT(world.fleet.violations, IsEmpty());
  EXPECT_LE(world.most_down, 1);
  for (const char* node : {"p-0", "p-1", "p-2"}) EXPECT_NE(world.lineage_of(node), old_lineage);
  ASSERT_THAT(world.retired(), SizeIs(3));
  for (const auto* volume : world.retired()) {
    EXPECT_EQ(volume->tags.at("warmroot:retired"), volume->tags.at("warmroot:node"));
    EXPECT_FALSE(volume->link) << "detached";
  }

  world.set_source(kVolumeAmi);
  ASSERT_TRUE(world.fleet.until_stable(std::chrono::minutes{60})) << world.fleet.note_text();
  EXPECT_THAT(world.fleet.violations, IsEmpty());
  for (const char* node : {"p-0", "p-1", "p-2"})
    EXPECT_EQ(world.fleet.volume_of(node)->id, first[node]);
  EXPECT_THAT(world.retired(), SizeIs(3)) << "now the newer ones";
  EXPECT_EQ(world.fleet.calls_of("CreateVolume"), 6);
}

void roll_dying_at(int die_at, bool lose) {
  SCOPED_TRACE("die_at=" + std::to_string(die_at) + (lose ? " and the ledger is lost" : ""));
  Rolling world(2, 1);
  auto& fleet = world.fleet;
  ASSERT_TRUE(fleet.until_stable());
  const auto old_lineage = world.lineage_of("p-0");
  world.set_source(kBaseAmi);
  fleet.effects = 0;
  fleet.die_at = die_at;
  try {
    fleet.until_stable(std::chrono::minutes{60});
  } catch (const Crash&) {
    fleet.die_at = 0;
    if (lose) fleet.lose_ledger();
    fleet.region.advance_by(Milliseconds{700});
    fleet.start();
  }
  ASSERT_TRUE(fleet.until_stable(std::chrono::minutes{60})) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
  for (const char* node : {"p-0", "p-1"}) {
    EXPECT_NE(world.lineage_of(node), old_lineage) << node;
    EXPECT_FALSE(world.lineage_of(node).empty()) << node;
  }
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(2));
  EXPECT_THAT(world.retired(), SizeIs(2));
}

TEST(ReconcilerRollout, goes_on_after_a_crash_at_any_statement) {
  for (int die_at = 1; die_at <= 60; ++die_at) roll_dying_at(die_at, false);
}

TEST(ReconcilerRollout, goes_on_after_a_crash_with_a_lost_ledger) {
  for (int die_at = 1; die_at <= 60; die_at += 2) roll_dying_at(die_at, true);
}

}  // namespace
}  // namespace warmroot
