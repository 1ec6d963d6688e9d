// A lease's hot list on a real volume: what is read is kept for the next lease, and whatever is
// wrong with what a volume brings along, sessions and the unmount do not depend on it.
#include "bootstrap/recording.hpp"

#include "bootstrap/paths.hpp"
#include "bootstrap/record_command.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::bootstrap {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using warm::HotList;

class RecordingTest : public warm::WarmerTest {
 protected:
  void SetUp() override {
    warm::WarmerTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    make_image(0);
    attach({});
  }

  /// Mounts, reads the files as a session would, and gives everything back.
  std::vector<warm::Block> lease(const std::vector<std::string>& files) {
    notes.clear();
    Recording recording([this](const std::string& note) { notes.push_back(note); },
                        [this](std::string list, bool) { recorded = std::move(list); });
    recording.start(disk_loop_.device());
    mount_root();
    recording.mounted(root().string(), 0, volume);
    for (const auto& file : files)
      EXPECT_TRUE(warm::shell("cat " + root().string() + file + " > /dev/null"));
    const auto hot = recording.hot_blocks(warm::kFsBytes);
    EXPECT_TRUE(recording.finish(seconds(20)));
    kept = read_list();
    unmount();
    return hot;
  }

  std::optional<HotList> read_list() {
    std::ifstream file(root() / kVolumeHotList, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    auto list = warm::decode_hot_list(bytes.str());
    return list ? std::optional(std::move(*list)) : std::nullopt;
  }

  std::set<std::string> paths() const {
    std::set<std::string> paths;
    if (kept)
      for (const auto& range : kept->ranges) paths.insert(range.path);
    return paths;
  }

  std::string volume = "vol-0abc";
  std::vector<std::string> notes;
  std::string recorded;
  std::optional<HotList> kept;
};

/// Of a snapshot of a used volume none of the fresh ones ever told the others what it read.
TEST_F(RecordingTest, a_list_that_came_with_the_snapshot_of_another_volume_is_not_the_volumes_own) {
  lease({"/d1/1"});
  ASSERT_TRUE(kept);
  recorded.clear();
  lease({"/d1/1", "/d7/3"});
  EXPECT_EQ(recorded, "") << "the volume was used before";
  volume = "vol-0def";
  EXPECT_THAT(lease({"/d1/1", "/d2/2"}), testing::Not(IsEmpty())) << "better than none";
  EXPECT_NE(recorded, "");
  EXPECT_THAT(paths(), testing::Contains("/d7/3"));
  recorded.clear();
  lease({"/d1/1"});
  EXPECT_EQ(recorded, "") << "it has become its own";
}

TEST_F(RecordingTest, the_next_lease_begins_with_what_the_one_before_read) {
  EXPECT_THAT(lease({"/d1/1", "/d7/3"}), IsEmpty());
  ASSERT_TRUE(kept);
  const auto alone = warm::decode_hot_list(recorded);
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->recordings, 1u) << "others merge it with theirs";
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d7/3"}));
  EXPECT_THAT(notes, ElementsAre("recording from trace and opened files",
                                 HasSubstr("of 1 recordings; this one from trace and opened")));
  const auto first = warm::hot_blocks(*kept, warm::grid_blocks(warm::kFsBytes));
  EXPECT_EQ(first.front(), 0u) << "the mount's own read of the superblock";
  recorded.clear();
  EXPECT_EQ(lease({"/d1/1", "/d4/4"}), first);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->recordings, 2u);
  EXPECT_EQ(recorded, "") << "files may have moved since: it says nothing of other volumes";
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d7/3", "/d4/4"}));
}

TEST_F(RecordingTest, a_cold_volume_begins_with_what_another_node_of_its_lineage_recorded) {
  lease({"/d1/1", "/d7/3"});
  Recording other([](const std::string&) {}, [](const std::string&, bool) {});
  EXPECT_TRUE(other.knows_nothing());
  EXPECT_FALSE(other.take("GIF89a"));
  EXPECT_TRUE(other.knows_nothing());
  ASSERT_TRUE(other.take(recorded));
  const auto whole = other.hot_blocks(warm::kFsBytes);
  EXPECT_GT(whole.size(), 2u);
  EXPECT_THAT(other.hot_blocks(4 * warm::kGridBytes), testing::Each(testing::Lt(4u)));
}

