// The warmer, end to end, on a lazily initialised volume. Needs root, FUSE and loop devices; see
// warm_volume.hpp. Its map is warmer_map_test.cpp's.
#include "bootstrap/warm/warmer.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"
#include "tests/refuse_call.hpp"
#include "tests/sim/ebs.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::HasSubstr;

struct RootCase {
  const char* name;
  RootKind kind;
  std::uint64_t offset;
};

class WarmerOfRoot : public WarmerTest, public testing::WithParamInterface<RootCase> {};

TEST_P(WarmerOfRoot, reads_what_is_needed_and_nothing_else_and_the_second_run_reads_nothing) {
  if (const auto missing = lacking_xfs(); GetParam().kind.filesystem == "xfs" && !missing.empty()) {
    if (must_run()) FAIL() << "this machine lacks " << missing;
    GTEST_SKIP() << "NOT TESTED: this machine lacks " << missing;
  }
  ASSERT_NO_FATAL_FAILURE(make_image(GetParam().offset, GetParam().kind));
  attach({});
  const std::set<std::uint64_t> used = used_blocks(fs_device());
  ebs_->mark_attached(kVolume);
  mount_root();
  const auto began = std::chrono::steady_clock::now();
  const WarmProgress first = run(request());
  // The map is saved every 5 s and at the end, each time to a temporary file.
  const auto saves = static_cast<std::uint64_t>(2 + (std::chrono::steady_clock::now() - began) /
                                                        std::chrono::seconds(5));
  expect_whole_run(first);
  EXPECT_EQ(first.touch_bytes, 4096U);
  EXPECT_NEAR(static_cast<double>(first.needed_blocks), static_cast<double>(used.size()), 5);
  EXPECT_GE(first.first_touch.p50_us, 20'000U);
  EXPECT_GE(first.warm_reads.count, 32U);
  EXPECT_LE(first.warm_reads.p50_us, 15'000U);
  EXPECT_GE(first.first_touch.count, 32U);
  EXPECT_LE(first.first_touch.count, first.blocks_read) << "most of those seen late are left out";

  unmount();
  std::set<std::uint64_t> allowed = used_blocks(fs_device());
  allowed.insert(used.begin(), used.end());
  for (const std::uint64_t block : used) EXPECT_TRUE(touched().contains(block)) << block;
  std::uint64_t strangers = 0;
  for (const std::uint64_t block : touched())
    if (!allowed.contains(block) && block * kGridBytes >= offset_) ++strangers;
  EXPECT_LE(strangers, 2 * saves) << "blocks that held the map's temporary file, no others";

  ebs_->mark_attached(kVolume);
  mount_root();
  const WarmProgress second = run(request());
  expect_whole_run(second);
  EXPECT_LE(second.blocks_read, 2U) << "at most what the map's own file allocated";
  EXPECT_GE(second.resumed_blocks + 2, second.needed_blocks);
  EXPECT_GE(second.warm_reads.count, 64U);
  EXPECT_LE(second.elapsed_ms, 2000U);
  read_all_files();
  EXPECT_EQ(ebs_->counters(kVolume).first_touches_since_attach, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WarmerOfRoot,
                         testing::Values(RootCase{"ext4", kExt4, 0},
                                         RootCase{"ext4_at_an_odd_offset", kExt4, kOddOffset},
                                         RootCase{"xfs", kXfs, 0},
                                         RootCase{"xfs_at_an_odd_offset", kXfs, kOddOffset}),
                         [](const testing::TestParamInfo<RootCase>& one) {
                           return std::string(one.param.name);
                         });

TEST_F(WarmerTest, a_volume_that_is_warm_and_brings_a_hot_list_is_left_alone) {
  make_image(0);
  attach({});
  mount_root();
  run(request());
  auto again = request();
  const auto used = used_blocks(fs_device());
  for (const auto block : used) again.hot.push_back(static_cast<Block>(block));
  again.used_before = true;
  const auto progress = run(again);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.hot_present, used.size());
  EXPECT_LT(progress.blocks_read, 8u) << "what was written since the map was saved";
}

TEST_F(WarmerTest, a_warm_volume_without_a_map_is_recognised_by_a_few_of_its_blocks) {
  make_image(0);
  attach({});
  ebs_->mark_all_present(kVolume);
  mount_root();
  WarmProgress first = run(request());
  // On a machine that others use, too, a warm read takes as long as a first touch now and then.
  for (int again = 0; again < 4 && first.note.empty(); ++again) {
    fs::remove(root() / kMap);
    first = run(request());
  }
  EXPECT_EQ(first.state, WarmState::done);
  EXPECT_EQ(first.warmth, 1);
  EXPECT_THAT(first.note, HasSubstr("warm already"));
  EXPECT_LT(first.blocks_read, first.needed_blocks / 4);
  EXPECT_EQ(first.resumed_blocks, 0U);
  EXPECT_FALSE(fs::exists(root() / kMap)) << "the next lease draws others";
}

/// A guest's map was not believed on a busy machine, its reads before the mount were quick, and its
/// hot list was never said to be there.
TEST_F(WarmerTest, a_volume_that_early_reads_show_to_be_warm_has_its_hot_list_too) {
  make_image(0);
  attach({});
  ebs_->mark_all_present(kVolume);
  mount_root();
  auto wanted = request();
  const auto used = used_blocks(fs_device());
  for (const auto block : used) {
    wanted.hot.push_back(static_cast<Block>(block));
    if (wanted.read_before.size() < 16)
      wanted.read_before.push_back({static_cast<Block>(block), std::chrono::milliseconds{1}});
  }
  WarmProgress progress = run(wanted);
  for (int again = 0; again < 4 && progress.note.empty(); ++again) {
    fs::remove(root() / kMap);
    progress = run(wanted);
  }
  EXPECT_THAT(progress.note, HasSubstr("warm already"));
  EXPECT_EQ(progress.hot_blocks, used.size());
  EXPECT_EQ(progress.hot_present, used.size());
  EXPECT_TRUE(progress.hot_ms.has_value());
}

TEST_F(WarmerTest, a_volume_that_is_warm_only_where_its_metadata_lies_is_not_taken_for_warm) {
  make_image(0);
  attach({});
  mount_root();
  const auto used = used_blocks(fs_device());
  unmount();
  disk_loop_.detach();
  ebs_->delete_volume(kVolume);
  ASSERT_TRUE(ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image")));
  ASSERT_TRUE(disk_loop_.attach(ebs_->path(kVolume), 0));
  ASSERT_TRUE(shell("dd if=" + disk_loop_.device() + " of=/dev/null bs=1M count=40 status=none"));
  mount_root();
  const auto progress = run(request());
  EXPECT_THAT(progress.note, testing::Not(HasSubstr("warm already")));
  EXPECT_EQ(progress.warmth, 1);
  for (const std::uint64_t block : used) EXPECT_TRUE(touched().contains(block)) << block;
}

TEST_F(WarmerTest, a_hot_list_is_read_before_all_else_in_its_order) {
  make_image(0);
  attach({});
  mount_root();
  auto wanted = request();
  const auto used = used_blocks(fs_device());
  const std::vector<std::uint64_t> all(used.begin(), used.end());
  for (const std::size_t at : {90, 12, 77, 31, 60, 45})
    wanted.hot.push_back(static_cast<Block>(all[at]));
  wanted.hot.push_back(grid_blocks(kFsBytes));  // beyond the device
  wanted.max_depth = 1;
  const auto before = touched();
  const auto progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.hot_blocks, 6u);
  EXPECT_EQ(progress.hot_present, 6u);
  ASSERT_TRUE(progress.hot_ms);
  EXPECT_LT(*progress.hot_ms, progress.elapsed_ms);
  std::vector<Block> first;
  for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume))
    if (!before.contains(touch.block) && first.size() < 6)
      first.push_back(static_cast<Block>(touch.block));
  std::erase_if(wanted.hot, [&](Block block) {
    return before.contains(block) || block >= grid_blocks(kFsBytes);
  });
  first.resize(wanted.hot.size());
  EXPECT_EQ(first, wanted.hot);
}

