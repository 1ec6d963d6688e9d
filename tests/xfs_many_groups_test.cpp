// RootMetadata on an xfs of 1,000 groups, as one of 8 GiB that was grown to 2 TiB has, and on one
// made to be large in memory: what the pump sees meanwhile and what is allocated, by counts. The
// image is a sparse file; its reads are held back by fanotify, which needs root.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/root_metadata.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/xfs_trees.hpp"

namespace {

std::atomic<std::uint64_t> allocated_bytes{0};  // ever
std::atomic<std::uint64_t> held_bytes{0};
std::atomic<std::uint64_t> most_held_bytes{0};

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::uint64_t bytes = ::malloc_usable_size(memory);
  allocated_bytes += bytes;
  const std::uint64_t now = held_bytes += bytes;
  std::uint64_t most = most_held_bytes;
  while (now > most && !most_held_bytes.compare_exchange_weak(most, now)) {
  }
  return memory;
}
void operator delete(void* memory) noexcept {
  held_bytes -= ::malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace warmroot::warm {
namespace {

constexpr std::uint64_t kGroups = 1000;
constexpr std::uint64_t kDeviceBytes = 2048 * kGiB;

/// Ends each read with the next wait; what is held is still in flight.
class PromptEngine : public ReadEngine {
 public:
  std::set<Block> held;

  std::string_view name() const override { return "prompt"; }
  unsigned capacity() const override { return 64; }
  unsigned in_flight() const override { return static_cast<unsigned>(requests_.size()); }
  Ok submit(std::span<const ReadRequest> requests) override {
    requests_.insert(requests_.end(), requests.begin(), requests.end());
    return {};
  }
  using ReadEngine::wait;
  Ok wait(std::chrono::milliseconds, std::vector<ReadResult>& results, unsigned,
          std::chrono::milliseconds) override {
    std::erase_if(requests_, [&](const ReadRequest& request) {
      const auto block = static_cast<Block>(request.offset / kGridBytes);
      if (held.contains(block)) return false;
      const bool is_first = touched_.insert(block).second;
      results.push_back({request.tag, 0, std::chrono::microseconds(is_first ? 36'000 : 300)});
      return true;
    });
    std::this_thread::yield();
    return {};
  }

 private:
  std::vector<ReadRequest> requests_;
  std::set<Block> touched_;
};

/// Lets each read of a file wait until the pump's tick allows it. Requires root.
class HeldReads {
 public:
  /// Holds those through what is opened from now on: Linux 6.14 asks nobody about a file that
  /// nobody watched when it was opened. What is still held after the time limit fails the test, and
  /// goes on.
  explicit HeldReads(std::string path)
      : path_(std::move(path)),
        group_(::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK,
                               O_RDONLY | O_LARGEFILE | O_CLOEXEC)) {
    hold(true);
    guard_ = std::thread([this] {
      if (ended_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready)
        return;
      ADD_FAILURE() << "nobody allows the reads";
      ::fanotify_mark(group_.get(), FAN_MARK_FLUSH, 0, AT_FDCWD, nullptr);
      while (!is_over_) allow();
    });
  }
  ~HeldReads() {
    ended_.set_value();
    is_over_ = true;
    guard_.join();
  }
  HeldReads(const HeldReads&) = delete;
  HeldReads& operator=(const HeldReads&) = delete;

  void hold(bool on) {
    const unsigned change = on ? FAN_MARK_ADD : FAN_MARK_REMOVE;
    EXPECT_EQ(::fanotify_mark(group_.get(), change, FAN_ACCESS_PERM, AT_FDCWD, path_.c_str()), 0);
  }

  /// Those that wait now: how many.
  std::uint64_t allow() {
    alignas(fanotify_event_metadata) std::array<char, 4096> events;
    ssize_t left = ::read(group_.get(), events.data(), events.size());
    std::uint64_t count = 0;
    for (auto* event = reinterpret_cast<fanotify_event_metadata*>(events.data());
         FAN_EVENT_OK(event, left); event = FAN_EVENT_NEXT(event, left)) {
      const UniqueFd file(event->fd);
      const fanotify_response answer{event->fd, FAN_ALLOW};
      EXPECT_EQ(::write(group_.get(), &answer, sizeof answer), ssize_t{sizeof answer});
      ++count;
    }
    return count;
  }

 private:
  std::string path_;
  UniqueFd group_;
  std::promise<void> ended_;
  std::atomic<bool> is_over_ = false;
  std::thread guard_;
};

class XfsImage : public testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd file(::open(image_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(file);
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kDeviceBytes)), 0);
  }

  void make_many_groups() {
    if (std::system("command -v mkfs.xfs >/dev/null") != 0) {
      if (must_run()) FAIL() << "this machine lacks mkfs.xfs";
      GTEST_SKIP() << "NOT TESTED: this machine lacks mkfs.xfs";
    }
    const std::string command =
        "mkfs.xfs -q -f -K -d agcount=" + std::to_string(kGroups) + " -l size=64m " + image_;
    ASSERT_EQ(std::system(command.c_str()), 0);
  }

  void write(std::uint64_t at, const std::string& bytes) {
    std::fstream file(image_, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), std::ssize(bytes)));
  }

  void open_device() {
    auto device = BlockDevice::open(image_);
    ASSERT_TRUE(device) << device.error().message();
    device_.emplace(std::move(*device));
  }

  /// And reads the superblock, of a file system in the device's first bytes.
  void begin(std::uint64_t partition_bytes = kDeviceBytes) {
    presence_ = Presence(grid_blocks(kDeviceBytes));
    PumpEvents events;
    events.present = [this](Block block, std::chrono::microseconds) {
      presence_.insert_read(block);
      arrived_.emplace(block, contents_);
    };
    events.not_present = [](std::span<const Block>) {
      ADD_FAILURE();
      return std::vector<Block>{};
    };
    events.wanted = [this](Block block) { return reader_->is_wanted(block); };
    events.tick = [this] {
      if (on_tick_) on_tick_();
      return std::vector<Block>{};
    };
    pump_.emplace(engine_, control_, kDeviceBytes, std::move(events));
    reader_.emplace(*pump_, presence_, std::stop_token());
    metadata_.emplace(*reader_, *device_, "xfs", ByteRange{0, partition_bytes},
                      [](const std::string& note) { ADD_FAILURE() << note; });
    ASSERT_EQ(metadata_->read_superblock().value(), ReadPump::End::finished);
  }

  TemporaryDirectory directory_;
  std::string image_ = directory_.path() + "/image";
  PromptEngine engine_;
  DepthControl control_{depth_limits(0, std::nullopt)};
  Presence presence_;
  std::optional<BlockDevice> device_;
  std::optional<ReadPump> pump_;
  std::optional<ListReader> reader_;
  std::optional<RootMetadata> metadata_;
  std::function<void()> on_tick_;
  std::uint64_t contents_ = 0;              // read since the superblock
  std::map<Block, std::uint64_t> arrived_;  // after how many of them
};

