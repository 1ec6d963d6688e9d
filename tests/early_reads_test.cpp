// Reads ahead of the mount and of the first session, on a lazily initialised volume: what is on the
// device's own log of first touches. Needs root, FUSE and loop devices; see warm_volume.hpp.
#include "bootstrap/warm/early_reads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/mount_reads.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// All inode tables of such a file system count as used: it has much that its first lookups want.
constexpr const char* kFullTables = "mkfs.ext3 -q -F -O extent";

class EarlyReadsTest : public WarmerTest {
 protected:
  static sim::VolumeProfile without_tails() {
    sim::VolumeProfile profile;
    profile.tail_probability = 0;
    return profile;
  }
  void cold_volume() {
    attach(without_tails());
    // Attaching reads the partition table of each.
    before_ = touched();
  }

  /// Until nothing has been touched for a while.
  void settle() const {
    for (std::size_t count = touched().size(), same = 0; same < 10; ++same) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (std::exchange(count, touched().size()) != touched().size()) same = 0;
    }
  }

  std::set<std::uint64_t> new_since(const std::set<std::uint64_t>& before) const {
    std::set<std::uint64_t> added;
    for (const auto block : touched())
      if (!before.contains(block)) added.insert(block);
    return added;
  }

  static constexpr std::uint64_t kPartitionBytes = 2 * kGiB;

  /// A file system in the first partition of a GPT, on a snapshot in which nothing is a hole.
  bool make_partition(const std::string& mkfs) {
    offset_ = kOddOffset;
    const std::string image = (top_ / "image").string();
    const std::string file_system = (top_ / "fs").string();
    const std::uint64_t sectors = kPartitionBytes / 512;
    const auto made =
        shell("truncate -s " + std::to_string(kPartitionBytes) + " " + file_system + " && " + mkfs +
              " " + file_system + " && truncate -s " + std::to_string(kPartitionBytes + 4 * kMiB) +
              " " + image + " && printf 'label: gpt\nstart=" + std::to_string(kOddOffset / 512) +
              ", size=" + std::to_string(sectors) + "\n' | sfdisk -q " + image + " && " +
              copy_in(file_system, image));
    if (made) fill_holes(image);
    return made.has_value();
  }
  /// The command that puts a file system where the first partition is, and removes its file.
  static std::string copy_in(const std::string& file_system, const std::string& image) {
    return "dd if=" + file_system + " of=" + image +
           " bs=64K seek=" + std::to_string(kOddOffset / (64 * kKiB)) +
           " conv=sparse,notrunc status=none && rm " + file_system;
  }

  /// What the mount's last round asks for and none before it, and what lies behind the head that
  /// only the first lookups want.
  struct Foreseen {
    std::set<std::uint64_t> last_round, later;
  };
  Foreseen foresee(std::uint64_t file_system_bytes) const {
    constexpr std::uint64_t kBehindHead = (kOddOffset + 6 * kMiB) / kGridBytes;
    std::ifstream image(top_ / "image", std::ios::binary);
    MountReads reads({kOddOffset, file_system_bytes});
    Foreseen foreseen;
    std::set<std::uint64_t> of_mount;
    std::vector<std::string> contents;
    for (MountRound round = reads.next(contents); !round.empty(); round = reads.next(contents)) {
      foreseen.last_round.clear();
      for (const auto& ranges : {round.contents, round.touches})
        for (const ByteRange& range : ranges)
          for (const Block block : blocks_of(range, UINT32_MAX))
            if (of_mount.insert(block).second) foreseen.last_round.insert(block);
      for (const ByteRange& range : round.later)
        for (const Block block : blocks_of(range, UINT32_MAX))
          if (block >= kBehindHead) foreseen.later.insert(block);
      contents.clear();
      for (const ByteRange& range : round.contents) {
        std::string bytes(range.length, '\0');
        image.seekg(static_cast<std::streamoff>(range.offset));
        image.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        contents.push_back(std::move(bytes));
      }
    }
    for (const auto block : of_mount) foreseen.later.erase(block);
    return foreseen;
  }

  std::set<std::uint64_t> before_;
};

