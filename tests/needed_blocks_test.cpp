// Which blocks a root needs: the arithmetic of free records, and superblocks and group descriptors
// as mke2fs writes them, judged by dumpe2fs.
#include "bootstrap/warm/needed_blocks.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/fsmap.hpp"
#include "tests/must_run.hpp"

namespace warmroot::warm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kG = kGridBytes;

struct Case {
  const char* what;
  RootGeometry geometry;
  std::vector<ByteRange> free;
  std::vector<Block> needed;
};

TEST(NeededBlocks, are_the_partition_minus_what_is_free_and_the_partition_table) {
  const Case cases[] = {
      {"everything where nothing is known to be free", {4 * kG, {0, 4 * kG}}, {}, {0, 1, 2, 3}},
      {"nothing where all is free", {4 * kG, {0, 4 * kG}}, {{0, 4 * kG}}, {}},
      {"one used byte keeps its block", {4 * kG, {0, 4 * kG}}, {{1, 4 * kG}}, {0}},
      {"a gap between free records is used",
       {8 * kG, {0, 8 * kG}},
       {{0, 3 * kG}, {3 * kG + 1, 5 * kG}},
       {3}},
      {"records in any order, overlapping",
       {8 * kG, {0, 8 * kG}},
       {{4 * kG, 4 * kG}, {0, 2 * kG}, {kG, 2 * kG}, {5 * kG, kG}},
       {3}},
      {"the grid is the device's, not the partition's",
       {8 * kG, {2 * kG + kG / 2, 4 * kG}},
       {{kG, 3 * kG}},
       {0, 1, 2, 3}},
      {"the table is at most the first MiB", {8 * kG, {4 * kG, 4 * kG}}, {{0, 4 * kG}}, {0, 1}},
      {"a file system smaller than its partition ends where it ends",
       {8 * kG, {0, 8 * kG}, 3 * kG},
       {{kG, kG}},
       {0, 2}},
      {"free records beyond the partition", {4 * kG, {0, 4 * kG}}, {{2 * kG, UINT64_MAX}}, {0, 1}},
      {"a partition beyond the device", {4 * kG, {3 * kG, 9 * kG}}, {}, {0, 1, 3}},
      {"a partition outside the device", {4 * kG, {9 * kG, kG}}, {}, {0, 1}},
      {"a device that ends within a block", {kG + 512, {0, kG + 512}}, {}, {0, 1}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(needed_blocks(c.geometry, c.free).members(), c.needed) << c.what;
}

TEST(FsLayout, nonsense_gives_an_empty_summary) {
  EXPECT_EQ(summarise_superblock("").size_bytes, 0U);
  EXPECT_EQ(summarise_superblock(std::string(4096, '\0')).size_bytes, 0U);
  EXPECT_EQ(summarise_superblock(std::string(4096, '\xFF')).size_bytes, 0U);
  std::string magic(4096, '\0');
  magic[1024 + 0x38] = 0x53;
  magic[1024 + 0x39] = static_cast<char>(0xEF);
  EXPECT_EQ(summarise_superblock(magic).size_bytes, 0U);
  EXPECT_THAT(ext_metadata(magic, std::string(4096, '\xFF')).bitmaps, IsEmpty());
}

/// The warmer would have had 4 GiB of them in memory, twice.
TEST(FsLayout, hostile_group_descriptors_are_not_offered_for_reading) {
  std::string first(kSuperblockBytes, '\0');
  const auto field = [&](std::size_t at, std::uint64_t value, std::size_t width) {
    put_little(first, kExtSuperAt + at, value, width);
  };
  field(0x04, 1U << 22, 4);  // blocks
  field(0x18, 6, 4);         // of 64 KiB
  field(0x20, 1, 4);         // in a group
  field(0x38, 0xEF53, 2);
  field(0x60, 0x80, 4);  // 64bit
  for (const std::uint64_t bytes : {64ULL, 1024ULL}) {
    field(0xFE, bytes, 2);
    const FsSummary summary = summarise_superblock(first);
    EXPECT_EQ(summary.descriptors.length, 0U) << bytes;
    EXPECT_EQ(summary.size_bytes, std::uint64_t{1} << 38) << bytes;
  }
  field(0x20, 32768, 4);
  EXPECT_EQ(summarise_superblock(first).descriptors.length, 128U * 1024);
}

TEST(FsLayout, xfs_says_its_size) {
  std::string first(4096, '\0');
  first.replace(0, 4, "XFSB");
  first[6] = 0x10;   // block size 4096, big-endian
  first[13] = 0x08;  // 0x080000 blocks
  EXPECT_EQ(summarise_superblock(first).size_bytes, 0x080000ULL * 4096);
}

/// A sparse image made by mke2fs, and dumpe2fs's opinion of it.
TEST(FreeRecords, that_touch_are_one_and_those_that_free_no_block_of_the_grid_are_forgotten) {
  std::vector<ByteRange> free;
  add_free(free, {0, kG / 2});
  add_free(free, {kG / 2, kG / 2});  // half blocks that make a whole one
  add_free(free, {4 * kG, kG - 1});
  add_free(free, {8 * kG, 3 * kG});
  for (std::uint64_t at = 20 * kG; at < 30 * kG; at += 8192) add_free(free, {at, 4096});
  add_free(free, {40 * kG, 2 * kG});
  EXPECT_THAT(free,
              ElementsAre(ByteRange{0, kG}, ByteRange{8 * kG, 3 * kG}, ByteRange{40 * kG, 2 * kG}));
}

class Ext : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "needed_XXXXXX").string();
    const int fd = ::mkstemp(pattern.data());
    ASSERT_GE(fd, 0);
    image_ = pattern;
    ASSERT_EQ(::ftruncate(fd, 3 * static_cast<off_t>(kGiB)), 0);
    ::close(fd);
    const std::string command =
        std::string("mkfs.ext4 -q -F ") + GetParam() + " " + image_ + " >&2";
    if (std::system(command.c_str()) != 0) {
      if (must_run()) FAIL() << "mkfs.ext4 failed";
      GTEST_SKIP() << "NOT TESTED: mkfs.ext4 failed";
    }
  }
  void TearDown() override { std::filesystem::remove(image_); }

  std::string bytes(ByteRange range) const {
    std::string text(range.length, '\0');
    std::ifstream file(image_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(range.offset));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    return text;
  }

  std::string image_;
};

