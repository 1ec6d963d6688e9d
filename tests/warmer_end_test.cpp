// How a run of the warmer ends: what is told when, and what is still done then. Needs root, FUSE
// and loop devices; see warm_volume.hpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

class WarmerEnd : public WarmerTest {};

/// A save waits for an fsync, and a lookup may hang for a minute: all the while the status said
/// that the warmer runs, and people that it was not done.
TEST_F(WarmerEnd, is_told_before_the_map_is_saved_and_while_a_lookup_still_waits) {
  make_image(0);
  attach({});
  mount_root();
  WarmRequest wanted = request();
  std::atomic<bool> is_told = false, was_told = false;
  wanted.guess.of_root = [&] {
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (!is_told && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(10));
    was_told = is_told.load();
    return WantedOfRoot{};
  };
  std::optional<bool> had_map;
  const auto progress = Warmer(wanted).run({}, [&](const WarmProgress& now) {
    if (now.state == WarmState::running) return;
    EXPECT_EQ(now.state, WarmState::done) << now.note;
    if (!had_map) had_map = fs::exists(root() / kMap);
    is_told = true;
  });
  ASSERT_TRUE(progress) << progress.error().message();
  EXPECT_EQ(progress->state, WarmState::done) << progress->note;
  EXPECT_TRUE(was_told);
  EXPECT_EQ(had_map, std::optional(false));
  EXPECT_TRUE(fs::exists(root() / kMap)) << "it is saved all the same";
}

}  // namespace
}  // namespace warmroot::warm
