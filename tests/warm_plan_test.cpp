// The order of reads, and the verdict on how much of a block has to be read.
#include "bootstrap/warm/warm_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bootstrap/warm/touch_probe.hpp"

namespace warmroot::warm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

BlockSet set_of(Block size, std::initializer_list<Block> blocks) {
  BlockSet set(size);
  for (const Block block : blocks) set.insert(block);
  return set;
}

ByteRange blocks_at(std::uint64_t first, std::uint64_t count) {
  return {first * kGridBytes, count * kGridBytes};
}

TEST(WarmPlan, reads_hot_then_metadata_then_the_rest_ascending_then_unused_tables) {
  const BlockSet needed = set_of(100, {0, 1, 5, 9, 20, 21, 22, 40, 41, 42, 99});
  const BlockSet present = set_of(100, {1, 22});
  const Block hot[] = {99, 22, 9, 99};
  const ByteRange metadata[] = {blocks_at(20, 3), blocks_at(5, 1), blocks_at(9, 1)};
  const ByteRange last[] = {blocks_at(40, 2)};
  EXPECT_THAT(plan_reads({&needed, &present, hot, metadata, last}),
              ElementsAre(99, 9, 20, 21, 5, 0, 42, 40, 41));
}

TEST(WarmPlan, metadata_that_is_not_needed_is_not_read) {
  const BlockSet needed = set_of(10, {2});
  const BlockSet present(10);
  const ByteRange metadata[] = {blocks_at(0, 10), blocks_at(8, 100), {0, 0}};
  EXPECT_THAT(plan_reads({&needed, &present, {}, metadata, {}}), ElementsAre(2));
}

TEST(WarmPlan, hot_blocks_are_read_once_even_where_not_needed_and_never_beyond_the_device) {
  const BlockSet needed = set_of(10, {2});
  const BlockSet present(10);
  const Block hot[] = {7, 2, 7, 10, 4'000'000'000U};
  EXPECT_THAT(plan_reads({&needed, &present, hot, {}, {}}), ElementsAre(7, 2));
}

TEST(WarmPlan, a_block_that_also_holds_something_else_does_not_come_last) {
  const BlockSet needed = set_of(10, {3, 4, 5});
  const BlockSet present(10);
  const ByteRange last[] = {{3 * kGridBytes + 1, 2 * kGridBytes}};  // 4 wholly; 3 and 5 in part
  EXPECT_THAT(plan_reads({&needed, &present, {}, {}, last}), ElementsAre(3, 5, 4));
}

TEST(WarmPlan, what_nobody_uses_comes_last_of_all_but_for_what_is_hot) {
  const BlockSet needed = set_of(100, {0, 1, 5, 9, 20, 40, 99});
  const BlockSet used = set_of(100, {5, 20, 40, 99, 60});
  const BlockSet present(100);
  const Block hot[] = {9};
  const ByteRange metadata[] = {blocks_at(20, 1), blocks_at(0, 1)};
  const ByteRange last[] = {blocks_at(40, 2)};
  EXPECT_THAT(plan_reads({&needed, &present, hot, metadata, last, &used}),
              ElementsAre(9, 20, 5, 99, 40, 0, 1));
}

TEST(WarmPlan, nothing_is_left_when_all_is_present) {
  const BlockSet needed = set_of(10, {3, 4});
  EXPECT_THAT(plan_reads({&needed, &needed, {}, {}, {}}), IsEmpty());
}

TEST(BlockSet, ranges_touch_every_block_they_share_a_byte_with) {
  struct {
    ByteRange range;
    std::vector<Block> blocks;
  } const cases[] = {
      {{0, 0}, {}},
      {{0, 1}, {0}},
      {{kGridBytes - 1, 2}, {0, 1}},
      {{kGridBytes, kGridBytes}, {1}},
      {{8 * kGridBytes, UINT64_MAX}, {8, 9}},
      {{UINT64_MAX - 5, UINT64_MAX}, {}},
  };
  for (const auto& c : cases) {
    BlockSet set(10);
    EXPECT_EQ(set.contains_range(c.range), c.blocks.empty());
    set.insert_range(c.range);
    EXPECT_TRUE(set.contains_range(c.range));
    for (const Block block : c.blocks) {
      BlockSet lacking = set;
      lacking.erase(block);
      EXPECT_FALSE(lacking.contains_range(c.range)) << block;
    }
    EXPECT_EQ(set.members(), c.blocks) << c.range.offset << "+" << c.range.length;
    EXPECT_EQ(set.count(), c.blocks.size());
  }
}

using std::chrono::microseconds;
constexpr microseconds kCold{36'000};
constexpr microseconds kWarm{900};

TEST(TouchProbe, believes_in_touches_while_second_reads_are_fast) {
  TouchProbe probe;
  for (int i = 0; i < 1000; ++i) {
    // One in a hundred stalls, which is ten times what EBS does.
    if (i % 100 == 50)
      probe.tried(kCold, kCold, kWarm);
    else
      probe.tried(kCold, kWarm, std::nullopt);
  }
  EXPECT_FALSE(probe.read_whole());
}

TEST(TouchProbe, reads_whole_blocks_once_the_other_half_was_cold_four_times_among_sixteen) {
  TouchProbe probe;
  for (int i = 0; i < 3; ++i) probe.tried(kCold, microseconds(9'000), kWarm);
  for (int i = 0; i < 12; ++i) probe.tried(kCold, kWarm, std::nullopt);
  EXPECT_FALSE(probe.read_whole());
  probe.tried(kCold, kCold, kWarm);
  EXPECT_TRUE(probe.read_whole());
}

TEST(TouchProbe, a_queue_that_slows_every_read_proves_nothing) {
  TouchProbe probe;
  for (int i = 0; i < 100; ++i) probe.tried(kCold, kCold, kCold);
  EXPECT_FALSE(probe.read_whole());
}

TEST(TouchProbe, tries_cold_blocks_only_densely_at_first_and_seldom_later) {
  TouchProbe probe;
  int tries = 0;
  for (int i = 0; i < 100; ++i) tries += probe.wants(kWarm) ? 1 : 0;
  EXPECT_EQ(tries, 0);
  for (int i = 0; i < 4; ++i) tries += probe.wants(kCold) ? 1 : 0;
  EXPECT_EQ(tries, 4);
  for (int i = 0; i < 80; ++i) tries += probe.wants(kCold) ? 1 : 0;
  EXPECT_EQ(tries, 24);
  for (int i = 0; i < 640; ++i) tries += probe.wants(kCold) ? 1 : 0;
  EXPECT_EQ(tries, 34);
}

}  // namespace
}  // namespace warmroot::warm
