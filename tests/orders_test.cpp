// What operators order by hand: first as tables over the pure rule, then whole, on the region. The
// order to release is release_orders_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/adopting.hpp"
#include "manager/core/backoff.hpp"
#include "manager/core/ordering.hpp"
#include "manager/core/unanswered.hpp"
#include "manager/pool_end.hpp"
#include "tests/fleet_harness.hpp"
#include "tests/order_world.hpp"

namespace warmroot {
namespace {

using core::OrderKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- attach ----

TEST(AttachOrder, an_instance_that_nobody_tagged_becomes_one_of_the_pool) {
  OrderWorld world;
  world.volume("vol-1");
  auto& instance = world.instance("i-9");
  instance.tags.clear();
  world.ledger.instances.clear();
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("CreateTags i-9"));
}

TEST(AttachOrder, a_tagged_instance_gets_the_free_volume_even_when_only_orders_are_carried_out) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-9");
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-1 to i-9 as /dev/sdf"));
}

/// It got one, and was ended with the session that came with it.
TEST(AttachOrder, an_instance_whose_end_had_no_clear_answer_gets_its_volume_once_that_is_lost) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-9");
  world.ledger.failures["TerminateInstances/i-9"] = {1, core::kNow, core::kWithdrawn, true, ""};
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.settled(), "");
  world.now += core::kCarriedOutWithin;
  world.observed.at = world.now;
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-1 to i-9 as /dev/sdf"));
}

TEST(AttachOrder, goes_to_the_node_that_has_its_volume) {
  OrderWorld world(2, 2);
  world.volume("vol-1", 1);  // p-0's is still to be made
  world.instance("i-9");
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), ElementsAre("AttachVolume vol-1 to i-9 as /dev/sdf"));
}

TEST(AttachOrder, leases_nothing_that_does_not_exist_yet) {
  OrderWorld world;
  world.instance("i-9");
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  for (const auto& record : world.plan().records)
    EXPECT_FALSE(std::holds_alternative<core::RecordLease>(record));
}

TEST(AttachOrder, is_met_once_ec2_shows_the_attachment) {
  auto world = served();
  world.order(OrderKind::attach, "i-1", "p");
  EXPECT_THAT(world.settled(), HasSubstr("met: i-1 has p-0's volume vol-1"));
}

TEST(AttachOrder, is_refused_with_a_reason) {
  struct Case {
    const char* name;
    std::function<void(OrderWorld&)> change;
    const char* reason;
  };
  const Case cases[] = {
      {"no such pool",
       [](OrderWorld& world) {
         world.ledger.orders.back().pool = "q";
         world.observed.instances.at("i-9").tags.clear();
       },
       "no pool q"},
      {"dying",
       [](OrderWorld& world) {
         world.observed.instances.at("i-9").state = aws::InstanceState::shutting_down;
       },
       "is being terminated"},
      {"stopped",
       [](OrderWorld& world) {
         world.observed.instances.at("i-9").state = aws::InstanceState::stopped;
       },
       "start it first"},
      {"another deployment's",
       [](OrderWorld& world) {
         world.observed.instances.at("i-9").tags[core::kTagDeployment] = "other";
       },
       "deployment other"},
      {"another pool's",
       [](OrderWorld& world) { world.observed.instances.at("i-9").tags[core::kTagPool] = "q"; },
       "pool q"},
      {"another zone",
       [](OrderWorld& world) { world.observed.instances.at("i-9").availability_zone = "z-b"; },
       "no node of p in z-b"},
      {"gave its volume back",
       [](OrderWorld& world) {
         world.ledger.departures["i-9"] = {true, core::kNow};
       },
       "has given its volume back"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    OrderWorld world;
    world.volume("vol-1");
    world.instance("i-9");
    world.order(OrderKind::attach, "i-9", "p");
    world.limits.orders_only = true;
    each.change(world);
    EXPECT_THAT(world.settled(), HasSubstr("refused: "));
    EXPECT_THAT(world.settled(), HasSubstr(each.reason));
    EXPECT_THAT(world.calls(), IsEmpty());
  }
}

TEST(AttachOrder, an_instance_that_carries_a_volume_of_ours_gets_no_second_one) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-9").tags[core::kTagLaunchVolume] = core::kLaunchDevice;
  auto& carried = world.stranger("vol-9");
  carried.tags.erase(core::kTagNode);
  carried.tags[core::kTagRole] = core::kRoleLaunch;
  carried.state = aws::VolumeState::in_use;
  carried.attachments = {
      {"vol-9", "i-9", core::kLaunchDevice, aws::AttachmentState::attached, core::kNow, false}};
  world.order(OrderKind::attach, "i-9", "p");
  world.limits.orders_only = true;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.settled(), "") << "one look may lag";
  world.ledger.watches["carries/i-9"] = {core::kNow - core::kVisibilityWindow, 2};
  EXPECT_THAT(world.settled(), HasSubstr("refused: i-9 has a volume of ours"));
}

