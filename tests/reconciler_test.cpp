// The whole manager against the simulated region in one process: from nothing to stable,
// interruptions, pauses, lost answers, throttles and wrong wishes. Invariants are checked at every
// call by the harness.
#include "manager/reconciler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using sim::FaultKind;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Reconciler, from_nothing_to_stable_each_node_has_its_volume_on_one_instance) {
  Fleet fleet(pool_spec("p", 3, 2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(3));
  EXPECT_THAT(fleet.live_instances(), SizeIs(2));
  EXPECT_NE(fleet.instance_of("p-0"), "");
  EXPECT_NE(fleet.instance_of("p-1"), "");
  EXPECT_NE(fleet.instance_of("p-0"), fleet.instance_of("p-1"));
  EXPECT_EQ(fleet.instance_of("p-2"), "");
  EXPECT_EQ(fleet.calls_of("RunInstances"), 1) << "one call for both nodes";
  EXPECT_EQ(fleet.calls_of("CreateVolume"), 3);
  EXPECT_EQ(fleet.calls_of("AttachVolume"), 2);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, the_attach_goes_out_within_a_look_of_running) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto* instance = fleet.live_instances().front();
  const Instant running = instance->launch_time + fleet.region.times().pending;
  EXPECT_LE(fleet.volume_of("p-0")->link->attach_time - running, Milliseconds{1000});
}

TEST(Reconciler, a_stable_world_is_left_alone) {
  Fleet fleet(pool_spec("p", 2, 2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.front.forget_calls();
  for (int i = 0; i < 20; ++i) {
    fleet.region.advance_by(fleet.last.plan.next_look);
    EXPECT_TRUE(fleet.tick().plan.stable);
  }
  EXPECT_EQ(fleet.last.plan.next_look, Milliseconds{30'000}) << "idle";
  for (const auto& call : fleet.front.calls())
    EXPECT_TRUE(aws::is_read(call.action)) << call.action;
}

TEST(Reconciler, volumes_are_made_with_the_right_tags_and_survive_the_instance) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto* volume = fleet.volume_of("p-0");
  EXPECT_EQ(volume->tags.at("warmroot:deployment"), kDeployment);
  EXPECT_EQ(volume->tags.at("warmroot:pool"), "p");
  EXPECT_EQ(volume->tags.at("warmroot:lineage"), volume->snapshot_id);
  EXPECT_EQ(volume->type, "gp3");
  EXPECT_FALSE(volume->link->delete_on_termination);
  EXPECT_EQ(fleet.live_instances().front()->tags.at("warmroot:pool"), "p");
}

// ---- interruption and handover ----

TEST(Reconciler, after_a_crash_of_the_instance_the_same_volume_serves_its_successor) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-0")->id;
  const auto first = fleet.instance_of("p-0");
  ASSERT_TRUE(fleet.region.crash(first).has_value());
  ASSERT_TRUE(fleet.until([&] {
    return fleet.last.plan.stable && fleet.instance_of("p-0") != first;
  })) << fleet.note_text();
  EXPECT_EQ(fleet.volume_of("p-0")->id, volume);
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(1));
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_node_that_drains_and_releases_hands_its_volume_over_before_it_is_reclaimed) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-0")->id;
  const auto first = fleet.instance_of("p-0");
  fleet.hardware.mounted_volumes.insert(volume);
  const Instant notice = fleet.region.now();
  ASSERT_TRUE(fleet.region.interrupt(first).has_value());
  fleet.report(first, volume, NodeStage::draining);
  fleet.on_tick = [&] {
    if (fleet.region.now() - notice >= seconds{10}) {
      fleet.hardware.mounted_volumes.clear();
      fleet.report(first, volume, NodeStage::released);
    }
  };
  ASSERT_TRUE(fleet.until([&] {
    const auto now_on = fleet.instance_of("p-0");
    return !now_on.empty() && now_on != first;
  })) << fleet.note_text();
  EXPECT_LT(fleet.region.now() - notice, seconds{20}) << "well before the two minutes are over";
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_EQ(fleet.volume_of("p-0")->id, volume);
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_EQ(fleet.calls_of("RunInstances"), 2) << "one successor";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_restart_does_not_give_the_volume_back_to_the_instance_that_released_it) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto first = fleet.instance_of("p-0");
  fleet.report(first, fleet.volume_of("p-0")->id, NodeStage::released);
  ASSERT_TRUE(fleet.until([&] { return fleet.calls_of("DetachVolume") > 0; }));
  fleet.reports.clear();
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_NE(fleet.instance_of("p-0"), first);
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_release_that_was_heard_before_a_restart_is_still_followed_by_the_detach) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto first = fleet.instance_of("p-0");
  fleet.report(first, fleet.volume_of("p-0")->id, NodeStage::released);
  fleet.front.inject({"DetachVolume", FaultKind::throttled, 1, 0});
  fleet.tick();
  fleet.reports.clear();
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_NE(fleet.instance_of("p-0"), first);
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_lost_ledger_finds_the_next_unused_token_without_backing_off) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto lose_instance = [&] {
    std::ignore = fleet.region.terminate_instances({fleet.instance_of("p-0")});
    fleet.tick();
  };
  for (int i = 0; i < 10; ++i) {
    lose_instance();
    ASSERT_TRUE(fleet.until_stable());
  }
  fleet.lose_ledger();
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  lose_instance();
  EXPECT_TRUE(fleet.until_stable(minutes{3})) << fleet.note_text();
}

