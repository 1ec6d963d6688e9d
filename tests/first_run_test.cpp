// What is read on a first run, as far as it can be told without a mount: a file system's own chain
// of reads, what programs are linked with, and the names that everybody opens. Content is hostile
// here wherever it can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/demand_follow.hpp"
#include "bootstrap/warm/elf_needs.hpp"
#include "bootstrap/warm/file_finder.hpp"
#include "bootstrap/warm/first_run_files.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/mount_reads.hpp"
#include "bootstrap/warm/xfs_super.hpp"
#include "tests/must_run.hpp"

namespace warmroot::warm {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Lt;
using testing::SizeIs;

constexpr std::uint64_t kPartition = kMiB;

/// An image with one file system, one MiB in, and what it says on each round.
class MountImage : public testing::Test {
 protected:
  void TearDown() override {
    if (!path_.empty()) std::filesystem::remove(path_);
  }

  /// False where the machine lacks the program.
  bool make(const std::string& command, std::uint64_t bytes) {
    std::string pattern = (std::filesystem::temp_directory_path() / "first_run_XXXXXX").string();
    const int fd = ::mkstemp(pattern.data());
    path_ = pattern;
    bytes_ = bytes;
    const bool sized = fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    ::close(fd);
    return sized && std::system((command + " " + path_ + " >/dev/null 2>&1").c_str()) == 0;
  }

  std::string bytes_at(ByteRange range) const {
    std::string text(range.length, '\0');
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(range.offset - kPartition));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    return text;
  }

  /// All that the rounds want, with the image's own content.
  std::vector<ByteRange> all_rounds() {
    MountReads reads({kPartition, bytes_});
    std::vector<ByteRange> all;
    std::vector<std::string> contents;
    rounds_ = 0;
    for (MountRound round = reads.next(contents); !round.empty(); round = reads.next(contents)) {
      ++rounds_;
      contents.clear();
      for (const ByteRange& range : round.contents) contents.push_back(bytes_at(range));
      all.insert(all.end(), round.contents.begin(), round.contents.end());
      all.insert(all.end(), round.touches.begin(), round.touches.end());
      all.insert(all.end(), round.head.begin(), round.head.end());
      all.insert(all.end(), round.later.begin(), round.later.end());
    }
    return all;
  }

  static bool covers(const std::vector<ByteRange>& ranges, std::uint64_t byte_in_fs) {
    const std::uint64_t byte = kPartition + byte_in_fs;
    return std::any_of(ranges.begin(), ranges.end(), [byte](const ByteRange& range) {
      return byte >= range.offset && byte - range.offset < range.length;
    });
  }

  /// What debugfs says, an opinion that shares no code with ours.
  std::uint64_t debugfs_block(const std::string& inode) const {
    FILE* pipe =
        ::popen(("debugfs -R 'blocks " + inode + "' " + path_ + " 2>/dev/null").c_str(), "r");
    std::uint64_t block = 0;
    const int got = pipe != nullptr ? std::fscanf(pipe, "%lu", &block) : 0;
    if (pipe != nullptr) ::pclose(pipe);
    return got == 1 ? block : 0;
  }

  std::string path_;
  std::uint64_t bytes_ = 0;
  int rounds_ = 0;
};

struct ExtCase {
  const char* name;
  const char* command;
};

class ExtMount : public MountImage, public testing::WithParamInterface<ExtCase> {};

