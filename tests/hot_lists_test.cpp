// The manager's hot lists: who teaches a lineage, how often, and what is kept.
#include "manager/hot_lists.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/recorded_list.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;
using Shares = std::map<warm::Block, std::uint32_t>;

constexpr std::chrono::milliseconds kNoPause{0};
constexpr const char* kLineage = "snap-0imagenet00000001";

class HotListsTest : public testing::Test {
 protected:
  static Teacher on(const std::string& volume_id) {
    return {"imagenet", kLineage, volume_id, "i-of-" + volume_id};
  }
  /// What others get: of each block, how many of a thousand recordings read it.
  static Shares shares(HotLists& lists) {
    Shares shares;
    if (const auto list = warm::decode_hot_list(lists.of(kLineage).value_or("")))
      for (const warm::HotRange& range : list->ranges)
        shares[static_cast<warm::Block>(range.device.offset / warm::kGridBytes)] = range.per_mille;
    return shares;
  }
  static std::uint32_t recordings(HotLists& lists) {
    const auto list = warm::decode_hot_list(lists.of(kLineage).value_or(""));
    return list ? list->recordings : 0;
  }
  /// How many more volumes teach until others do not hear of the block any more.
  static int recordings_until_gone(HotLists& lists, warm::Block block, const std::string& names) {
    int more = 0;
    for (; shares(lists).contains(block) && more < 100; ++more)
      EXPECT_TRUE(lists.add(on(names + std::to_string(more)), recording({1})));
    return more;
  }

  const TemporaryDirectory folder_;
};

TEST_F(HotListsTest, what_a_node_has_recorded_so_far_teaches_others_and_counts_once) {
  HotLists lists(folder_.path() + "/so-far");
  const std::string lineage = "snap-0imagenet00000001";
  const auto blocks = [&] {
    const auto list = warm::decode_hot_list(lists.of(lineage).value_or(""));
    return list ? warm::hot_blocks(*list, 64) : std::vector<warm::Block>();
  };
  const Teacher first{"imagenet", lineage, "vol-1", "i-1"};
  const Teacher second{"imagenet", lineage, "vol-2", "i-2"};
  ASSERT_TRUE(lists.add_so_far(first, recording({7})));
  EXPECT_THAT(blocks(), ElementsAre(7));
  ASSERT_TRUE(lists.add_so_far(first, recording({7, 3})));
  EXPECT_THAT(blocks(), ElementsAre(7, 3));
  EXPECT_FALSE(HotLists(folder_.path() + "/so-far").of(lineage)) << "not kept: it may be half";
  ASSERT_TRUE(lists.add(first, recording({7, 3, 9})));
  ASSERT_TRUE(lists.add_so_far(second, recording({7, 11})));
  EXPECT_THAT(blocks(), ElementsAre(7, 3, 11, 9));
  EXPECT_EQ(warm::decode_hot_list(*lists.of(lineage))->recordings, 2u);
  EXPECT_FALSE(lists.of("snap-0imagenet00000002")) << "another lineage's";
  EXPECT_FALSE(lists.add_so_far(second, "GIF89a"));
  for (int i = 0; i < 64; ++i)
    ASSERT_TRUE(lists.add_so_far({"imagenet", lineage, "", "i-gone-" + std::to_string(i)},
                                 recording({13})));
  EXPECT_THAT(blocks(), testing::Not(testing::Contains(11U))) << "of those heard last";
  EXPECT_THAT(blocks(), testing::Contains(13U));
}

/// Root on one node could make every other node read what it likes, and push out what they taught.
TEST_F(HotListsTest, a_volume_teaches_its_lineage_once) {
  const std::string directory = folder_.path() + "/once";
  HotLists lists(directory);
  const std::string lineage = "snap-0imagenet00000001";
  const Teacher honest{"imagenet", lineage, "vol-1", "i-1"};
  ASSERT_TRUE(lists.add(honest, recording({1, 2})));
  for (int i = 0; i < 60; ++i)
    ASSERT_TRUE(lists.add({"imagenet", lineage, "vol-2", "i-2"}, recording({40, 41})));
  const auto list = warm::decode_hot_list(lists.of(lineage).value_or(""));
  ASSERT_TRUE(list);
  EXPECT_EQ(list->recordings, 2u);
  EXPECT_THAT(warm::hot_blocks(*list, 64), testing::UnorderedElementsAre(1, 2, 40, 41));
  const auto before = lists.of(lineage);
  ASSERT_TRUE(lists.add_so_far(honest, recording({50})));
  EXPECT_EQ(lists.of(lineage), before) << "of a later lease, or late";
  HotLists begun_again(directory);
  ASSERT_TRUE(begun_again.add(honest, recording({9})));
  EXPECT_EQ(begun_again.of(lineage), lists.of(lineage)) << "as after an answer that was lost";
}

