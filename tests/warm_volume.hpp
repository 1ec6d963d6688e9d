// A root on a lazily initialised volume for the warmer's tests: an ext4 image served by FUSE,
// behind loop devices with direct I/O and EBS-like queue limits, mounted in a mount namespace of
// the test's own. Everything is undone in the order that leaves no task hanging: umount, loops,
// FUSE.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/confine.hpp"
#include "bootstrap/warm/warm_progress_json.hpp"
#include "bootstrap/warm/warmer.hpp"
#include "tests/must_run.hpp"
#include "tests/sim/ebs.hpp"

namespace warmroot::warm {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

inline constexpr std::uint64_t kFsBytes = 256 * kMiB;
inline constexpr std::uint64_t kOddOffset = kMiB + 64 * kKiB;  // no multiple of the grid
inline constexpr const char* kVolume = "vol-0123456789abcdef0";
inline constexpr const char* kMap = "var/lib/warmroot/warm.map";

/// Runs a shell command; its output, or nullopt when it fails.
inline std::optional<std::string> shell(const std::string& command) {
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

/// For WarmRequest::set_up and its like.
inline void confine_here() {
  const Ok done = confine_thread();
  EXPECT_TRUE(done) << done.error().message();
}

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
      if (must_run()) FAIL() << "this machine lacks " << missing;
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

  /// The same volume id from its snapshot: all is cold again, and a map of before claims otherwise.
  /// Requires a mounted root with a map; leaves it mounted.
  void restore_under_its_map() {
    ASSERT_TRUE(shell("cp " + (root() / kMap).string() + " " + (top_ / "map").string()));
    unmount();
    disk_loop_.detach();
    ebs_->delete_volume(kVolume);
    ASSERT_TRUE(ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image")));
    ASSERT_TRUE(disk_loop_.attach(ebs_->path(kVolume), 0));
    mount_root();
    fs::create_directories((root() / kMap).parent_path());
    fs::copy_file(top_ / "map", root() / kMap);
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

  /// On a thread of its own, confined as in the bootstrap: what warming needs is on the filter's
  /// list, or the tests fail. `before` is the thread's first deed.
  WarmProgress run(WarmRequest request, std::stop_token stop = {},
                   const std::function<void()>& before = {}) {
    request.set_up = confine_here;
    std::optional<Result<WarmProgress>> ended;
    std::thread([&] {
      if (before) before();
      ended = Warmer(request).run(
          std::move(stop), [this](const WarmProgress& progress) { reports_.push_back(progress); });
    }).join();
    auto& result = *ended;
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

}  // namespace warmroot::warm