TEST_P(ExtMount, reads_superblock_descriptors_journal_root_and_tables_in_four_rounds) {
  if (!make(GetParam().command, 3 * kGiB)) {
    if (must_run()) FAIL() << GetParam().command;
    GTEST_SKIP() << "NOT TESTED: " << GetParam().command;
  }
  const auto all = all_rounds();
  EXPECT_LE(rounds_, 4);
  const ExtSuper ext = parse_ext(bytes_at({kPartition, kSuperblockBytes}));
  ASSERT_GT(ext.groups, 0U);
  EXPECT_TRUE(covers(all, 1024));
  EXPECT_TRUE(covers(all, ext.descriptor(0).offset));
  for (const std::string inode : {"/", "<8>"}) {
    const std::uint64_t block = debugfs_block(inode);
    if (inode == "<8>" && block == 0) continue;  // ext2 has no journal
    ASSERT_GT(block, 0U) << inode;
    EXPECT_TRUE(covers(all, block * ext.block_bytes)) << inode;
  }
  std::uint64_t blocks = 0;
  for (const ByteRange& range : all) blocks += blocks_of(range, UINT32_MAX).size();
  EXPECT_LE(blocks, 200U) << "of 6,144: metadata, which ext2 and ext3 write in full";
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExtMount,
                         testing::Values(ExtCase{"ext4", "mkfs.ext4 -q -F"},
                                         ExtCase{"small_blocks", "mkfs.ext4 -q -F -b 1024"},
                                         ExtCase{"narrow", "mkfs.ext4 -q -F -O ^64bit,^flex_bg"},
                                         ExtCase{"ext3", "mkfs.ext3 -q -F"},
                                         ExtCase{"ext2", "mkfs.ext2 -q -F"}),
                         [](const testing::TestParamInfo<ExtCase>& one) {
                           return std::string(one.param.name);
                         });

TEST_F(MountImage, an_ext_journal_that_has_to_be_replayed_is_read_whole) {
  ASSERT_TRUE(make("mkfs.ext4 -q -F -J size=32", kGiB));
  std::string first = bytes_at({kPartition, kSuperblockBytes});
  const std::uint64_t before = all_rounds().size();
  first[kExtSuperAt + 0x60] = static_cast<char>(first[kExtSuperAt + 0x60] | 4);
  std::fstream(path_, std::ios::binary | std::ios::in | std::ios::out)
      .write(first.data(), static_cast<std::streamsize>(first.size()));
  const auto all = all_rounds();
  EXPECT_GE(all.size(), before);
  std::uint64_t longest = 0;
  for (const ByteRange& range : all) longest = std::max(longest, range.length);
  EXPECT_EQ(longest, 32 * kMiB);
}

TEST_F(MountImage, xfs_reads_its_groups_root_and_the_log_around_its_head) {
  if (!make("mkfs.xfs -q -f", 3 * kGiB)) {
    if (must_run()) FAIL() << "mkfs.xfs failed";
    GTEST_SKIP() << "NOT TESTED: this machine lacks mkfs.xfs";
  }
  const auto all = all_rounds();
  EXPECT_EQ(rounds_, 3);
  const std::string super = bytes_at({kPartition, kSuperblockBytes});
  const std::uint64_t group_bytes = big(super, 84, 4) * big(super, 4, 4);
  const std::uint64_t groups = big(super, 88, 4);
  for (std::uint64_t group = 0; group < groups; ++group)
    EXPECT_TRUE(covers(all, group * group_bytes)) << group;
  const std::uint64_t log_block = big(super, 48, 8);
  const std::uint64_t log = (log_block >> big(super, 124, 1)) * group_bytes +
                            (log_block & ((1ULL << big(super, 124, 1)) - 1)) * big(super, 4, 4);
  EXPECT_TRUE(covers(all, log)) << "a log that was never used begins and ends at its start";
  std::uint64_t blocks = 0;
  for (const ByteRange& range : all) blocks += blocks_of(range, UINT32_MAX).size();
  EXPECT_LE(blocks, 80U);
}

TEST(MountReads, nonsense_asks_for_nothing_beyond_the_file_system_and_ends) {
  std::mt19937_64 random(5);
  const ByteRange place{kPartition, 64 * kMiB};
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    MountReads reads(place);
    std::vector<std::string> contents;
    int rounds = 0;
    for (MountRound round = reads.next(contents); !round.empty(); round = reads.next(contents)) {
      ASSERT_LE(++rounds, 4);
      contents.clear();
      for (const ByteRange& range : round.contents) {
        std::string bytes(random() % 8 == 0 ? 0 : range.length, '\0');
        for (char& c : bytes) c = static_cast<char>(random());
        if (rounds == 1 && bytes.size() >= kSuperblockBytes) {
          if (trial % 2 == 0)
            bytes.replace(0, 4, "XFSB").replace(4, 8, std::string("\0\0\x10\0\0\0\0\0", 8));
          bytes[kExtSuperAt + 0x38] = 0x53;
          bytes[kExtSuperAt + 0x39] = static_cast<char>(0xEF);
          bytes.replace(kExtSuperAt + 0x18, 4, std::string("\2\0\0\0", 4));
          if (trial % 3 == 0) bytes.replace(kExtSuperAt + 0x20, 4, std::string("\0\x80\0\0", 4));
        }
        contents.push_back(std::move(bytes));
      }
      std::vector<ByteRange> all = round.contents;
      all.insert(all.end(), round.touches.begin(), round.touches.end());
      all.insert(all.end(), round.head.begin(), round.head.end());
      all.insert(all.end(), round.later.begin(), round.later.end());
      for (const ByteRange& range : all) {
        ASSERT_GE(range.offset, place.offset);
        ASSERT_LE(range.length, place.length);
        ASSERT_LE(range.offset - place.offset, place.length - range.length);
      }
      ASSERT_LE(all.size(), 2048U);
    }
  }
  EXPECT_TRUE(MountReads({0, 100}).next({}).empty()) << "no room for a superblock";
}

