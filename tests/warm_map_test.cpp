// The warm map: what is believed, what is refused, that its file cannot be led out of the root, and
// when it is saved.
#include "bootstrap/warm/warm_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/warm/map_keeper.hpp"
#include "bootstrap/warm/map_saves.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
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
  for (const std::uint64_t shrunk : {kDevice - 512, std::uint64_t{0}}) {
    const auto larger = decode_map(bytes, {kIdentity.volume_id, shrunk});
    ASSERT_FALSE(larger);
    EXPECT_THAT(larger.error().message(), HasSubstr("another size"));
  }
  const auto text = decode_map("hello", kIdentity);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message(), HasSubstr("no warm map"));
}

/// It was refused as another size's, and a volume of which all was present was read once more.
TEST(WarmMap, of_a_volume_that_has_grown_since_is_believed_and_what_is_new_is_absent) {
  const std::string bytes = encode_map(kIdentity, some_blocks());
  for (const std::uint64_t grown : {kDevice + 512, 2 * kDevice, 64 * kDevice}) {
    const auto decoded = decode_map(bytes, {kIdentity.volume_id, grown});
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(decoded->size(), grid_blocks(grown));
    EXPECT_EQ(decoded->members(), some_blocks().members());
    EXPECT_FALSE(decode_map(bytes, {"vol-other", grown}));
    EXPECT_FALSE(decode_map(bytes.substr(0, bytes.size() - 8), {kIdentity.volume_id, grown}));
  }
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

/// A session that misses a block each tenth of a second from the first to the second of each pair;
/// all in milliseconds since the run began.
struct SavesCase {
  const char* name;
  bool is_followed;
  std::vector<std::pair<int, int>> misses;
  std::vector<int> saves;
};

class MapSaves : public testing::TestWithParam<SavesCase> {};

TEST_P(MapSaves, wait_for_a_moment_at_which_no_session_misses_but_not_for_long) {
  const SavesCase& c = GetParam();
  std::vector<int> saves;
  int last = 0;
  int at_rest_since = 0;
  for (int now = 0; now <= 32'000; now += 10) {
    for (const auto& [from, until] : c.misses)
      if (now >= from && now <= until && (now - from) % 100 == 0) at_rest_since = now;
    std::optional<std::chrono::nanoseconds> rest;
    if (c.is_followed) rest = milliseconds(now - at_rest_since);
    if (!is_time_to_save(milliseconds(now - last), rest)) continue;
    saves.push_back(now);
    last = now;
  }
  EXPECT_EQ(saves, c.saves);
}

INSTANTIATE_TEST_SUITE_P(
    Sessions, MapSaves,
    testing::Values(
        SavesCase{"none", true, {}, {5'000, 10'000, 15'000, 20'000, 25'000, 30'000}},
        SavesCase{"at_rest_before_5_s",
                  true,
                  {{0, 3'000}},
                  {5'000, 10'000, 15'000, 20'000, 25'000, 30'000}},
        SavesCase{"one_miss_just_before_5_s",
                  true,
                  {{4'500, 4'500}},
                  {5'500, 10'500, 15'500, 20'500, 25'500, 30'500}},
        SavesCase{"at_rest_after_7_s", true, {{0, 7'000}}, {8'000, 13'000, 18'000, 23'000, 28'000}},
        SavesCase{
            "at_rest_just_before_15_s", true, {{0, 14'500}}, {15'000, 20'000, 25'000, 30'000}},
        SavesCase{"never_at_rest", true, {{0, 32'000}}, {15'000, 30'000}},
        SavesCase{"at_rest_for_900_ms", true, {{0, 6'000}, {6'900, 32'000}}, {15'000, 30'000}},
        SavesCase{"begins_behind_the_first_save",
                  true,
                  {{6'000, 12'000}},
                  {5'000, 13'000, 18'000, 23'000, 28'000}},
        SavesCase{"nobody_follows_it", false, {}, {15'000, 30'000}}),
    [](const testing::TestParamInfo<SavesCase>& one) { return std::string(one.param.name); });

class MapKeeping : public VolumeFileTest {};

TEST_F(MapKeeping, goes_by_the_times_that_it_is_told_and_saves_what_is_worth_it) {
  const MapKeeper::SteadyClock::time_point start{};
  Presence presence(grid_blocks(kDevice));
  {
    MapKeeper keeper(start, [](std::string note) { ADD_FAILURE() << note; });
    keeper.look(root_.string(), "warm.map", kIdentity);
    EXPECT_FALSE(keeper.take());
    const auto bring_in = [&](Block block) {
      presence.insert_read(block);
      keeper.count_block();
    };
    bring_in(0);
    keeper.keep_up(start + seconds(60), start, presence);
    EXPECT_FALSE(keeper.exists()) << "one block";
    for (Block block = 1; block < 8; ++block) bring_in(block);
    keeper.keep_up(start + milliseconds(4'990), start, presence);
    EXPECT_FALSE(keeper.exists()) << "too early";
    keeper.keep_up(start + milliseconds(14'990), start + milliseconds(14'000), presence);
    EXPECT_FALSE(keeper.exists()) << "a session misses";
    keeper.keep_up(start + milliseconds(14'990), {}, presence);
    EXPECT_FALSE(keeper.exists()) << "one may";
    keeper.keep_up(start + milliseconds(14'990), start + milliseconds(13'990), presence);
    EXPECT_TRUE(keeper.exists());
  }  // waits for what it has begun
  const auto saved = file("warm.map").load(map_bytes(kDevice));
  ASSERT_TRUE(saved) << saved.error().message();
  ASSERT_TRUE(*saved);
  const auto decoded = decode_map(**saved, kIdentity);
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, presence.present());
}

}  // namespace
}  // namespace warmroot::warm
