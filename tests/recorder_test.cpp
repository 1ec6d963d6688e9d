// A recording of real reads on a mounted volume: which files, which bytes, in which order.
#include "bootstrap/warm/recorder.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <memory>
#include <thread>

#include "bootstrap/warm/fsmap.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/xfs_geometry.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

const RecordRequest kOneMebibyteIn{"/r", 0, 0, 64 * kGridBytes, kMiB, "snap-1", ""};

std::vector<std::string> paths_of(const HotList& list) {
  std::vector<std::string> paths;
  for (const HotRange& range : list.ranges) paths.push_back(range.path);
  return paths;
}

TEST(HotRanges, reads_are_cut_at_blocks_and_at_the_ends_of_files) {
  PlaceMap places;
  places.add("/a", {8192, {0, 4096}});
  places.add("/b", {0, {4096, 2 * kGridBytes}});
  const ByteRange read{kMiB, kGridBytes + 8192};
  const auto list = make_hot_list(std::vector{read}, places, kOneMebibyteIn);
  EXPECT_THAT(list.ranges,
              ElementsAre(HotRange{{kMiB, 4096}, "/a", 8192, 1000},
                          HotRange{{kMiB + 4096, kGridBytes - 4096}, "/b", 0, 1000},
                          HotRange{{kMiB + kGridBytes, 8192}, "/b", kGridBytes - 4096, 1000}));
}

TEST(HotRanges, what_is_read_again_or_beside_it_is_one_range) {
  PlaceMap places;
  places.add("/a", {0, {0, kGridBytes}});
  const std::vector<ByteRange> reads{
      {kMiB + 65536, 4096}, {0, 4096}, {kMiB + 4096, 4096}, {kMiB + 65536, 4096}};
  const auto list = make_hot_list(reads, places, kOneMebibyteIn);
  EXPECT_THAT(list.ranges, ElementsAre(HotRange{{kMiB + 4096, 65536}, "/a", 4096, 1000},
                                       HotRange{{0, 4096}, "", 0, 1000}));
}

TEST(HotRanges, reads_beyond_the_device_are_left_out) {
  const std::vector<ByteRange> reads{{64 * kGridBytes, 4096}, {64 * kGridBytes - 4096, 8192}};
  const auto list = make_hot_list(reads, {}, kOneMebibyteIn);
  EXPECT_THAT(list.ranges, ElementsAre(HotRange{{64 * kGridBytes - 4096, 4096}, "", 0, 1000}));
}

TEST(PlaceMap, a_place_that_was_freed_and_used_anew_belongs_to_the_later_file) {
  PlaceMap places;
  places.add("/old", {0, {4096, 65536}});
  places.add("/new", {0, {8192, 4096}});
  EXPECT_EQ(places.at(4096)->path, "/old");
  EXPECT_EQ(places.at(4096)->length, 4096u);
  EXPECT_EQ(places.at(9000)->path, "/new");
  EXPECT_EQ(places.at(9000)->offset, 808u);
  EXPECT_FALSE(places.at(0));
  EXPECT_FALSE(places.at(12288));
}

class RecorderTest : public WarmerTest {
 protected:
  /// What the list says of a file is what the disk has there.
  void expect_true(const HotRange& range) const {
    std::ifstream disk(top_ / "image", std::ios::binary);
    std::ifstream file((top_ / "files").string() + range.path, std::ios::binary);
    std::string on_disk(4096, '\0');
    std::string in_file(4096, '\0');
    disk.seekg(static_cast<std::streamoff>(range.device.offset)).read(on_disk.data(), 4096);
    file.seekg(static_cast<std::streamoff>(range.file_offset)).read(in_file.data(), 4096);
    EXPECT_EQ(on_disk, in_file) << range.path;
  }
};

RecordRequest request_for(const WarmRequest& warm, const std::string& fs_device) {
  struct stat seen {};
  EXPECT_EQ(::stat(fs_device.c_str(), &seen), 0);
  return {warm.mount_point,
          seen.st_rdev,
          warm.partition_offset_bytes,
          kFsBytes + warm.partition_offset_bytes,
          warm.partition_offset_bytes,
          "snap-1",
          "reading"};
}

