// Hot lists: what is written is read back, what is damaged or hostile is refused in one sentence,
// and merging puts first what most sessions read, in the order of first use.
#include "bootstrap/warm/hot_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace warmroot::warm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kDevice = 64 * kGridBytes;

HotRange in_block(Block block, const std::string& path = {}, std::uint32_t per_mille = 1000) {
  return {{block * kGridBytes + 4096, 8192}, path, path.empty() ? 0u : 4096u, per_mille};
}

HotList list_of(std::vector<HotRange> ranges, std::uint32_t recordings = 1) {
  return {"snap-1", "python", kDevice, recordings, std::move(ranges)};
}

std::vector<Block> merged(const std::vector<HotList>& lists) {
  return hot_blocks(merge_hot_lists(lists), grid_blocks(kDevice));
}

/// The list's text after a change of one line, with a checksum that fits again.
std::string changed(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  return text;
}

std::string refusal(std::string_view text) {
  const auto list = decode_hot_list(text);
  return list ? "taken" : list.error().message();
}

TEST(HotList, what_is_written_is_read_back_whatever_the_names_hold) {
  auto list =
      list_of({in_block(3, "/usr/bin/a b%\n\x01\xff"), in_block(1), in_block(3, "/b", 70)}, 4);
  list.workload = "my jobs";
  const auto back = decode_hot_list(encode_hot_list(list));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, list);
  list.lineage = list.workload = "";
  list.ranges.clear();
  const auto none = decode_hot_list(encode_hot_list(list));
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_EQ(*none, list);
}

/// A version 2 was written by a new manager, which the bootstraps that it keeps for older nodes
/// could not read.
TEST(HotList, is_written_as_the_bootstraps_of_before_read_it) {
  const std::string text =
      "warmroot-hot-list 1\ngrid 524288\nlineage snap-1\nworkload my%20jobs\ndevice 33554432\n"
      "recordings 4\nranges 3\n1576960 8192 1000 4096 /usr/bin/a%20b\n528384 8192 1000\n"
      "1576960 8192 70 4096 /b\nchecksum 7677228454485410720\n";
  auto list = list_of({in_block(3, "/usr/bin/a b"), in_block(1), in_block(3, "/b", 70)}, 4);
  list.workload = "my jobs";
  EXPECT_EQ(encode_hot_list(list), text);
  const auto back = decode_hot_list(text);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, list);
}

TEST(HotList, every_cut_and_every_flipped_byte_is_noticed) {
  const auto text = encode_hot_list(list_of({in_block(3, "/usr/bin/env"), in_block(1)}));
  for (std::size_t length = 0; length < text.size() - 1; ++length)
    EXPECT_FALSE(decode_hot_list(text.substr(0, length))) << length;
  for (std::size_t at = 0; at < text.size() - 1; ++at) {
    auto damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(decode_hot_list(damaged)) << at;
  }
}

TEST(HotList, what_does_not_fit_is_refused_in_one_sentence) {
  const auto text = encode_hot_list(list_of({in_block(3, "/usr/bin/env")}));
  EXPECT_THAT(refusal(""), HasSubstr("is no hot list"));
  EXPECT_THAT(refusal("GIF89a"), HasSubstr("is no hot list"));
  EXPECT_THAT(refusal(std::string(kMostListBytes + 1, 'x')), HasSubstr("longer than"));
  EXPECT_THAT(refusal(changed(text, "hot-list 1", "hot-list 2")), HasSubstr("version 2, not 1"));
  EXPECT_THAT(refusal(changed(text, "grid 524288", "grid 4096")), HasSubstr("another block size"));
  EXPECT_THAT(refusal(changed(text, "ranges 1", "ranges 99999999")), HasSubstr("more than"));
  EXPECT_THAT(refusal(changed(text, "recordings 1", "recordings 0")), HasSubstr("more than"));
  EXPECT_THAT(refusal(changed(text, "1576960 8192", "33554432 8192")), HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "1576960 8192", "1576960 18446744073709551615")),
              HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "1576960 8192", "2093056 8192")), HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "/usr/bin/env", "usr/bin/env")), HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "/usr/bin/env", "/usr/bin/%00")), HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "/usr/bin/env", "/usr/bin/en%7")), HasSubstr("line 8"));
  EXPECT_THAT(refusal(changed(text, "/usr/bin/env", "/usr/bin/exa")), HasSubstr("checksum"));
  EXPECT_THAT(refusal(text + "more"), HasSubstr("goes on behind its end"));
}