struct MountCase {
  const char* name;
  const char* mkfs;
  const char* type;
};

/// An empty file system of a usual size.
class MountOf : public EarlyReadsTest, public testing::WithParamInterface<MountCase> {
 protected:
  /// A volume that nobody has touched but for what attaching its loops reads.
  void attach_cold() {
    attach_anew(without_tails());
    before_ = touched();
  }
  double mount_cold() {
    const auto start = Clock::now();
    const int done = ::mount(fs_device().c_str(), root().c_str(), GetParam().type, 0, nullptr);
    EXPECT_EQ(done, 0) << std::strerror(errno);
    mounted_ = done == 0;
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
};

TEST_P(MountOf, finds_present_what_it_would_have_waited_for) {
  if (!make_partition(GetParam().mkfs)) {
    if (must_run()) FAIL() << "no file system was made: " << GetParam().mkfs;
    GTEST_SKIP() << "NOT TESTED: " << GetParam().mkfs;
  }
  attach_cold();
  const double alone_ms = mount_cold();
  const auto plain = new_since(before_);
  EXPECT_GE(plain.size(), 2U) << "a mount that waits for nothing shows nothing";
  unmount();
  attach_cold();
  std::set<std::uint64_t> read;
  double beside_ms = 0;
  {
    EarlyReads early;
    const auto start = Clock::now();
    early.start(disk_loop_.device(), 0, 0, confine_here);
    mount_cold();  // at once: nobody waits for early reads
    beside_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    settle();
    for (const BlockRead& one : early.finish()) read.insert(one.block);
  }
  unmount();
  std::size_t missed = 0;
  for (const auto block : plain) missed += read.contains(block) ? 0 : 1;
  EXPECT_LE(missed, plain.size() / 5) << "of " << plain.size();
  EXPECT_LE(read.size(), 96U);
  attach_cold();
  EarlyReads ahead;
  ahead.start(disk_loop_.device());
  settle();
  const auto touched_before = touched();
  const double after_ms = mount_cold();
  EXPECT_LE(new_since(touched_before).size(), plain.size() / 5);
  ahead.finish();
  std::printf(
      "%s, cold mount (%zu first touches): %.0f ms alone, %.0f ms beside early reads that "
      "begin with it, %.0f ms behind them\n",
      GetParam().name, plain.size(), alone_ms, beside_ms, after_ms);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MountOf,
    testing::Values(MountCase{"ext4", "mkfs.ext4 -q -F", "ext4"},
                    MountCase{"ext4_orphan_file", "mkfs.ext4 -q -F -O orphan_file", "ext4"},
                    MountCase{"xfs", "mkfs.xfs -q -f", "xfs"}),
    [](const testing::TestParamInfo<MountCase>& one) { return std::string(one.param.name); });

/// It was in flight between the mount's rounds, and each of those waited behind it.
TEST_F(EarlyReadsTest, what_the_first_lookups_want_waits_until_the_mounts_last_round_is_asked_for) {
  constexpr auto kAtOnce = std::chrono::milliseconds(5);  // two requests may pass each other
  ASSERT_TRUE(make_partition(kFullTables));
  const Foreseen foreseen = foresee(kPartitionBytes);
  ASSERT_THAT(foreseen.last_round, Not(IsEmpty()));
  ASSERT_THAT(foreseen.later, SizeIs(testing::Ge(32U)));
  sim::VolumeProfile narrow = without_tails();
  narrow.latency_sigma = 0;
  narrow.fetch_bandwidth_mib_s = 25;  // a block comes 20 ms behind the one before it
  attach(narrow);
  EarlyReads early;
  early.start(disk_loop_.device(), 0, 0, confine_here);
  settle();
  early.finish();
  std::map<std::uint64_t, sim::SimTime> asked;
  for (const sim::FirstTouch& one : ebs_->touch_log(kVolume)) asked[one.block] = one.requested_at;
  auto last_round = sim::SimTime::min();
  for (const auto block : foreseen.last_round) {
    ASSERT_TRUE(asked.contains(block)) << block;
    last_round = std::max(last_round, asked[block]);
  }
  auto later = sim::SimTime::max();
  for (const auto block : foreseen.later) {
    ASSERT_TRUE(asked.contains(block)) << block;
    later = std::min(later, asked[block]);
  }
  EXPECT_GE((later + kAtOnce - last_round).count(), 0) << "ns";
}

/// A loop over a plain file that has become smaller: the second partition's superblock never comes.
TEST_F(EarlyReadsTest, what_the_first_lookups_want_does_not_wait_for_a_mount_that_cannot_be_read) {
  constexpr std::uint64_t kFirst = 64 * kMiB;
  constexpr std::uint64_t kSecondAt = 67 * kMiB;
  const fs::path image = top_ / "image";
  const std::string file_system = (top_ / "fs").string();
  ASSERT_TRUE(shell(
      "truncate -s " + std::to_string(kFirst) + " " + file_system + " && " + kFullTables +
      " -b 1024 " + file_system + " && truncate -s " + std::to_string(kSecondAt + kMiB) + " " +
      image.string() + " && printf 'label: dos\nstart=" + std::to_string(kOddOffset / 512) +
      ", size=" + std::to_string(kFirst / 512) + "\nstart=" + std::to_string(kSecondAt / 512) +
      ", size=" + std::to_string(kMiB / 512) + "\n' | sfdisk -q " + image.string() + " && " +
      copy_in(file_system, image.string())));
  const Foreseen foreseen = foresee(kFirst);
  ASSERT_THAT(foreseen.later, Not(IsEmpty()));
  ASSERT_TRUE(disk_loop_.attach(image, 0));
  fs::resize_file(image, kSecondAt);  // the loop keeps its size, and answers EIO
  EarlyReads early;
  early.start(disk_loop_.device(), 0, 0, confine_here);
  std::this_thread::sleep_for(std::chrono::seconds(6));  // a block is given up after three
  std::set<std::uint64_t> read;
  for (const BlockRead& one : early.finish()) read.insert(one.block);
  EXPECT_FALSE(read.contains(kSecondAt / kGridBytes));
  for (const auto block : foreseen.later) EXPECT_THAT(read, Contains(block));
}

TEST_F(EarlyReadsTest, a_list_that_is_known_before_the_mount_is_read_too) {
  make_image(0);
  cold_volume();
  std::vector<Block> hot;
  for (const Block block : {400, 300, 350, 200}) hot.push_back(block);
  hot.push_back(grid_blocks(kFsBytes));  // beyond the device
  EarlyReads early;
  early.start(disk_loop_.device(), 0, 0, confine_here);
  early.hot(hot);
  settle();
  hot.pop_back();
  std::set<std::uint64_t> read;
  for (const BlockRead& one : early.finish()) read.insert(one.block);
  for (const Block block : hot) EXPECT_THAT(read, Contains(block));
}

struct ListCase {
  std::size_t blocks;
  std::size_t at_once;  // with what the mount's first round has in flight
};

/// A list of 46 took two rounds. The partition's superblock, which tells the mount's next round, is
/// not there before 300 ms.
TEST_F(EarlyReadsTest, a_short_list_is_asked_for_at_once_and_a_long_one_leaves_the_mount_room) {
  ASSERT_TRUE(make_partition(kFullTables));
  sim::VolumeProfile far = without_tails();
  far.latency_sigma = 0;
  far.latency_median_ms = 300;
  for (const ListCase& one :
       {ListCase{20, 24}, ListCase{46, 46}, ListCase{64, 48}, ListCase{65, 24}}) {
    SCOPED_TRACE(one.blocks);
    attach_anew(far);
    before_ = touched();
    std::vector<Block> hot;
    while (hot.size() < one.blocks) hot.push_back(static_cast<Block>(1000 + 7 * hot.size()));
    EarlyReads early;
    early.start(disk_loop_.device(), 0, 0, confine_here);
    early.hot(hot);
    settle();
    early.finish();
    std::vector<sim::FirstTouch> ours;
    for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume))
      if (!before_.contains(touch.block)) ours.push_back(touch);
    ASSERT_THAT(ours, Not(IsEmpty()));
    const sim::SimTime first =
        std::ranges::min_element(ours, {}, &sim::FirstTouch::present_at)->present_at;
    const auto at_once = std::ranges::count_if(
        ours, [first](const sim::FirstTouch& touch) { return touch.requested_at < first; });
    EXPECT_EQ(static_cast<std::size_t>(at_once), one.at_once);
  }
}

