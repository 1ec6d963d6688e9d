// The warmer, end to end: an ext4 root on a lazily initialised volume (FUSE), behind a loop device
// with direct I/O, mounted in a mount namespace of this process. Needs root, FUSE and loop devices.
#include "bootstrap/warm/warmer.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"
#include "tests/sim/ebs.hpp"

extern char** environ;

namespace warmroot::warm {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFsBytes = 256 * kMiB;
constexpr std::uint64_t kOddOffset = kMiB + 64 * kKiB;  // no multiple of the grid
constexpr const char* kVolume = "vol-0123456789abcdef0";
constexpr const char* kMap = "var/lib/warmroot/warm.map";

/// Runs a shell command; its output, or nullopt when it fails.
std::optional<std::string> shell(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, pipe))
    output.append(part, count);
  if (::pclose(pipe) != 0) {
    std::fprintf(stderr, "%s:\n%s", command.c_str(), output.c_str());
    return std::nullopt;
  }
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

/// A loop device with direct I/O and EBS-like queue limits, detached at the end.
class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() { detach(); }

  bool attach(const fs::path& file, std::uint64_t offset) {
    const auto device = shell("losetup --direct-io=on --show -f -o " + std::to_string(offset) +
                              " " + file.string());
    if (!device) return false;
    device_ = *device;
    const std::string queue = "/sys/block/" + fs::path(device_).filename().string() + "/queue/";
    std::ofstream(queue + "max_sectors_kb") << 256;
    std::ofstream(queue + "read_ahead_kb") << 128;
    return true;
  }
  void detach() {
    if (device_.empty()) return;
    shell("losetup -d " + device_);
    const std::string backing =
        "/sys/block/" + fs::path(device_).filename().string() + "/loop/backing_file";
    for (int tries = 0; tries < 200 && fs::exists(backing); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    device_.clear();
  }
  const std::string& device() const { return device_; }

 private:
  std::string device_;
};

class WarmerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0)
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  }

  /// What this machine lacks, or empty.
  static std::string lacking() {
    if (::geteuid() != 0) return "root";
    if (!fs::exists("/dev/fuse")) return "/dev/fuse";
    if (!fs::exists("/dev/loop-control")) return "loop devices";
    if (!shell("command -v mkfs.ext4 dumpe2fs losetup mount")) return "mkfs.ext4, losetup or mount";
    return {};
  }

  void SetUp() override {
    if (const std::string missing = lacking(); !missing.empty()) {
      const char* must = std::getenv("WARMROOT_MUST_RUN");
      if (must != nullptr && std::string(must) == "1") FAIL() << "this machine lacks " << missing;
      GTEST_SKIP() << "NOT TESTED: this machine lacks " << missing;
    }
    std::string pattern = (fs::temp_directory_path() / "warmer_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    fs::create_directory(root());
  }

  void TearDown() override {
    unmount();
    fs_loop_.detach();
    disk_loop_.detach();
    if (ebs_) ebs_->stop();
    if (!top_.empty()) fs::remove_all(top_);
  }

  fs::path root() const { return top_ / "root"; }

  /// A disk image of which every grid block has data, so that each costs a first touch: what is
  /// free in the file system still lies in the snapshot.
  void make_image(std::uint64_t offset) {
    offset_ = offset;
    const fs::path image = top_ / "image";
    const int fd = ::open(image.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(offset + kFsBytes)), 0);
    const std::string page(4096, '\xAA');
    for (std::uint64_t at = 0; at < offset + kFsBytes; at += kGridBytes)
      ASSERT_EQ(::pwrite(fd, page.data(), page.size(), static_cast<off_t>(at)), 4096);
    ::close(fd);
    make_files();
    ASSERT_TRUE(shell("mkfs.ext4 -q -F -E nodiscard,offset=" + std::to_string(offset) + " -d " +
                      (top_ / "files").string() + " " + image.string() + " " +
                      std::to_string(kFsBytes / 1024)));
    fill_holes(image);
  }

  /// mke2fs punches holes where it zeroes (its journal), and a hole costs no first touch.
  static void fill_holes(const fs::path& image) {
    std::fstream file(image, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    for (std::uint64_t at = 0; at < fs::file_size(image); at += kGridBytes) {
      file.seekg(static_cast<std::streamoff>(at)).get(byte);
      file.seekp(static_cast<std::streamoff>(at)).put(byte);
    }
  }

  void make_files() {
    std::mt19937 random(3);
    std::string content(200 * 1024, '\0');
    for (char& c : content) c = static_cast<char>(random());
    for (int directory = 0; directory < 10; ++directory) {
      const fs::path path = top_ / "files" / ("d" + std::to_string(directory));
      fs::create_directories(path);
      for (int file = 0; file < 30; ++file)
        std::ofstream(path / std::to_string(file), std::ios::binary) << content;
    }
  }

  /// Serves the image as a volume and puts loops on it: one over the whole disk, and where the file
  /// system starts within it another for the mount.
  void attach(const sim::VolumeProfile& profile) {
    ebs_.emplace(sim::EbsOptions{.mount_dir = top_ / "volumes",
                                 .backing_dir = top_ / "backing",
                                 .profile = profile,
                                 .seed = 7});
    const auto started = ebs_->start();
    ASSERT_TRUE(started) << started.error().message();
    ASSERT_TRUE(ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image")));
    ASSERT_TRUE(disk_loop_.attach(ebs_->path(kVolume), 0));
    if (offset_ != 0) {
      ASSERT_TRUE(fs_loop_.attach(ebs_->path(kVolume), offset_));
    }
  }

  void mount_root() {
    const std::string& device = offset_ != 0 ? fs_loop_.device() : disk_loop_.device();
    ASSERT_EQ(::mount(device.c_str(), root().c_str(), "ext4", 0, "noinit_itable"), 0) << device;
    mounted_ = true;
  }
  void unmount() {
    if (mounted_) {
      EXPECT_EQ(::umount(root().c_str()), 0);
    }
    mounted_ = false;
  }

  WarmRequest request() const {
    return {.device_path = disk_loop_.device(),
            .partition_offset_bytes = offset_,
            .partition_size_bytes = kFsBytes,
            .mount_point = root().string(),
            .filesystem = "ext4",
            .map_path = kMap,
            .volume_id = kVolume};
  }

  WarmProgress run(const WarmRequest& request, std::stop_token stop = {}) {
    auto result = Warmer(request).run(
        std::move(stop), [this](const WarmProgress& progress) { reports_.push_back(progress); });
    EXPECT_TRUE(result) << result.error().message();
    if (std::getenv("WARMROOT_SHOW") != nullptr && result)
      std::printf("%s\n", to_json(*result).dump().c_str());
    return result ? *result : WarmProgress{};
  }

  /// Grid blocks in use, by dumpe2fs: an opinion that shares no code with the warmer's.
  std::set<std::uint64_t> used_blocks(const std::string& device) const {
    const auto text = shell("dumpe2fs " + device);
    EXPECT_TRUE(text);
    std::uint64_t block_bytes = 0;
    std::vector<bool> free;
    std::istringstream lines(text.value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::uint64_t number = 0;
      if (std::sscanf(line.c_str(), "Block size: %lu", &number) == 1) {
        block_bytes = number;
        free.resize(kFsBytes / number);
      }
      if (!line.starts_with("  Free blocks:")) continue;
      std::istringstream ranges(line.substr(14));
      for (std::string range; std::getline(ranges, range, ',');) {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        const int count = std::sscanf(range.c_str(), " %lu-%lu", &first, &last);
        for (std::uint64_t b = first; count > 0 && b <= (count == 2 ? last : first); ++b)
          free.at(b) = true;
      }
    }
    std::set<std::uint64_t> used;
    for (std::uint64_t b = 0; b < free.size(); ++b)
      if (!free[b]) used.insert((offset_ + b * block_bytes) / kGridBytes);
    return used;
  }

  std::set<std::uint64_t> touched() const {
    std::set<std::uint64_t> blocks;
    for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume)) blocks.insert(touch.block);
    return blocks;
  }

  const std::string& fs_device() const {
    return offset_ != 0 ? fs_loop_.device() : disk_loop_.device();
  }

  void read_all_files() const {
    ASSERT_TRUE(shell("cat " + root().string() + "/d*/* | wc -c")) << "reading the root";
  }

  fs::path top_;
  std::uint64_t offset_ = 0;
  std::optional<sim::EbsServer> ebs_;
  Loop disk_loop_, fs_loop_;
  bool mounted_ = false;
  std::vector<WarmProgress> reports_;
};

void expect_whole_run(const WarmProgress& progress) {
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.present_blocks, progress.needed_blocks);
  EXPECT_EQ(progress.needed_source, "fsmap") << progress.note;
  EXPECT_EQ(progress.errors, 0U);
  EXPECT_EQ(progress.note, "");
}

