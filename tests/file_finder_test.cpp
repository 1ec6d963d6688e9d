// Files of a mounted root that are found by name, and read before the rest; on a lazily initialised
// volume. Needs root, FUSE and loop devices; see warm_volume.hpp.
#include "bootstrap/warm/file_finder.hpp"

#include <sys/stat.h>

#include <chrono>
#include <map>
#include <sstream>

#include "bootstrap/warm/hot_list.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// A small root with a program, its libraries and links, inside the image.
class FileFinderTest : public WarmerTest {
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

/// Each read of a session waited for ten of ours: a dozen lookups took all that gp3 allows a
/// second.
TEST_F(FileFinderTest, lookups_that_need_no_first_touch_leave_most_of_the_reads_to_sessions) {
  constexpr int kDirectories = 400;
  constexpr double kReadMs = 2;
  make_image(0);
  attach({.latency_median_ms = 0.01,
          .tail_probability = 0,
          .stall_probability = 0,
          .fetch_bandwidth_mib_s = 0,
          .guest_iops = 0,
          .warm_latency_ms = kReadMs});
  mount_root();
  ASSERT_TRUE(shell("cd " + root().string() + " && for i in $(seq " + std::to_string(kDirectories) +
                    "); do mkdir -p many/$i; :>many/$i/file; done"));
  unmount();  // or all of it is in memory
  mount_root();
  std::vector<WantedFile> files;
  for (int i = 1; i <= kDirectories; ++i) files.push_back({"/many/" + std::to_string(i) + "/*"});
  const std::size_t before = ebs_->request_log(kVolume).size();
  const auto start = Clock::now();
  find(std::move(files));
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  const auto reads = static_cast<double>(ebs_->request_log(kVolume).size() - before);
  EXPECT_GT(reads, 300) << "else this test shows nothing";
  EXPECT_GT(took.count(), 3 * reads * kReadMs / FileFinder::kMostLookups)
      << "a dozen at once are like four at most";
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
