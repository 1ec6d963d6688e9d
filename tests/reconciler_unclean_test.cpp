// Volumes that were not given back as they should be, by the real manager on the region: set aside
// through crashes and refusals, and kept as snapshots before they are repaired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/unclean.hpp"
#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

int attaches_of(const Fleet& fleet, const std::string& volume_id) {
  int count = 0;
  for (const auto& call : fleet.front.calls())
    if (call.action == "AttachVolume" && call.body.find(volume_id) != std::string::npos) ++count;
  return count;
}

/// p-0 is served; its instance then says that it cannot repair the volume. Returns the volume.
std::string say_beyond_repair(Fleet& fleet) {
  const auto volume = fleet.volume_of("p-0")->id;
  const auto instance = fleet.instance_of("p-0");
  fleet.report(instance, volume, NodeStage::released);
  fleet.reports[instance].reason = kUncleanBeyondRepair;
  fleet.reports[instance].message = "e2fsck -p ended with 4";
  return volume;
}

bool served_by_another(const Fleet& fleet, const std::string& volume) {
  for (const auto& row : fleet.last.plan.nodes)
    if (row.node == "p-0" && row.volume_id != volume && row.lease == core::LeaseState::checking)
      return true;
  return false;
}

TEST(ReconcilerUnclean, a_crash_at_any_statement_gives_a_volume_beyond_repair_to_nobody) {
  for (int die_at = 1; die_at <= 24; ++die_at) {
    SCOPED_TRACE(die_at);
    Fleet fleet(pool_spec("p", 1, 1));
    fleet.start();
    ASSERT_TRUE(fleet.until_stable());
    fleet.people_interfere = true;  // until its tag shows, the node has two volumes
    const auto broken = say_beyond_repair(fleet);
    fleet.front.forget_calls();
    fleet.effects = 0;
    fleet.die_at = die_at;
    try {
      fleet.until([&] { return served_by_another(fleet, broken); });
    } catch (const Crash&) {
      fleet.die_at = 0;
      fleet.region.advance_by(Milliseconds{700});
      fleet.start();
    }
    fleet.die_at = 0;
    ASSERT_TRUE(fleet.until([&] { return served_by_another(fleet, broken); })) << fleet.note_text();
    EXPECT_EQ(attaches_of(fleet, broken), 0);
    EXPECT_EQ(fleet.region.volume(broken)->tags.at("warmroot:quarantined"),
              "beyond repair on " + fleet.reports.begin()->first + ": e2fsck -p ended with 4");
    EXPECT_FALSE(fleet.region.volume(broken)->link) << "for people to have";
    EXPECT_THAT(fleet.violations, IsEmpty());
  }
}

TEST(ReconcilerUnclean, a_volume_whose_tag_is_refused_stays_set_aside_until_it_is_returned) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.people_interfere = true;
  const auto broken = say_beyond_repair(fleet);
  fleet.front.forget_calls();
  sim::Fault denied{"CreateTags", sim::FaultKind::unauthorized};
  denied.count = sim::Fault::kAlways;
  fleet.front.inject(denied);
  ASSERT_TRUE(fleet.until([&] { return served_by_another(fleet, broken); })) << fleet.note_text();
  fleet.start();  // the board is lost with the process, the ledger is not
  fleet.reports.clear();
  fleet.tick();
  EXPECT_THAT(fleet.note_text(), HasSubstr("could not repair its file system"));
  EXPECT_EQ(attaches_of(fleet, broken), 0);
  const auto order = fleet.ledger->place_order(
      {0, core::OrderKind::return_volume, broken, "", "", fleet.region.now()});
  ASSERT_TRUE(order.has_value());
  ASSERT_TRUE(
      fleet.until([&] { return fleet.ledger->order(*order)->state == manager::OrderState::met; }));
  EXPECT_TRUE(fleet.ledger->view()->unclean.empty());
}

// ---- snapshots ----

core::PoolSpec with_snapshots() {
  auto pool = pool_spec("p", 1, 1);
  pool.volumes.snapshot_unclean = true;
  return pool;
}

/// Power is cut under p-0, and its successor is served. Returns for how long it was not.
Milliseconds cut_power(Fleet& fleet) {
  const auto volume = fleet.volume_of("p-0")->id;
  const auto before = fleet.instance_of("p-0");
  fleet.front.forget_calls();
  CHECK(fleet.region.crash(before).has_value());
  const Instant cut = fleet.region.now();
  EXPECT_TRUE(fleet.until([&] {
    const auto now = fleet.instance_of("p-0");
    return !now.empty() && now != before;
  })) << fleet.note_text();
  EXPECT_EQ(attaches_of(fleet, volume), 1);
  return fleet.region.now() - cut;
}