TEST(Reconciler, a_pool_that_left_the_spec_with_running_instances_is_one_blocking_note) {
  Fleet fleet(core::Desired{kDeployment, {pool_spec("p", 1, 1), pool_spec("q", 2, 2)}});
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.desired.pools.pop_back();
  fleet.people_interfere = true;  // more instances than the spec accounts for
  fleet.start();
  EXPECT_FALSE(fleet.tick().plan.stable);
  EXPECT_THAT(fleet.note_text(), HasSubstr("2 instances of pool q, which the spec does not name"));
  ASSERT_THAT(fleet.last.plan.notes, SizeIs(1));
  EXPECT_TRUE(fleet.last.plan.notes.front().blocking);
  EXPECT_THAT(fleet.live_instances(), SizeIs(3));
}

TEST(Reconciler, the_status_checks_of_more_instances_than_one_call_takes_are_all_read) {
  Fleet fleet(pool_spec("p", 101, 101));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable(minutes{30})) << fleet.note_text();
  fleet.until([&] { return fleet.last.observed.statuses.size() > 100; });
  EXPECT_THAT(fleet.last.observed.statuses, SizeIs(101));
}

TEST(Reconciler, a_drain_that_fails_ends_on_one_instance) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto first = fleet.instance_of("p-0");
  const auto volume = fleet.volume_of("p-0")->id;
  fleet.report(first, volume, NodeStage::draining);
  fleet.until([] { return false; }, seconds{30});
  fleet.report(first, volume, NodeStage::failed);
  fleet.tick();
  EXPECT_FALSE(fleet.last.plan.stable);
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_NE(fleet.instance_of("p-0"), first);
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, without_reports_an_interrupted_node_still_ends_on_a_successor) {
  Fleet fleet(pool_spec("p", 2, 2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto first = fleet.instance_of("p-1");
  const auto volume = fleet.volume_of("p-1")->id;
  ASSERT_TRUE(fleet.region.interrupt(first).has_value());
  ASSERT_TRUE(
      fleet.until([&] { return fleet.last.plan.stable && fleet.instance_of("p-1") != first; }));
  EXPECT_EQ(fleet.volume_of("p-1")->id, volume);
  EXPECT_THAT(fleet.live_instances(), SizeIs(2));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, an_impaired_instance_is_replaced) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto first = fleet.instance_of("p-0");
  ASSERT_TRUE(fleet.region.impair(first).has_value());
  ASSERT_TRUE(fleet.until([&] {
    return fleet.last.plan.stable && fleet.instance_of("p-0") != first;
  })) << fleet.note_text();
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_stuck_attach_starts_over_with_another_device_name) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.region.knobs.stuck_attaches = 1;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_EQ(fleet.volume_of("p-0")->link->device, "/dev/sdg");
  EXPECT_THAT(fleet.violations, IsEmpty());
}

// ---- pause and resume ----