/// As above, for whom `record` asks on a node.
TEST_F(HotListsTest, what_is_asked_for_on_a_volume_is_a_part_of_its_one_recording) {
  const std::string directory = folder_.path() + "/asked";
  HotLists lists(directory, kNoPause);
  ASSERT_TRUE(lists.add(on("vol-1"), recording({1, 2})));
  ASSERT_TRUE(lists.add(on("vol-2"), recording({1, 3})));
  for (warm::Block block = 20; block < 60; ++block)
    ASSERT_TRUE(lists.add_asked(on("vol-2"), recording({block})));
  EXPECT_EQ(shares(lists), (Shares{{1, 1000}, {2, 500}, {3, 500}, {59, 500}}))
      << "the last alone, and nobody else's share is less";
  EXPECT_EQ(recordings(lists), 2u);
  ASSERT_TRUE(lists.add_asked(on("vol-1"), recording({59})));
  EXPECT_EQ(shares(lists)[59], 1000u) << "both have read it";
  HotLists begun_again(directory);
  EXPECT_EQ(shares(begun_again), shares(lists));
  EXPECT_EQ(begun_again.of_pool("imagenet", "snap-0imagenet00000002"), lists.of(kLineage));
}

TEST_F(HotListsTest, what_is_asked_for_stands_for_a_volume_that_has_not_taught_until_it_has) {
  HotLists lists(folder_.path() + "/untaught", kNoPause);
  ASSERT_TRUE(lists.add_asked(on("vol-2"), recording({5})));
  EXPECT_EQ(shares(lists), (Shares{{5, 1000}})) << "nobody has taught";
  EXPECT_TRUE(lists.of_pool("imagenet", "snap-0imagenet00000002"));
  ASSERT_TRUE(lists.add(on("vol-1"), recording({1})));
  EXPECT_EQ(recordings(lists), 2u);
  EXPECT_EQ(shares(lists), (Shares{{1, 500}, {5, 500}}));
  ASSERT_TRUE(lists.add_so_far(on("vol-2"), recording({6})));
  EXPECT_EQ(shares(lists), (Shares{{1, 500}, {5, 500}, {6, 500}})) << "one voice";
  ASSERT_TRUE(lists.add(on("vol-2"), recording({6})));
  EXPECT_EQ(recordings(lists), 2u);
  EXPECT_EQ(shares(lists), (Shares{{1, 500}, {5, 500}, {6, 500}}));
}

TEST_F(HotListsTest, what_is_asked_for_survives_that_the_list_beside_it_is_lost) {
  const std::string directory = folder_.path() + "/lost";
  HotLists lists(directory, kNoPause);
  ASSERT_TRUE(lists.add(on("vol-1"), recording({1})));
  ASSERT_TRUE(lists.add_asked(on("vol-1"), recording({5})));
  ASSERT_TRUE(std::filesystem::remove(directory + "/" + kLineage + ".list"));
  HotLists begun_again(directory);
  EXPECT_EQ(shares(begun_again), (Shares{{5, 1000}}));
  const std::string path = directory + "/" + kLineage + ".asked";
  std::ostringstream kept;
  kept << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string whole = kept.str();
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), whole.substr(0, whole.find('\n')),
        "warmroot-asked-lists-1 99999999999\n" + whole, "more " + whole, whole + "more"}) {
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_FALSE(HotLists(directory).of(kLineage)) << damaged;
  }
  std::ofstream(path, std::ios::binary) << whole;
  EXPECT_TRUE(HotLists(directory).of(kLineage)) << "else this test shows nothing";
}

/// Eight lists were kept as they had come, which may be 16 MiB a lineage.
TEST_F(HotListsTest, what_eight_volumes_ask_for_is_together_no_longer_than_one_list) {
  constexpr std::uint64_t kRanges = 8000, kCommon = 4000;
  const std::string directory = folder_.path() + "/long";
  const std::string name = "/" + std::string(200, 'n');
  HotLists lists(directory, kNoPause);
  const auto block_of = [](std::uint64_t volume, std::uint64_t number) {
    return 1 + volume * kRanges + number;
  };
  for (std::uint64_t volume = 0; volume < 8; ++volume) {
    warm::HotList list{"", "", std::uint64_t{1} << 40, 1, {}};
    for (std::uint64_t i = 0; i < kRanges; ++i)
      list.ranges.push_back(
          {{(i == kCommon ? 0 : block_of(volume, i)) * warm::kGridBytes, 4096}, name, 0, 1000});
    ASSERT_TRUE(lists.add_asked(on("vol-" + std::to_string(volume)), warm::encode_hot_list(list)));
  }
  const auto bytes = std::filesystem::file_size(directory + "/" + kLineage + ".asked");
  EXPECT_GT(bytes, warm::kMostListBytes * 9 / 10) << "else this test shows nothing";
  EXPECT_LE(bytes, AskedLists::kMostTextBytes);
  const Shares got = shares(lists);
  EXPECT_TRUE(got.contains(0) && got.at(0) == 1000) << "all volumes asked for it";
  for (std::uint64_t volume = 0; volume < 8; ++volume) {
    const auto share_of = [&](std::uint64_t number) -> std::uint32_t {
      const auto share = got.find(static_cast<warm::Block>(block_of(volume, number)));
      return share == got.end() ? 0 : share->second;
    };
    EXPECT_EQ(share_of(0), 125u) << volume;
    EXPECT_EQ(share_of(500), 125u) << volume << ": each keeps its part";
    EXPECT_EQ(share_of(kRanges - 1), 0u) << volume << ": what is used last";
  }
}