TEST(HotList, blocks_come_once_each_in_first_use_order_and_only_those_of_the_device) {
  const auto list = list_of({in_block(9, "/a"), in_block(2), in_block(9, "/b"), in_block(60)});
  EXPECT_THAT(hot_blocks(list, 64), ElementsAre(9, 2, 60));
  EXPECT_THAT(hot_blocks(list, 10), ElementsAre(9, 2));
  EXPECT_THAT(hot_blocks(list, 0), ElementsAre());
}

TEST(HotList, what_most_sessions_read_comes_first_and_the_rest_in_the_order_of_first_use) {
  const auto python = list_of({in_block(1), in_block(10), in_block(2), in_block(11)});
  const auto perl = list_of({in_block(1), in_block(20), in_block(2), in_block(21)});
  const auto shell = list_of({in_block(1), in_block(2)});
  EXPECT_THAT(merged({python, perl, shell}), ElementsAre(1, 2, 10, 20, 11, 21));
}

TEST(HotList, one_list_alone_keeps_its_order) {
  EXPECT_THAT(merged({list_of({in_block(7), in_block(3), in_block(5)})}), ElementsAre(7, 3, 5));
  EXPECT_THAT(merged({}), ElementsAre());
}

TEST(HotList, recordings_weigh_as_many_as_were_merged) {
  const auto old = list_of({in_block(1), in_block(2)}, 3);
  const auto both = merge_hot_lists(std::vector{old, list_of({in_block(1), in_block(3)})});
  EXPECT_EQ(both.recordings, 4u);
  ASSERT_EQ(both.ranges.size(), 3u);
  EXPECT_EQ(both.ranges[0].per_mille, 1000u);
  EXPECT_EQ(both.ranges[1].per_mille, 750u);
  EXPECT_EQ(both.ranges[2].per_mille, 250u);
}

/// Of a volume that has a recording among the lists, so that it has one voice still.
TEST(HotList, what_is_merged_beside_the_lists_adds_to_them_and_changes_nothing_that_they_hold) {
  const std::vector lists{list_of({in_block(1), in_block(2)}), list_of({in_block(1), in_block(3)})};
  const auto both = merge_hot_lists(lists, std::vector{list_of({in_block(9), in_block(2)})});
  EXPECT_EQ(both.recordings, 2u);
  std::map<Block, std::uint32_t> shares;
  for (const HotRange& range : both.ranges)
    shares[static_cast<Block>(range.device.offset / kGridBytes)] = range.per_mille;
  EXPECT_EQ(shares, (std::map<Block, std::uint32_t>{{1, 1000}, {2, 500}, {3, 500}, {9, 500}}));
  EXPECT_THAT(hot_blocks(both, grid_blocks(kDevice)), ElementsAre(1, 2, 3, 9));
  const auto two = merge_hot_lists(
      lists, std::vector{list_of({in_block(9)}), list_of({in_block(8), in_block(9)})});
  EXPECT_THAT(hot_blocks(two, grid_blocks(kDevice)), ElementsAre(1, 2, 3, 8, 9));
  EXPECT_EQ(two.ranges.back().per_mille, 1000u) << "two volumes have read it";
  EXPECT_TRUE(merge_hot_lists({}, lists).ranges.empty()) << "beside nothing there is nothing";
}

/// A volume that said the same in both had twice the share of any other, and with as many ranges as
/// a list may hold the only places.
TEST(HotList, what_is_merged_beside_a_full_list_pushes_nothing_out) {
  HotList full{"snap-1", "", std::uint64_t{1} << 40, 1, {}};
  for (std::size_t i = 0; i < kMostRanges; ++i)
    full.ranges.push_back({{i * kGridBytes, 4096}, "", 0, 1000});
  HotList other = full;
  for (HotRange& range : other.ranges) range.device.offset += kMostRanges * kGridBytes;
  const std::vector counted{full, list_of({in_block(1)}), list_of({in_block(1)})};
  const auto alone = merge_hot_lists(counted);
  EXPECT_EQ(merge_hot_lists(counted, std::vector{full, other}), alone);
}

