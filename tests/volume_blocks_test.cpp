// Whose block list it is: only the volume's own snapshot's is used, and nothing else does harm.
#include "bootstrap/volume_blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bootstrap/documents.hpp"

namespace warmroot::bootstrap {
namespace {

using warm::kGridBytes;

constexpr const char* kVolume = "vol-0123456789abcdef0";
constexpr const char* kSnapshot = "snap-0123456789abcdef0";
constexpr std::uint64_t kBytes = 100 * kGridBytes;

std::string packed(const std::string& snapshot = kSnapshot, std::uint64_t bytes = kBytes,
                   std::uint64_t blocks = 10) {
  warm::BlockList list{snapshot, bytes, warm::BlockSet(warm::grid_blocks(bytes))};
  list.blocks.insert_range({0, blocks * kGridBytes});
  return warm::encode_block_list(list).value();
}

TEST(VolumeBlocks, are_those_of_the_list_once_it_is_known_what_the_volume_was_made_from) {
  VolumeBlocks blocks;
  EXPECT_FALSE(blocks.on_device(kVolume, kBytes, 0));
  blocks.take(packed());
  EXPECT_TRUE(blocks.has_list());
  EXPECT_FALSE(blocks.on_device(kVolume, kBytes, 0)) << "of which snapshot, nobody has said";
  blocks.made_from("vol-other", kSnapshot);
  EXPECT_FALSE(blocks.on_device(kVolume, kBytes, 0)) << "that is another volume's";
  blocks.made_from(kVolume, kSnapshot);
  const auto known = blocks.on_device(kVolume, 2 * kBytes, 0);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->size(), 200U);
  EXPECT_EQ(known->count(), 10U);
}

TEST(VolumeBlocks, a_list_of_another_snapshot_too_large_or_without_the_root_is_forgotten) {
  const struct {
    std::string list;
    std::uint64_t root_offset;
  } cases[] = {{packed("snap-0fedcba9876543210"), 0},
               {packed(kSnapshot, 2 * kBytes), 0},
               {packed(), 50 * kGridBytes}};
  for (const auto& each : cases) {
    VolumeBlocks blocks;
    blocks.made_from(kVolume, kSnapshot);
    blocks.take(each.list);
    EXPECT_TRUE(blocks.has_list());
    EXPECT_FALSE(blocks.on_device(kVolume, kBytes, each.root_offset));
    EXPECT_FALSE(blocks.has_list()) << "told once";
    blocks.take(packed());
    EXPECT_TRUE(blocks.on_device(kVolume, kBytes, 0));
  }
}

TEST(VolumeBlocks, what_is_no_list_is_not_taken) {
  VolumeBlocks blocks;
  blocks.made_from(kVolume, kSnapshot);
  std::string damaged = packed();
  damaged.back() ^= 1;
  for (const std::string& text : {std::string(), std::string("{\"error\":\"x\"}"), damaged}) {
    blocks.take(text);
    EXPECT_FALSE(blocks.has_list());
  }
}

TEST(VolumeBlocks, the_managers_answer_says_what_the_volume_was_made_from) {
  const Wishes wishes = parse_wishes(
      R"({"wishes":{"drain":false,"volume_id":"vol-1","snapshot_id":"snap-1","no_volume":null}})");
  EXPECT_EQ(wishes.snapshot_id, "snap-1");
  EXPECT_EQ(parse_wishes(R"({"wishes":{"volume_id":"vol-1"}})").snapshot_id, std::nullopt)
      << "an older manager";
}

TEST(VolumeBlocks, status_says_where_the_needed_set_is_from) {
  for (const auto& [source, words] :
       {std::pair("snapshot", "needed set    the snapshot's block list"),
        std::pair("fsmap", "needed set    what the file system does not call free"),
        std::pair("whole", "needed set    the whole partition")}) {
    Status status;
    status.warm.state = warm::WarmState::running;
    status.warm.needed_source = source;
    const auto text = status_text(status_document(status));
    ASSERT_TRUE(text);
    EXPECT_THAT(*text, testing::HasSubstr(words));
  }
}

}  // namespace
}  // namespace warmroot::bootstrap