TEST(AttachOrder, one_look_that_does_not_show_the_instance_refuses_nothing) {
  OrderWorld world;
  world.volume("vol-1");
  world.order(OrderKind::attach, "i-9", "p");
  EXPECT_EQ(world.settled(), "");
  world.ledger.watches["ordered/i-9"] = {core::kNow - core::kVisibilityWindow, 2};
  EXPECT_THAT(world.settled(), HasSubstr("refused: EC2 does not show i-9"));
}

TEST(DeleteOrder, is_not_met_by_the_absence_of_everything) {
  OrderWorld world(2, 0);
  for (const auto* id : {"vol-0", "vol-1"}) world.volume(id, id[4] - '0');
  world.observed.volumes = {};  // another account's answers
  world.order(OrderKind::delete_volume, "vol-0", "", "yes");
  world.ledger.watches["ordered/vol-0"] = {core::kNow - core::kVisibilityWindow, 2};
  EXPECT_EQ(world.settled(), "");
}

// ---- volumes ----

TEST(VolumeOrder, quarantine_and_return_change_the_tag) {
  OrderWorld world;
  auto& volume = world.volume("vol-1");
  world.limits.orders_only = true;
  world.order(OrderKind::quarantine, "vol-1", "", "odd journal");
  const auto plan = world.plan();
  const auto* tags = core::only<aws::CreateTags>(plan);
  ASSERT_NE(tags, nullptr);
  EXPECT_EQ(tags->tags.at(core::kTagQuarantined), "odd journal");
  volume.tags[core::kTagQuarantined] = "odd journal";
  EXPECT_THAT(world.settled(), HasSubstr("met: "));
  world.ledger.orders.back().kind = OrderKind::return_volume;
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("DeleteTags vol-1")));
}

TEST(VolumeOrder, a_volume_that_is_being_set_aside_is_not_attached_in_the_same_plan) {
  OrderWorld world;
  world.volume("vol-1");
  world.instance("i-9");
  world.order(OrderKind::quarantine, "vol-1");
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("CreateTags vol-1")));
}

TEST(VolumeOrder, a_return_before_the_tag_went_out_leaves_no_tag_behind) {
  OrderWorld world;
  world.volume("vol-1");
  world.limits.orders_only = true;
  world.order(OrderKind::quarantine, "vol-1");
  world.order(OrderKind::return_volume, "vol-1");
  world.ledger.orders.back().id = 2;
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.settled(), "refused: vol-1 was ordered to be used again since");
}

TEST(VolumeOrder, a_volume_in_use_is_neither_set_aside_nor_deleted) {
  for (const auto kind : {OrderKind::quarantine, OrderKind::delete_volume}) {
    auto world = served();
    world.order(kind, "vol-1", "", "yes");
    EXPECT_THAT(world.settled(), HasSubstr("refused: vol-1 is with i-1"));
    EXPECT_THAT(world.calls(), IsEmpty());
  }
}

TEST(VolumeOrder, data_of_sessions_is_deleted_only_with_the_operators_second_word) {
  OrderWorld world;
  world.volume("vol-1");
  world.limits.orders_only = true;
  world.order(OrderKind::delete_volume, "vol-1");
  EXPECT_THAT(world.settled(), HasSubstr("refused: vol-1 may hold data of sessions"));
  world.ledger.orders.back().detail = "yes";
  EXPECT_THAT(world.calls(), ElementsAre("DeleteVolume vol-1"));
}

TEST(VolumeOrder, a_delete_that_ec2_calls_done_and_shows_undone_is_asked_for_ever_more_seldom) {
  OrderWorld world;
  world.volume("vol-1");
  world.pool().launch.reset();
  world.order(OrderKind::delete_volume, "vol-1", "", "yes");
  ASSERT_THAT(world.calls(), ElementsAre("DeleteVolume vol-1"));
  std::vector<int> asked_at;
  for (int look = 1; look <= 16; ++look) {
    const auto plan = world.plan();
    if (!plan.actions.empty()) asked_at.push_back(look);
    ASSERT_THAT(plan.watches, Contains("asked/DeleteVolume/vol-1"));
    world.ledger.watches["asked/DeleteVolume/vol-1"] = {core::kNow, look};
  }
  EXPECT_THAT(asked_at, ElementsAre(1, 2, 4, 8, 16));
}

TEST(VolumeOrder, anothers_volume_is_left_alone) {
  OrderWorld world;
  world.stranger("vol-1").tags[core::kTagDeployment] = "other";
  world.limits.orders_only = true;
  for (const auto kind :
       {OrderKind::quarantine, OrderKind::return_volume, OrderKind::delete_volume}) {
    world.ledger.orders.clear();
    world.order(kind, "vol-1", "", "yes");
    EXPECT_THAT(world.settled(), HasSubstr("is left alone"));
    EXPECT_THAT(world.calls(), IsEmpty());
  }
}