/// It stood still for the whole length of it: 1,000 reads one after the other, in which nothing was
/// seen to have ended, no session yielded to and no late list taken.
TEST_F(XfsImage, of_1000_groups_does_not_stop_the_pump) {
  if (::geteuid() != 0) {
    if (must_run()) FAIL() << "this machine lacks root";
    GTEST_SKIP() << "NOT TESTED: this machine lacks root";
  }
  ASSERT_NO_FATAL_FAILURE(make_many_groups());
  if (IsSkipped()) return;
  HeldReads held(image_);
  ASSERT_NO_FATAL_FAILURE(open_device());
  held.hold(false);
  ASSERT_NO_FATAL_FAILURE(begin());
  held.hold(true);
  // Far from any header. One ends in the middle, one is wanted only then, and one never ends: with
  // nothing in flight the pump sleeps.
  const Block slow = grid_blocks(kDeviceBytes / kGroups / 2);
  const Block late = slow + 1;
  const Block stalled = slow + 2;
  engine_.held = {slow, stalled};
  ASSERT_EQ(reader_->read(std::vector{slow, stalled}, [] { return true; }).value(),
            ReadPump::End::finished);
  on_tick_ = [&] {
    const std::uint64_t before = contents_;
    contents_ += held.allow();
    if (before < 250 && contents_ >= 250) pump_->prefer_to_all(std::vector{late});
    if (before < 500 && contents_ >= 500) engine_.held.erase(slow);
  };
  ASSERT_EQ(metadata_->read().value(), ReadPump::End::finished);
  ASSERT_EQ(contents_, kGroups);
  EXPECT_EQ(arrived_.at(late), 250U);
  EXPECT_EQ(arrived_.at(slow), 500U);
}

