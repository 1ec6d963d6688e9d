// What FS_IOC_GETFSMAP reads of an aged xfs, read before it: the groups' headers and free-space
// trees as xfs_db sees them, hostile ones, and on a lazily initialised volume what is left for the
// kernel to wait for. Needs root, FUSE and loop devices; see warm_volume.hpp.
#include "bootstrap/warm/xfs_free_trees.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <fstream>
#include <random>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/fsmap.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/root_metadata.hpp"
#include "tests/refuse_call.hpp"
#include "tests/warm_volume.hpp"
#include "tests/xfs_trees.hpp"

namespace warmroot::warm {
namespace {

using testing::IsEmpty;
using testing::IsSupersetOf;

constexpr unsigned kGroups = 16;
constexpr off_t kFile = 8 * kMiB;
constexpr off_t kBlock = 4096;
/// A group has to have room for the log of 64 MiB.
const RootKind kPlain{"xfs", 2 * kGiB, "mkfs.xfs -q -f -K -d agcount=16"};
const RootKind kWithOwners{"xfs", 2 * kGiB, "mkfs.xfs -q -f -K -d agcount=16 -m rmapbt=1"};

class XfsVolume : public WarmerTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(WarmerTest::SetUp());
    if (const auto missing = lacking_xfs(); !missing.empty()) {
      if (must_run()) FAIL() << "this machine lacks " << missing;
      GTEST_SKIP() << "NOT TESTED: this machine lacks " << missing;
    }
  }

  /// With what `fill` puts into the mounted root.
  void make(const RootKind& kind, const std::function<void()>& fill) {
    ASSERT_NO_FATAL_FAILURE(make_image(kOddOffset, kind));
    Loop loop;
    ASSERT_TRUE(loop.attach(top_ / "image", offset_));
    ASSERT_NO_FATAL_FAILURE(fill_mounted(loop.device(), fill));
    loop.detach();
    fill_holes(top_ / "image");
  }

  /// Files of which every second block is given back, so that each group's tree has a root above
  /// its leaves. xfs begins each directory in the next group; leaves come to lie behind what the
  /// group holds when they are split.
  void age() {
    for (unsigned group = 0; group < kGroups; ++group) {
      const fs::path directory = root() / ("aged" + std::to_string(group));
      fs::create_directory(directory);
      for (const char* name : {"a", "b", "c"}) {
        const UniqueFd file(::open((directory / name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
        ASSERT_EQ(::fallocate(file.get(), 0, 0, kFile), 0);
        for (off_t at = 0; at < kFile; at += 2 * kBlock)
          ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, kBlock),
                    0);
      }
    }
  }

  std::string image_bytes(ByteRange in_fs) const {
    std::string text(in_fs.length, '\0');
    std::ifstream file(top_ / "image", std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset_ + in_fs.offset));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    return text;
  }

  /// Where xfs_db sees the root of each group's tree, and its leaves.
  std::set<std::uint64_t> nodes_by_xfs_db(std::uint64_t group_bytes) const {
    Loop loop;
    EXPECT_TRUE(loop.attach(top_ / "image", offset_));
    std::set<std::uint64_t> nodes;
    for (unsigned group = 0; group < kGroups; ++group) {
      const auto text =
          shell("xfs_db -r -c 'agf " + std::to_string(group) +
                "' -c 'p bnoroot bnolevel' -c 'addr bnoroot' -c 'p ptrs' " + loop.device());
      EXPECT_THAT(text.value_or(""), testing::HasSubstr("bnolevel = 2")) << "it is not aged";
      std::istringstream words(text.value_or(""));
      for (std::string word, before; words >> word; before = word) {
        const bool is_root = before == "=" && nodes_of(group, group_bytes, nodes) == 0;
        const auto colon = word.find(':');
        if (is_root || colon != std::string::npos)
          nodes.insert(group * group_bytes +
                       4096 * std::stoull(is_root ? word : word.substr(colon + 1)));
      }
    }
    return nodes;
  }
  static std::size_t nodes_of(std::uint64_t group, std::uint64_t group_bytes,
                              const std::set<std::uint64_t>& nodes) {
    return static_cast<std::size_t>(std::ranges::count_if(
        nodes, [&](std::uint64_t node) { return node / group_bytes == group; }));
  }

  /// A volume that nobody has touched but for who mounts it.
  void mount_cold() {
    unmount();
    ASSERT_NO_FATAL_FAILURE(attach_anew({}));
    mount_root();
  }

