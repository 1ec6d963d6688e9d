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
#include <map>
#include <memory>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/file_finder.hpp"
#include "bootstrap/warm/first_run_files.hpp"
#include "bootstrap/warm/hot_list.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

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

  std::set<std::uint64_t> before_;
};

struct MountCase {
  const char* name;
  const char* mkfs;
  const char* type;
};

/// An empty file system of a usual size on a snapshot in which nothing is a hole.
class MountOf : public EarlyReadsTest, public testing::WithParamInterface<MountCase> {
 protected:
  static constexpr std::uint64_t kBytes = 2 * kGiB;

  /// In the first partition of a GPT.
  bool make() {
    offset_ = kOddOffset;
    const std::string image = (top_ / "image").string();
    const std::string file_system = (top_ / "fs").string();
    const std::uint64_t sectors = kBytes / 512;
    const auto made = shell("truncate -s " + std::to_string(kBytes) + " " + file_system + " && " +
                            GetParam().mkfs + " " + file_system + " && truncate -s " +
                            std::to_string(kBytes + 4 * kMiB) + " " + image +
                            " && printf 'label: gpt\nstart=" + std::to_string(kOddOffset / 512) +
                            ", size=" + std::to_string(sectors) + "\n' | sfdisk -q " + image +
                            " && dd if=" + file_system + " of=" + image +
                            " bs=64K seek=" + std::to_string(kOddOffset / (64 * kKiB)) +
                            " conv=sparse,notrunc status=none && rm " + file_system);
    if (made) fill_holes(image);
    return made.has_value();
  }
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
  if (!make()) {
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

/// A small root with a program, its libraries and links, inside the image.
class FileFinderTest : public EarlyReadsTest {
 protected:
  std::vector<ByteRange> find(std::vector<WantedFile> files) {
    FileFinder finder(root().string(), std::move(files));
    std::vector<ByteRange> ranges;
    for (bool done = false; !done; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      done = finder.is_done();
      for (const FoundFile& file : finder.take()) {
        ranges.insert(ranges.end(), file.ranges.begin(), file.ranges.end());
        if (!file.program.empty()) finder.read_needs(file.program, file.rank);
      }
    }
    return ranges;
  }
  /// A copy of this machine's /bin/sh, with a file in the place of its C library.
  bool put_program() const {
    return shell(
               "cd " + root().string() +
               " && mkdir -p usr/lib64 bin && cp /bin/sh bin/sh && cp d1/1 usr/lib64/libc.so.6 && "
               "sync -f .")
        .has_value();
  }
  /// What the file system's driver says of a file.
  ByteRange place_of(const std::string& path) const {
    const auto text = shell("filefrag -b1 -v " + (root().string() + path));
    unsigned long start = 0;
    unsigned long end = 0;
    std::istringstream lines(text.value_or(""));
    for (std::string line; std::getline(lines, line);)
      if (std::sscanf(line.c_str(), " 0: %*u.. %*u: %lu.. %lu:", &start, &end) == 2)
        return {start, end - start + 1};
    return {};
  }
};

TEST_F(FileFinderTest, files_are_found_by_name_range_and_directory) {
  make_image(0);
  attach({});
  mount_root();
  const ByteRange place = place_of("/d3/7");
  ASSERT_GT(place.length, 8192U);
  EXPECT_THAT(find({{"/d3/7"}}), testing::ElementsAre(place));
  EXPECT_THAT(find({{"/d3/7", 4096, 8192}}),
              testing::ElementsAre(ByteRange{place.offset + 4096, 8192}));
  EXPECT_THAT(find({{"/d3/*"}}), SizeIs(testing::Ge(30U)));
  EXPECT_THAT(find({{"/**"}}), SizeIs(testing::Ge(300U)));
  EXPECT_THAT(find({{"/d3/7", UINT64_MAX - 1, UINT64_MAX - 1}}), IsEmpty());
}

TEST_F(FileFinderTest, of_a_directorys_files_those_of_one_ending_are_found_and_so_much_of_each) {
  make_image(0);
  attach({});
  mount_root();
  const auto start_of = [this](const std::string& path) {
    return ByteRange{place_of(path).offset, 4096};
  };
  EXPECT_THAT(
      find({{"/d3/*", 0, 4096, false, "7"}}),
      testing::UnorderedElementsAre(start_of("/d3/7"), start_of("/d3/17"), start_of("/d3/27")));
  EXPECT_THAT(find({{"/**", 0, UINT64_MAX, false, "/7"}}), IsEmpty()) << "of names, not of paths";
  EXPECT_THAT(find({{"/**", 0, UINT64_MAX, false, "17"}}), SizeIs(testing::Ge(10U)));
}

TEST_F(FileFinderTest, what_is_not_there_or_leads_out_of_the_root_is_left_out) {
  make_image(0);
  attach({});
  mount_root();
  ASSERT_EQ(::mkfifo((root() / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/d3/7", root() / "inside");
  fs::create_symlink("../../../../../../etc/passwd", root() / "above");
  fs::create_symlink("/proc/self/exe", root() / "magic");
  fs::create_symlink("round", root() / "round");
  EXPECT_THAT(find({{"/nothing"},
                    {"/pipe"},
                    {"/above"},
                    {"/magic"},
                    {"/round"},
                    {"/nothing/*"},
                    {"relative"},
                    {"/../../etc/passwd"},
                    {"/d3/7\n/x"},
                    {""}}),
              IsEmpty());
  EXPECT_THAT(find({{"/inside"}}), testing::ElementsAre(place_of("/d3/7")));
  FileFinder nowhere((root() / "not-mounted").string(), {{"/d3/7"}});
  EXPECT_TRUE(nowhere.is_done());
}

TEST_F(FileFinderTest, a_program_brings_its_loader_and_libraries_along) {
  make_image(0);
  attach({});
  mount_root();
  ASSERT_TRUE(put_program());
  EXPECT_THAT(find({{"/bin/sh", 0, UINT64_MAX, true}}), Contains(place_of("/usr/lib64/libc.so.6")));
  EXPECT_THAT(find({{"/bin/sh"}}), Not(Contains(place_of("/usr/lib64/libc.so.6"))));
  // A lookup does not wait for the program's content: whoever reads it says when it is there.
  FileFinder finder(root().string(), {{"/d3/7"}, {"/bin/sh", 0, UINT64_MAX, true}, {"/d3/8"}});
  std::map<std::uint32_t, FoundFile> found;
  const auto take = [&](std::size_t files) {
    for (int i = 0; i < 2000 && found.size() < files; ++i) {
      for (FoundFile& file : finder.take()) found[file.rank] = std::move(file);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  take(3);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].program, "");
  EXPECT_EQ(found[2].program, "/bin/sh");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(finder.take(), IsEmpty());
  EXPECT_FALSE(finder.is_done());
  finder.read_needs("/bin/sh", 2);
  found.clear();
  take(1);
  EXPECT_THAT(found[2].ranges, testing::ElementsAre(place_of("/usr/lib64/libc.so.6")));
}

/// Its directory is looked up long before anybody can say what a program is linked with.
TEST_F(FileFinderTest, a_library_that_a_directory_named_before_has_its_programs_rank_all_the_same) {
  make_image(0);
  attach({});
  mount_root();
  ASSERT_TRUE(put_program());
  FileFinder finder(root().string(), {{"/bin/sh", 0, UINT64_MAX, true}, {"/usr/lib64/*"}});
  const ByteRange library = place_of("/usr/lib64/libc.so.6");
  std::vector<std::uint32_t> ranks;
  const auto find_library = [&](std::size_t times) {
    for (int i = 0; i < 2000 && ranks.size() < times; ++i) {
      for (const FoundFile& file : finder.take())
        if (file.ranges == std::vector{library}) ranks.push_back(file.rank);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  find_library(1);
  EXPECT_THAT(ranks, testing::ElementsAre(2U));
  finder.read_needs("/bin/sh", 1);
  find_library(2);
  EXPECT_THAT(ranks, testing::ElementsAre(2U, 1U));
  finder.forget_needs();  // of the library, which is looked at as a program now
  for (int i = 0; i < 2000 && !finder.is_done(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(finder.is_done());
}

TEST_F(FileFinderTest, wanted_files_are_read_before_the_rest) {
  make_image(0);
  attach({});
  mount_root();
  auto wanted = request();
  std::set<std::uint64_t> named;
  for (const char* path : {"/d9/28", "/d8/3", "/d9/4"}) {
    for (const Block block : blocks_of(place_of(path), grid_blocks(kFsBytes))) named.insert(block);
    wanted.files.push_back({path});
  }
  wanted.max_depth = 1;
  const auto before = touched();
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_GE(progress.file_blocks, named.size());
  std::size_t position = 0;
  std::size_t last_named = 0;
  for (const sim::FirstTouch& touch : ebs_->touch_log(kVolume)) {
    if (before.contains(touch.block)) continue;
    ++position;
    if (named.contains(touch.block)) last_named = position;
  }
  EXPECT_LT(last_named, position / 2) << "they lie at the end of the volume";
  EXPECT_EQ(progress.warmth, 1);
}

TEST_F(FileFinderTest, a_list_of_another_lineage_leads_to_where_its_files_lie_here) {
  make_image(kOddOffset);
  attach({});
  mount_root();
  const ByteRange place = place_of("/d7/4");
  // There it lay elsewhere, on a larger disk; and it had a file that is not here.
  HotList list{"snap-0other", "", 64 * kGiB, 1, {}};
  list.ranges = {{{9 * kGiB, 4096}, "/gone", 0, 1000}, {{10 * kGiB, 65536}, "/d7/4", 8192, 1000}};
  auto wanted = request();
  wanted.files = hot_files(list);
  EXPECT_THAT(find(wanted.files), testing::ElementsAre(ByteRange{place.offset + 8192, 65536}));
  wanted.max_depth = 1;
  const WarmProgress progress = run(wanted);
  EXPECT_EQ(progress.state, WarmState::done);
  EXPECT_EQ(progress.hot_blocks, 0U);
  EXPECT_EQ(progress.file_blocks,
            blocks_of({offset_ + place.offset + 8192, 65536}, UINT32_MAX).size());
}

TEST_F(FileFinderTest, the_warmer_reads_on_where_a_session_misses) {
  make_image(kOddOffset);
  sim::VolumeProfile slow;
  slow.fetch_bandwidth_mib_s = 10;  // twenty blocks a second: the session is far ahead of the fill
  attach(slow);
  mount_root();
  const ByteRange place = place_of("/d9/2");
  const Block missed = blocks_of({offset_ + place.offset, 1}, UINT32_MAX).front();
  const auto before = touched().size();
  std::stop_source stop;
  std::jthread warmer([&] { run(request(), stop.get_token()); });
  for (int i = 0; i < 400 && touched().size() < before + 40; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_FALSE(touched().contains(missed)) << "the fill is at the front of the volume";
  ASSERT_TRUE(shell("cat " + root().string() + "/d9/2 > /dev/null"));
  const auto follows = [&] {
    std::size_t count = 0;
    for (Block block = missed + 2; block < missed + 8; ++block) count += touched().contains(block);
    return count;
  };
  for (int i = 0; i < 300 && follows() < 6; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(follows(), 6U);
  EXPECT_LT(touched().size(), grid_blocks(kFsBytes) / 2) << "long before the fill comes there";
  stop.request_stop();
}

}  // namespace
}  // namespace warmroot::warm