/// Twenty sets of the whole device were made for each header.
TEST_F(XfsImage, of_1000_groups_takes_less_memory_than_a_set_of_the_device_for_each) {
  ASSERT_NO_FATAL_FAILURE(make_many_groups());
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(open_device());
  ASSERT_NO_FATAL_FAILURE(begin());
  const std::uint64_t before = allocated_bytes;
  ASSERT_EQ(metadata_->read().value(), ReadPump::End::finished);
  EXPECT_EQ(metadata_->ranges().size(), 1 + 2 * kGroups) << "superblock, headers, leaves";
  EXPECT_LT(allocated_bytes - before, kGroups * grid_blocks(kDeviceBytes) / 8);
}

/// Nodes of 64 KiB, as many as are asked for, were held all at once: 256 MiB.
TEST_F(XfsImage, that_is_hostile_takes_a_few_mib) {
  constexpr std::uint64_t kBlock = XfsFreeTrees::kLargestNode;
  std::string super = small_super();
  super.replace(4, 4, number(kBlock, 4));
  ASSERT_NO_FATAL_FAILURE(write(0, super));
  ASSERT_NO_FATAL_FAILURE(write(512, header(0, 1, 3)));
  const std::vector<std::uint64_t> below(8000, 2);
  ASSERT_NO_FATAL_FAILURE(write(kBlock, node("AB3B", 2, below, kBlock)));
  ASSERT_NO_FATAL_FAILURE(write(2 * kBlock, node("AB3B", 1, below, kBlock)));
  ASSERT_NO_FATAL_FAILURE(open_device());
  ASSERT_NO_FATAL_FAILURE(begin());
  const std::uint64_t before = held_bytes;
  most_held_bytes = before;
  ASSERT_EQ(metadata_->read().value(), ReadPump::End::finished);
  constexpr std::uint64_t kNodes = XfsFreeTrees::kMostNodeBytes / kBlock;
  // Superblock, four headers.
  EXPECT_EQ(metadata_->ranges().size(), 1 + 4 + kNodes + XfsFreeTrees::kMostLeaves);
  EXPECT_LT(most_held_bytes - before, 8 * kMiB);
}

/// It was bounded by the device alone, and what lies behind the partition is somebody else's.
TEST_F(XfsImage, that_claims_more_than_its_partition_is_read_no_further) {
  ASSERT_NO_FATAL_FAILURE(write(0, small_super()));
  const std::uint64_t group_bytes = 64 * 4096;
  for (std::uint64_t group = 0; group < 4; ++group)
    ASSERT_NO_FATAL_FAILURE(write(group * group_bytes + 512, header(group, 7, 1)));
  ASSERT_NO_FATAL_FAILURE(open_device());
  ASSERT_NO_FATAL_FAILURE(begin(2 * group_bytes));
  ASSERT_EQ(metadata_->read().value(), ReadPump::End::finished);
  EXPECT_EQ(metadata_->ranges().size(), 1 + 2 * 2U) << "superblock, headers, leaves";
  for (const ByteRange& range : metadata_->ranges())
    EXPECT_LE(range.offset + range.length, 2 * group_bytes);
}

}  // namespace
}  // namespace warmroot::warm