/// Four million groups with a table of 128 MiB each were a list of a billion blocks.
TEST(MountReads, hostile_groups_of_large_tables_ask_for_no_more_than_is_read_ahead) {
  constexpr std::uint64_t kGroups = 1024, kTableBlock = 1000;
  std::string first(kSuperblockBytes, '\0');
  const auto field = [&](std::size_t at, std::uint64_t value) {
    put_little(first, kExtSuperAt + at, value, 4);
  };
  field(0x04, kGroups * 32768);  // blocks
  field(0x18, 2);                // of 4 KiB
  field(0x20, 32768);            // in a group
  field(0x28, 32768);            // inodes in a group
  put_little(first, kExtSuperAt + 0x38, 0xEF53, 2);
  field(0x4C, 1);
  put_little(first, kExtSuperAt + 0x58, 4096, 2);  // bytes of an inode
  std::string descriptors(kGroups * 32, '\0');
  for (std::uint64_t group = 0; group < kGroups; ++group)
    put_little(descriptors, group * 32 + 0x08, kTableBlock, 4);
  MountReads reads({kPartition, kGroups * 32768 * 4096});
  ASSERT_FALSE(reads.next({}).empty());
  ASSERT_THAT(reads.next(std::vector{first}).contents, SizeIs(1));
  const MountRound round = reads.next(std::vector{descriptors});
  std::uint64_t bytes = 0;
  for (const ByteRange& range : round.later) bytes += range.length;
  EXPECT_GE(bytes, kMostLater / 2);
  EXPECT_LE(bytes, kMostLater);
}

struct TableCase {
  const char* name;
  const char* script;
  std::vector<ByteRange> partitions;
};

class Table : public MountImage {};

TEST_F(Table, partitions_are_where_sfdisk_has_put_them) {
  const TableCase cases[] = {
      {"gpt",
       "label: gpt\nstart=8192, size=20480\nstart=2048, size=4096\n",
       {{8192 * 512, 20480 * 512}, {2048 * 512, 4096 * 512}}},
      {"mbr",
       "label: dos\nstart=2048, size=4096\nstart=8192\n",
       {{2048 * 512, 4096 * 512}, {8192 * 512, 64 * kMiB - 8192 * 512}}},
  };
  for (const TableCase& one : cases) {
    ASSERT_TRUE(make("printf '" + std::string(one.script) + "' | sfdisk -q", 64 * kMiB))
        << one.name;
    EXPECT_EQ(partitions_of(bytes_at({kPartition, kPartitionTablesBytes}), 64 * kMiB),
              one.partitions);
    std::filesystem::remove(path_);
  }
}

TEST(Partitions, of_a_disk_without_a_table_or_with_nonsense_are_the_disk) {
  const std::vector<ByteRange> whole{{0, 64 * kMiB}};
  EXPECT_EQ(partitions_of("", 64 * kMiB), whole);
  EXPECT_EQ(partitions_of(std::string(kPartitionTablesBytes, '\0'), 64 * kMiB), whole);
  EXPECT_EQ(partitions_of(std::string(kPartitionTablesBytes, '\xff'), 64 * kMiB), whole);
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes(random() % kPartitionTablesBytes, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() : 0);
    if (bytes.size() > 1024) bytes.replace(510, 2, "\x55\xaa").replace(512, 8, "EFI PART");
    for (const ByteRange& place : partitions_of(bytes, 64 * kMiB)) {
      ASSERT_LE(place.length, 64 * kMiB);
      ASSERT_LE(place.offset, 64 * kMiB - place.length);
    }
  }
}