TEST_F(WarmerTest, of_a_snapshots_list_nothing_else_is_read_and_what_is_free_comes_last) {
  make_image(kOddOffset);
  attach({});
  const Block blocks = grid_blocks(kOddOffset + kFsBytes);
  BlockSet used(blocks);
  for (const std::uint64_t block : used_blocks(fs_device())) used.insert(static_cast<Block>(block));
  BlockSet listed = used;
  for (Block block = 0; block < blocks; block += 4) listed.insert(block);
  const BlockSet freed = listed.difference(used);
  ASSERT_GT(freed.count(), 20U);
  const std::set<std::uint64_t> before = touched();
  BlockSet unread = freed;
  for (const std::uint64_t block : before) unread.erase(static_cast<Block>(block));
  mount_root();
  auto asked = request();
  asked.listed = [&](std::uint64_t device_bytes) {
    EXPECT_EQ(device_bytes, kOddOffset + kFsBytes);
    return std::optional(listed);
  };
  for (Block block = 1; block < blocks; block += 2)
    if (!listed.contains(block)) asked.hot.push_back(block);
  ASSERT_GT(asked.hot.size(), 20U);
  const auto progress = run(asked);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.needed_source, "snapshot");
  EXPECT_EQ(progress.needed_blocks, listed.count());
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.device_warmth(), 1) << "what is not in the snapshot costs nobody anything";
  EXPECT_LE(progress.blocks_read, listed.count());
  std::size_t strangers = 0, first_freed = 0, late_used = 0;
  for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume)) {
    const auto block = static_cast<Block>(touch.block);
    if (before.contains(block)) continue;
    strangers += listed.contains(block) ? 0 : 1;
    first_freed += freed.contains(block) ? 1 : 0;
    late_used += used.contains(block) && first_freed > freed.count() / 2 ? 1 : 0;
  }
  EXPECT_LE(strangers, 4U) << "blocks that the map's file was written to, no others";
  EXPECT_EQ(first_freed, unread.count()) << "freed, but still in the snapshot: writers pay for it";
  EXPECT_LE(late_used, 4U) << "what the file system uses comes before what it calls free";
  const auto second = run(request());
  EXPECT_EQ(second.needed_source, "fsmap");
  EXPECT_LE(second.blocks_read, 4U) << "the map is good without the list, too";
}

