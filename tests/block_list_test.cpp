// A snapshot's block list: what is packed is unpacked, and everything else is refused with a
// reason.
#include "bootstrap/warm/block_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "bootstrap/warm/checksum.hpp"
#include "bootstrap/warm/little_endian.hpp"

namespace warmroot::warm {
namespace {

using testing::HasSubstr;

constexpr const char* kSnapshot = "snap-0123456789abcdef0";
constexpr std::uint64_t kVolume = 1000 * kGridBytes;
constexpr std::size_t kHeader = 128;

BlockList list_of(std::initializer_list<ByteRange> runs, std::uint64_t volume_bytes = kVolume) {
  BlockList list{kSnapshot, volume_bytes, BlockSet(grid_blocks(volume_bytes))};
  for (const ByteRange& run : runs)
    list.blocks.insert_range({run.offset * kGridBytes, run.length * kGridBytes});
  return list;
}

std::string encoded(const BlockList& list) {
  const auto bytes = encode_block_list(list);
  EXPECT_TRUE(bytes) << bytes.error().message();
  return bytes.value_or("");
}

/// With the checksum of what it says now.
std::string sealed(std::string bytes) {
  put_little(bytes, 120,
             checksum(std::string_view(bytes).substr(kHeader),
                      checksum(std::string_view(bytes).substr(0, 120))),
             8);
  return bytes;
}

std::string refusal(std::string_view bytes) {
  const auto list = decode_block_list(bytes);
  return list ? "accepted" : list.error().message();
}

TEST(BlockList, comes_back_as_it_was_and_takes_a_few_bytes_a_run) {
  std::mt19937 random(5);
  BlockList scattered = list_of({}, 100'000 * kGridBytes);
  for (Block block = 0; block < scattered.blocks.size(); block += 1 + random() % 300)
    scattered.blocks.insert(block);
  const struct {
    BlockList list;
    std::size_t most_bytes;
  } cases[] = {{list_of({}), kHeader},
               {list_of({{0, 1000}}), kHeader + 3},
               {list_of({{0, 1}, {2, 1}, {999, 1}}), kHeader + 7},
               {list_of({{127, 128}, {300, 700}}), kHeader + 6},
               {scattered, kHeader + 3 * scattered.blocks.count()}};
  for (const auto& each : cases) {
    const std::string bytes = encoded(each.list);
    EXPECT_LE(bytes.size(), each.most_bytes);
    const auto decoded = decode_block_list(bytes);
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(*decoded, each.list);
  }
}

TEST(BlockList, every_cut_and_every_flipped_byte_is_noticed) {
  const std::string bytes = encoded(list_of({{3, 4}, {500, 200}}));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(decode_block_list(damaged)) << at;
    EXPECT_FALSE(decode_block_list(bytes.substr(0, at))) << at;
  }
  EXPECT_FALSE(decode_block_list(bytes + '\0'));
}

TEST(BlockList, what_does_not_fit_is_refused_in_one_sentence_even_with_a_right_checksum) {
  const std::string good = encoded(list_of({{3, 4}}));
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t width) {
    std::string bytes = good;
    put_little(bytes, at, value, width);
    return sealed(bytes);
  };
  const auto runs = [&](std::string_view numbers, std::uint64_t count) {
    std::string bytes = good.substr(0, kHeader) + std::string(numbers);
    put_little(bytes, 88, count, 8);
    return sealed(bytes);
  };
  using namespace std::string_view_literals;
  const struct {
    std::string bytes;
    const char* words;
  } cases[] = {
      {"", "is no block list"},
      {"hello", "is no block list"},
      {with(8, 2, 4), "has version 2, not 1"},
      {with(12, 4096, 4), "another block size"},
      {with(24, 'x', 1), "names no snapshot"},
      {with(24 + 5, '/', 1), "names no snapshot"},
      {with(16, 0, 8), "no volume's size"},
      {with(16, kMostVolumeBytes + 1, 8), "no volume's size"},
      {with(16, UINT64_MAX, 8), "no volume's size"},
      {with(16, 6 * kGridBytes, 8), "beyond its volume"},
      {with(88, UINT64_MAX, 8), "cut short"},
      {with(88, 0, 8), "more than it says"},
      {runs("\x03\x04\x00\x04"sv, 2), "runs that are none"},
      {runs("\x03\x00"sv, 1), "runs that are none"},
      {runs("\x03"sv, 1), "cut short"},
      {runs("\x83\x00\x04"sv, 1), "cut short"},
      {runs("\xff\xff\xff\xff\xff\xff\x01\x04"sv, 1), "cut short"},
      {runs("\xe8\x07\x01"sv, 1), "beyond its volume"},
      {runs("\xff\xff\xff\xff\x7f\xff\xff\xff\xff\x7f"sv, 1), "beyond its volume"},
  };
  for (const auto& each : cases) EXPECT_THAT(refusal(each.bytes), HasSubstr(each.words));
  EXPECT_THAT(refusal(std::string(kMostBlockListBytes + 1, 'x')), HasSubstr("too long"));
}

TEST(BlockList, with_too_many_gaps_is_not_handed_on) {
  BlockList list = list_of({}, std::uint64_t{5} << 40);
  for (Block block = 0; block < list.blocks.size(); block += 2) list.blocks.insert(block);
  const auto bytes = encode_block_list(list);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::refused);
  EXPECT_THAT(bytes.error().message(), HasSubstr("too many gaps"));
}

TEST(BlockList, of_the_volumes_own_snapshot_covers_the_device_and_no_more) {
  const BlockList list = list_of({{0, 1}, {2, 3}, {999, 1}});
  for (const std::uint64_t bytes : {kVolume, 3 * kVolume, kVolume + 512}) {
    const auto blocks = blocks_on_device(list, kSnapshot, bytes, 0);
    ASSERT_TRUE(blocks) << blocks.error().message();
    EXPECT_EQ(blocks->size(), grid_blocks(bytes));
    EXPECT_EQ(blocks->members(), list.blocks.members());
  }
  EXPECT_TRUE(blocks_on_device(list, kSnapshot, kVolume, 2 * kGridBytes));
}

TEST(BlockList, of_another_snapshot_of_a_larger_volume_or_without_the_root_is_refused) {
  const BlockList list = list_of({{0, 1}, {2, 3}});
  const auto refused = [](const Result<BlockSet>& blocks) {
    return blocks ? "accepted" : blocks.error().message();
  };
  EXPECT_THAT(refused(blocks_on_device(list, "snap-other", kVolume, 0)),
              HasSubstr("is of snap-0123456789abcdef0, and the volume of snap-other"));
  EXPECT_THAT(refused(blocks_on_device(list, kSnapshot, kVolume - 1, 0)),
              HasSubstr("the device has"));
  EXPECT_THAT(refused(blocks_on_device(list, kSnapshot, kVolume, kGridBytes)),
              HasSubstr("does not hold where the root begins"));
  EXPECT_THAT(refused(blocks_on_device(list, kSnapshot, kVolume, 5000 * kGridBytes)),
              HasSubstr("does not hold where the root begins"));
}

TEST(SnapshotId, may_become_a_files_name) {
  for (const char* good : {"snap-0123456789abcdef0", "snap-0ami0000000000001", "snap-1"})
    EXPECT_TRUE(is_snapshot_id(good)) << good;
  for (const char* bad : {"", "snap-", "vol-1", "snap-../x", "snap-A", "snap-1\n"})
    EXPECT_FALSE(is_snapshot_id(bad)) << bad;
  EXPECT_FALSE(is_snapshot_id("snap-" + std::string(60, '1')));
}

}  // namespace
}  // namespace warmroot::warm
