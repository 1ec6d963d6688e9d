// Launches of the real reconciler on the simulated region: what EC2 refuses, offers and charges
// decides where and what is bought. What it is asked beforehand is launch_check_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/launch_limits.hpp"
#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kZoneA = "us-east-1a";
constexpr const char* kZoneB = "us-east-1b";

core::PoolSpec two_zones(int nodes) {
  auto pool = pool_spec("p", nodes, nodes, {kZoneA, kZoneB});
  pool.launch->instance_types = {"g5.xlarge"};
  return pool;
}

void price(Fleet& fleet, const std::string& type, const std::string& zone, int cents) {
  fleet.region.knobs.spot_prices[{type, zone}] = cents * 1000;
}

TEST(ReconcilerLaunch, a_type_without_capacity_costs_one_call_and_no_waiting) {
  auto pool = pool_spec("p", 4, 4);
  pool.launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  Fleet fleet(pool);
  price(fleet, "g5.xlarge", kZoneA, 10);
  price(fleet, "g4dn.xlarge", kZoneA, 20);
  fleet.region.knobs.denied["ec2:CreateLaunchTemplate"] = sim::Denial::implicit;
  fleet.region.knobs.capacity[{"g5.xlarge", kZoneA}] = 0;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{1})) << fleet.note_text();
  EXPECT_EQ(calls_seen(fleet, "RunInstances"), 3) << "a dry run, one refused, one taken";
  for (const auto* instance : fleet.live_instances()) EXPECT_EQ(instance->type, "g4dn.xlarge");
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, instances_of_a_launch_that_is_replayed_are_taken_from_the_budget_once) {
  Fleet fleet(pool_spec("p", 4, 0));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  fleet.desired.pools.front().running = 4;
  fleet.budget_share = 0.004;  // four instances at first, then one in 125 s; a call in 125 s
  fleet.front.forget_calls();
  fleet.front.inject({"RunInstances", sim::FaultKind::unavailable, 1, 1});  // not the dry run
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return fleet.live_instances().size() == 4; }));
  ASSERT_EQ(calls_seen(fleet, "RunInstances"), 3) << "a dry run, one without an answer, its replay";
  std::ignore = fleet.region.terminate_instances({fleet.live_instances().front()->id});
  EXPECT_TRUE(fleet.until([&] { return calls_seen(fleet, "RunInstances") == 4; }, minutes{7}));
}