TEST_F(EarlyReadsTest, no_more_are_in_flight_than_the_operator_allows) {
  make_image(0);
  cold_volume();
  EarlyReads early;
  early.start(disk_loop_.device(), 2, 0, confine_here);
  early.hot({400, 300, 350, 200, 250, 450});
  settle();
  early.finish();
  const auto log = ebs_->touch_log(kVolume);
  std::size_t ours = 0;
  for (const sim::FirstTouch& one : log) {
    if (before_.contains(one.block)) continue;
    ++ours;
    EXPECT_LE(std::ranges::count_if(log,
                                    [&](const sim::FirstTouch& other) {
                                      return !before_.contains(other.block) &&
                                             other.requested_at <= one.requested_at &&
                                             other.present_at > one.requested_at;
                                    }),
              2);
  }
  EXPECT_GE(ours, 6U);
}

TEST_F(EarlyReadsTest, a_disk_that_is_none_or_another_one_is_no_trouble) {
  make_image(0);
  cold_volume();
  EarlyReads early;
  early.start("/dev/null");
  EXPECT_THAT(early.finish(), IsEmpty());
  early.start("/dev/does-not-exist");
  early.start(disk_loop_.device(), 0, 0, confine_here);
  settle();
  EXPECT_THAT(early.finish(), Not(IsEmpty()));
  EXPECT_THAT(early.finish(), IsEmpty());
}