TEST_P(Ext, layout_agrees_with_dumpe2fs) {
  const std::string first = bytes({0, kSuperblockBytes});
  const FsSummary summary = summarise_superblock(first);
  FILE* pipe = ::popen(("dumpe2fs " + image_ + " 2>/dev/null").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::uint64_t block_bytes = 0, blocks = 0, inodes_per_group = 0, inode_bytes = 0;
  std::uint64_t tables = 0;
  std::set<std::uint64_t> bitmaps;
  bool no_block_bitmap = false, no_inode_bitmap = false;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    std::uint64_t number = 0;
    if (std::sscanf(line, "Block size: %lu", &number) == 1) block_bytes = number;
    if (std::sscanf(line, "Block count: %lu", &number) == 1) blocks = number;
    if (std::sscanf(line, "Inodes per group: %lu", &number) == 1) inodes_per_group = number;
    if (std::sscanf(line, "Inode size: %lu", &number) == 1) inode_bytes = number;
    if (text.starts_with("Group ")) {
      no_block_bitmap = text.find("BLOCK_UNINIT") != std::string::npos;
      no_inode_bitmap = text.find("INODE_UNINIT") != std::string::npos;
    }
    if (std::sscanf(line, "  Block bitmap at %lu", &number) == 1 && !no_block_bitmap)
      bitmaps.insert(number * block_bytes);
    if (std::sscanf(line, "  Inode bitmap at %lu", &number) == 1 && !no_inode_bitmap)
      bitmaps.insert(number * block_bytes);
    if (const auto at = text.find("Inode bitmap at "); at != std::string::npos && !no_inode_bitmap)
      bitmaps.insert(std::strtoull(line + at + 16, nullptr, 10) * block_bytes);
    if (text.starts_with("  Inode table at")) ++tables;
  }
  ::pclose(pipe);
  ASSERT_GT(block_bytes, 0U);
  EXPECT_EQ(summary.size_bytes, blocks * block_bytes);
  ASSERT_GT(summary.descriptors.length, 0U);
  const FsMetadata metadata = ext_metadata(first, bytes(summary.descriptors));
  std::set<std::uint64_t> ours;
  for (const ByteRange& range : metadata.bitmaps)
    for (std::uint64_t at = 0; at < range.length; at += block_bytes) ours.insert(range.offset + at);
  EXPECT_EQ(ours, bitmaps);
  std::uint64_t table_bytes = 0;
  for (const ByteRange& range : metadata.inode_tables) table_bytes += range.length;
  EXPECT_LE(table_bytes, inodes_per_group * inode_bytes * tables);
  EXPECT_GE(table_bytes, 11 * inode_bytes) << "the root's and lost+found's inodes are in use";
  for (const ByteRange& range : metadata.unused_tables) table_bytes += range.length;
  EXPECT_EQ(table_bytes, inodes_per_group * inode_bytes * tables);
  std::uint64_t journal_bytes = 0;
  for (const ByteRange& range : summary.journal) journal_bytes += range.length;
  EXPECT_EQ(journal_bytes % kMiB, 0U);
  EXPECT_GE(journal_bytes, 16 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Ext,
                         testing::Values("-b 4096", "-b 1024", "-b 4096 -O ^64bit",
                                         "-b 4096 -O ^metadata_csum,^flex_bg"));

TEST(Fsmap, a_file_system_without_it_is_refused_and_not_broken) {
  const int fd = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto answer = free_ranges(fd);
  ::close(fd);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::refused);
}

}  // namespace
}  // namespace warmroot::warm
