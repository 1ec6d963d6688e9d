// How a run of the warmer ends: what is told when, and what is still done then. Needs root, FUSE
// and loop devices; see warm_volume.hpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

class WarmerEnd : public WarmerTest {
 protected:
  /// The run's thread asks: it has told that it has ended.
  bool has_told_its_end() const {
    return !reports_.empty() && reports_.back().state != WarmState::running;
  }
};

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

/// Nobody looked at it any more: of that lease the list had no blocks, and was never there.
TEST_F(WarmerEnd, a_hot_list_that_comes_when_all_is_read_is_counted_and_read_where_it_is_absent) {
  make_image(0);
  attach({});
  mount_root();
  const auto used = used_blocks(fs_device());
  for (const bool has_absent : {true, false}) {
    SCOPED_TRACE(has_absent ? "some is absent" : "all is there");
    reports_.clear();
    std::vector<Block> list;
    for (const std::uint64_t block : used)
      if (list.size() < 5) list.push_back(static_cast<Block>(block));
    WarmRequest wanted = request();
    wanted.used_before = !has_absent;
    wanted.late_hot = [&]() -> std::optional<std::vector<Block>> {
      if (!has_told_its_end()) return std::nullopt;
      const auto read = touched();
      for (Block block = grid_blocks(kFsBytes); has_absent && list.size() == 5 && block-- > 0;)
        if (!read.contains(block)) list.push_back(block);
      return list;
    };
    const WarmProgress progress = run(wanted);
    EXPECT_EQ(progress.state, WarmState::done) << progress.note;
    EXPECT_EQ(progress.warmth, 1);
    EXPECT_EQ(list.size(), has_absent ? 6U : 5U);
    EXPECT_EQ(progress.hot_blocks, list.size());
    EXPECT_EQ(progress.hot_present, list.size());
    ASSERT_TRUE(progress.hot_ms);
    EXPECT_EQ(*progress.hot_ms == progress.elapsed_ms, !has_absent) << *progress.hot_ms;
    EXPECT_TRUE(touched().contains(list.back()));
  }
}

TEST_F(WarmerEnd, a_hot_list_that_never_comes_keeps_neither_the_root_nor_a_stop_waiting) {
  make_image(0);
  attach({});
  mount_root();
  std::stop_source stop;
  std::atomic<bool> waits = false;
  WarmRequest wanted = request();
  wanted.files = {{"/**"}};
  wanted.late_hot = [&] {
    if (has_told_its_end()) waits = true;
    return std::optional<std::vector<Block>>();
  };
  Clock::time_point asked;
  std::jthread release([&] {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (!waits && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(5));
    unmount();
    asked = Clock::now();
    stop.request_stop();
  });
  const WarmProgress progress = run(wanted, stop.get_token());
  const auto ended = Clock::now();
  release.join();
  EXPECT_TRUE(waits);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_LT(ended - asked, milliseconds(600));
}

}  // namespace
}  // namespace warmroot::warm