TEST_F(RecordingTest, a_late_list_from_elsewhere_does_not_replace_the_volumes_own) {
  lease({"/d1/1", "/d7/3"});
  Recording recording([](const std::string&) {}, [](const std::string&, bool) {});
  mount_root();
  recording.mounted(root().string(), 0, volume);
  const auto own = recording.hot_blocks(warm::kFsBytes);
  HotList other = *kept;
  other.ranges.resize(1);
  ASSERT_TRUE(recording.take(warm::encode_hot_list(other)));
  EXPECT_EQ(recording.hot_blocks(warm::kFsBytes), own);
  EXPECT_TRUE(recording.is_of_volume());
  EXPECT_TRUE(recording.finish(seconds(20)));
  unmount();
}

TEST_F(RecordingTest, a_list_that_is_none_is_said_to_be_and_replaced) {
  mount_root();
  fs::create_directories((root() / kVolumeHotList).parent_path());
  std::ofstream(root() / kVolumeHotList) << "warmroot-hot-list 1\n/../../etc/shadow\n";
  unmount();
  EXPECT_THAT(lease({"/d1/1"}), IsEmpty());
  EXPECT_THAT(notes, Contains(HasSubstr("names no grid")));
  ASSERT_TRUE(kept);
  EXPECT_THAT(paths(), Contains("/d1/1"));
}

TEST_F(RecordingTest, links_and_pipes_in_its_place_lead_nowhere) {
  mount_root();
  const fs::path list = root() / kVolumeHotList;
  fs::create_directories(list.parent_path());
  ASSERT_EQ(::mkfifo(list.c_str(), 0600), 0);
  unmount();
  EXPECT_THAT(lease({"/d1/1"}), IsEmpty());
  EXPECT_TRUE(kept);
  mount_root();
  fs::remove(list);
  const fs::path outside = top_ / "outside";
  std::ofstream(outside) << "untouched";
  fs::create_symlink(outside, list);
  unmount();
  EXPECT_THAT(lease({"/d1/1"}), IsEmpty());
  std::stringstream text;
  text << std::ifstream(outside).rdbuf();
  EXPECT_EQ(text.str(), "untouched");
}

TEST_F(RecordingTest, a_disk_that_is_none_is_a_note_and_no_more) {
  Recording recording([this](const std::string& note) { notes.push_back(note); },
                      [](const std::string&, bool) {});
  recording.start("/dev/null");
  mount_root();
  recording.mounted(root().string(), 0, volume);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("nothing is recorded: /dev/null")));
  EXPECT_TRUE(recording.finish(seconds(1)));
}

/// A session that reads one file while a recording by hand is under way.
class RecordCommand : public RecordingTest {
 protected:
  Result<std::string> record(const RecordWish& wish, const std::string& file) {
    const RecordedVolume volume{
        disk_loop_.device(), root().string(), 0,
        [own = warm::OwnThreads()](pid_t thread) mutable { return own.contains(thread); }};
    int looks = 0;
    return record_volume(wish, volume, [&] {
      if (++looks == 1 && !file.empty()) {
        EXPECT_TRUE(warm::shell("cat " + root().string() + file + " > /dev/null"));
      }
      return looks > 2;
    });
  }
};

TEST_F(RecordCommand, writes_a_list_of_its_own_and_says_how_it_knows) {
  mount_root();
  const std::string output = (top_ / "by-hand.list").string();
  const auto said = record({"training", output, seconds(30)}, "/d3/3");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_THAT(*said, HasSubstr("from trace and opened files, kept in " + output));
  std::stringstream bytes;
  bytes << std::ifstream(output, std::ios::binary).rdbuf();
  const auto list = warm::decode_hot_list(bytes.str());
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_EQ(list->workload, "training");
  EXPECT_FALSE(read_list()) << "the volume's own is left alone";
  const auto nothing = record({"training", output, seconds(30)}, "");
  ASSERT_FALSE(nothing) << *nothing;
  EXPECT_EQ(nothing.error().kind, ErrorKind::refused);
}

TEST_F(RecordCommand, adds_to_the_volumes_list_also_while_the_daemon_records) {
  lease({"/d1/1"});
  Recording daemon([](const std::string&) {}, [](const std::string&, bool) {});
  daemon.start(disk_loop_.device());
  mount_root();
  daemon.mounted(root().string(), 0, volume);
  const auto said = record({"", "", seconds(30)}, "/d3/3");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_TRUE(warm::shell("cat " + root().string() + "/d5/5 > /dev/null"));
  EXPECT_TRUE(daemon.finish(seconds(20)));
  kept = read_list();
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d3/3", "/d5/5"}));
}

}  // namespace
}  // namespace warmroot::bootstrap
