// Instances that others launch are looked at when an event or a hello names them, however large the
// world is; ids of nobody cost one call in a while, whoever names them.
#include "manager/strangers.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using manager::kStrangersAtOnce;
using manager::kStrangersEvery;
using manager::kStrangersWaiting;
using manager::Strangers;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

std::string forged(int number) {
  return fmt::format("i-0f0f0f0f0{:08x}", number);
}

TEST(Strangers, what_has_not_the_form_of_an_instance_s_id_is_never_asked_about) {
  Strangers strangers;
  for (const char* id : {"", "i-", "i-xyz", "vol-0123456789abcdef0", "i-0123456789ABCDEF0",
                         "i-0123456789abcdef", "i-*", "i-0123456789abcde?0"})
    strangers.hear_of(id);
  EXPECT_THAT(strangers.to_ask(kFleetStart), IsEmpty());
  strangers.hear_of("i-0123abcd");
  strangers.hear_of("i-0123456789abcdef0");
  EXPECT_THAT(strangers.to_ask(kFleetStart), ElementsAre("i-0123abcd", "i-0123456789abcdef0"));
}

TEST(Strangers, one_request_in_a_while_asks_for_all_that_waited) {
  Strangers strangers;
  Instant now = kFleetStart;
  for (int i = 0; i < 250; ++i) strangers.hear_of(forged(i));
  const auto first = strangers.to_ask(now);
  EXPECT_THAT(first, SizeIs(kStrangersAtOnce));
  strangers.answered(first, now);
  EXPECT_THAT(strangers.to_ask(now + kStrangersEvery - Milliseconds{1}), IsEmpty());
  EXPECT_THAT(strangers.to_ask(now + kStrangersEvery), SizeIs(250 - kStrangersAtOnce));
}

TEST(Strangers, one_that_is_named_again_and_again_is_asked_about_ever_more_rarely) {
  Strangers strangers;
  int asked = 0;
  for (Instant now = kFleetStart; now < kFleetStart + std::chrono::hours{1}; now += seconds{1}) {
    strangers.hear_of(forged(1));
    const auto ids = strangers.to_ask(now);
    if (ids.empty()) continue;
    ++asked;
    strangers.answered(ids, now);
  }
  EXPECT_GE(asked, 10) << "a young instance is not given up";
  EXPECT_LE(asked, 16);
}