TEST(ReconcilerLaunch, new_volumes_are_made_where_instances_are_cheap) {
  Fleet fleet(two_zones(3));
  price(fleet, "g5.xlarge", kZoneA, 30);
  price(fleet, "g5.xlarge", kZoneB, 20);
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  for (const auto* volume : fleet.pool_volumes()) EXPECT_EQ(volume->zone, kZoneB);
  EXPECT_EQ(fleet.last.plan.cost_hour.at("p"), 600'000) << "three at 0.20 USD";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, prices_are_asked_for_once_in_five_minutes) {
  Fleet fleet(two_zones(2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_EQ(calls_seen(fleet, "DescribeSpotPriceHistory"), 1);
}

TEST(ReconcilerLaunch, launches_that_always_fail_stop_and_go_on_when_the_operator_says_so) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.region.knobs.failing_launches = 1000;
  fleet.start();
  EXPECT_FALSE(fleet.until_stable(minutes{2}));
  EXPECT_THAT(fleet.note_text(), HasSubstr("3 launches in a row came to nothing"));
  EXPECT_EQ(fleet.calls_of("RunInstances"), core::kBreakerOpensAfter);
  EXPECT_FALSE(fleet.until_stable(minutes{60}));
  EXPECT_LE(fleet.calls_of("RunInstances"), core::kBreakerOpensAfter + 7) << "probes grow rare";
  fleet.region.knobs.failing_launches = 0;
  ASSERT_TRUE(*fleet.ledger->resume("p", fleet.region.now()));
  EXPECT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, launches_that_ec2_accepts_and_ends_for_want_of_capacity_grow_rare) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.region.knobs.failing_launches = 1000;
  fleet.region.knobs.launch_failure = "Server.InsufficientInstanceCapacity";
  fleet.start();
  EXPECT_FALSE(fleet.until_stable(minutes{60}));
  EXPECT_THAT(fleet.note_text(), HasSubstr("InsufficientInstanceCapacity"));
  EXPECT_THAT(fleet.note_text(), Not(HasSubstr("in a row came to nothing")));
  EXPECT_LE(fleet.calls_of("RunInstances"), 3600 / 50 + 10) << "once in 50 to 100 s in the end";
  EXPECT_GE(fleet.calls_of("RunInstances"), 3600 / 110) << "and not for ever";
  fleet.region.knobs.failing_launches = 0;
  EXPECT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, capacity_that_is_missing_only_after_the_answer_leads_to_on_demand_too) {
  auto pool = pool_spec("p", 1, 1);
  pool.launch->on_demand_fallback = true;
  pool.launch->on_demand_after = seconds{200};
  Fleet fleet(pool);
  fleet.region.knobs.failing_launches = 1000;
  fleet.region.knobs.launch_failure = "Server.InsufficientInstanceCapacity";
  fleet.start();
  ASSERT_TRUE(fleet.until(
      [&] {
        for (const auto& [id, instance] : fleet.region.instances())
          if (!instance.spot()) return true;
        return false;
      },
      minutes{8}))
      << fleet.note_text();
  fleet.region.knobs.failing_launches = 0;
  EXPECT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_probe_that_serves_closes_the_breaker) {
  Fleet fleet(pool_spec("p", 3, 3));
  fleet.region.knobs.failing_launches = 3;
  fleet.on_tick = [&fleet] {  // whoever has a disk says that it is mounted
    for (const auto* volume : fleet.pool_volumes())
      if (volume->link && volume->link->state == sim::LinkState::attached)
        fleet.report(volume->link->instance_id, volume->id, NodeStage::mounted);
  };
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{30})) << fleet.note_text();
  EXPECT_THAT(fleet.live_instances(), SizeIs(3));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_node_moves_to_a_zone_with_capacity_and_its_volume_stays_behind) {
  auto pool = two_zones(1);
  pool.launch->zone_fallback = true;
  Fleet fleet(pool);
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const std::string first = fleet.volume_of("p-0")->id;
  const std::string home = fleet.volume_of("p-0")->zone;
  const std::string away = home == kZoneA ? kZoneB : kZoneA;
  fleet.region.knobs.capacity[{"g5.xlarge", home}] = 0;
  ASSERT_TRUE(fleet.region.interrupt(fleet.instance_of("p-0")).has_value());
  ASSERT_TRUE(fleet.until(
      [&] {
        const auto live = fleet.live_instances();
        return fleet.last.plan.stable && live.size() == 1 && live.front()->zone == away;
      },
      minutes{20}))
      << fleet.note_text();
  const auto* kept = fleet.region.volume(first);
  ASSERT_NE(kept, nullptr);
  EXPECT_FALSE(kept->link.has_value());
  EXPECT_EQ(kept->tags.at(core::kTagParked), away);
  EXPECT_THAT(fleet.note_text(), HasSubstr(first));
  EXPECT_THAT(fleet.violations, IsEmpty());

  // The other way round it finds its own volume again instead of a third one.
  fleet.region.knobs.capacity.clear();
  fleet.region.knobs.capacity[{"g5.xlarge", away}] = 0;
  ASSERT_TRUE(fleet.region.interrupt(fleet.live_instances().front()->id).has_value());
  ASSERT_TRUE(fleet.until(
      [&] {
        const auto* back = fleet.region.volume(first);
        return fleet.last.plan.stable && back->link.has_value();
      },
      minutes{20}))
      << fleet.note_text();
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(2));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, the_price_limit_of_a_pool_holds) {
  auto pool = pool_spec("p", 5, 5);
  pool.launch->max_price_hour = "0.75";
  Fleet fleet(pool);
  price(fleet, "g5.xlarge", kZoneA, 30);
  fleet.start();
  EXPECT_FALSE(fleet.until_stable(minutes{3}));
  EXPECT_THAT(fleet.live_instances(), SizeIs(2));
  EXPECT_THAT(fleet.note_text(), HasSubstr("max_price_hour = 0.75 USD allows no more"));
}

core::PoolSpec two_types(int nodes) {
  auto pool = pool_spec("p", nodes, nodes);
  pool.launch->instance_types = {"g5.xlarge", "g4dn.xlarge"};
  return pool;
}

TEST(ReconcilerLaunch, several_types_are_one_fleet_on_a_template_of_ours) {
  Fleet fleet(two_types(6));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateLaunchTemplate"), 1);
  EXPECT_EQ(fleet.calls_of("CreateFleet"), 1);
  EXPECT_EQ(fleet.calls_of("RunInstances"), 0);
  EXPECT_THAT(fleet.live_instances(), SizeIs(6));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_template_that_somebody_deleted_is_made_again_when_a_fleet_misses_it) {
  Fleet fleet(two_types(2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  ASSERT_THAT(fleet.region.templates(), SizeIs(1));
  fleet.region.delete_template(std::string(fleet.region.templates().begin()->first));
  ASSERT_TRUE(fleet.region.crash(fleet.instance_of("p-0")));
  fleet.region.advance_by(seconds{1});
  EXPECT_TRUE(fleet.until([&] { return fleet.live_instances().size() == 2; }, minutes{2}))
      << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateLaunchTemplate"), 2);
  EXPECT_EQ(fleet.calls_of("RunInstances"), 0);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_fleets_instances_are_ours_also_after_the_ledger_is_lost) {
  Fleet fleet(two_types(4));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  fleet.lose_ledger();
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateFleet"), 1) << "nothing is launched beside them";
  fleet.desired.pools.front().running = 1;
  fleet.reconciler->set_desired(fleet.desired);
  ASSERT_TRUE(fleet.until([&] { return fleet.live_instances().size() == 1; }, minutes{5}))
      << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_fleets_errors_are_charged_to_their_types) {
  Fleet fleet(two_types(4));
  fleet.region.knobs.capacity[{"g5.xlarge", kZoneA}] = 0;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
  for (const auto* instance : fleet.live_instances()) EXPECT_EQ(instance->type, "g4dn.xlarge");
  EXPECT_LE(fleet.calls_of("CreateFleet") + fleet.calls_of("RunInstances"), 3);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_changed_spec_makes_a_new_template_and_the_old_one_goes) {
  Fleet fleet(two_types(1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
  fleet.desired.pools.front().launch->security_groups = {"sg-01000000000000001"};
  fleet.reconciler->set_desired(fleet.desired);
  ASSERT_TRUE(fleet.region.interrupt(fleet.instance_of("p-0")).has_value());
  fleet.until([] { return false; }, minutes{25});
  EXPECT_EQ(fleet.calls_of("CreateLaunchTemplate"), 2) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("DeleteLaunchTemplate"), 1) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, without_the_right_to_templates_types_are_tried_one_after_another) {
  Fleet fleet(two_types(2));
  fleet.region.knobs.denied["ec2:CreateLaunchTemplate"] = sim::Denial::implicit;
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return fleet.live_instances().size() == 2; }, minutes{2}))
      << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateFleet"), 0);
  EXPECT_THAT(fleet.note_text(), HasSubstr("ec2:CreateLaunchTemplate is not allowed"));
  EXPECT_TRUE(fleet.until_stable(minutes{2})) << fleet.note_text();
}