Result<Recorder> start(const RecordRequest& request) {
  return Recorder::start(
      request, [own = OwnThreads()](pid_t thread) mutable { return own.contains(thread); });
}

TEST_F(RecorderTest, what_is_read_is_listed_by_file_and_place_in_order) {
  make_image(kOddOffset);
  attach({});
  mount_root();
  auto recorder = start(request_for(request(), fs_device()));
  ASSERT_TRUE(recorder) << recorder.error().message();
  EXPECT_EQ(recorder->source(), "trace and opened files");
  ASSERT_TRUE(shell("cat " + root().string() + "/d7/4 " + root().string() + "/d2/9 | wc -c"));
  ASSERT_TRUE(recorder->poll());
  const auto list = recorder->list();
  const auto paths = paths_of(list);
  const auto first = std::find(paths.begin(), paths.end(), "/d7/4");
  const auto second = std::find(paths.begin(), paths.end(), "/d2/9");
  ASSERT_NE(first, paths.end());
  ASSERT_NE(second, paths.end());
  EXPECT_LT(first, second);
  EXPECT_THAT(paths, Contains("/d7"));  // its entry was looked up
  EXPECT_THAT(paths, Not(Contains("/d3/3")));
  expect_true(list.ranges[static_cast<std::size_t>(first - paths.begin())]);
  EXPECT_TRUE(decode_hot_list(encode_hot_list(list)));
}

TEST_F(RecorderTest, all_first_touches_of_a_session_are_in_its_list_and_the_warmers_are_not) {
  make_image(0);
  attach({});
  mount_root();
  const auto before = touched();
  auto recorder = start(request_for(request(), fs_device()));
  ASSERT_TRUE(recorder) << recorder.error().message();
  for (const char* file : {"/d0/1", "/d5/22", "/d9/29", "/d3/17"})
    ASSERT_TRUE(shell("cat " + root().string() + file + " > /dev/null"));
  const auto after = touched();
  run(request());  // on a thread that has ended before anybody asks whose it was
  ASSERT_TRUE(recorder->poll());
  std::set<std::uint64_t> listed;
  for (const Block block : hot_blocks(recorder->list(), grid_blocks(kFsBytes)))
    listed.insert(block);
  for (const auto block : after)
    if (!before.contains(block)) {
      EXPECT_THAT(listed, Contains(block));
    }
  EXPECT_LT(listed.size(), used_blocks(fs_device()).size() / 4);
}

/// The first node looks files up itself, and teaches the others.
TEST_F(RecorderTest, directories_that_our_lookups_brought_in_are_in_the_list_of_who_used_them) {
  make_image(0);
  attach({});
  mount_root();
  auto recorder = start(request_for(request(), fs_device()));
  ASSERT_TRUE(recorder) << recorder.error().message();
  std::promise<void> looked, asked;
  std::thread finder([&] {
    enlist_own_thread();
    for (const char* directory : {"d5", "d6"})
      for (const auto& entry : fs::directory_iterator(root() / directory)) std::ignore = entry;
    looked.set_value();
    asked.get_future().wait();
  });
  looked.get_future().wait();
  ASSERT_TRUE(shell("cat " + root().string() + "/d5/22 > /dev/null"));
  ASSERT_TRUE(recorder->poll());
  const auto paths = paths_of(recorder->list());
  EXPECT_THAT(paths, Contains("/d5"));
  EXPECT_THAT(paths, Not(Contains("/d6"))) << "nobody opened anything there";
  asked.set_value();
  finder.join();
}

