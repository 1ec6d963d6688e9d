// Random events in random order, from a seed that is printed: interruptions, power cuts, lost
// answers, people's detaches, crashes of the manager with and without its ledger. When they stop,
// every node must be served and nothing doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kSeeds = 40;
constexpr int kEvents = 12;
constexpr std::size_t kNodes = 4;

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed)
      : random_(seed),
        fleet(core::Desired{kDeployment,
                            {pool_spec("p", 3, 3, {"us-east-1a", "us-east-1b"}),
                             pool_spec("q", 1, 1, {"us-east-1b"})}},
              times()) {}

  void run() {
    fleet.start();
    for (int event = 0; event < kEvents; ++event) {
      guarded([this] { fleet.until([] { return false; }, Milliseconds{draw(20'000)}); });
      guarded([this] { happen(); });
    }
    settle();
  }

 private:
  static sim::RegionTimes times() {
    sim::RegionTimes times;
    times.jitter = 0.5;
    times.visibility = Milliseconds{1500};
    return times;
  }

  int draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  /// Runs a part of the manager's life; when it dies in it, the next manager starts.
  void guarded(const std::function<void()>& part) {
    try {
      part();
    } catch (const Crash&) {
      fleet.die_at = 0;
      fleet.start();
    }
  }

  const sim::InstanceRecord* some_instance() {
    const auto live = fleet.live_instances();
    return live.empty() ? nullptr
                        : live[static_cast<std::size_t>(draw(static_cast<int>(live.size())))];
  }

  void happen() {
    const auto* instance = some_instance();
    switch (draw(10)) {
      case 0:
        if (instance) std::ignore = fleet.region.crash(instance->id);
        return;
      case 1:
        if (instance) std::ignore = fleet.region.interrupt(instance->id);
        return;
      case 2:
        if (instance) std::ignore = fleet.region.impair(instance->id);
        return;
      case 3:
        if (instance) fleet.report(instance->id, "", NodeStage::released);
        return;
      case 4:
        if (instance) std::ignore = fleet.region.terminate_instances({instance->id});
        return;
      case 5:
        for (const auto* volume : fleet.pool_volumes())
          if (volume->link && instance && volume->link->instance_id == instance->id)
            std::ignore = fleet.region.detach_volume(volume->id, "", "", false);
        return;
      case 6:
        fleet.die_at = fleet.effects + 1 + draw(30);
        return;
      case 7:
        fleet.lose_ledger();
        fleet.start();
        return;
      case 8:
        fleet.region.knobs.stuck_attaches = 1;
        return;
      default: {
        constexpr sim::FaultKind kKinds[] = {
            sim::FaultKind::unreachable, sim::FaultKind::lost_before, sim::FaultKind::lost_after,
            sim::FaultKind::throttled,   sim::FaultKind::internal,    sim::FaultKind::unavailable,
            sim::FaultKind::html,        sim::FaultKind::truncated};
        fleet.front.inject({"*", kKinds[draw(8)], 1 + draw(8), draw(10)});
        return;
      }
    }
  }

  void settle() {
    fleet.die_at = 0;
    fleet.region.knobs.stuck_attaches = 0;
    guarded([this] { fleet.tick(); });
    EXPECT_TRUE(fleet.until_stable(std::chrono::minutes{15})) << fleet.note_text();
    EXPECT_THAT(fleet.pool_volumes(), SizeIs(kNodes));
    EXPECT_THAT(fleet.live_instances(), SizeIs(kNodes));
    for (const auto* volume : fleet.pool_volumes()) EXPECT_TRUE(volume->link.has_value());
    EXPECT_THAT(fleet.violations, IsEmpty());
  }

  std::mt19937_64 random_;

 public:
  Fleet fleet;
};

TEST(ReconcilerRandom, whatever_happens_in_whatever_order_ends_with_exactly_the_wish) {
  const char* chosen = std::getenv("WARMROOT_SEED");
  const auto first = chosen ? std::strtoull(chosen, nullptr, 10) : 1;
  const auto last = chosen ? first : first + kSeeds - 1;
  for (auto seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("WARMROOT_SEED=" + std::to_string(seed));
    Chaos(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace warmroot