/// A FIFO nobody writes to, for a disk whose first read does not come back.
TEST(EarlyReadsOfAStalledDisk, are_not_waited_for_longer_than_one_has_time) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const TemporaryDirectory directory;
  const std::string stalled = directory.path() + "/stalled";
  ASSERT_EQ(::mkfifo(stalled.c_str(), 0600), 0);
  EarlyReads reads;
  reads.start(stalled);
  std::this_thread::sleep_for(milliseconds(50));
  const auto begun = steady_clock::now();
  EXPECT_FALSE(reads.stop_by(begun + milliseconds(100)));
  reads.start("/dev/null");  // the next disk goes without
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(10));
  const UniqueFd writer(::open(stalled.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(reads.stop_by(steady_clock::now() + std::chrono::seconds(10)));
}

TEST_F(EarlyReadsTest, the_warmer_counts_what_was_read_before_it) {
  make_image(0);
  cold_volume();
  EarlyReads early;
  early.start(disk_loop_.device(), 0, 0, confine_here);
  settle();
  mount_root();
  auto wanted = request();
  wanted.read_before = early.finish();
  const auto count = wanted.read_before.size();
  ASSERT_GT(count, 4U);
  const auto first = touched();
  wanted.read_before.push_back({grid_blocks(kFsBytes), {}});  // nonsense is not taken
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done) << progress.note;
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_LE(progress.blocks_read, new_since(first).size() + count + 2) << "none of them twice";
  EXPECT_GE(progress.blocks_read, progress.needed_blocks - 2);
}

