// What an operator's order to release an instance's volume does, as tables over the pure rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/backoff.hpp"
#include "manager/core/ordering.hpp"
#include "tests/order_world.hpp"

namespace warmroot {
namespace {

using core::OrderKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReleaseOrder, a_node_that_reports_is_asked_to_unmount_first) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-1"));
}

TEST(ReleaseOrder, is_not_met_by_the_release_of_an_earlier_volume) {
  auto world = served();
  world.report("i-1", "vol-before", NodeStage::released);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  world.ledger.departures["i-1"] = {true, core::kNow, {}, false, "vol-before"};
  world.ledger.leases.back().state = core::LeaseState::leaving;
  world.now += core::kDrainPatience;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
}

TEST(ReleaseOrder, a_node_is_asked_to_unmount_until_it_has_and_then_loses_the_volume) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  // Since the first look it is known to depart.
  world.ledger.departures["i-1"] = {false, core::kNow};
  world.ledger.leases.back().state = core::LeaseState::leaving;
  world.now += std::chrono::seconds{20};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-1"));
  world.now = core::kNow + core::kDrainPatience;
  world.observed.reports.at("i-1").received = world.now;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
  world.ledger.leases.back().since = world.now;
  EXPECT_THAT(world.calls(), IsEmpty()) << "asked for once";
}

TEST(ReleaseOrder, a_node_that_does_not_report_loses_the_volume_to_the_operators_word) {
  auto world = served();
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
}

/// Such a node reports failed, and people go on in the volume: it was detached under them.
TEST(ReleaseOrder, a_node_whose_sessions_left_the_volume_is_asked_to_unmount_first) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::failed);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-1"));
  // Since the first look it is known to depart.
  world.ledger.departures["i-1"] = {false, core::kNow};
  world.ledger.leases.back().state = core::LeaseState::leaving;
  world.report("i-1", "vol-1", NodeStage::released);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
  world.report("i-1", "vol-1", NodeStage::failed);
  world.now += core::kDrainPatience;
  world.observed.reports.at("i-1").received = world.now;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1")) << "it could not unmount";
}

TEST(ReleaseOrder, a_node_that_failed_and_is_silent_since_loses_the_volume_to_the_operators_word) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::failed, core::kReportFresh);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
  EXPECT_THAT(world.plan().drains, IsEmpty());
}

/// With the volume's id, or without: it may have failed before it saw the disk.
TEST(ReleaseOrder, a_bring_up_that_failed_answers_the_wish_and_is_detached_then) {
  for (const char* volume : {"vol-1", ""}) {
    auto world = served();
    world.report("i-1", volume, NodeStage::failed);
    world.order(OrderKind::release, "i-1");
    world.limits.orders_only = true;
    EXPECT_TRUE(world.plan().drains.contains("i-1")) << volume;
    world.report("i-1", volume, NodeStage::released);
    EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1")) << volume;
  }
}

TEST(ReleaseOrder, the_replacement_is_launched_in_the_same_plan) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("RunInstances")));
}

TEST(ReleaseOrder, the_volume_is_detached_once_however_the_word_came) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::released);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
}

TEST(ReleaseOrder, a_node_of_a_pool_that_the_spec_names_no_more_is_asked_to_unmount_too) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  world.pool().name = "q";
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-1"));
  world.report("i-1", "vol-1", NodeStage::released);
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
  world.report("i-1", "vol-1", NodeStage::ready);
  world.now += core::kDrainPatience;
  world.observed.reports.at("i-1").received = world.now;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1"))
      << "the operator's word, when it does not";
}

/// It may be up again, and lost the volume under its sessions at the first look after the restart.
TEST(ReleaseOrder, a_node_of_such_a_pool_that_gave_back_before_a_restart_of_ours_is_heard_first) {
  auto world = served();
  world.order(OrderKind::release, "i-1");
  world.limits.orders_only = true;
  world.pool().name = "q";
  world.ledger.departures["i-1"] = {
      true, core::kNow - std::chrono::seconds{20}, {}, false, "vol-1"};
  world.observed.hears_since = core::kNow - core::kHeardWithin + Milliseconds{1};
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().wake, core::kNow + Milliseconds{1});
  auto heard = world;
  heard.report("i-1", "vol-1", NodeStage::ready);
  EXPECT_TRUE(heard.plan().drains.contains("i-1")) << "it is";
  EXPECT_THAT(heard.calls(), IsEmpty());
  heard.report("i-1", "vol-1", NodeStage::released);
  EXPECT_THAT(heard.calls(), ElementsAre("DetachVolume vol-1 from i-1"));
  world.observed.hears_since = core::kNow - core::kHeardWithin;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-1 from i-1")) << "nobody speaks";
}

TEST(ReleaseOrder, one_that_waits_for_a_volume_waits_no_more_and_gets_none) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-1");
  world.lease("vol-1", "i-1", core::LeaseState::reserved);
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("AttachVolume vol-1 to i-1")));
  world.order(OrderKind::release, "i-1");
  EXPECT_THAT(world.settled(), HasSubstr("met: i-1 waited for a volume and serves no more"));
  EXPECT_THAT(world.calls(), ::testing::Not(Contains(HasSubstr("AttachVolume vol-1 to i-1"))));
  bool ended = false;
  bool departs = false;
  for (const auto& record : world.plan().records) {
    if (const auto* lease = std::get_if<core::RecordLease>(&record))
      ended |= lease->lease.state == core::LeaseState::ended;
    if (const auto* departure = std::get_if<core::RecordDeparture>(&record))
      departs |= departure->instance_id == "i-1";
  }
  EXPECT_TRUE(ended && departs);
}

TEST(ReleaseOrder, is_the_operators_word_also_where_only_a_hint_said_so_before) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  for (const bool hinted : {false, true}) {
    if (hinted) world.ledger.departures["i-1"] = {false, core::kNow, {}, true, ""};
    int serious = 0;
    for (const auto& record : world.plan().records)
      if (const auto* departure = std::get_if<core::RecordDeparture>(&record))
        serious += departure->instance_id == "i-1" && !departure->departure.advised;
    EXPECT_EQ(serious, 1) << hinted;
  }
  world.ledger.departures["i-1"] = {false, core::kNow, {}, false, ""};
  for (const auto& record : world.plan().records)
    EXPECT_FALSE(std::holds_alternative<core::RecordDeparture>(record)) << "once";
}

TEST(ReleaseOrder, is_met_when_no_lease_holds_a_volume) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-1");
  world.order(OrderKind::release, "i-1");
  EXPECT_THAT(world.settled(), HasSubstr("met: i-1 holds no volume of ours"));
}

}  // namespace
}  // namespace warmroot