TEST(Reconciler, pausing_ends_instances_and_resuming_brings_the_same_volumes_back) {
  Fleet fleet(pool_spec("p", 2, 2));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-1")->id;
  ASSERT_TRUE(fleet.ledger->pause("p", fleet.region.now()).has_value());
  fleet.tick();
  EXPECT_FALSE(fleet.last.plan.stable);
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.live_instances(), IsEmpty());
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(2));
  ASSERT_TRUE(fleet.ledger->resume("p", fleet.region.now()).has_value());
  ASSERT_TRUE(
      fleet.until([&] { return fleet.last.plan.stable && !fleet.live_instances().empty(); }));
  EXPECT_EQ(fleet.volume_of("p-1")->id, volume);
  EXPECT_NE(fleet.instance_of("p-1"), "");
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_reporting_node_is_drained_before_it_is_ended) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-0")->id;
  const auto instance = fleet.instance_of("p-0");
  fleet.hardware.mounted_volumes.insert(volume);
  fleet.report(instance, volume, NodeStage::warm);
  ASSERT_TRUE(fleet.ledger->pause("p", fleet.region.now()).has_value());
  fleet.tick();
  EXPECT_TRUE(fleet.last.plan.drains.contains(instance));
  EXPECT_EQ(fleet.calls_of("TerminateInstances"), 0);
  fleet.hardware.mounted_volumes.clear();
  fleet.report(instance, volume, NodeStage::released);
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_EQ(fleet.calls_of("DetachVolume"), 1);
  EXPECT_THAT(fleet.live_instances(), IsEmpty());
  EXPECT_THAT(fleet.violations, IsEmpty());
}

// ---- wishes that cannot be met, other people, other pools ----

struct WrongWish {
  const char* name;
  void (*change)(core::PoolSpec&);
  const char* note;
};

class ReconcilerWrongWish : public ::testing::TestWithParam<WrongWish> {};