TEST_F(WarmerTest, a_list_that_comes_late_counts_and_one_that_never_comes_leaves_the_old_way) {
  make_image(0);
  attach({});
  const Block blocks = grid_blocks(kFsBytes);
  mount_root();
  auto asked = request();
  asked.filesystem = "btrfs";  // cannot say what is free
  asked.map_path.clear();
  int times = 0;
  asked.listed = [&](std::uint64_t) -> std::optional<BlockSet> {
    if (++times == 1) return std::nullopt;
    BlockSet listed(blocks);
    listed.insert_range({0, 40 * kGridBytes});
    return listed;
  };
  const auto late = run(asked);
  EXPECT_EQ(late.needed_source, "snapshot");
  EXPECT_EQ(late.needed_blocks, 40U);
  EXPECT_EQ(late.warmth, 1);
  asked.filesystem = "ext4";
  asked.listed = [](std::uint64_t) { return std::optional<BlockSet>(); };
  EXPECT_EQ(run(asked).needed_source, "fsmap");
}

TEST_F(WarmerTest, a_hot_block_that_takes_a_second_is_not_followed_by_nothing_for_that_second) {
  make_image(0);
  sim::VolumeProfile tails;
  tails.tail_probability = 0.05;
  attach(tails);
  mount_root();
  const auto used = used_blocks(fs_device());
  auto wanted = request();
  const std::vector<std::uint64_t> all(used.begin(), used.end());
  for (std::size_t i = 0; i < 60; ++i)
    wanted.hot.push_back(static_cast<Block>(all[all.size() - 1 - i]));
  const auto before = touched();
  const WarmProgress progress = run(wanted);
  expect_whole_run(progress);
  const std::set<std::uint64_t> hot(wanted.hot.begin(), wanted.hot.end());
  const auto log = ebs_->touch_log(kVolume);
  sim::FirstTouch slowest;
  for (const sim::FirstTouch& touch : log)
    if (hot.contains(touch.block) && !before.contains(touch.block) &&
        touch.present_at - touch.requested_at > slowest.present_at - slowest.requested_at)
      slowest = touch;
  ASSERT_GT(slowest.present_at - slowest.requested_at, std::chrono::milliseconds(700))
      << "this volume has no such block";
  const auto meanwhile = std::ranges::count_if(log, [&](const sim::FirstTouch& touch) {
    return !hot.contains(touch.block) && touch.requested_at > slowest.requested_at &&
           touch.requested_at < slowest.present_at;
  });
  EXPECT_GT(meanwhile, 20);
  ASSERT_TRUE(progress.hot_ms) << "when the last had come, not when it was asked for";
  EXPECT_GE(*progress.hot_ms, 700U);
  EXPECT_LT(*progress.hot_ms, progress.elapsed_ms + 1);
}