TEST(VolumeOrder, an_incomplete_view_moves_nothing) {
  OrderWorld world;
  world.volume("vol-1");
  world.observed.complete = false;
  world.order(OrderKind::delete_volume, "vol-1", "", "yes");
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.settled(), "");
}

TEST(Order, that_nobody_could_meet_expires) {
  auto world = served();
  world.report("i-1", "vol-1", NodeStage::ready);
  world.order(OrderKind::release, "i-1");
  world.ledger.orders.back().asked = core::kNow - core::kOrderExpires;
  EXPECT_THAT(world.settled(), HasSubstr("not met within 15 minutes"));
}

// ---- the end of a pool ----

TEST(PoolEnd, a_volume_that_is_leased_in_any_way_keeps_its_pool) {
  core::Observed observed;
  for (const char* id : {"vol-free", "vol-attached", "vol-reserved", "vol-attaching", "vol-over",
                         "vol-next", "vol-other"}) {
    aws::Volume volume;
    volume.volume_id = id;
    volume.tags[core::kTagPool] = std::string_view(id) == "vol-other" ? "q" : "p";
    if (std::string_view(id) == "vol-attached")
      volume.attachments.push_back(
          {id, "i-1", "/dev/sdf", aws::AttachmentState::attached, {}, false});
    observed.volumes.insert_or_assign(id, volume);
  }
  core::LedgerView ledger;
  const auto lease = [](const char* volume, const char* instance, core::LeaseState state) {
    core::Lease made;
    made.pool = "p";
    made.volume_id = volume;
    made.instance_id = instance;
    made.state = state;
    return made;
  };
  ledger.leases = {lease("vol-reserved", "i-2", core::LeaseState::reserved),
                   lease("vol-attaching", "i-3", core::LeaseState::attaching),
                   lease("vol-over", "i-4", core::LeaseState::active),
                   lease("vol-other", "i-6", core::LeaseState::active)};
  core::Plan plan;
  plan.records = {
      core::RecordLease{lease("vol-over", "i-4", core::LeaseState::ended), "the instance is gone"},
      core::RecordLease{lease("vol-next", "i-5", core::LeaseState::reserved), ""}};
  const auto end = manager::end_of_pool("p", observed, ledger, plan);
  EXPECT_THAT(end.free, ::testing::UnorderedElementsAre("vol-free", "vol-over"));
  EXPECT_THAT(end.leased, ::testing::UnorderedElementsAre(::testing::Pair("vol-attached", "i-1"),
                                                          ::testing::Pair("vol-reserved", "i-2"),
                                                          ::testing::Pair("vol-attaching", "i-3"),
                                                          ::testing::Pair("vol-next", "i-5")));
}

// ---- on the region ----

class OrderedFleet : public ::testing::Test {
 protected:
  std::int64_t place(OrderKind kind, const std::string& subject, const std::string& pool = "",
                     const std::string& detail = "") {
    const auto id = fleet.ledger->place_order({0, kind, subject, pool, detail, fleet.region.now()});
    EXPECT_TRUE(id.has_value());
    return id.value_or(0);
  }
  manager::OrderStanding wait_for(std::int64_t id) {
    fleet.until([&] { return fleet.ledger->order(id)->state != manager::OrderState::open; });
    return *fleet.ledger->order(id);
  }

  Fleet fleet{pool_spec("p", 2, 2)};
};

TEST_F(OrderedFleet, release_hands_the_volume_to_a_replacement) {
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto before = fleet.instance_of("p-0");
  const auto volume = fleet.volume_of("p-0")->id;
  const auto standing = wait_for(place(OrderKind::release, before));
  EXPECT_EQ(standing.state, manager::OrderState::met) << standing.answer;
  ASSERT_TRUE(fleet.until_stable());
  EXPECT_NE(fleet.instance_of("p-0"), before);
  EXPECT_EQ(fleet.volume_of("p-0")->id, volume);
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST_F(OrderedFleet, a_deleted_volume_of_a_paused_pool_is_gone_and_surprises_nobody) {
  fleet.start();
  ASSERT_TRUE(fleet.until_stable());
  const auto volume = fleet.volume_of("p-0")->id;
  ASSERT_TRUE(fleet.ledger->pause("p", fleet.region.now()).has_value());
  ASSERT_TRUE(fleet.until_stable());
  const auto standing = wait_for(place(OrderKind::delete_volume, volume, "", "yes"));
  EXPECT_EQ(standing.state, manager::OrderState::met) << standing.answer;
  EXPECT_EQ(fleet.calls_of("DeleteVolume"), 1);
  EXPECT_FALSE(fleet.last.plan.notes.size() > 0 &&
               fleet.note_text().find("nothing is changed") != std::string::npos)
      << fleet.note_text();
}

TEST_F(OrderedFleet, the_same_order_twice_is_one_order) {
  fleet.start();
  const auto first = place(OrderKind::release, "i-0123456789abcdef0");
  EXPECT_EQ(place(OrderKind::release, "i-0123456789abcdef0"), first);
}

}  // namespace
}  // namespace warmroot