core::PoolSpec with_volumes(int nodes) {
  auto pool = pool_spec("p", nodes, nodes);
  pool.launch->volume_with_launch = true;
  return pool;
}

TEST(ReconcilerLaunch, beyond_the_attach_bucket_launches_make_the_volumes) {
  constexpr int kNodes = 60;  // half of EC2's bucket of 50 attaches is ours
  Fleet fleet(with_volumes(kNodes));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("CreateVolume"), 0);
  EXPECT_EQ(fleet.calls_of("AttachVolume"), 0);
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(kNodes));
  for (const auto* volume : fleet.pool_volumes()) {
    ASSERT_TRUE(volume->link.has_value());
    EXPECT_FALSE(volume->link->delete_on_termination);
  }
  EXPECT_THAT(fleet.violations, IsEmpty());

  // Every later launch attaches what is there.
  const std::string kept = fleet.volume_of("p-7")->id;
  ASSERT_TRUE(fleet.region.interrupt(fleet.instance_of("p-7")).has_value());
  ASSERT_TRUE(fleet.until([&] { return fleet.calls_of("AttachVolume") == 1; }, minutes{10}));
  ASSERT_TRUE(fleet.until_stable(minutes{5})) << fleet.note_text();
  EXPECT_EQ(fleet.volume_of("p-7")->id, kept);
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(kNodes));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, between_sweeps_the_volumes_of_launches_are_looked_at_by_id) {
  Fleet fleet(with_volumes(60));
  fleet.observer.small_world = 0;
  fleet.start();
  const Instant start = fleet.region.now();
  ASSERT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
  EXPECT_LT(fleet.region.now() - start, std::chrono::seconds{40});
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(ReconcilerLaunch, a_crash_anywhere_between_launch_and_tags_ends_with_one_volume_a_node) {
  for (int die_at = 1; die_at < 40; die_at += 2) {
    Fleet fleet(with_volumes(30));
    fleet.die_at = die_at;
    bool stable = false;
    try {
      fleet.start();
      stable = fleet.until_stable(minutes{3});
    } catch (const Crash&) {
      fleet.die_at = 0;
      if (die_at % 4 == 1) fleet.lose_ledger();
      fleet.start();
      stable = fleet.until_stable(minutes{5});
    }
    EXPECT_TRUE(stable) << "died at " << die_at << ": " << fleet.note_text();
    EXPECT_THAT(fleet.pool_volumes(), SizeIs(30)) << "died at " << die_at;
    EXPECT_THAT(fleet.live_instances(), SizeIs(30)) << "died at " << die_at;
    EXPECT_THAT(fleet.violations, IsEmpty()) << "died at " << die_at;
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ReconcilerLaunch, a_hint_to_rebalance_that_a_node_reports_counts_as_one_of_the_queue) {
  for (const bool asked : {false, true}) {
    auto pool = pool_spec("p", 1, 1);
    pool.launch->replace_on_rebalance = asked;
    Fleet fleet(pool);
    fleet.start();
    ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
    fleet.region.advance_by(pool.launch->rebalance_after);
    const std::string first = fleet.live_instances().front()->id;
    const std::string volume = fleet.pool_volumes().front()->id;
    fleet.on_tick = [&] {
      auto& report = fleet.reports[first];
      report = {first, volume, NodeStage::ready, "", fleet.region.now(), "", ""};
      report.rebalance = true;
    };
    const auto replaced = [&] { return fleet.live_instances().size() == 2; };
    EXPECT_EQ(fleet.until(replaced, minutes{2}), asked);
    EXPECT_THAT(fleet.violations, IsEmpty());
  }
}

}  // namespace
}  // namespace warmroot