/// xfs has its inodes among the files, where nobody else looks for them. Who says where: xfs_db.
TEST_F(RecorderTest, inodes_of_xfs_that_our_lookups_brought_in_are_in_the_list_of_who_used_them) {
  if (const auto missing = lacking_xfs(); !missing.empty()) {
    if (must_run()) FAIL() << "this machine lacks " << missing;
    GTEST_SKIP() << "NOT TESTED: this machine lacks " << missing;
  }
  const std::string image = (top_ / "image").string();
  make_files();
  ASSERT_TRUE(shell("truncate -s 320M " + image + " && mkfs.xfs -q -f " + image));
  ASSERT_TRUE(disk_loop_.attach(image, 0));
  const auto mount_xfs = [&] {
    mounted_ = ::mount(disk_loop_.device().c_str(), root().c_str(), "xfs", 0, nullptr) == 0;
    ASSERT_TRUE(mounted_);
  };
  ASSERT_NO_FATAL_FAILURE(mount_xfs());
  // Each new directory begins in the next group; the root's has inodes that the mount reads.
  ASSERT_TRUE(shell("mkdir " + (root() / "first").string()));
  for (const char* directory : {"d5", "d6"})
    ASSERT_TRUE(shell("cp -r " + (top_ / "files" / directory).string() + " " + root().string()));
  std::map<std::string, std::uint64_t> inodes;
  for (const char* path : {"d5", "d5/22", "d6/22"}) {
    struct stat status {};
    ASSERT_EQ(::stat((root() / path).c_str(), &status), 0);
    inodes[path] = status.st_ino;
  }
  unmount();
  ASSERT_NO_FATAL_FAILURE(mount_xfs());
  auto wanted = request_for(request(), disk_loop_.device());
  wanted.device_bytes = 320 * kMiB;
  auto recorder = start(wanted);
  ASSERT_TRUE(recorder) << recorder.error().message();
  std::thread([&] {
    enlist_own_thread();
    for (const char* directory : {"d5", "d6"})
      for (const auto& entry : fs::directory_iterator(root() / directory))
        std::ignore = entry.file_size();
  }).join();
  ASSERT_TRUE(shell("cat " + root().string() + "/d5/22 > /dev/null"));
  ASSERT_TRUE(recorder->poll());
  const auto list = recorder->list();
  unmount();
  for (const auto& [path, inode] : inodes) {
    const auto told = shell("xfs_db -r -c 'convert inode " + std::to_string(inode) + " byte' " +
                            image + " | sed 's/.*(//'");  // "0x10600 (67072)"
    ASSERT_TRUE(told) << path;
    const std::uint64_t at = std::stoull(*told);
    const bool listed = std::ranges::any_of(list.ranges, [at](const HotRange& range) {
      return range.path.empty() && range.device.offset <= at &&
             at < range.device.offset + range.device.length;
    });
    EXPECT_EQ(listed, path.starts_with("d5")) << path << ", inode at " << at;
  }
}

