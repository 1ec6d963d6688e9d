// The map of what the warmer has read: a run that is stopped or killed is gone on with, and a map
// that is wrong or another volume's is not believed. Needs root, FUSE and loop devices; see
// warm_volume.hpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "bootstrap/warm/warmer.hpp"
#include "tests/sim/ebs.hpp"
#include "tests/warm_volume.hpp"

extern char** environ;

namespace warmroot::warm {
namespace {

using testing::HasSubstr;

TEST_F(WarmerTest, stops_at_once_and_the_next_run_goes_on_where_it_was) {
  make_image(0);
  sim::VolumeProfile slow;
  slow.fetch_bandwidth_mib_s = 20;  // 40 blocks a second: a few seconds
  attach(slow);
  mount_root();
  std::stop_source stop;
  Clock::time_point asked;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    asked = Clock::now();
    stop.request_stop();
  });
  const WarmProgress first = run(request(), stop.get_token());
  const auto took = Clock::now() - asked;
  stopper.join();
  EXPECT_EQ(first.state, WarmState::stopped) << first.note;
  // 200 ms for the reads; the rest is the map's fsync into a volume that is still cold and slow.
  EXPECT_LT(took, std::chrono::milliseconds(2000));
  EXPECT_GT(first.blocks_read, 20U);
  EXPECT_LT(first.warmth, 1);
  unmount();
  mount_root();
  ebs_->set_profile(kVolume, {});
  const WarmProgress second = run(request());
  expect_whole_run(second);
  EXPECT_GE(second.resumed_blocks, first.present_blocks - 2);
  EXPECT_EQ(second.resumed_blocks + second.blocks_read, second.present_blocks);
}

/// The child of the next test.
TEST(WarmerChild, DISABLED_runs_until_killed) {
  const char* device = std::getenv("WARMER_TEST_DEVICE");
  const char* mount_point = std::getenv("WARMER_TEST_ROOT");
  if (device == nullptr || mount_point == nullptr) return;
  WarmRequest request{.device_path = device,
                      .mount_point = mount_point,
                      .filesystem = "ext4",
                      .map_path = kMap,
                      .volume_id = kVolume,
                      .max_mib_s = 4};  // 8 blocks a second: it has not ended after 15 s
  (void)Warmer(request).run({}, {});
}

TEST_F(WarmerTest, resumes_from_its_map_after_a_kill) {
  make_image(0);
  attach({});
  mount_root();
  ::setenv("WARMER_TEST_DEVICE", disk_loop_.device().c_str(), 1);
  ::setenv("WARMER_TEST_ROOT", root().c_str(), 1);
  std::string arguments[] = {"warmer_map_test", "--gtest_also_run_disabled_tests",
                             "--gtest_filter=WarmerChild.DISABLED_runs_until_killed"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t child = -1;
  ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environ), 0);
  // No session misses anything: after 5 s, or 15 where the kernel shows no trace of reads.
  for (int tenth = 0; tenth < 200 && !fs::exists(root() / kMap); ++tenth)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  ASSERT_TRUE(fs::exists(root() / kMap));
  const WarmProgress after = run(request());
  expect_whole_run(after);
  EXPECT_GT(after.resumed_blocks, 20U);
  EXPECT_GT(after.blocks_read, 5U);
}

TEST_F(WarmerTest, a_map_that_claims_too_much_is_not_believed) {
  make_image(0);
  attach({});
  mount_root();
  expect_whole_run(run(request()));
  ASSERT_NO_FATAL_FAILURE(restore_under_its_map());
  const WarmProgress progress = run(request());
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_THAT(progress.note, HasSubstr("not believed"));
  EXPECT_EQ(progress.resumed_blocks, 0U);
  EXPECT_EQ(progress.warmth, 1);
  for (const std::uint64_t block : used_blocks(disk_loop_.device()))
    EXPECT_TRUE(touched().contains(block)) << block;
  EXPECT_LE(progress.warm_reads.p50_us, 15'000U);
}

TEST_F(WarmerTest, a_map_of_another_volume_is_ignored_and_said_to_be) {
  make_image(0);
  attach({});
  mount_root();
  expect_whole_run(run(request()));
  WarmRequest other = request();
  other.volume_id = "vol-other";
  const WarmProgress progress = run(other);
  EXPECT_THAT(progress.note, HasSubstr("another volume"));
  EXPECT_EQ(progress.touch_bytes, 4096U) << "reads that wait for gp3's 3,000 a second are not cold";
  EXPECT_EQ(progress.resumed_blocks, 0U);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.warmth, 1);
}

}  // namespace
}  // namespace warmroot::warm