/// It was read before all that a volume needs, for as long as the lineage was used.
TEST_F(HotListsTest, what_was_asked_for_once_leaves_the_list_as_what_one_volume_taught_does) {
  HotLists taught(folder_.path() + "/taught-once", kNoPause);
  HotLists asked(folder_.path() + "/asked-once", kNoPause);
  ASSERT_TRUE(taught.add(on("vol-a"), recording({1, 5})));
  ASSERT_TRUE(asked.add(on("vol-a"), recording({1})));
  ASSERT_TRUE(asked.add_asked(on("vol-a"), recording({5})));
  const int of_taught = recordings_until_gone(taught, 5, "vol-");
  EXPECT_GT(of_taught, 16);
  EXPECT_NEAR(recordings_until_gone(asked, 5, "vol-"), of_taught, 4) << "shares are rounded down";
  EXPECT_EQ(shares(asked), (Shares{{1, 1000}}));
}

TEST_F(HotListsTest, what_is_asked_for_again_weighs_as_at_first) {
  const std::string directory = folder_.path() + "/asked-again";
  HotLists lists(directory, kNoPause);
  for (int i = 0; i < 16; ++i)
    ASSERT_TRUE(lists.add(on("vol-first-" + std::to_string(i)), recording({1})));
  ASSERT_TRUE(lists.add_asked(on("vol-first-0"), recording({5})));
  ASSERT_TRUE(lists.add_asked(on("vol-first-1"), recording({6})));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(lists.add(on("vol-first-2"), recording({1})));
  EXPECT_EQ(shares(lists), (Shares{{1, 1000}, {5, 62}, {6, 62}}))
      << "a volume that has taught makes nothing fade";
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(lists.add(on("vol-then-" + std::to_string(i)), recording({1})));
  EXPECT_EQ(shares(lists), (Shares{{1, 1000}, {5, 30}, {6, 30}}));
  ASSERT_TRUE(lists.add_asked(on("vol-first-0"), recording({5})));
  ASSERT_TRUE(lists.add(on("vol-then-12"), recording({1})));
  HotLists begun_again(directory, kNoPause);
  EXPECT_EQ(shares(begun_again), (Shares{{1, 1000}, {5, 58}}));
  EXPECT_EQ(recordings_until_gone(begun_again, 5, "vol-at-last-"), 12);
}

TEST_F(HotListsTest, of_what_is_asked_for_eight_volumes_count_and_of_each_one_in_ten_seconds) {
  HotLists lists(folder_.path() + "/bounded");
  for (warm::Block volume = 1; volume <= 10; ++volume)
    ASSERT_TRUE(lists.add_asked(on("vol-" + std::to_string(volume)), recording({volume})));
  Shares expected;
  for (warm::Block volume = 3; volume <= 10; ++volume) expected[volume] = 125;
  EXPECT_EQ(shares(lists), expected) << "the latest";
  const auto is_to_wait = [&](const char* volume) {
    const Ok again = lists.add_asked(on(volume), recording({20}));
    return !again && again.error().kind == ErrorKind::retry_later;
  };
  EXPECT_TRUE(is_to_wait("vol-10"));
  expected.clear();
  for (warm::Block volume = 11; volume <= 16; ++volume)
    ASSERT_TRUE(lists.add_asked(on("vol-" + std::to_string(volume)), recording({volume})));
  for (warm::Block volume = 9; volume <= 16; ++volume) expected[volume] = 125;
  EXPECT_TRUE(is_to_wait("vol-17")) << "sixteen within the pause are enough";
  for (const Ok& refused :
       {lists.add_asked(on("vol-11"), "GIF89a"), lists.add_asked(on("../vol 11"), recording({1})),
        lists.add_asked({"imagenet", "../snap", "vol-11", "i-1"}, recording({1}))}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::refused) << refused.error().message();
  }
  EXPECT_EQ(shares(lists), expected);
}

TEST_F(HotListsTest, lists_of_lineages_in_use_are_not_forgotten_however_many_there_are) {
  const std::string directory = folder_.path() + "/many";
  HotLists lists(directory);
  const auto lineage = [](int i) { return "snap-0" + std::to_string(100000 + i); };
  std::set<std::string> in_use;
  for (int i = 0; i < 70; ++i) in_use.insert(lineage(i));
  lists.keep(in_use);
  for (int i = 0; i < 140; ++i)
    ASSERT_TRUE(
        lists.add({"imagenet", lineage(i), "vol-" + std::to_string(i), "i-1"}, recording({1})));
  for (int i = 0; i < 70; ++i) EXPECT_TRUE(lists.of(lineage(i))) << i;
  const auto files = [&](const char* suffix) {
    return std::ranges::count_if(
        std::filesystem::directory_iterator(directory),
        [&](const auto& file) { return file.path().extension() == suffix; });
  };
  EXPECT_EQ(files(".list"), 70 + 64) << "of the others, 64";
  EXPECT_EQ(files(".taught"), 70 + 64);
}

}  // namespace
}  // namespace warmroot::manager
