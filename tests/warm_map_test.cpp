// The warm map: what is believed, what is refused, and that its file cannot be led out of the root.
#include "bootstrap/warm/warm_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::warm {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kDevice = 1000 * kGridBytes + 512;
const MapIdentity kIdentity{"vol-0123456789abcdef0", kDevice};

BlockSet some_blocks() {
  BlockSet present(grid_blocks(kDevice));
  for (Block block = 0; block < present.size(); block += 7) present.insert(block);
  return present;
}

TEST(WarmMap, comes_back_as_it_was) {
  const std::string bytes = encode_map(kIdentity, some_blocks());
  EXPECT_EQ(bytes.size(), map_bytes(kDevice));
  const auto decoded = decode_map(bytes, kIdentity);
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, some_blocks());
}

TEST(WarmMap, refuses_every_damaged_byte) {
  const std::string bytes = encode_map(kIdentity, some_blocks());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(decode_map(damaged, kIdentity)) << at;
  }
  for (std::size_t length = 0; length < bytes.size(); length += 5)
    EXPECT_FALSE(decode_map(bytes.substr(0, length), kIdentity)) << length;
  EXPECT_FALSE(decode_map(bytes + "more", kIdentity));
}

TEST(WarmMap, refuses_what_is_not_of_this_volume_and_says_why) {
  const std::string bytes = encode_map(kIdentity, some_blocks());
  const auto other = decode_map(bytes, {"vol-other", kDevice});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("another volume"));
  const auto grown = decode_map(bytes, {kIdentity.volume_id, 2 * kDevice});
  ASSERT_FALSE(grown);
  EXPECT_THAT(grown.error().message(), HasSubstr("another size"));
  const auto text = decode_map("hello", kIdentity);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message(), HasSubstr("no warm map"));
}

class VolumeFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "warm_map_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    root_ = top_ / "root";
    std::filesystem::create_directory(root_);
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  VolumeFile file(const std::string& path) {
    auto opened = VolumeFile::at(root_.string(), path, "the warm map");
    EXPECT_TRUE(opened);
    return *opened;
  }

  std::filesystem::path top_, root_;
};

TEST_F(VolumeFileTest, is_written_with_its_directories_and_read_back) {
  const VolumeFile map = file("/var/lib/warmroot/warm.map");
  auto nothing = map.load(100);
  ASSERT_TRUE(nothing) << nothing.error().message();
  EXPECT_FALSE(*nothing);
  ASSERT_TRUE(map.save("first"));
  const auto saved = map.save("second");
  ASSERT_TRUE(saved) << saved.error().message();
  EXPECT_EQ(map.load(100)->value(), "second");
  struct stat status {};
  ASSERT_EQ(::stat((root_ / "var/lib/warmroot/warm.map").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_FALSE(std::filesystem::exists(root_ / "var/lib/warmroot/warm.map.new"));
}

TEST_F(VolumeFileTest, symlinks_lead_nowhere_but_inside_the_root) {
  std::filesystem::create_directory(top_ / "outside");
  std::filesystem::create_directory(root_ / "outside");
  std::filesystem::create_directory_symlink("/outside", root_ / "var");
  ASSERT_TRUE(file("var/warm.map").save("map"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "outside/warm.map"));
  std::filesystem::create_directory_symlink("../../../../../outside", root_ / "up");
  ASSERT_TRUE(file("up/other.map").save("map"));
  EXPECT_TRUE(std::filesystem::is_empty(top_ / "outside"));
}

TEST_F(VolumeFileTest, what_is_no_plain_file_of_the_right_size_is_refused) {
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(file("fifo").load(100));
  std::filesystem::create_symlink("fifo", root_ / "link");
  EXPECT_FALSE(file("link").load(100));
  std::ofstream(root_ / "large") << std::string(101, 'x');
  EXPECT_FALSE(file("large").load(100));
  EXPECT_TRUE(file("large").load(101));
}

TEST_F(VolumeFileTest, a_stale_temporary_file_is_no_obstacle_and_a_planted_link_is_not_followed) {
  std::ofstream(root_ / "warm.map.new") << "left by a crash";
  ASSERT_TRUE(file("warm.map").save("map"));
  std::filesystem::create_symlink(top_ / "victim", root_ / "warm.map.new");
  ASSERT_TRUE(file("warm.map").save("map"));
  EXPECT_FALSE(std::filesystem::exists(top_ / "victim"));
}

TEST_F(VolumeFileTest, a_root_that_went_away_is_not_written_to) {
  const VolumeFile map = file("warm.map");
  std::filesystem::rename(root_, top_ / "elsewhere");
  EXPECT_FALSE(map.save("map"));
}

}  // namespace
}  // namespace warmroot::warm