TEST(ReconcilerUnclean, a_snapshot_is_taken_between_an_unclean_end_and_the_next_attach) {
  Fleet fleet(with_snapshots());
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_EQ(fleet.calls_of("CreateSnapshot"), 0) << "nobody has used it yet";
  cut_power(fleet);
  std::vector<std::string> order;
  for (const auto& call : fleet.front.calls())
    if (call.action == "CreateSnapshot" || call.action == "AttachVolume")
      order.push_back(call.action);
  EXPECT_THAT(order, testing::ElementsAre("CreateSnapshot", "AttachVolume"));
  EXPECT_TRUE(fleet.ledger->view()->unclean.empty());
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerUnclean, a_release_before_the_end_needs_no_snapshot) {
  Fleet fleet(with_snapshots());
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto before = fleet.instance_of("p-0");
  fleet.report(before, fleet.volume_of("p-0")->id, NodeStage::released);
  ASSERT_TRUE(fleet.until([&] {
    const auto now = fleet.instance_of("p-0");
    return !now.empty() && now != before;
  }));
  EXPECT_EQ(fleet.calls_of("CreateSnapshot"), 0);
}

/// With what the manager heard before it was restarted, if it was, and no more.
void expect_snapshot_and_replacement(Fleet& fleet, const std::string& before, bool restarted) {
  if (restarted) {
    fleet.start();
    fleet.reports.clear();
  }
  ASSERT_TRUE(fleet.until([&] {
    const auto now = fleet.instance_of("p-0");
    return !now.empty() && now != before;
  })) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateSnapshot"), 1);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerUnclean, a_disk_that_was_taken_away_gets_its_snapshot_also_through_a_restart) {
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    Fleet fleet(with_snapshots());
    fleet.start();
    ASSERT_TRUE(fleet.until_stable());
    fleet.people_interfere = true;
    const auto volume = fleet.volume_of("p-0")->id;
    const auto before = fleet.instance_of("p-0");
    fleet.report(before, volume, NodeStage::ready);
    fleet.tick();
    ASSERT_TRUE(fleet.region.detach_volume(volume, before, "", true).has_value());
    fleet.report(before, volume, NodeStage::released);
    fleet.reports[before].reason = kDiskGone;
    fleet.tick();
    expect_snapshot_and_replacement(fleet, before, restarted);
  }
}

/// The machine is reset under its session, and taken back before the volume is mounted again.
TEST(ReconcilerUnclean, a_volume_that_a_reset_machine_never_mounted_again_gets_its_snapshot) {
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    Fleet fleet(with_snapshots());
    fleet.start();
    ASSERT_TRUE(fleet.until_stable());
    const auto before = fleet.instance_of("p-0");
    fleet.report(before, fleet.volume_of("p-0")->id, NodeStage::ready);
    fleet.tick();
    fleet.report(before, "", NodeStage::hello);
    fleet.tick();
    fleet.report(before, "", NodeStage::released);
    fleet.reports[before].reason = kNeverMounted;
    fleet.tick();
    expect_snapshot_and_replacement(fleet, before, restarted);
  }
}

TEST(ReconcilerUnclean, a_lost_answer_costs_a_second_snapshot_at_most) {
  Fleet fleet(with_snapshots());
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.front.inject({"CreateSnapshot", sim::FaultKind::lost_after});
  cut_power(fleet);
  EXPECT_LE(fleet.calls_of("CreateSnapshot"), 2);
  EXPECT_GE(fleet.calls_of("CreateSnapshot"), 1);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerUnclean, a_node_does_not_wait_for_ever_for_a_snapshot_that_is_refused) {
  Fleet fleet(with_snapshots());
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  sim::Fault refused{"CreateSnapshot", sim::FaultKind::refused};
  refused.count = sim::Fault::kAlways;
  refused.code = "SnapshotLimitExceeded";
  fleet.front.inject(refused);
  const auto waited = cut_power(fleet);
  EXPECT_GE(waited, core::kSnapshotPatience);
  EXPECT_LE(waited, core::kSnapshotPatience + std::chrono::minutes{2});
  EXPECT_EQ(fleet.calls_of("CreateSnapshot"), 0);
  const auto history = fleet.ledger->history(50);
  std::string text;
  for (const auto& entry : *history) text += entry.event + "\n";
  EXPECT_THAT(text, HasSubstr("is attached without a snapshot"));
}

}  // namespace
}  // namespace warmroot