class WarmerAtOffset : public WarmerTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(WarmerAtOffset, reads_what_is_needed_and_nothing_else_and_the_second_run_reads_nothing) {
  make_image(GetParam());
  attach({});
  const std::set<std::uint64_t> used = used_blocks(fs_device());
  ebs_->mark_attached(kVolume);
  mount_root();
  const WarmProgress first = run(request());
  expect_whole_run(first);
  EXPECT_EQ(first.touch_bytes, 4096U);
  EXPECT_NEAR(static_cast<double>(first.needed_blocks), static_cast<double>(used.size()), 5);
  EXPECT_GE(first.first_touch.p50_us, 20'000U);
  EXPECT_GE(first.warm_reads.count, 32U);
  EXPECT_LE(first.warm_reads.p50_us, 15'000U);
  EXPECT_EQ(first.first_touch.count, first.blocks_read);

  unmount();
  std::set<std::uint64_t> allowed = used_blocks(fs_device());
  allowed.insert(used.begin(), used.end());
  for (const std::uint64_t block : used) EXPECT_TRUE(touched().contains(block)) << block;
  std::uint64_t strangers = 0;
  for (const std::uint64_t block : touched())
    if (!allowed.contains(block) && block * kGridBytes >= offset_) ++strangers;
  EXPECT_LE(strangers, 2U) << "blocks that held the map's temporary file, no others";

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

INSTANTIATE_TEST_SUITE_P(Partition, WarmerAtOffset, testing::Values(0, kOddOffset),
                         [](const testing::TestParamInfo<std::uint64_t>& offset) {
                           return offset.param == 0 ? std::string("none") : std::string("odd");
                         });

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
TEST_F(WarmerTest, DISABLED_runs_until_killed) {
  const char* device = std::getenv("WARMER_TEST_DEVICE");
  const char* mount_point = std::getenv("WARMER_TEST_ROOT");
  if (device == nullptr || mount_point == nullptr) return;
  WarmRequest request{.device_path = device,
                      .mount_point = mount_point,
                      .filesystem = "ext4",
                      .map_path = kMap,
                      .volume_id = kVolume};
  (void)Warmer(request).run({}, {});
}

TEST_F(WarmerTest, resumes_from_its_map_after_a_kill) {
  make_image(0);
  sim::VolumeProfile slow;
  slow.fetch_bandwidth_mib_s = 8;  // 16 blocks a second
  attach(slow);
  mount_root();
  ::setenv("WARMER_TEST_DEVICE", disk_loop_.device().c_str(), 1);
  ::setenv("WARMER_TEST_ROOT", root().c_str(), 1);
  std::string arguments[] = {"warmer_test", "--gtest_also_run_disabled_tests",
                             "--gtest_filter=WarmerTest.DISABLED_runs_until_killed"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t child = -1;
  ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environ), 0);
  for (int tenth = 0; tenth < 150 && !fs::exists(root() / kMap); ++tenth)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  ASSERT_TRUE(fs::exists(root() / kMap));
  ebs_->set_profile(kVolume, {});
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
  ASSERT_TRUE(shell("cp " + (root() / kMap).string() + " " + (top_ / "map").string()));
  unmount();
  disk_loop_.detach();
  // The same volume id, restored from its snapshot: everything is cold again.
  ebs_->delete_volume(kVolume);
  ASSERT_TRUE(ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image")));
  ASSERT_TRUE(disk_loop_.attach(ebs_->path(kVolume), 0));
  mount_root();
  fs::create_directories((root() / kMap).parent_path());
  fs::copy_file(top_ / "map", root() / kMap);
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

/// Cold reads of the second half at depth 1, as a session's misses are, until `stop`.
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

TEST_F(WarmerTest, a_session_that_misses_waits_little_longer_while_the_warmer_reads) {
  constexpr std::uint64_t kHalf = 768 * kMiB;
  const int fd = ::open((top_ / "image").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(fd, 2 * kHalf), 0);
  for (std::uint64_t at = 0; at < 2 * kHalf; at += kGridBytes)
    ASSERT_EQ(::pwrite(fd, "data", 4, static_cast<off_t>(at)), 4);
  ::close(fd);
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
                        "state", "needed_blocks", "device_blocks", "present_blocks", "blocks_read",
                        "bytes_read", "warmth", "elapsed_ms", "eta_ms", "engine", "depth", "errors",
                        "resumed_blocks", "needed_source", "first_touch", "warm_reads"));
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