TEST(ProbedPlaces, lie_inside_and_have_both_ends) {
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{512}, 1024 * kKiB, 1025 * kKiB,
                                     1027 * kKiB, 2 * kMiB, 4 * kMiB + 512, 64 * kMiB}) {
    const auto places = probed_places({3 * kMiB, length});
    std::uint64_t first = UINT64_MAX, last = 0;
    for (const ByteRange& place : places) {
      first = std::min(first, place.offset);
      last = std::max(last, place.offset + place.length);
    }
    EXPECT_EQ(first, 3 * kMiB);
    EXPECT_EQ(last, 3 * kMiB + length);
  }
}

TEST(DemandFollow, reads_on_behind_a_miss_and_further_where_the_session_goes_on) {
  const BlockSet none(1000);
  DemandFollow follow;
  const auto first = follow.missed(100, none, {});
  EXPECT_EQ(first.front(), 101U);
  EXPECT_THAT(first, SizeIs(DemandFollow::kLeast + DemandFollow::kLeast / 4));
  EXPECT_THAT(first, Contains(99U));
  const auto elsewhere = follow.missed(500, none, {});
  EXPECT_THAT(elsewhere, SizeIs(first.size()));
  const auto on = follow.missed(100 + DemandFollow::kLeast + 1, none, {});
  EXPECT_GT(on.size(), first.size());
  for (Block block = 150; block < 450; block += 10)
    EXPECT_LE(follow.missed(block, none, {}).size(), DemandFollow::kMost * 5 / 4);
}

TEST(DemandFollow, offers_what_is_absent_and_needed_and_on_the_device) {
  BlockSet present(64);
  BlockSet needed(64);
  for (const Block block : {40, 41, 42, 43, 50, 63}) needed.insert(block);
  present.insert(41);
  DemandFollow follow;
  EXPECT_THAT(follow.missed(40, present, needed), ElementsAre(42, 43, 50));
  EXPECT_THAT(DemandFollow().missed(63, present, BlockSet()), Each(Lt(63U)));
  EXPECT_THAT(DemandFollow().missed(0, BlockSet(1), BlockSet()), IsEmpty());
  EXPECT_THAT(DemandFollow().missed(40, BlockSet(64), BlockSet(), DemandFollow::kBesideList),
              ElementsAre(41, 39, 42, 43, 44));
}

ReadBytes of(std::string bytes) {
  return [bytes = std::move(bytes)](ByteRange range) {
    return range.offset >= bytes.size() ? std::string() : bytes.substr(range.offset, range.length);
  };
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ElfNeeds, are_the_loader_and_libraries_of_a_program) {
  const ElfNeeds needs = elf_needs(of(slurp("/bin/sh")));
  EXPECT_THAT(needs.interpreter, testing::HasSubstr("ld-linux"));
  EXPECT_THAT(needs.libraries, Contains("libc.so.6"));
}

TEST(ElfNeeds, of_scripts_and_damaged_files_are_what_makes_sense) {
  EXPECT_EQ(elf_needs(of("")), ElfNeeds());
  EXPECT_EQ(elf_needs(of("#!/bin/sh\n")), ElfNeeds());
  EXPECT_EQ(elf_needs(of("\x7f"
                         "ELF")),
            ElfNeeds());
  const std::string whole = slurp("/bin/sh");
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = whole;
    for (int i = 0; i < 8; ++i) bytes[random() % 4096] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    const ElfNeeds needs = elf_needs(of(bytes));
    ASSERT_LE(needs.libraries.size(), 256U);
  }
}

/// Where a name stands among others; behind all of them where it is not there.
std::size_t rank_of(const std::vector<WantedFile>& files, const std::string& path) {
  const auto found = std::ranges::find(files, path, &WantedFile::path);
  EXPECT_NE(found, files.end()) << path;
  return static_cast<std::size_t>(found - files.begin());
}

