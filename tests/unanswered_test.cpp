// What becomes of calls that EC2 has given no clear answer to, as a table; reconciler_trouble_test
// has them whole.
#include "manager/core/unanswered.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/planner_world.hpp"

namespace warmroot::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

/// Recorded `age` ago, tried once since, and not heard of for a second.
Intent call(const char* action, std::vector<std::string> resources, const char* token,
            Milliseconds age = seconds{10}) {
  Intent intent;
  intent.id = 1;
  intent.call = {action, ""};
  intent.pool = "p";
  intent.resources = std::move(resources);
  intent.token = token;
  intent.state = IntentState::unknown;
  intent.recorded = kNow - age;
  intent.attempts = 1;
  intent.tried = intent.silent = kNow - std::min<Milliseconds>(age, seconds{1});
  return intent;
}

/// Of vol-0 to i-0.
Intent attach(Milliseconds age = seconds{10}, Milliseconds silent_for = seconds{1}) {
  Intent intent = call("AttachVolume", {"vol-0", "i-0"}, "", age);
  intent.silent = kNow - silent_for;
  return intent;
}

Intent tried_just_now(Intent intent) {
  intent.tried = kNow;
  return intent;
}

/// p-0 has vol-0, p-1 has vol-1; i-0 and i-1 run.
World two_nodes() {
  World world(2, 2);
  for (const auto* name : {"0", "1"}) {
    world.volume(std::string("vol-") + name, *name - '0');
    world.instance(std::string("i-") + name);
  }
  return world;
}

TEST(Unanswered, a_call_is_sent_again_rests_or_is_withdrawn) {
  struct Case {
    const char* what;
    Intent intent;
    std::function<void(World&)> change;
    Unanswered becomes;
  };
  using enum Unanswered;
  const auto create = call("CreateVolume", {}, "token");
  const auto launch = call("RunInstances", {}, "token");
  const Case cases[] = {
      {"a create", create, {}, again},
      {"a create that was just tried", tried_just_now(create), {}, rests},
      {"a create whose token EC2 may have forgotten",
       call("CreateVolume", {}, "token", hours{7}),
       {},
       withdrawn},
      {"a launch", launch, {}, again},
      {"a launch for a paused pool", launch,
       [](World& world) { world.ledger.paused_pools.insert("p"); }, withdrawn},
      {"a launch for a pool that wants none", launch,
       [](World& world) { world.pool().running = 0; }, withdrawn},
      {"a fleet for a pool that is gone", call("CreateFleet", {}, "token"),
       [](World& world) { world.desired.pools.clear(); }, withdrawn},
      {"a create for a paused pool", create,
       [](World& world) { world.ledger.paused_pools.insert("p"); }, again},
      {"an end", call("TerminateInstances", {"i-0"}, ""), {}, withdrawn},
      {"an end that was just tried",
       tried_just_now(call("TerminateInstances", {"i-0"}, "")),
       {},
       withdrawn},
      {"a detach", call("DetachVolume", {"vol-0", "i-0"}, ""), {}, withdrawn},
      {"an attach", attach(), {}, again},
      {"an attach that was just tried", tried_just_now(attach()), {}, rests},
      {"an attach that EC2 shows", attach(), [](World& world) { world.attach("vol-0", "i-0"); },
       again},
      {"an attach of what EC2 shows elsewhere", attach(),
       [](World& world) { world.attach("vol-0", "i-1"); }, withdrawn},
      {"an attach to what has another volume by now", attach(),
       [](World& world) { world.attach("vol-1", "i-0"); }, rests},
      {"an attach to what booted from a disk with our tags", attach(),
       [](World& world) {
         world.attach("vol-1", "i-0");
         world.observed.volumes.at("vol-1").attachments.front().device = "/dev/xvda";
       },
       again},
      {"an old attach that may be carried out yet", attach(minutes{2}, seconds{29}), {}, rests},
      {"an old attach that may be carried out yet, of what EC2 shows elsewhere",
       attach(minutes{2}, seconds{29}), [](World& world) { world.attach("vol-0", "i-1"); }, rests},
      {"an old attach whose time is over", attach(minutes{2}, seconds{30}), {}, withdrawn},
  };
  for (const auto& each : cases) {
    auto world = two_nodes();
    if (each.change) each.change(world);
    const UnansweredFacts facts{world.desired, world.ledger.paused_pools, world.observed.volumes,
                                world.observed.instances};
    EXPECT_EQ(becomes_of(each.intent, facts, kNow), each.becomes) << each.what;
  }
}

TEST(Unanswered, before_the_first_look_an_attach_is_sent_again) {
  const World world;
  const SharedMap<aws::Volume> volumes{};
  const SharedMap<aws::Instance> instances{};
  const UnansweredFacts facts{world.desired, world.ledger.paused_pools, volumes, instances};
  EXPECT_EQ(becomes_of(attach(), facts, kNow), Unanswered::again);
}

TEST(Unanswered, what_was_sent_may_be_carried_out_for_half_a_minute) {
  EXPECT_TRUE(may_yet_be_carried_out(kNow, kNow));
  EXPECT_TRUE(may_yet_be_carried_out(kNow - Milliseconds{29'999}, kNow));
  EXPECT_FALSE(may_yet_be_carried_out(kNow - seconds{30}, kNow));
}

}  // namespace
}  // namespace warmroot::core