TEST(Strangers, a_flood_is_bounded_and_lets_a_real_one_in_later) {
  Strangers strangers;
  for (int i = 0; i < 100'000; ++i) strangers.hear_of(forged(i));
  Instant now = kFleetStart;
  std::size_t asked = 0;
  for (int round = 0; round < 10; ++round, now += kStrangersEvery) {
    const auto ids = strangers.to_ask(now);
    asked += ids.size();
    strangers.answered(ids, now);
  }
  EXPECT_EQ(asked, kStrangersWaiting);
  strangers.hear_of("i-0123456789abcdef0");
  EXPECT_THAT(strangers.to_ask(now), ElementsAre("i-0123456789abcdef0"));
}

TEST(Strangers, no_answer_puts_them_off_and_keeps_them) {
  Strangers strangers;
  strangers.hear_of(forged(1));
  strangers.put_off(kFleetStart);
  EXPECT_THAT(strangers.to_ask(kFleetStart), IsEmpty());
  EXPECT_THAT(strangers.to_ask(kFleetStart + kStrangersEvery), ElementsAre(forged(1)));
  strangers.forget(forged(1));
  EXPECT_THAT(strangers.to_ask(kFleetStart + kStrangersEvery), IsEmpty());
}

/// A pool of a group in a world that is never listed as a whole between sweeps, just after one.
struct LargeWorld {
  LargeWorld() : fleet(pool()) {
    fleet.observer.small_world = 0;
    fleet.observer.told = true;
    fleet.start();
    CHECK(fleet.until_stable());
    const auto sweeps = [this] { return calls_with("Filter.1.Name=tag%3Awarmroot%3Apool"); };
    const auto before = sweeps();
    while (sweeps() == before) wait(Milliseconds{200});
    wait(Milliseconds{200});
  }
  static core::PoolSpec pool() {
    auto made = pool_spec("p", 1, 1);
    made.launch.reset();
    made.auto_scaling_group = "workers";
    return made;
  }
  void wait(Milliseconds time) {
    fleet.region.advance_by(time);
    fleet.tick();
  }
  std::string launch(const std::string& deployment = "", const char* pool = "p") {
    sim::RunInstancesArgs args;
    args.image_id = kBaseAmi;
    args.type = "g5.xlarge";
    args.zone = "us-east-1a";
    if (pool) args.instance_tags["warmroot:pool"] = pool;
    if (!deployment.empty()) args.instance_tags["warmroot:deployment"] = deployment;
    return fleet.region.launch_in_group("workers", args)->id;
  }
  long calls_with(const std::string& part) const {
    return std::count_if(
        fleet.front.calls().begin(), fleet.front.calls().end(),
        [&](const auto& call) { return call.body.find(part) != std::string::npos; });
  }
  long asked_for_strangers() const { return calls_with("tag-key"); }

  Fleet fleet;
};

TEST(StrangersFleet, an_instance_that_others_launch_is_seen_in_the_tick_after_its_event) {
  LargeWorld world;
  const auto id = world.launch();
  world.wait(Milliseconds{300});
  ASSERT_THAT(world.fleet.last.observed.instances, Not(Contains(Key(id)))) << "a listing showed it";
  EXPECT_TRUE(world.fleet.reconciler->look_at({id}));
  world.wait(Milliseconds{300});
  EXPECT_THAT(world.fleet.last.observed.instances, Contains(Key(id)));
  EXPECT_EQ(world.asked_for_strangers(), 1);
  EXPECT_TRUE(world.fleet.until([&] { return world.fleet.instance_of("p-0") == id; }, seconds{20}));
  EXPECT_THAT(world.fleet.violations, IsEmpty());
}

TEST(StrangersFleet, forged_ids_cost_one_call_in_a_while_and_hide_nobody) {
  LargeWorld world;
  const auto began = world.fleet.region.now();
  std::string real;
  for (int step = 0; step < 30; ++step) {
    std::vector<std::string> ids;
    for (int i = 0; i < 40; ++i) ids.push_back(forged(step * 40 + i));
    ids.push_back("i-nonsense");
    if (step == 15) ids.push_back(real = world.launch());
    world.fleet.reconciler->look_at(ids);
    world.wait(Milliseconds{100});
    EXPECT_TRUE(world.fleet.last.observed.complete);
  }
  const auto took = world.fleet.region.now() - began;
  EXPECT_LE(world.asked_for_strangers(), took / kStrangersEvery + 1);
  EXPECT_GE(world.asked_for_strangers(), 1);
  for (int i = 0; i < 10; ++i) world.wait(kStrangersEvery);
  EXPECT_THAT(world.fleet.last.observed.instances, Contains(Key(real)));
  EXPECT_LE(world.fleet.last.observed.instances.size(), 1u) << "the forged are nobody";
}

TEST(StrangersFleet, what_is_none_of_ours_stays_out_of_the_view) {
  LargeWorld world;
  const std::vector<std::string> foreign = {world.launch("another", "q"), world.launch("", "q"),
                                            world.launch("", nullptr)};
  world.fleet.reconciler->look_at(foreign);
  world.wait(Milliseconds{100});
  EXPECT_EQ(world.asked_for_strangers(), 1);
  EXPECT_THAT(world.fleet.last.observed.instances, IsEmpty());
}

TEST(StrangersFleet, a_question_without_an_answer_leaves_the_view_whole_and_is_asked_again) {
  LargeWorld world;
  const auto id = world.launch();
  world.fleet.reconciler->look_at({id});
  world.fleet.front.inject({"DescribeInstances", sim::FaultKind::internal, 8, 0});
  world.fleet.tick();
  EXPECT_TRUE(world.fleet.last.observed.complete) << world.fleet.note_text();
  world.fleet.front.faults().clear();
  world.wait(kStrangersEvery);
  EXPECT_THAT(world.fleet.last.observed.instances, Contains(Key(id)));
}

}  // namespace
}  // namespace warmroot
