// The warmer beside a session on the same device: what the session's misses wait for, how many
// reads the warmer has in flight meanwhile, when it saves its map, and that it writes nothing
// itself. Needs root, FUSE and loop devices; see warm_volume.hpp.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "bootstrap/warm/block_trace.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

class WarmerBesideSession : public WarmerTest {
 protected:
  /// A disk without a file system, each block of which costs a first touch.
  void make_plain_image(std::uint64_t bytes) const {
    const int fd = ::open((top_ / "image").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    for (std::uint64_t at = 0; at < bytes; at += kGridBytes)
      ASSERT_EQ(::pwrite(fd, "data", 4, static_cast<off_t>(at)), 4);
    ::close(fd);
  }
  /// By which of the volume's openers requests of this loop device come; 0: by none.
  unsigned opener_of(const std::string& device) const {
    const auto before = ebs_->request_log(kVolume).size();
    if (!shell("dd if=" + device + " of=/dev/null bs=4096 count=1 iflag=direct status=none"))
      return 0;
    const auto log = ebs_->request_log(kVolume);
    return log.size() > before ? log.back().opener : 0;
  }
  std::uint64_t writes_by(std::optional<unsigned> opener) const {
    const auto log = ebs_->request_log(kVolume);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(log, [&](const sim::DeviceRequest& request) {
          return request.kind == sim::DeviceRequest::Kind::write &&
                 (!opener || request.opener == *opener);
        }));
  }
  /// All that a run may do.
  WarmRequest everything() const {
    WarmRequest wanted = request();
    const auto used = used_blocks(fs_device());
    for (const std::uint64_t block : used)
      if (wanted.hot.size() < 20) wanted.hot.push_back(static_cast<Block>(block));
    wanted.files = {{"/**"}};
    wanted.guess.names = [] { return std::vector<WantedFile>{{"/d3/*"}}; };
    return wanted;
  }
};