TEST(FirstRunFiles, begin_with_what_a_login_opens_and_know_its_users) {
  const auto files = first_run_files();
  const auto at = [&](const std::string& path) { return rank_of(files, path); };
  EXPECT_LT(at("/etc/profile"), at("/usr/bin/python3"));
  EXPECT_LT(at("/usr/bin/python3"), at("/usr/bin/*"));
  EXPECT_LT(at("/etc/pam.d/*"), at("/usr/bin/python3"));
  EXPECT_TRUE(files[at("/usr/sbin/sshd")].is_program);
  for (const WantedFile& file : files) EXPECT_TRUE(file.path.starts_with('/')) << file.path;
  const WantedOfRoot of_users =
      first_run_files_of(std::vector<LoginUser>{{"/usr/bin/fish", "/home/ann"}, {"", "/"}});
  EXPECT_TRUE(of_users.first.at(rank_of(of_users.first, "/usr/bin/fish")).is_program);
  EXPECT_LT(rank_of(of_users.first, "/home/ann/.bashrc"), of_users.first.size());
}

/// A session that asked a package manager waited for its databases, which were in no list of names.
TEST(FirstRunFiles, of_package_managers_come_behind_a_login_and_are_bounded) {
  const auto files = first_run_files();
  const auto at = [&](const std::string& path) { return rank_of(files, path); };
  for (const char* program : {"/usr/bin/dpkg-query", "/usr/bin/apt-cache", "/usr/bin/rpm"}) {
    EXPECT_GT(at(program), at("/usr/sbin/sshd"));
    EXPECT_TRUE(files[at(program)].is_program) << program;
  }
  EXPECT_LT(at("/var/lib/dpkg/status"), at("/usr/lib/python3.12/__pycache__/*"));
  EXPECT_LT(at("/etc/yum.repos.d/*"), at("/var/lib/rpm/rpmdb.sqlite"));
  const std::size_t lists = at("/var/lib/dpkg/info/*");
  EXPECT_EQ(files[lists].ending, ".list") << "scripts and checksums are wanted by nobody";
  for (const char* large : {"/var/lib/dpkg/info/*", "/var/lib/rpm/rpmdb.sqlite"}) {
    EXPECT_GT(at(large), at("/usr/lib/python3.12/__pycache__/*")) << large;
    EXPECT_LT(at(large), at("/usr/bin/*")) << large;
  }
  for (const WantedFile& file : files)
    for (const char* place :
         {"/var/lib/dpkg/", "/var/lib/rpm/", "/etc/apt/", "/var/cache/debconf/"})
      if (file.path.starts_with(place)) {
        EXPECT_LE(file.length, 32 * kMiB) << file.path;
        EXPECT_GT(&file - files.data(), static_cast<std::ptrdiff_t>(at("/usr/sbin/sshd")));
      }
}

TEST(FirstRunFiles, of_a_conda_at_the_usual_places_are_known_by_its_users) {
  const auto files = first_run_files();
  const auto of_users = first_run_files_of(std::vector<LoginUser>{{"/bin/bash", "/home/ann"}}).last;
  for (const auto& [conda, names] :
       {std::pair("/opt/conda", &files), std::pair("/home/ann/miniconda3", &of_users)}) {
    const auto at = [&](const std::string& name) { return rank_of(*names, conda + name); };
    EXPECT_TRUE(names->at(at("/bin/python3")).is_program);
    EXPECT_LT(at("/bin/conda"), at("/lib/python3.11/encodings/__pycache__/*"));
    EXPECT_LT(at("/lib/python3.11/site-packages/conda/**"), names->size());
  }
  EXPECT_LT(rank_of(files, "/opt/conda/lib/python3.11/site-packages/conda/**"),
            rank_of(files, "/usr/bin/*"));
}

/// What is found in directories has to have its place among kMostWanted, too.
TEST(FirstRunFiles, of_very_many_users_leave_room_for_what_they_lead_to) {
  std::vector<LoginUser> users;
  for (int i = 0; i < 32; ++i) users.push_back({"/bin/sh", "/home/user" + std::to_string(i)});
  auto files = first_run_files();
  const WantedOfRoot of_users = first_run_files_of(users);
  for (const auto* more : {&of_users.first, &of_users.last})
    files.insert(files.end(), more->begin(), more->end());
  std::size_t bytes = 0;
  for (const WantedFile& file : files) bytes += file.path.size();
  EXPECT_LT(files.size(), kMostWanted / 4);
  EXPECT_LT(bytes, kMostWantedBytes / 4);
}

}  // namespace
}  // namespace warmroot::warm