TEST_P(ReconcilerWrongWish, is_said_and_nothing_is_half_done) {
  auto pool = pool_spec("p", 1, 1);
  GetParam().change(pool);
  Fleet fleet(pool);
  fleet.start();
  EXPECT_FALSE(fleet.until_stable(minutes{1}));
  EXPECT_THAT(fleet.note_text(), HasSubstr(GetParam().note));
  EXPECT_THAT(fleet.pool_volumes(), IsEmpty());
  EXPECT_THAT(fleet.live_instances(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReconcilerWrongWish,
    ::testing::Values(
        WrongWish{"unknown_ami", [](auto& pool) { pool.ami = "ami-0ffffffffffffffff"; },
                  "ami-0ffffffffffffffff is no AMI that this account can see"},
        WrongWish{"unknown_snapshot",
                  [](auto& pool) {
                    pool.ami.clear();
                    pool.snapshot = "snap-0ffffffffffffffff";
                  },
                  "snap-0ffffffffffffffff is no snapshot that this account may read"},
        WrongWish{"public_ami_with_an_unreadable_snapshot",
                  [](auto& pool) { pool.ami = "ami-04000000000000004"; },
                  "is no snapshot that this account may read"},
        WrongWish{"unknown_base_ami",
                  [](auto& pool) { pool.launch->base_ami = "ami-0ffffffffffffffff"; },
                  "ami-0ffffffffffffffff is no AMI"},
        WrongWish{"other_architecture", [](auto& pool) { pool.ami = "ami-03000000000000003"; },
                  "are arm64, but base AMI"},
        WrongWish{"wrong_zone", [](auto& pool) { pool.zones = {"eu-west-1a"}; },
                  "zone eu-west-1a is not in this Region"},
        WrongWish{"unknown_subnet",
                  [](auto& pool) {
                    pool.launch->subnets = {{"us-east-1a", "subnet-0ffffffffffffffff"}};
                  },
                  "is no subnet of this account"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Reconciler, two_pools_in_two_zones_are_served_side_by_side) {
  Fleet fleet(core::Desired{
      kDeployment,
      {pool_spec("p", 2, 2, {"us-east-1a", "us-east-1b"}), pool_spec("q", 1, 1, {"us-east-1b"})}});
  fleet.start();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_EQ(fleet.volume_of("p-1")->zone, "us-east-1b");
  EXPECT_EQ(fleet.region.instance(fleet.instance_of("q-0"))->tags.at("warmroot:pool"), "q");
  EXPECT_THAT(fleet.live_instances(), SizeIs(3));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

/// Otherwise each look at what is about to be detached could name one more, and none would go out.
TEST(Reconciler, a_plan_that_is_made_anew_after_a_second_look_hears_nothing_new) {
  Fleet fleet(pool_spec("p", 2, 2));
  fleet.observer.small_world = 0;
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto releases = [&](const std::string& node) {
    fleet.report(fleet.instance_of(node), fleet.volume_of(node)->id, NodeStage::released);
  };
  releases("p-0");
  int heard = 0;
  fleet.before_reports = [&] {
    if (++heard == 2) releases("p-1");
  };
  fleet.tick();
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(fleet.calls_of("DetachVolume"), 1);
  fleet.region.advance_by(fleet.last.plan.next_look);
  fleet.tick();
  EXPECT_EQ(fleet.calls_of("DetachVolume"), 2);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, an_instance_that_somebody_stopped_is_looked_at_no_more_than_the_rest) {
  auto pool = pool_spec("p", 1, 1);
  pool.launch.reset();
  Fleet fleet(pool);
  ASSERT_TRUE(fleet.launch_by_people("p"));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  ASSERT_TRUE(fleet.region.stop(fleet.instance_of("p-0")).has_value());
  fleet.until([] { return false; }, minutes{1});
  const auto before = fleet.front.calls().size();
  fleet.until([] { return false; }, minutes{5});
  EXPECT_LE(fleet.front.calls().size() - before, 5U * 60 / 2) << "a sweep is four calls in 5 s";
}

TEST(Reconciler, a_pool_without_launch_serves_what_others_launch_and_never_ends_it) {
  auto pool = pool_spec("p", 1, 1);
  pool.launch.reset();
  Fleet fleet(pool);
  fleet.start();
  ASSERT_FALSE(fleet.until_stable(minutes{1}));
  EXPECT_THAT(fleet.note_text(), HasSubstr("no running instance tagged warmroot:pool=p"));
  ASSERT_TRUE(fleet.launch_by_people("p"));
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_NE(fleet.instance_of("p-0"), "");
  ASSERT_TRUE(fleet.ledger->pause("p", fleet.region.now()).has_value());
  fleet.until_stable(minutes{5});
  EXPECT_EQ(fleet.calls_of("TerminateInstances"), 0);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, fewer_running_instances_are_wanted_and_the_rest_ends) {
  Fleet fleet(pool_spec("p", 3, 3));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  fleet.desired.pools.front().running = 1;
  fleet.people_interfere = true;  // three run already
  fleet.reconciler->set_desired(fleet.desired);
  fleet.tick();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_THAT(fleet.live_instances(), SizeIs(1));
  EXPECT_NE(fleet.instance_of("p-0"), "");
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(3));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_detach_by_hand_is_followed_by_a_new_attach) {
  Fleet fleet(pool_spec("p", 1, 1));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-0")->id;
  ASSERT_TRUE(fleet.region.detach_volume(volume, "", "", false).has_value());
  fleet.region.advance_by(seconds{30});
  fleet.tick();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
  EXPECT_NE(fleet.instance_of("p-0"), "");
  EXPECT_NE(fleet.volume_of("p-0")->link->device, "/dev/sdf")
      << "a name once used is not used again";
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_volume_deleted_by_somebody_is_made_again_after_a_minute) {
  Fleet fleet(pool_spec("p", 3, 0));
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto gone = fleet.volume_of("p-1")->id;
  ASSERT_TRUE(fleet.region.delete_volume(gone).has_value());
  fleet.region.advance_by(seconds{5});
  ASSERT_TRUE(fleet.until([&] { return fleet.last.plan.stable && fleet.volume_of("p-1"); }))
      << fleet.note_text();
  EXPECT_NE(fleet.volume_of("p-1")->id, gone);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_look_changes_nothing_in_the_region_or_the_ledger) {
  Fleet fleet(pool_spec("p", 2, 2));
  fleet.start();
  fleet.effects = 0;
  const auto report = fleet.reconciler->look();
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->plan.actions, SizeIs(2));
  EXPECT_EQ(fleet.effects, 0);
  EXPECT_THAT(fleet.pool_volumes(), IsEmpty());
}

TEST(Reconciler, a_look_that_was_overtaken_by_time_is_taken_again) {
  sim::RegionTimes times;
  times.visibility = Milliseconds{3000};
  Fleet fleet(core::Desired{kDeployment, {pool_spec("p", 1, 0)}}, times);
  fleet.start();
  ASSERT_TRUE(fleet.until([&] { return fleet.pool_volumes().size() == 1; }, minutes{1}));
  fleet.region.advance_by(seconds{1});  // not shown yet
  fleet.frozen_after_look = minutes{10};
  fleet.tick();
  EXPECT_THAT(fleet.last.calls, IsEmpty());
  EXPECT_THAT(fleet.note_text(), Not(HasSubstr("does not exist")));
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST(Reconciler, a_stop_request_ends_the_tick_between_statements) {
  Fleet fleet(pool_spec("p", 1, 0));
  fleet.start();
  fleet.region.advance_by(seconds{10});
  std::stop_source stop;
  fleet.ledger->on_write = [&](const char*) { stop.request_stop(); };
  ASSERT_TRUE(fleet.reconciler->tick(stop.get_token()).has_value());
  EXPECT_THAT(fleet.pool_volumes(), IsEmpty()) << "recorded, not sent";
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(1));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

}  // namespace
}  // namespace warmroot
