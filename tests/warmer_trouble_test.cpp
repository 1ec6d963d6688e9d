// The warmer on a volume that changes under it: files come and go, the root is unmounted, the disk
// becomes smaller; and what it does with the operator's bound. Needs root, FUSE and loop devices;
// see warm_volume.hpp.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/block_trace.hpp"
#include "bootstrap/warm/read_pump.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

class TroubledWarmer : public WarmerTest {
 protected:
  /// Slow enough for something to happen meanwhile.
  WarmRequest bounded(unsigned mib_s) const {
    WarmRequest wanted = request();
    wanted.max_mib_s = mib_s;
    return wanted;
  }
  /// Of a disk that is a loop over this plain file, which is cut down after half a second.
  WarmProgress run_while_it_shrinks(const fs::path& file, std::uint64_t to_bytes) {
    std::jthread shrinks([&] {
      std::this_thread::sleep_for(milliseconds(500));
      fs::resize_file(file, to_bytes);
      const UniqueFd loop(::open(disk_loop_.device().c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_EQ(::ioctl(loop.get(), LOOP_SET_CAPACITY, 0), 0);
    });
    WarmRequest wanted;
    wanted.device_path = disk_loop_.device();
    wanted.volume_id = kVolume;
    wanted.max_mib_s = 20;
    return run(wanted);
  }
  /// So many bytes of the volume are the disk; 0: all.
  void limit_disk(std::uint64_t bytes) const {
    const UniqueFd loop(::open(disk_loop_.device().c_str(), O_RDONLY | O_CLOEXEC));
    loop_info64 info{};
    EXPECT_EQ(::ioctl(loop.get(), LOOP_GET_STATUS64, &info), 0);
    info.lo_sizelimit = bytes;
    EXPECT_EQ(::ioctl(loop.get(), LOOP_SET_STATUS64, &info), 0);
  }
  /// Asked of the file system itself, once nobody has it.
  void expect_sound() {
    unmount();
    EXPECT_TRUE(
        shell((kind_.filesystem == "xfs" ? "xfs_repair -n " : "e2fsck -fn ") + fs_device()));
  }
};

class TroubledRoot : public TroubledWarmer, public testing::WithParamInterface<RootKind> {
 protected:
  void SetUp() override {
    if (const auto missing = lacking_xfs(); GetParam().filesystem == "xfs" && !missing.empty()) {
      if (must_run()) FAIL() << "this machine lacks " << missing;
      GTEST_SKIP() << "NOT TESTED: this machine lacks " << missing;
    }
    ASSERT_NO_FATAL_FAILURE(TroubledWarmer::SetUp());
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, TroubledRoot, testing::Values(kExt4, kXfs),
                         [](const testing::TestParamInfo<RootKind>& one) {
                           return one.param.filesystem;
                         });

TEST_F(TroubledWarmer, brings_in_no_more_a_second_than_the_operator_allows) {
  make_image(0);
  attach({});
  mount_root();
  const auto start = Clock::now();
  const auto before = touched().size();
  const WarmProgress progress = run(bounded(40));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  const auto brought_in = static_cast<double>(touched().size() - before) / 2;  // MiB
  EXPECT_GE(seconds, 0.8 * brought_in / 40);
  EXPECT_LE(seconds, 3 * brought_in / 40 + 2) << "and uses what it may";
}

TEST_P(TroubledRoot, files_that_come_and_go_meanwhile_cost_it_nothing_and_keep_what_they_hold) {
  ASSERT_NO_FATAL_FAILURE(make_image(0, GetParam()));
  attach({});
  mount_root();
  std::jthread session([this](const std::stop_token& stop) {
    for (int round = 0; !stop.stop_requested(); ++round) {
      const std::string at = root().string();
      const std::string name = "/d" + std::to_string(round % 10) + "/" + std::to_string(round % 30);
      if (!shell("rm -f " + at + name + " && head -c 300000 /dev/urandom > " + at + "/new" +
                 std::to_string(round % 40) + " && md5sum < " + at + "/new" +
                 std::to_string(round % 40) + " > " + at + "/sum" + std::to_string(round % 40) +
                 " && sync -f " + at))
        ADD_FAILURE() << "the session in round " << round;
    }
  });
  WarmRequest wanted = bounded(60);
  wanted.files = {{"/**"}};  // looks files up that are being deleted
  const WarmProgress progress = run(wanted);
  session.request_stop();
  session.join();
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.errors, 0U);
  EXPECT_GE(progress.warmth, 0.95) << "what was allocated meanwhile may be left";
  EXPECT_TRUE(shell("cd " + root().string() +
                    " && for f in new*; do md5sum < $f | cmp - sum${f#new}; done"));
  expect_sound();
}

TEST_P(TroubledRoot, lets_the_root_be_unmounted_and_writes_nowhere_else) {
  ASSERT_NO_FATAL_FAILURE(make_image(0, GetParam()));
  attach({});
  mount_root();
  std::stop_source stop;
  WarmProgress progress;
  std::jthread warmer([&] { progress = run(bounded(20), stop.get_token()); });
  // Past the map and the question what is needed: from then on nothing of the mount is held.
  for (int i = 0; i < 400 && touched().size() < 60; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  int unmounted = -1;
  const auto start = Clock::now();
  while (unmounted != 0 && Clock::now() - start < std::chrono::seconds(10)) {
    unmounted = ::umount(root().c_str());
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_EQ(unmounted, 0);
  mounted_ = false;
  std::this_thread::sleep_for(milliseconds(1000));
  stop.request_stop();
  warmer.join();
  EXPECT_NE(progress.state, WarmState::failed) << progress.note;
  EXPECT_EQ(progress.note, "the warm map was not saved: the root is not mounted at " +
                               root().string() + " any more");
  EXPECT_TRUE(fs::is_empty(root())) << "no map in the directory below the mount";
  expect_sound();
}

/// A manager that was being restarted while the root was mounted told its list seconds later, and
/// none of it was read before its turn by address.
TEST_F(TroubledWarmer, a_hot_list_that_comes_late_is_read_before_what_is_left) {
  make_image(0);
  attach({});
  mount_root();
  const auto used = used_blocks(fs_device());
  const auto at_start = touched().size();
  WarmRequest wanted = bounded(20);
  constexpr std::size_t kPastMetadata = 60;  // from then on in the order of addresses
  std::vector<Block> list;
  std::set<std::uint64_t> before;
  wanted.late_hot = [&]() -> std::optional<std::vector<Block>> {
    EXPECT_TRUE(list.empty()) << "it has answered";
    before = touched();
    if (before.size() < at_start + kPastMetadata) return std::nullopt;
    for (auto block = used.rbegin(); block != used.rend() && list.size() < 6; ++block)
      if (!before.contains(*block)) list.push_back(static_cast<Block>(*block));
    std::vector<Block> told = list;
    told.insert(told.begin(), grid_blocks(kFsBytes));  // beyond the device
    return told;
  };
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(progress.hot_blocks, 6U);
  EXPECT_EQ(progress.hot_present, 6U);
  ASSERT_TRUE(progress.hot_ms);
  EXPECT_LT(*progress.hot_ms, progress.elapsed_ms);
  constexpr std::size_t kOnTheirWay = 8;  // when the list came, and what the map's file touches
  std::vector<Block> next;
  for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume))
    if (!before.contains(touch.block) && next.size() < list.size() + kOnTheirWay)
      next.push_back(static_cast<Block>(touch.block));
  std::erase_if(next, [&](Block block) { return std::ranges::count(list, block) == 0; });
  EXPECT_EQ(next, list);
}

/// It was asked for and not waited for where no needed block was absent: a run ended as done, and
/// its list was never said to be there.
TEST_F(TroubledWarmer, a_hot_block_that_nobody_needs_is_waited_for_where_all_else_is_there) {
  constexpr Block kNeeded = 24, kHot = 4;
  const std::uint64_t bytes = (kNeeded + kHot) * kGridBytes;
  const std::string image = (top_ / "image").string();
  ASSERT_TRUE(shell("head -c " + std::to_string(bytes) + " /dev/urandom > " + image));
  attach({});
  ASSERT_TRUE(shell("dd if=" + disk_loop_.device() +
                    " of=/dev/null bs=512K count=24 iflag=direct status=none"));
  ebs_->set_profile(kVolume, {.latency_median_ms = 2000, .tail_probability = 0});
  WarmRequest wanted;
  wanted.device_path = disk_loop_.device();
  wanted.partition_size_bytes = kNeeded * kGridBytes;
  for (Block block = 0; block < kNeeded; ++block)
    wanted.read_before.push_back({block, milliseconds(36)});
  for (Block block = 0; block < kHot; ++block) wanted.hot.push_back(kNeeded + block);
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.present_blocks, kNeeded);
  EXPECT_EQ(progress.hot_present, kHot);
  EXPECT_TRUE(progress.hot_ms.has_value());
}

/// A session that wanted 43 blocks which its list had not waited for one after the other, 2.5 s
/// where it takes 1.8 without a list: what a first run guesses was not asked beside a list.
TEST_F(TroubledWarmer, a_list_of_another_workload_is_followed_by_the_first_runs_guess) {
  if (!BlockTrace::open_place()) {
    if (must_run()) FAIL() << "this machine has no tracefs";
    GTEST_SKIP() << "NOT TESTED: this machine has no tracefs";
  }
  make_image(0);
  attach({});
  for (const bool is_its_own : {false, true}) {
    SCOPED_TRACE(is_its_own ? "its own list" : "another's");
    mount_root();
    WarmRequest wanted = bounded(is_its_own ? 16 : 4);  // the session is ahead of it
    const auto used = used_blocks(fs_device());
    wanted.hot.assign(used.begin(), is_its_own ? used.end() : std::next(used.begin(), 4));
    std::atomic<bool> asked = false;
    wanted.guess.names = [&] {
      asked = true;
      return std::vector<WantedFile>{};
    };
    std::stop_source stop;
    std::jthread session([&] {
      std::this_thread::sleep_for(milliseconds(500));  // for its trace
      const auto limit = Clock::now() + std::chrono::seconds(10);
      for (int file = 0; file < 300 && !asked && Clock::now() < limit; ++file)
        shell("cat " +
              (root() / ("d" + std::to_string(file % 10)) / std::to_string(file / 10)).string() +
              " >/dev/null");
      stop.request_stop();
    });
    const WarmProgress progress = run(wanted, stop.get_token());
    session.join();
    EXPECT_EQ(progress.state, WarmState::stopped) << "it was there all the while";
    EXPECT_EQ(asked, !is_its_own);
    unmount();
  }
}

/// All lookups were waited for first, and one may hang for a minute: a kill meanwhile, or a release
/// that could not wait so long, left no map of what was read.
TEST_F(TroubledWarmer, saves_its_map_at_the_end_while_a_lookup_still_waits) {
  make_image(0);
  attach({});
  mount_root();
  WarmRequest wanted = request();
  std::atomic<bool> saved = false;
  wanted.guess.of_root = [&] {
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (!saved && Clock::now() < limit) {
      std::this_thread::sleep_for(milliseconds(10));
      saved = fs::exists(root() / kMap);
    }
    return WantedOfRoot{};
  };
  EXPECT_EQ(run(wanted).state, WarmState::done);
  EXPECT_TRUE(saved);
}

TEST_F(TroubledWarmer, reads_that_hang_are_told_and_hold_up_neither_others_nor_the_end) {
  make_image(0);
  sim::VolumeProfile profile;
  profile.stall_probability = 0.02;
  profile.stall_ms = 16'000;  // the test waits for their end, or its loop would outlive it
  attach(profile);
  mount_root();
  std::stop_source stop;
  std::jthread later([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(12'000));
    stop.request_stop();
  });
  const auto start = Clock::now();
  const WarmProgress progress = run(request(), stop.get_token());
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(13'500));
  EXPECT_EQ(progress.state, WarmState::stopped);
  EXPECT_THAT(progress.note, testing::HasSubstr("a read took more than 10 s"));
  EXPECT_GT(progress.warmth, 0.8);
  EXPECT_LT(progress.warmth, 1);
  const auto device = BlockDevice::open(disk_loop_.device());
  ASSERT_TRUE(device);
  while (device->in_flight() != 0U && Clock::now() - start < std::chrono::seconds(40))
    std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(device->in_flight(), 0U);
}

/// As long as S3's stalls are known to be, and nobody asks it to stop. The entry warmer_stalls_test
/// runs it.
TEST_F(TroubledWarmer, DISABLED_reads_that_stall_for_a_minute_are_told_and_the_fill_ends_whole) {
  make_image(0);
  attach({});
  mount_root();
  sim::VolumeProfile profile;
  profile.stall_probability = 0.02;
  profile.stall_ms = 60'000;
  ebs_->set_profile(kVolume, profile);
  const WarmProgress progress = run(request());
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.errors, 0U);
  EXPECT_GE(progress.first_touch.max_us, 60'000'000U) << "none has stalled";
  const std::string stalled = "a read took more than 10 s";
  EXPECT_THAT(progress.note, testing::HasSubstr(stalled));
  const auto told = std::ranges::find_if(reports_, [&](const WarmProgress& report) {
    return report.note.find(stalled) != std::string::npos;
  });
  ASSERT_NE(told, reports_.end());
  EXPECT_EQ(told->state, WarmState::running);
  EXPECT_LT(told->elapsed_ms, 30'000U) << "it is told while it lasts";
  EXPECT_GT(told->warmth, 0.8) << "and holds up no others";
  EXPECT_LT(told->warmth, 1);
}

/// Xen's ring of 32 shows 64 requests: half of the tags would have been more than there are.
TEST_F(TroubledWarmer, a_schedulers_tags_are_not_the_devices) {
  const fs::path file = top_ / "plain";
  ASSERT_TRUE(shell("truncate -s 1M " + file.string()));
  ASSERT_TRUE(disk_loop_.attach(file, 0));
  const std::string queue =
      "/sys/block/" + fs::path(disk_loop_.device()).filename().string() + "/queue/";
  std::optional<unsigned> own;
  for (const char* scheduler : {"none", "mq-deadline"}) {
    ASSERT_TRUE(shell(std::string("echo ") + scheduler + " >" + queue + "scheduler"));
    const auto device = BlockDevice::open(disk_loop_.device());
    ASSERT_TRUE(device) << device.error().message();
    if (!own) own = device->tags();
    EXPECT_EQ(device->tags(), own) << scheduler << ": " << *shell("cat " + queue + "nr_requests");
  }
  EXPECT_TRUE(own);
}

/// A loop over a plain file, which can be made smaller while it is in use.
TEST_F(TroubledWarmer, a_disk_that_becomes_smaller_is_given_up_in_bounded_time) {
  constexpr std::uint64_t kBefore = 64 * kMiB;
  constexpr std::uint64_t kAfter = 24 * kMiB;
  const fs::path file = top_ / "plain";
  ASSERT_TRUE(shell("head -c " + std::to_string(kBefore) + " /dev/urandom > " + file.string()));
  ASSERT_TRUE(disk_loop_.attach(file, 0));
  const auto sum = shell("head -c " + std::to_string(kAfter) + " " + file.string() + " | md5sum");
  const auto start = Clock::now();
  const WarmProgress progress = run_while_it_shrinks(file, kAfter);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(15));
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_GT(progress.errors, 0U);
  EXPECT_LT(progress.warmth, 1);
  EXPECT_THAT(progress.note, testing::HasSubstr("the device has become smaller: 67108864 bytes, "
                                                "25165824 now"));
  EXPECT_EQ(shell("head -c " + std::to_string(kAfter) + " " + file.string() + " | md5sum"), sum);
}

/// And counts once as unread, however often it was given up; not at all where it has come in.
TEST_F(TroubledWarmer, what_was_given_up_is_tried_once_more_when_all_else_is_there) {
  constexpr std::uint64_t kBytes = 64 * kMiB;
  const fs::path file = top_ / "plain";
  ASSERT_TRUE(shell("head -c " + std::to_string(kBytes) + " /dev/urandom > " + file.string()));
  ASSERT_TRUE(disk_loop_.attach(file, 0));
  for (const bool comes_back : {true, false}) {
    SCOPED_TRACE(comes_back ? "it comes back" : "it does not");
    fs::resize_file(file, kBytes - 2 * kGridBytes);  // the loop keeps its size, and answers EIO
    std::atomic<unsigned> asked = 0;
    WarmRequest wanted;
    wanted.device_path = disk_loop_.device();
    wanted.volume_id = kVolume;
    wanted.listed = [&](std::uint64_t) {
      ++asked;
      return std::optional<BlockSet>();
    };
    constexpr unsigned kInFirstRound = 3;
    std::jthread outage([&](const std::stop_token& stop) {
      while (asked <= kInFirstRound && !stop.stop_requested())
        std::this_thread::sleep_for(milliseconds(5));
      if (comes_back) fs::resize_file(file, kBytes);
    });
    const WarmProgress progress = run(wanted);
    EXPECT_EQ(progress.state, WarmState::done) << progress.note;
    EXPECT_EQ(progress.needed_blocks - progress.present_blocks, comes_back ? 0U : 2U);
    EXPECT_GE(progress.errors, 2U * ReadPump::kAttempts * (comes_back ? 1 : 2));
    EXPECT_EQ(progress.note.find("could not be read") == std::string::npos, comes_back);
    EXPECT_EQ(progress.note.find("2 blocks could not be read") == std::string::npos, comes_back);
  }
}

/// One without any bytes was told as "smaller: 0 now", its blocks were given up at once, and the
/// run ended as done.
TEST_F(TroubledWarmer, a_disk_that_has_gone_is_lost_and_has_not_become_smaller) {
  const fs::path file = top_ / "plain";
  ASSERT_TRUE(shell("head -c 67108864 /dev/urandom > " + file.string()));
  ASSERT_TRUE(disk_loop_.attach(file, 0));
  const auto start = Clock::now();
  const WarmProgress progress = run_while_it_shrinks(file, 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << "it asked on for what is not there";
  EXPECT_EQ(progress.state, WarmState::failed);
  EXPECT_LT(progress.warmth, 1);
  EXPECT_EQ(progress.note, "the disk is gone");
}

/// All was present, so the run ended as done, without a word of the disk.
TEST_F(TroubledWarmer, a_disk_that_goes_during_the_last_sample_is_told_as_gone) {
  make_image(0);
  attach({});
  mount_root();
  const auto used = used_blocks(fs_device());
  std::atomic<bool> all_read = false, is_gone = false;
  std::jthread takes_it([&](const std::stop_token& stop) {
    while (!all_read && !stop.stop_requested()) std::this_thread::sleep_for(milliseconds(5));
    if (!stop.stop_requested()) limit_disk(1);  // less than a sector
    is_gone = true;
  });
  WarmRequest wanted = request();
  wanted.map_path.clear();
  int asked_since = 0;
  wanted.listed = [&](std::uint64_t) {
    // The second time is after the last question what is needed: what follows is the sample.
    const auto so_far = touched();
    if (std::ranges::includes(so_far, used) && ++asked_since == 2) {
      all_read = true;
      while (!is_gone) std::this_thread::sleep_for(milliseconds(5));
    }
    return std::optional<BlockSet>();
  };
  const WarmProgress progress = run(wanted);
  takes_it.request_stop();
  takes_it.join();
  limit_disk(0);
  EXPECT_TRUE(all_read);
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_GT(progress.errors, 0U);
  EXPECT_EQ(progress.state, WarmState::failed);
  EXPECT_EQ(progress.note, "the disk is gone");
}

/// Who looks after the disk sees it go as well, and asks the warmer to stop: that came before any
/// read had failed where each took seconds, and the run was told as stopped, to be resumed.
TEST_F(TroubledWarmer, a_disk_that_goes_just_before_it_is_asked_to_stop_is_told_as_gone) {
  make_image(0);
  sim::VolumeProfile slow;
  slow.fetch_bandwidth_mib_s = 20;  // it has not ended when it first tells how far it is
  attach(slow);
  mount_root();
  WarmRequest wanted = request();
  wanted.map_path.clear();
  std::stop_source stop;
  const auto progress = Warmer(wanted).run(stop.get_token(), [&](const WarmProgress& now) {
    if (now.blocks_read == 0 || stop.stop_requested()) return;
    limit_disk(1);  // less than a sector
    stop.request_stop();
  });
  limit_disk(0);
  ASSERT_TRUE(progress) << progress.error().message();
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(progress->state, WarmState::failed);
  EXPECT_THAT(progress->note, testing::HasSubstr("the disk is gone"));
}

/// The trial of a map reads up to 128 blocks again, for two seconds where they hang.
TEST_F(TroubledWarmer, is_asked_to_stop_while_its_map_is_tried_and_keeps_the_map) {
  make_image(0);
  attach({});
  mount_root();
  ASSERT_EQ(run(request()).state, WarmState::done);
  const auto before = shell("md5sum < " + (root() / kMap).string());
  ASSERT_TRUE(before);
  ASSERT_NO_FATAL_FAILURE(restore_under_its_map());
  sim::VolumeProfile slow;  // each first touch takes two seconds
  slow.latency_median_ms = 2000;
  ebs_->set_profile(kVolume, slow);
  WarmRequest wanted = request();
  wanted.used_before = true;
  std::stop_source stop;
  Clock::time_point asked;
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(400));
    asked = Clock::now();
    stop.request_stop();
  });
  const WarmProgress progress = run(wanted, stop.get_token());
  const auto ended = Clock::now();
  later.join();
  EXPECT_LT(ended - asked, milliseconds(600));
  EXPECT_EQ(progress.state, WarmState::stopped) << progress.note;
  EXPECT_EQ(shell("md5sum < " + (root() / kMap).string()), before) << "nothing speaks against it";
}

}  // namespace
}  // namespace warmroot::warm