/// Cold reads of [from, to) at depth 1, as a session's misses are, until `stop`.
std::vector<double> miss_one_after_the_other(const std::string& device, std::uint64_t from,
                                             std::uint64_t to, const std::stop_token& stop) {
  std::vector<double> latencies_ms;
  const int fd = ::open(device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(4096, 4096),
                                                         &std::free);
  for (std::uint64_t at = from; at < to && !stop.stop_requested(); at += kGridBytes) {
    const auto start = Clock::now();
    if (::pread(fd, page.get(), 4096, static_cast<off_t>(at)) != 4096) break;
    latencies_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  ::close(fd);
  std::sort(latencies_ms.begin(), latencies_ms.end());
  return latencies_ms;
}

TEST_F(WarmerBesideSession, a_session_that_misses_waits_little_longer_while_the_warmer_reads) {
  constexpr std::uint64_t kHalf = 768 * kMiB;
  make_plain_image(2 * kHalf);
  sim::VolumeProfile profile;
  profile.tail_probability = 0;
  attach(profile);
  std::stop_source stop;
  std::jthread alone_for([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    stop.request_stop();
  });
  const auto alone =
      miss_one_after_the_other(disk_loop_.device(), kHalf, 2 * kHalf, stop.get_token());
  alone_for.join();
  const std::uint64_t from = kHalf + alone.size() * kGridBytes;
  std::stop_source done;
  std::vector<double> together;
  std::jthread session([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // the depth has been found
    together = miss_one_after_the_other(disk_loop_.device(), from, 2 * kHalf, done.get_token());
  });
  WarmRequest half;
  half.device_path = disk_loop_.device();
  half.partition_size_bytes = kHalf;
  const WarmProgress progress = run(half);
  done.request_stop();
  session.join();
  EXPECT_EQ(progress.state, WarmState::done);
  ASSERT_GE(alone.size(), 20U);
  ASSERT_GE(together.size(), 10U);
  const double p50_alone = alone[alone.size() / 2];
  const double p50_together = together[together.size() / 2];
  if (std::getenv("WARMROOT_SHOW") != nullptr) {
    std::printf("misses: p50 %.1f ms alone, %.1f ms beside the warmer (%zu); fill %lu ms, depths",
                p50_alone, p50_together, together.size(), progress.elapsed_ms);
    for (const WarmProgress& report : reports_) std::printf(" %u", report.depth);
    std::printf("\n");
  }
  // A queue of 64 would take 107 ms, of all 128 tags 213 ms.
  EXPECT_LT(p50_together, 2 * p50_alone);
}

struct Span {
  sim::SimTime from{}, to{};
};

/// The median of how many reads below `end` were in flight during the spans, by the device's log.
unsigned median_in_flight(const std::vector<sim::DeviceRequest>& log, std::uint64_t end,
                          const std::vector<Span>& spans) {
  std::vector<unsigned> counts;
  for (const Span& span : spans)
    for (auto at = span.from; at < span.to; at += milliseconds(10))
      counts.push_back(
          static_cast<unsigned>(std::ranges::count_if(log, [&](const sim::DeviceRequest& request) {
            return request.range.offset < end && request.at <= at && at < request.due;
          })));
  if (counts.empty()) return 0;
  std::sort(counts.begin(), counts.end());
  return counts[counts.size() / 2];
}

/// A session that misses for a second and rests for one, in turn. Counted at the device.
TEST_F(WarmerBesideSession, fewer_reads_are_in_flight_while_a_session_misses_than_while_it_rests) {
  constexpr std::uint64_t kWarmed = 3328 * kMiB;  // eleven seconds
  constexpr std::uint64_t kBytes = kWarmed + 256 * kMiB;
  make_plain_image(kBytes);
  sim::VolumeProfile slow;
  slow.latency_median_ms = 100;  // the deepest pipe, so that a step of one read does not count
  slow.tail_probability = 0;
  attach(slow);
  std::vector<Span> misses, rests;
  std::jthread session([&](const std::stop_token& done) {
    constexpr auto kTurn = milliseconds(1000);
    constexpr auto kSettles = milliseconds(300);      // what was in flight has come back
    std::this_thread::sleep_for(milliseconds(1500));  // the depth has been found
    for (std::uint64_t from = kWarmed; !done.stop_requested();) {
      std::stop_source turn;
      std::jthread later([&turn, kTurn] {
        std::this_thread::sleep_for(kTurn);
        turn.request_stop();
      });
      auto began = ebs_->now();
      const auto read =
          miss_one_after_the_other(disk_loop_.device(), from, kBytes, turn.get_token());
      if (done.stop_requested()) return;
      from += read.size() * kGridBytes;
      misses.push_back({began + kSettles, ebs_->now()});
      began = ebs_->now();
      std::this_thread::sleep_for(kTurn);
      if (!done.stop_requested()) rests.push_back({began + kSettles, ebs_->now()});
    }
  });
  WarmRequest part;
  part.device_path = disk_loop_.device();
  part.partition_size_bytes = kWarmed;
  const WarmProgress progress = run(part);
  session.request_stop();
  session.join();
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  ASSERT_GE(misses.size(), 3U);
  ASSERT_GE(rests.size(), 3U);
  const auto log = ebs_->request_log(kVolume);
  const unsigned beside = median_in_flight(log, kWarmed, misses);
  const unsigned alone = median_in_flight(log, kWarmed, rests);
  if (std::getenv("WARMROOT_SHOW") != nullptr)
    std::printf("in flight: %u while it misses, %u while it rests\n", beside, alone);
  EXPECT_LT(beside, 0.95 * alone);
  EXPECT_GE(beside, alone / 2) << "and the pipe is not left empty";
}

/// Beside sessions of 5 s and more the map's first fsync committed their journal while they missed
/// blocks: 21 of one's writes waited, for a second altogether.
TEST_F(WarmerBesideSession, its_map_is_saved_when_the_session_is_at_rest_and_not_while_it_misses) {
  if (!BlockTrace::open_place()) {
    if (must_run()) FAIL() << "this machine has no tracefs";
    GTEST_SKIP() << "NOT TESTED: this machine has no tracefs";
  }
  make_image(0);
  sim::VolumeProfile profile;
  profile.tail_probability = 0;
  attach(profile);
  mount_root();
  const auto used = used_blocks(fs_device());
  WarmRequest wanted = request();
  wanted.max_mib_s = 4;  // 8 blocks a second: it has not ended when the map is due at the latest
  std::stop_source stop;
  Clock::time_point start, last_miss;
  std::optional<Clock::time_point> saved;
  std::jthread session([&] {
    constexpr Block kApart = 10;  // what is read around a miss goes four blocks back
    start = Clock::now();
    for (Block block = grid_blocks(kFsBytes) - 1;
         block >= kApart && Clock::now() - start < milliseconds(6500); block -= kApart) {
      if (used.contains(block)) continue;
      last_miss = Clock::now();
      // By a process of its own: what threads of this one read is taken for the warmer's.
      EXPECT_TRUE(shell(
          "dd if=" + disk_loop_.device() +
          " of=/dev/null bs=512K count=1 iflag=direct status=none skip=" + std::to_string(block)));
      std::this_thread::sleep_for(milliseconds(250));
    }
    while (!saved && Clock::now() - start < milliseconds(13'000)) {
      if (fs::exists(root() / kMap)) saved = Clock::now();
      std::this_thread::sleep_for(milliseconds(10));
    }
    stop.request_stop();
  });
  const WarmProgress progress = run(wanted, stop.get_token());
  session.join();
  EXPECT_EQ(progress.state, WarmState::stopped) << "it has not ended by itself: " << progress.note;
  EXPECT_GT(last_miss - start, milliseconds(5500)) << "there were not enough free blocks";
  ASSERT_TRUE(saved);
  EXPECT_GE(*saved - last_miss, milliseconds(1000));
}

/// The root is mounted through a device of its own, so that the log tells who wrote.
TEST_F(WarmerBesideSession,
       a_whole_run_writes_its_map_through_the_mount_and_nothing_to_the_device) {
  make_image(kOddOffset);
  attach({});
  const unsigned own = opener_of(disk_loop_.device());
  const unsigned mounts = opener_of(fs_loop_.device());
  ASSERT_NE(own, 0U);
  ASSERT_NE(mounts, 0U);
  ASSERT_NE(own, mounts);
  mount_root();
  const WarmProgress progress = run(everything());
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  ASSERT_TRUE(fs::exists(root() / kMap));
  EXPECT_GT(writes_by(mounts), 0U) << "the map's";
  EXPECT_EQ(writes_by(own), 0U);
  unmount();
  EXPECT_TRUE(shell("e2fsck -fn " + fs_device()));
}

TEST_F(WarmerBesideSession, a_whole_run_without_a_map_writes_nothing_at_all) {
  make_image(kOddOffset);
  attach({});
  mount_root();
  ASSERT_TRUE(shell("sync -f " + root().string() + " && mount -o remount,ro " + root().string()));
  const auto before = writes_by({});
  ASSERT_GT(before, 0U) << "the mount's own";
  WarmRequest wanted = everything();
  wanted.map_path.clear();
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(writes_by({}), before);
}

}  // namespace
}  // namespace warmroot::warm