TEST(XfsInodes, lie_where_xfs_db_says) {
  XfsGeometry xfs{};
  xfs.blocksize = 4096;
  xfs.inodesize = 512;
  xfs.agblocks = 20'480;  // 15 bits of 32,768
  EXPECT_EQ(xfs_inode_byte(xfs, 128), 65'536U);
  EXPECT_EQ(xfs_inode_byte(xfs, 131), 67'072U);
  EXPECT_EQ(xfs_inode_byte(xfs, 262'273), 83'952'128U);
  EXPECT_FALSE(xfs_inode_byte(xfs, 8 * 20'480)) << "behind the group's end";
  for (const std::uint32_t nonsense : {0U, 4095U, 8192U}) {
    xfs.inodesize = nonsense;
    EXPECT_FALSE(xfs_inode_byte(xfs, 128)) << nonsense;
  }
  EXPECT_FALSE(xfs_inode_byte({}, 128));
}

TEST_F(RecorderTest, without_a_trace_pages_in_memory_of_opened_files_stand_in_for_it) {
  make_image(kOddOffset);
  attach({});
  mount_root();
  auto wanted = request_for(request(), fs_device());
  wanted.use_trace = false;
  auto recorder = Recorder::start(
      wanted, [own = OwnThreads()](pid_t thread) mutable { return own.contains(thread); });
  ASSERT_TRUE(recorder) << recorder.error().message();
  EXPECT_EQ(recorder->source(), "opened files and pages in memory");
  ASSERT_TRUE(shell("cat " + root().string() + "/d7/4 " + root().string() + "/d2/9 | wc -c"));
  ASSERT_TRUE(recorder->poll());
  const auto list = recorder->list();
  std::map<std::string, std::uint64_t> bytes;
  for (const HotRange& range : list.ranges) bytes[range.path] += range.device.length;
  EXPECT_EQ(bytes["/d7/4"], 200 * kKiB);
  EXPECT_EQ(bytes["/d2/9"], 200 * kKiB);
  EXPECT_EQ(list.ranges.front().path, "/d7/4");
}

/// Of eight groups, whose bitmaps are in two places 128 MiB apart, all of them written.
const RootKind kTwoFlexGroups{
    "ext4", kFsBytes,
    "mkfs.ext4 -q -F -E nodiscard -b 4096 -g 8192 -G 4 -O ^metadata_csum,^uninit_bg"};

/// Sessions of the next volume waited for it behind its whole list.
TEST_F(RecorderTest, a_bitmap_that_was_in_memory_when_a_session_allocated_is_listed) {
  constexpr std::uint64_t kSecondFlexGroup = 128 * kMiB;
  make_image(kOddOffset, kTwoFlexGroups);
  attach({});
  mount_root();
  auto wanted = request_for(request(), fs_device());
  wanted.disk_node = fs_device();
  auto recorder = start(wanted);
  ASSERT_TRUE(recorder) << recorder.error().message();
  std::jthread([&] {
    enlist_own_thread();
    const UniqueFd mounted(::open(root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(free_ranges(mounted.get()));
  }).join();
  const auto listed_behind = [&](std::uint64_t in_fs) {
    EXPECT_TRUE(recorder->poll());
    const auto ranges = recorder->list().ranges;
    return std::ranges::count_if(
        ranges, [=](const auto& range) { return range.device.offset >= kOddOffset + in_fs; });
  };
  ASSERT_TRUE(shell("fallocate -l 1M " + root().string() + "/d1/small"));
  EXPECT_EQ(listed_behind(kSecondFlexGroup), 0);
  ASSERT_TRUE(shell("fallocate -l 150M " + root().string() + "/d1/large"));
  EXPECT_GE(listed_behind(kSecondFlexGroup), 1);
}

/// As on a node: the whole disk is traced, and what is mounted is a partition of it.
TEST_F(RecorderTest, of_a_partition_reads_and_bitmaps_are_listed_by_their_place_on_the_disk) {
  constexpr std::uint64_t kSecondFlexGroup = 128 * kMiB;
  make_image(kOddOffset, kTwoFlexGroups);
  attach({});
  const std::string disk = disk_loop_.device();
  ASSERT_TRUE(shell("addpart " + disk + " 1 " + std::to_string(kOddOffset / 512) + " " +
                    std::to_string((fs::file_size(top_ / "image") - kOddOffset) / 512)));
  const std::shared_ptr<void> partition(nullptr, [&](void*) {
    unmount();
    EXPECT_TRUE(shell("delpart " + disk + " 1"));
  });
  ASSERT_NO_FATAL_FAILURE(mount_device(disk + "p1"));
  auto wanted = request_for(request(), disk);
  wanted.disk_offset = 0;
  wanted.disk_node = disk;
  auto recorder = start(wanted);
  ASSERT_TRUE(recorder) << recorder.error().message();
  ASSERT_TRUE(shell("cat " + root().string() + "/d7/4 | wc -c"));
  ASSERT_TRUE(shell("fallocate -l 150M " + root().string() + "/d1/large"));
  ASSERT_TRUE(recorder->poll());
  const HotList list = recorder->list();
  const auto read = std::ranges::find(list.ranges, "/d7/4", &HotRange::path);
  ASSERT_NE(read, list.ranges.end());
  expect_true(*read);
  EXPECT_GE(std::ranges::count_if(list.ranges,
                                  [](const HotRange& range) {
                                    return range.path.empty() &&
                                           range.device.offset >= kOddOffset + kSecondFlexGroup;
                                  }),
            1);
}

TEST_F(RecorderTest, an_unmount_is_not_held_up_by_a_recording) {
  make_image(0);
  attach({});
  mount_root();
  auto recorder = start(request_for(request(), fs_device()));
  ASSERT_TRUE(recorder) << recorder.error().message();
  ASSERT_TRUE(shell("cat " + root().string() + "/d1/1 > /dev/null"));
  ASSERT_TRUE(recorder->poll());
  for (int file = 0; file < 30; ++file)  // nobody has taken these yet
    ASSERT_TRUE(shell("cat " + root().string() + "/d2/" + std::to_string(file) + " > /dev/null"));
  unmount();
  EXPECT_THAT(paths_of(recorder->list()), Contains("/d1/1"));
}

}  // namespace
}  // namespace warmroot::warm