/// As any recordings of that many would: nobody alone can.
TEST(HotList, what_half_say_beside_a_full_list_comes_before_what_fewer_have_read) {
  HotList full{"snap-1", "", std::uint64_t{1} << 40, 1, {}};
  for (std::size_t i = 0; i < kMostRanges; ++i)
    full.ranges.push_back({{i * kGridBytes, 4096}, "", 0, 1000});
  HotList other = full;
  for (HotRange& range : other.ranges) range.device.offset += kMostRanges * kGridBytes;
  const std::vector counted{full, list_of({in_block(1)}), list_of({in_block(1)})};
  const auto both = merge_hot_lists(counted, std::vector{other, other});
  ASSERT_EQ(both.ranges.size(), kMostRanges);
  EXPECT_EQ(both.ranges.front(), merge_hot_lists(counted).ranges.front()) << "all have read it";
  EXPECT_EQ(both.ranges.back().per_mille, 666u);
}

TEST(HotList, what_is_not_read_any_more_leaves_the_list_with_time) {
  HotList list = list_of({in_block(1), in_block(2)});
  int sessions = 0;
  while (list.ranges.size() == 2 && sessions < 200) {
    list = merge_hot_lists(std::vector{list, list_of({in_block(1)})});
    ++sessions;
  }
  EXPECT_EQ(list.recordings, kMostRecordings);
  EXPECT_THAT(hot_blocks(list, 64), ElementsAre(1));
  EXPECT_GT(sessions, 16);  // rare ones are not forgotten at once
}

TEST(HotList, ranges_of_one_file_in_one_block_grow_together) {
  const HotRange front{{kGridBytes + 8192, 4096}, "/lib/c.so", 65536, 1000};
  const HotRange back{{kGridBytes + 65536, 4096}, "/lib/c.so", 122880, 1000};
  for (const auto& lists : {std::vector{list_of({front}), list_of({back})},
                            std::vector{list_of({back}), list_of({front})}}) {
    const auto both = merge_hot_lists(lists);
    ASSERT_EQ(both.ranges.size(), 1u);
    EXPECT_EQ(both.ranges[0].device, (ByteRange{kGridBytes + 8192, 61440}));
    EXPECT_EQ(both.ranges[0].file_offset, 65536u);
  }
}

TEST(HotList, a_list_that_says_a_range_twice_counts_it_once_and_is_read_again_when_merged) {
  const auto twice = list_of({in_block(1, "/a"), in_block(2), in_block(1, "/a")});
  const auto both = merge_hot_lists(std::vector{twice, twice});
  EXPECT_EQ(both.ranges.size(), 2u);
  EXPECT_EQ(both.ranges[0].per_mille, 1000u);
  const auto back = decode_hot_list(encode_hot_list(both));
  EXPECT_TRUE(back) << back.error().message();
}

TEST(HotList, a_list_ends_at_its_bound) {
  std::vector<HotList> lists(2, HotList{"snap-1", "", std::uint64_t{1} << 40, 1, {}});
  for (std::size_t i = 0; i < kMostRanges; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      lists[j].ranges.push_back({{(2 * i + j) * kGridBytes, 4096}, "", 0, 1000});
  const auto both = merge_hot_lists(lists);
  EXPECT_EQ(both.ranges.size(), kMostRanges);
  EXPECT_TRUE(decode_hot_list(encode_hot_list(both)));
}

TEST(HotFiles, are_the_named_ranges_in_their_order_and_no_patterns) {
  HotList list{"snap-1", "", kDevice, 1, {}};
  list.ranges = {{{0, 4096}, "", 0, 1000},
                 {{kGridBytes, 8192}, "/usr/bin/python3", 4096, 1000},
                 {{2 * kGridBytes, 4096}, "/odd/*", 0, 1000},
                 {{3 * kGridBytes, 512}, "/etc/passwd", 0, 1000}};
  EXPECT_THAT(hot_files(list), testing::ElementsAre(WantedFile{"/usr/bin/python3", 4096, 8192},
                                                    WantedFile{"/etc/passwd", 0, 512}));
}

}  // namespace
}  // namespace warmroot::warm