/// They counted as present, and the warmer had to see four of its own before it read any whole.
TEST_F(EarlyReadsTest, what_was_touched_in_vain_is_not_present_and_the_warmer_is_told) {
  make_image(0);
  sim::VolumeProfile fine = without_tails();
  fine.hydration_unit_kib = 64;
  constexpr std::uint64_t kUnits = kGridBytes / (64 * kKiB);
  const auto is_hot = [](Block block) { return block >= 100 && block < 400; };
  std::vector<Block> hot;
  for (Block block = 100; is_hot(block); ++block) hot.push_back(block);
  // A touch is in the first of its units, and what tries it in a middle one. A few of the blocks
  // are the file system's own, which are read by their parts.
  const auto begins_anew = [&] {
    const auto units = touched();
    return std::ranges::count_if(
               hot, [&](Block block) { return units.contains(block * kUnits + 1); }) >= 12;
  };
  std::optional<EarlyReads> early;
  std::vector<BlockRead> read;
  // On a busy machine pages that are there are as slow as the others, and nothing is learnt.
  for (int times = 0; times < 10 && !(early && early->reads_whole()); ++times) {
    attach_anew(fine);
    early.emplace();
    early->start(disk_loop_.device(), 0, 0, confine_here);
    early->hot(hot);
    const auto limit = Clock::now() + std::chrono::seconds(2);
    while (!begins_anew() && Clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    read = early->finish();
  }
  ASSERT_TRUE(early->reads_whole());
  const auto units = touched();
  EXPECT_TRUE(std::ranges::any_of(hot, [&](Block block) {
    return units.contains(block * kUnits) && !units.contains(block * kUnits + 1);
  })) << "else this test shows nothing";
  for (const BlockRead& one : read)
    for (std::uint64_t unit = 0; is_hot(one.block) && unit < kUnits; ++unit)
      EXPECT_TRUE(units.contains(one.block * kUnits + unit)) << one.block << ", part " << unit;
  mount_root();
  auto wanted = request();
  wanted.read_before = read;
  wanted.under_way = early->under_way();
  wanted.read_whole = early->reads_whole();
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.touch_bytes, kGridBytes);
  EXPECT_THAT(progress.note, testing::HasSubstr("read whole"));
  EXPECT_EQ(reports_.front().touch_bytes, kGridBytes) << "from the first on";
}

/// Its reads wait in the queue of gp3's 3,000 a second then, longer than warm reads may take.
TEST_F(EarlyReadsTest,
       a_warm_volume_is_recognised_and_left_alone_while_a_session_reads_at_the_cap) {
  make_image(0);
  cold_volume();
  ebs_->mark_all_present(kVolume);
  EarlyReads early;
  early.start(disk_loop_.device(), 0, 0, confine_here);
  mount_root();
  settle();
  auto wanted = request();
  wanted.read_before = early.finish();
  wanted.files = {{"/**"}};
  std::vector<std::jthread> session;
  for (int i = 0; i < 45; ++i)
    session.emplace_back([this, i](const std::stop_token& stop) {
      const UniqueFd fd(::open(disk_loop_.device().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
      const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(4096, 4096),
                                                             &std::free);
      for (std::uint64_t at = 0; !stop.stop_requested(); ++at)
        if (::pread(fd.get(), page.get(), 4096,
                    static_cast<off_t>((at * 97 + i) % (kFsBytes / 4096) * 4096)) != 4096)
          return;
    });
  WarmProgress progress = run(wanted);
  // On a machine that others use, too, a warm read takes as long as a first touch now and then.
  for (int again = 0; again < 4 && progress.note.empty(); ++again) {
    fs::remove(root() / kMap);
    progress = run(wanted);
  }
  session.clear();
  EXPECT_THAT(progress.note, testing::HasSubstr("warm already"));
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.warmth, 1);
  EXPECT_EQ(progress.file_blocks, 0U) << "no lookups, which are reads of the session's device";
  EXPECT_LE(progress.blocks_read, wanted.read_before.size() + 3);
}

}  // namespace
}  // namespace warmroot::warm