  static std::string own_capabilities() {
    std::ifstream status("/proc/thread-self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("CapEff:")) return line;
    return "none told";
  }

  /// First touches that the kernel waits for until it has said what is free, to a thread that is
  /// confined as the warmer's are, or keeps its capabilities.
  std::size_t touches_of_question(bool keeps = false) {
    const std::size_t before = touched().size();
    const UniqueFd mounted(::open(root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    double ms = 0;
    std::thread([&] {
      if (keeps)
        EXPECT_TRUE(refuse_call(SYS_capset));
      else
        confine_here();
      const std::string capabilities = own_capabilities();
      const auto start = Clock::now();
      const auto free = free_ranges(mounted.get());
      ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      EXPECT_TRUE(free) << free.error().message();
      EXPECT_EQ(own_capabilities(), capabilities) << "it has them again";
    }).join();
    std::printf("%zu first touches, %.0f ms\n", touched().size() - before, ms);
    return touched().size() - before;
  }

  /// As the warmer does, to the end of what it asks for.
  void read_metadata() {
    const auto device = BlockDevice::open(disk_loop_.device());
    ASSERT_TRUE(device) << device.error().message();
    const DepthLimits limits = depth_limits(0, device->tags());
    auto engine = make_read_engine(device->fd(), limits.ceiling + ReadPump::kExtraCapacity);
    ASSERT_TRUE(engine) << engine.error().message();
    DepthControl control(limits);
    Presence presence(grid_blocks(device->size_bytes()));
    std::optional<ListReader> reader;
    PumpEvents events;
    events.present = [&](Block block, std::chrono::microseconds) { presence.insert_read(block); };
    events.not_present = [&](std::span<const Block> blocks) {
      for (const Block block : blocks) presence.erase_read(block);
      return std::vector<Block>{};
    };
    events.wanted = [&](Block block) { return reader->is_wanted(block); };
    events.tick = [] { return std::vector<Block>{}; };
    ReadPump pump(**engine, control, device->size_bytes(), std::move(events));
    reader.emplace(pump, presence, std::stop_token());
    RootMetadata metadata(*reader, *device, "xfs", {offset_, device->size_bytes() - offset_},
                          [](const std::string& note) { ADD_FAILURE() << note; });
    EXPECT_EQ(metadata.read().value(), ReadPump::End::finished);
    EXPECT_EQ(reader->read({}).value(), ReadPump::End::finished);
    EXPECT_GE(metadata.ranges().size(), 3 * kGroups);
  }
};

struct TreesCase {
  const char* name;
  RootKind kind;
};

class FreeTrees : public XfsVolume, public testing::WithParamInterface<TreesCase> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(XfsVolume::SetUp());
    if (!IsSkipped()) make(GetParam().kind, [this] { age(); });
  }
};

/// Two or three of each group were, one after the other.
TEST_P(FreeTrees, are_present_before_the_kernel_walks_them) {
  ASSERT_NO_FATAL_FAILURE(mount_cold());
  EXPECT_GE(touches_of_question(), kGroups) << "a question that waits for nothing shows nothing";
  ASSERT_NO_FATAL_FAILURE(mount_cold());
  ASSERT_NO_FATAL_FAILURE(read_metadata());
  EXPECT_LE(touches_of_question(), 1U);
}

TEST_P(FreeTrees, are_where_xfs_db_sees_them) {
  const std::string super = image_bytes({0, kSuperblockBytes});
  const XfsSuper xfs = parse_xfs(super);
  ASSERT_EQ(xfs.groups, kGroups);
  XfsFreeTrees trees(super, UINT64_MAX);
  std::set<std::uint64_t> found;
  int rounds = 0;
  for (auto round = trees.next(); !round.empty(); round = trees.next()) {
    for (const ByteRange& range : round.nodes) trees.take(image_bytes(range));
    if (++rounds == 1) continue;  // headers
    for (const auto& ranges : {round.nodes, round.touches})
      for (const ByteRange& range : ranges) {
        EXPECT_EQ(range.length, xfs.block_bytes);
        found.insert(range.offset);
      }
  }
  EXPECT_EQ(rounds, 3) << "headers, roots, leaves";
  const auto expected = nodes_by_xfs_db(xfs.group_blocks * xfs.block_bytes);
  EXPECT_EQ(found, expected);
  EXPECT_GE(expected.size(), 3 * kGroups);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FreeTrees,
                         testing::Values(TreesCase{"plain", kPlain},
                                         TreesCase{"with_owners", kWithOwners}),
                         [](const testing::TestParamInfo<TreesCase>& one) {
                           return std::string(one.param.name);
                         });

/// Of 100,000 files the kernel waited for 568 first touches, 25 s, to tell whose each extent is.
/// Here every second block of a file has been written, which makes an extent of each.
TEST_F(XfsVolume, is_not_asked_for_owners) {
  const RootKind kind{"xfs", 2 * kGiB, "mkfs.xfs -q -f -K -m rmapbt=1"};
  ASSERT_NO_FATAL_FAILURE(make(kind, [this] {
    const std::string block(4096, 'x');
    for (unsigned i = 0; i < 32; ++i) {
      const fs::path directory = root() / ("owners" + std::to_string(i % 4));
      fs::create_directory(directory);
      const UniqueFd file(
          ::open((directory / std::to_string(i)).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
      ASSERT_EQ(::fallocate(file.get(), 0, 0, kFile), 0);
      for (off_t at = 0; at < kFile; at += 2 * kBlock)
        ASSERT_EQ(::pwrite(file.get(), block.data(), block.size(), at), kBlock);
      ASSERT_EQ(::fsync(file.get()), 0);
    }
  }));
  ASSERT_NO_FATAL_FAILURE(mount_cold());
  const std::size_t with_owners = touches_of_question(true);
  ASSERT_NO_FATAL_FAILURE(mount_cold());
  EXPECT_LE(touches_of_question(), with_owners / 4);
  EXPECT_GE(with_owners, 24U) << "or they lie where all else does";
}

constexpr std::uint64_t kGroupBytes = 64 * 4096;

FreeTreesRound after(XfsFreeTrees& trees, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) trees.take(node);
  return trees.next();
}

TEST(FreeTreesOf, groups_end_where_a_number_makes_no_sense_and_go_on_elsewhere) {
  XfsFreeTrees trees(small_super(), UINT64_MAX);
  auto round = trees.next();
  ASSERT_EQ(round.nodes.size(), 4U);
  EXPECT_EQ(round.nodes[2], (ByteRange{2 * kGroupBytes + 512, 512}));
  // One leaf alone; a root above leaves; a header of another group; one that could not be read.
  round = after(trees, {header(0, 7, 1), header(1, 8, 3), header(3, 9, 2), ""});
  EXPECT_THAT(round.touches, testing::ElementsAre(ByteRange{std::uint64_t{7} * 4096, 4096}));
  EXPECT_THAT(round.nodes, testing::ElementsAre(ByteRange{kGroupBytes + 8 * 4096, 4096}));
  round = after(trees, {node("AB3B", 2, {10, 64, 11, 12, UINT32_MAX})});
  EXPECT_THAT(round.touches, IsEmpty());
  EXPECT_EQ(round.nodes.size(), 3U) << "64 is beyond the group";
  // Before checksums; at the level above, so that it could lead round for ever; of another tree;
  // one that nobody asked for.
  round = after(trees, {node("ABTB", 1, {20, 21}), node("AB3B", 2, {10}), node("AB3C", 1, {30}),
                        node("AB3B", 1, {40})});
  EXPECT_THAT(round.touches, testing::ElementsAre(ByteRange{kGroupBytes + 20 * 4096, 4096},
                                                  ByteRange{kGroupBytes + 21 * 4096, 4096}));
  EXPECT_THAT(round.nodes, IsEmpty());
  EXPECT_TRUE(trees.next().empty());
}

TEST(FreeTreesOf, a_partition_that_ends_early_are_not_looked_for_behind_it) {
  XfsFreeTrees trees(small_super(), 2 * kGroupBytes);
  EXPECT_EQ(trees.next().nodes.size(), 2U);
  XfsFreeTrees short_one(small_super(), 20 * 4096);
  short_one.next();
  EXPECT_EQ(after(short_one, {header(0, 19, 1)}).touches.size(), 1U);
  XfsFreeTrees shorter(small_super(), 20 * 4096 - 1);
  shorter.next();
  EXPECT_TRUE(after(shorter, {header(0, 19, 1)}).empty());
}

TEST(FreeTreesOf, large_sectors_are_read_no_further_than_their_headers) {
  std::string super = small_super();
  super.replace(102, 2, number(32768, 2));
  EXPECT_EQ(XfsFreeTrees(super, UINT64_MAX).next().nodes.at(1),
            (ByteRange{kGroupBytes + 32768, 512}));
}

TEST(FreeTreesOf, nonsense_end_soon) {
  EXPECT_TRUE(XfsFreeTrees("", UINT64_MAX).next().empty());
  EXPECT_TRUE(XfsFreeTrees(std::string(4096, '\xFF'), UINT64_MAX).next().empty());
  std::string sectors = small_super();
  sectors.replace(102, 2, number(513, 2));
  EXPECT_TRUE(XfsFreeTrees(sectors, UINT64_MAX).next().empty());
}

/// Every pointer leads to the same node, as deep as a tree may be, as many as there is room for. Of
/// nodes of 64 KiB, 4,096 were read: 256 MiB.
TEST(FreeTreesOf, a_bomb_are_bounded_in_bytes) {
  for (const std::uint64_t block : {512U, 4096U, 65536U}) {
    SCOPED_TRACE(block);
    std::string super = small_super();
    super.replace(4, 4, number(block, 4));
    XfsFreeTrees bomb(super, UINT64_MAX);
    auto round = bomb.next();
    std::uint64_t direct_bytes = 0;
    std::uint64_t leaves = 0;
    std::uint64_t rounds = 0;
    for (const std::string& group : {header(0, 1, 9), header(1, 1, 9)}) bomb.take(group);
    for (std::uint64_t level = 8; !(round = bomb.next()).empty(); --level) {
      ASSERT_LE(++rounds, 9U);
      leaves += round.touches.size();
      const std::string below = node("AB3B", level, std::vector<std::uint64_t>(5000, 1), block);
      for (const ByteRange& range : round.nodes) {
        ASSERT_LE(range.length, XfsFreeTrees::kLargestNode);
        direct_bytes += std::max<std::uint64_t>(range.length, 4096);
        bomb.take(below);
      }
    }
    EXPECT_EQ(direct_bytes, XfsFreeTrees::kMostNodeBytes);
    EXPECT_LE(leaves, XfsFreeTrees::kMostLeaves);
  }
}

}  // namespace
}  // namespace warmroot::warm