TEST_F(WarmerTest, reads_blocks_whole_on_a_volume_where_a_touch_brings_less) {
  make_image(0);
  sim::VolumeProfile fine;
  fine.hydration_unit_kib = 64;
  attach(fine);
  mount_root();
  const WarmProgress progress = run(request());
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.touch_bytes, kGridBytes);
  EXPECT_THAT(progress.note, HasSubstr("read whole"));
  unmount();
  ebs_->mark_attached(kVolume);
  mount_root();
  read_all_files();
  EXPECT_EQ(ebs_->counters(kVolume).first_touches_since_attach, 0U);
}

/// The list was planned without them, so that they came with the needed blocks, in those' order.
TEST_F(WarmerTest,
       hot_blocks_read_before_the_mount_are_read_again_at_once_where_a_touch_brings_less) {
  make_image(0);
  sim::VolumeProfile fine;
  fine.hydration_unit_kib = 64;
  attach(fine);
  mount_root();
  const auto used = used_blocks(fs_device());
  ASSERT_GT(used.size(), 64U);
  auto wanted = request();
  for (auto block = used.rbegin(); wanted.hot.size() < 24; ++block)
    wanted.hot.push_back(static_cast<Block>(*block));
  for (std::size_t i = 0; i < 8; ++i)
    wanted.read_before.push_back({wanted.hot[i], std::chrono::milliseconds{36}});
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.touch_bytes, kGridBytes);
  ASSERT_TRUE(progress.hot_ms);
  // When the last part of each block was asked for.
  std::map<Block, sim::SimTime> whole;
  for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume)) {
    auto& asked = whole[static_cast<Block>(touch.block / (kGridBytes / (64 * kKiB)))];
    asked = std::max(asked, touch.requested_at);
  }
  sim::SimTime last{};
  for (std::size_t i = 0; i < 8; ++i) last = std::max(last, whole.at(wanted.hot[i]));
  const auto sooner = std::ranges::count_if(whole, [&](const auto& one) {
    return one.second < last && std::ranges::find(wanted.hot, one.first) == wanted.hot.end() &&
           used.contains(one.first);
  });
  EXPECT_LT(sooner, std::ssize(used) / 4);
}

