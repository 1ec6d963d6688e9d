// A root on a lazily initialised volume for the warmer's tests: an ext4 or xfs image served by
// FUSE, behind loop devices with direct I/O and EBS-like queue limits, mounted in a mount namespace
// of the test's own. Everything is undone in the order that leaves no task hanging: umount, loops,
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
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

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

/// What the root's file system is, how large, and what makes it, with the device or image behind.
struct RootKind {
  std::string filesystem;
  std::uint64_t bytes;
  std::string mkfs;
};
inline const RootKind kExt4{"ext4", kFsBytes, "mkfs.ext4 -q -F -E nodiscard"};
/// mkfs.xfs makes none below 300 MiB.
inline const RootKind kXfs{"xfs", 320 * kMiB, "mkfs.xfs -q -f -K"};

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

  /// Which part of an xfs root this machine lacks, or empty.
  static std::string lacking_xfs() {
    if (!shell("command -v mkfs.xfs xfs_db xfs_repair")) return "xfsprogs";
    return shell("grep -qw xfs /proc/filesystems || modprobe xfs") ? "" : "xfs in the kernel";
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
  void make_image(std::uint64_t offset, const RootKind& kind = kExt4) {
    offset_ = offset;
    kind_ = kind;
    const fs::path image = top_ / "image";
    const int fd = ::open(image.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(offset + kind.bytes)), 0);
    const std::string page(4096, '\xAA');
    for (std::uint64_t at = 0; at < offset + kind.bytes; at += kGridBytes)
      ASSERT_EQ(::pwrite(fd, page.data(), page.size(), static_cast<off_t>(at)), 4096);
    ::close(fd);
    make_files();
    if (kind.filesystem == "ext4") {
      ASSERT_TRUE(shell(kind.mkfs + " -E offset=" + std::to_string(offset) + " -d " +
                        (top_ / "files").string() + " " + image.string() + " " +
                        std::to_string(kind.bytes / 1024)));
    } else {
      Loop loop;
      ASSERT_TRUE(loop.attach(image, offset));
      ASSERT_TRUE(shell(kind.mkfs + " " + loop.device()));
      ASSERT_NO_FATAL_FAILURE(fill_mounted(loop.device(), [this] {
        ASSERT_TRUE(shell("cp -a " + (top_ / "files").string() + "/. " + root().string()));
      }));
    }
    fill_holes(image);
  }

  /// What is to be in the image, put there through a mount of its own.
  void fill_mounted(const std::string& device, const std::function<void()>& fill) {
    ASSERT_NO_FATAL_FAILURE(mount_device(device));
    fill();
    unmount();
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
    ASSERT_NO_FATAL_FAILURE(put_volume({.log_requests = true}));
  }
  /// The same; a volume that was attached before gives way to one that nobody has touched.
  void attach_anew(const sim::VolumeProfile& profile) {
    fs_loop_.detach();
    disk_loop_.detach();
    if (!ebs_) return attach(profile);
    ebs_->delete_volume(kVolume);
    put_volume({});
  }
  void put_volume(const sim::VolumeOptions& options) {
    ASSERT_TRUE(
        ebs_->create_volume(kVolume, top_ / "image", fs::file_size(top_ / "image"), options));
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

  void mount_root() { mount_device(fs_device()); }
  void mount_device(const std::string& device) {
    const char* options = kind_.filesystem == "ext4" ? "noinit_itable" : nullptr;
    ASSERT_EQ(::mount(device.c_str(), root().c_str(), kind_.filesystem.c_str(), 0, options), 0)
        << device;
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
            .partition_size_bytes = kind_.bytes,
            .mount_point = root().string(),
            .filesystem = kind_.filesystem,
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

  /// Grid blocks in use, by dumpe2fs or xfs_db: an opinion that shares no code with the warmer's.
  std::set<std::uint64_t> used_blocks(const std::string& device) const {
    std::set<std::uint64_t> used;
    std::uint64_t at = 0;
    const auto use_until = [&](std::uint64_t end) {
      for (; at < end; at = ((offset_ + at) / kGridBytes + 1) * kGridBytes - offset_)
        used.insert((offset_ + at) / kGridBytes);
    };
    for (const auto& [start, length] :
         kind_.filesystem == "ext4" ? free_by_dumpe2fs(device) : free_by_xfs_db(device)) {
      use_until(start);
      at = std::max(at, start + length);
    }
    use_until(kind_.bytes);
    return used;
  }

  /// Free bytes of the file system: where they start, how many.
  using Free = std::map<std::uint64_t, std::uint64_t>;

  static Free free_by_dumpe2fs(const std::string& device) {
    const auto text = shell("dumpe2fs " + device);
    EXPECT_TRUE(text);
    std::uint64_t block_bytes = 0;
    Free free;
    std::istringstream lines(text.value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::ignore = std::sscanf(line.c_str(), "Block size: %lu", &block_bytes);
      if (!line.starts_with("  Free blocks:")) continue;
      std::istringstream ranges(line.substr(14));
      for (std::string range; std::getline(ranges, range, ',');) {
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        const int count = std::sscanf(range.c_str(), " %lu-%lu", &first, &last);
        if (count == 1) last = first;
        if (count > 0) free[first * block_bytes] = (last + 1 - first) * block_bytes;
      }
    }
    return free;
  }

  static Free free_by_xfs_db(const std::string& device) {
    const auto text =
        shell("xfs_db -r -c 'sb 0' -c 'p blocksize agblocks' -c 'freesp -d' " + device);
    EXPECT_TRUE(text);
    std::uint64_t block_bytes = 0;
    std::uint64_t group_blocks = 0;
    Free free;
    std::istringstream lines(text.value_or(""));
    for (std::string line; std::getline(lines, line) && line.find("from") == std::string::npos;) {
      std::uint64_t group = 0;
      std::uint64_t start = 0;
      std::uint64_t count = 0;
      std::ignore = std::sscanf(line.c_str(), "blocksize = %lu", &block_bytes);
      std::ignore = std::sscanf(line.c_str(), "agblocks = %lu", &group_blocks);
      if (std::sscanf(line.c_str(), "%lu %lu %lu", &group, &start, &count) == 3)
        free[(group * group_blocks + start) * block_bytes] = count * block_bytes;
    }
    EXPECT_FALSE(free.empty());
    return free;
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
  RootKind kind_ = kExt4;
  std::optional<sim::EbsServer> ebs_;
  Loop disk_loop_, fs_loop_;
  bool mounted_ = false;
  std::vector<WarmProgress> reports_;
};

inline void expect_whole_run(const WarmProgress& progress) {
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.present_blocks, progress.needed_blocks);
  EXPECT_EQ(progress.needed_source, "fsmap") << progress.note;
  EXPECT_EQ(progress.errors, 0U);
  EXPECT_EQ(progress.note, "");
}

}  // namespace warmroot::warm
