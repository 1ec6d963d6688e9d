// Whose word a block's presence rests on.
#include "bootstrap/warm/presence.hpp"

#include <gmock/gmock.h>

namespace warmroot::warm {
namespace {

BlockSet blocks(std::initializer_list<Block> members) {
  BlockSet set(8);
  for (const Block block : members) set.insert(block);
  return set;
}

TEST(Presence, a_map_claims_what_this_run_has_not_read) {
  Presence presence(8);
  EXPECT_TRUE(presence.insert_read(1));
  presence.claim(blocks({1, 2}));
  EXPECT_EQ(presence.claimed(), blocks({2}));
  EXPECT_FALSE(presence.insert_read(2));
  EXPECT_EQ(presence.read(), blocks({1}));
}

TEST(Presence, a_disbelieved_map_leaves_what_was_read_and_what_its_samples_brought) {
  Presence presence(8);
  presence.leave_out(blocks({7}));
  presence.insert_read(1);
  presence.claim(blocks({2, 3}));
  presence.disbelieve(std::vector<Block>{3});
  EXPECT_EQ(presence.present(), blocks({1, 3, 7}));
  EXPECT_EQ(presence.claimed(), blocks({}));
}

TEST(Presence, what_was_never_read_is_not_taken_back) {
  Presence presence(8);
  presence.leave_out(blocks({7}));
  presence.claim(blocks({2}));
  presence.insert_read(1);
  EXPECT_FALSE(presence.erase_read(7)) << "not in the snapshot: it would be read for nothing";
  EXPECT_FALSE(presence.erase_read(2));
  EXPECT_TRUE(presence.erase_read(1));
  EXPECT_FALSE(presence.erase_read(1)) << "it would be counted twice";
  EXPECT_EQ(presence.present(), blocks({2, 7}));
}

/// It was read before the snapshot's list came, and would have been read whole for nothing.
TEST(Presence, what_the_snapshot_does_not_hold_stays_present_where_a_touch_brings_less) {
  Presence presence(8);
  presence.insert_read(1);
  presence.insert_read(7);
  presence.leave_out(blocks({7}));
  EXPECT_TRUE(presence.erase_read(1));
  EXPECT_TRUE(presence.erase_read(7));
  EXPECT_EQ(presence.present(), blocks({7}));
  EXPECT_EQ(presence.read(), blocks({}));
}

}  // namespace
}  // namespace warmroot::warm