TEST_F(WarmerTest, sessions_read_at_warm_speed_afterwards_and_much_sooner_than_without) {
  make_image(0);
  attach({});
  mount_root();
  const auto cold = Clock::now();
  read_all_files();
  const auto without = Clock::now() - cold;
  unmount();
  disk_loop_.detach();
  ebs_->delete_volume(kVolume);
  ASSERT_TRUE(ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image")));
  ASSERT_TRUE(disk_loop_.attach(ebs_->path(kVolume), 0));
  mount_root();
  std::jthread warmer([this] { expect_whole_run(run(request())); });
  const auto warming = Clock::now();
  read_all_files();
  const auto with = Clock::now() - warming;
  warmer.join();
  if (std::getenv("WARMROOT_SHOW") != nullptr)
    std::printf("all files: %.2f s without, %.2f s with the warmer\n",
                std::chrono::duration<double>(without).count(),
                std::chrono::duration<double>(with).count());
  EXPECT_LT(with, without * 2 / 3);
}

TEST_F(WarmerTest, reads_by_threads_under_its_filter_where_a_ring_is_refused) {
  make_image(0);
  attach({});
  mount_root();
  bool refused = false;
  const WarmProgress progress =
      run(request(), {}, [&] { refused = refuse_call(SYS_io_uring_setup); });
  EXPECT_TRUE(refused);
  EXPECT_EQ(progress.engine, "pread");
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.note, "");
}

TEST(WarmerAlone, a_device_that_cannot_be_opened_is_an_error_in_one_sentence) {
  WarmRequest request;
  request.device_path = "/dev/does-not-exist";
  const auto result = Warmer(request).run({}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::gone);
  EXPECT_THAT(result.error().message(), HasSubstr("/dev/does-not-exist"));
}

TEST(WarmProgressJson, has_the_keys_of_the_status_document) {
  WarmProgress progress;
  progress.state = WarmState::running;
  progress.warmth = 0.25;
  progress.first_touch = {3, 36'000, 50'000, 60'000, 70'000};
  const nlohmann::json json = to_json(progress);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre(
                        "state", "needed_blocks", "device_blocks", "present_blocks",
                        "present_device_blocks", "blocks_read", "bytes_read", "warmth",
                        "device_warmth", "elapsed_ms", "eta_ms", "engine", "depth", "errors",
                        "resumed_blocks", "hot_blocks", "hot_present", "hot_ms", "file_blocks",
                        "needed_source", "first_touch", "warm_reads"));
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["eta_ms"].is_null());
  EXPECT_EQ(json["first_touch"]["p50_us"], 36'000);
  EXPECT_EQ(json["first_touch"]["bucket_error"], 0.03);
  EXPECT_EQ(json["warm_reads"].size(), 6U);
  progress.eta_ms = 1200;
  progress.note = "something";
  EXPECT_EQ(to_json(progress)["eta_ms"], 1200);
  EXPECT_EQ(to_json(progress)["note"], "something");
}

TEST_F(WarmerTest, reads_a_device_without_a_known_file_system_whole_near_its_bandwidth) {
  constexpr std::uint64_t kBytes = kGiB;
  const int fd = ::open((top_ / "image").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(fd, kBytes), 0);
  for (std::uint64_t at = 0; at < kBytes; at += kGridBytes)
    ASSERT_EQ(::pwrite(fd, "data", 4, static_cast<off_t>(at)), 4);
  ::close(fd);
  sim::VolumeProfile profile;  // B
  profile.tail_probability = 0;
  attach(profile);
  WarmRequest whole;
  whole.device_path = disk_loop_.device();
  const WarmProgress progress = run(whole);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.needed_source, "whole");
  EXPECT_EQ(progress.needed_blocks, kBytes / kGridBytes);
  EXPECT_EQ(progress.engine, "io_uring");
  const double bound_ms = static_cast<double>(kBytes / kMiB) / profile.fetch_bandwidth_mib_s * 1000;
  EXPECT_LT(static_cast<double>(progress.elapsed_ms), 1.35 * bound_ms + 1000)
      << "generous: the machine is shared";
  ASSERT_GE(reports_.size(), 3U);
  const unsigned depth = reports_[reports_.size() - 2].depth;
  EXPECT_GE(depth, 12U);
  EXPECT_LE(depth, 64U);
  for (std::size_t i = 1; i + 1 < reports_.size(); ++i)
    EXPECT_GE(reports_[i].elapsed_ms + 1, reports_[i - 1].elapsed_ms + 500) << "twice a second";
}

}  // namespace
}  // namespace warmroot::warm
