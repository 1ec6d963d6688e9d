// The manager's hot lists: who teaches a lineage, how often, and what is kept.
#include "manager/hot_lists.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/recorded_list.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;

class HotListsTest : public testing::Test {
 protected:
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
