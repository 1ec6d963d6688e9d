// A lease's hot list on a real volume: what is read is kept for the next lease, and whatever is
// wrong with what a volume brings along, sessions and the unmount do not depend on it.
#include "bootstrap/recording.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/paths.hpp"
#include "tests/recorded_lease.hpp"

namespace warmroot::bootstrap {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using warm::HotList;

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

/// An image that is made anew, of the files of a used one, has its list, and they lie elsewhere: it
/// was read by block.
TEST_F(RecordingTest, of_a_list_that_was_copied_onto_another_file_system_only_the_files_are_used) {
  lease({"/d1/1", "/d7/3"});
  ASSERT_TRUE(kept);
  for (const char* other : {"1cd5-02", ""}) {
    SCOPED_TRACE(other);
    Recording recording([](const std::string&) {}, kToNobody);
    mount_root();
    recording.mounted(root().string(), 0, "vol-0def", other);
    EXPECT_TRUE(recording.knows_nothing());
    EXPECT_THAT(recording.hot_blocks(warm::kFsBytes), IsEmpty());
    EXPECT_THAT(recording.files_elsewhere(),
                Contains(testing::Field(&warm::WantedFile::path, "/d7/3")));
    EXPECT_TRUE(recording.finish(seconds(20)));
    unmount();
  }
  volume = "vol-0def";
  filesystem = "1cd5-02";
  EXPECT_THAT(lease({"/d2/2"}), IsEmpty());
  EXPECT_THAT(paths(), testing::Contains("/d2/2"));
  EXPECT_THAT(paths(), testing::Not(testing::Contains("/d7/3"))) << "merged by block";
  EXPECT_THAT(lease({"/d2/2"}), testing::Not(IsEmpty())) << "it is the volume's own now";
}

/// The volume was marked as known to all when its list had gone to a manager that was down.
TEST_F(RecordingTest,
       what_nobody_has_taken_is_told_by_the_next_lease_and_is_the_volumes_all_the_same) {
  others_take_it = false;
  lease({"/d1/1"});
  ASSERT_TRUE(kept);
  EXPECT_NE(recorded, "");
  recorded.clear();
  others_take_it = true;
  lease({"/d2/2"});
  EXPECT_NE(recorded, "");
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d2/2"}));
  recorded.clear();
  lease({"/d1/1"});
  EXPECT_EQ(recorded, "");
}

/// Ten minutes in which nobody logged in counted as a recording, the only one of the volume's.
TEST_F(RecordingTest, a_lease_in_which_nobody_came_teaches_nobody) {
  somebody_comes = false;
  lease({"/d1/1"});
  EXPECT_FALSE(kept);
  EXPECT_EQ(recorded, "");
  EXPECT_THAT(notes, Contains(HasSubstr("nobody came")));
  mount_root();
  Recording recording([](const std::string&) {}, kToNobody);
  recording.mounted(root().string(), 0, volume, filesystem);
  EXPECT_TRUE(recording.was_used()) << "its map is worth a look";
  unmount();
  somebody_comes = true;
  lease({"/d1/1"});
  EXPECT_TRUE(kept);
  EXPECT_NE(recorded, "");
}

TEST_F(RecordingTest,
       a_lease_in_which_nobody_came_does_not_make_the_snapshots_list_the_volumes_own) {
  lease({"/d1/1"});
  ASSERT_TRUE(kept);
  volume = "vol-0def";
  somebody_comes = false;
  lease({});
  mount_root();
  Recording recording([](const std::string&) {}, kToNobody);
  recording.mounted(root().string(), 0, volume, filesystem);
  EXPECT_FALSE(recording.was_used());
  unmount();
}

TEST_F(RecordingTest, the_next_lease_begins_with_what_the_one_before_read) {
  EXPECT_THAT(lease({"/d1/1", "/d7/3"}), IsEmpty());
  ASSERT_TRUE(kept);
  const auto alone = warm::decode_hot_list(recorded);
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->recordings, 1u) << "others merge it with theirs";
  EXPECT_EQ(alone->lineage, "snap-0a1");
  EXPECT_EQ(kept->lineage, "snap-0a1");
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d7/3"}));
  EXPECT_THAT(notes,
              ElementsAre("recording from trace and opened files", "waiting for the first session",
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
  Recording other([](const std::string&) {}, kToNobody);
  EXPECT_TRUE(other.knows_nothing());
  EXPECT_FALSE(other.take("GIF89a"));
  EXPECT_TRUE(other.knows_nothing());
  ASSERT_TRUE(other.take(recorded));
  const auto whole = other.hot_blocks(warm::kFsBytes);
  EXPECT_GT(whole.size(), 2u);
  EXPECT_EQ(other.ranges_beyond(warm::kFsBytes), 0u);
  EXPECT_THAT(other.hot_blocks(4 * warm::kGridBytes), testing::Each(testing::Lt(4u)));
  EXPECT_GT(other.ranges_beyond(4 * warm::kGridBytes), 0u);
  EXPECT_EQ(other.foreign_lineage(), std::nullopt);
}

/// The lineage is a tag at EC2, which people can change; what the volume was made from is not.
TEST_F(RecordingTest, of_a_list_of_another_lineage_than_the_volumes_only_the_files_are_used) {
  lease({"/d1/1", "/d7/3"});
  Recording other([](const std::string&) {}, kToNobody);
  ASSERT_TRUE(other.take(recorded));
  EXPECT_THAT(other.hot_blocks(warm::kFsBytes), testing::Not(IsEmpty()));
  other.made_from("vol-0def", "snap-0a1");
  EXPECT_EQ(other.foreign_lineage(), std::nullopt);
  EXPECT_THAT(other.files_elsewhere(), IsEmpty());
  other.made_from("vol-0def", "snap-0ffff");
  EXPECT_EQ(other.foreign_lineage(), "snap-0a1");
  EXPECT_TRUE(other.knows_nothing());
  EXPECT_THAT(other.hot_blocks(warm::kFsBytes), IsEmpty());
  EXPECT_THAT(other.files_elsewhere(), Contains(testing::Field(&warm::WantedFile::path, "/d7/3")));
}

/// What came with a snapshot, or was recorded in a lease of a minute, hid what fifteen others had
/// taught.
TEST_F(RecordingTest, a_list_from_elsewhere_comes_behind_the_volumes_own_and_before_its_snapshots) {
  lease({"/d1/1", "/d7/3"});
  HotList other = *kept;
  other.ranges.resize(1);
  other.ranges[0].device = {300 * warm::kGridBytes, 4096};
  for (const bool is_of_volume : {true, false}) {
    Recording recording([](const std::string&) {}, kToNobody);
    mount_root();
    recording.mounted(root().string(), 0, is_of_volume ? volume : "vol-0def", filesystem);
    auto expected = recording.hot_blocks(warm::kFsBytes);
    ASSERT_THAT(expected, testing::Not(Contains(300U)));
    EXPECT_FALSE(recording.was_told());
    ASSERT_TRUE(recording.take(warm::encode_hot_list(other)));
    EXPECT_TRUE(recording.was_told());
    expected.insert(is_of_volume ? expected.end() : expected.begin(), 300U);
    EXPECT_EQ(recording.hot_blocks(warm::kFsBytes), expected);
    EXPECT_EQ(recording.was_used(), is_of_volume);
    EXPECT_TRUE(recording.finish(seconds(20)));
    unmount();
  }
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

/// Whose it is was written behind it: a release whose time was over between the two left a list of
/// which the next lease said that it was written on another file system.
TEST_F(RecordingTest, whose_list_it_is_is_known_before_there_is_one) {
  mount_root();
  fs::create_directories(root() / kVolumeHotList / "in_its_place");
  unmount();
  lease({"/d1/1"});
  EXPECT_FALSE(kept);
  EXPECT_THAT(notes, Contains(HasSubstr("was not kept")));
  mount_root();
  Recording recording([](const std::string&) {}, kToNobody);
  recording.mounted(root().string(), 0, volume, filesystem);
  EXPECT_TRUE(recording.was_used());
  unmount();
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

/// It was dropped as the copied list's, and where there had been none as well. What is added names
/// files that nobody has, which no lease records by itself.
TEST_F(RecordingTest, what_is_added_by_hand_to_a_list_that_is_not_the_volumes_own_outlives_it) {
  for (const bool is_copied : {false, true}) {
    SCOPED_TRACE(is_copied ? "a copied one" : "none yet");
    if (is_copied) {
      volume = "vol-0def";
      filesystem = "1cd5-02";
    }
    Recording recording([](const std::string&) {}, kToNobody);
    recording.start(disk_loop_.device());
    mount_root();
    recording.mounted(root().string(), 0, volume, filesystem);
    begin_session(recording);
    EXPECT_TRUE(warm::shell("cat " + root().string() + "/d5/5 > /dev/null"));
    const auto before = read_list();
    ASSERT_EQ(before.has_value(), is_copied);
    HotList list{"", "", warm::kFsBytes, before ? before->recordings : 1, {}};
    list.ranges.push_back({{(is_copied ? 300 : 310) * warm::kGridBytes, 4096},
                           is_copied ? "/by/hand/2" : "/by/hand/1",
                           0,
                           1000});
    if (before) list = warm::merge_hot_lists(std::vector{*before, list});
    fs::create_directories((root() / kVolumeHotList).parent_path());
    std::ofstream(root() / kVolumeHotList, std::ios::binary) << warm::encode_hot_list(list);
    EXPECT_TRUE(recording.finish(seconds(20)));
    kept = read_list();
    unmount();
    EXPECT_THAT(paths(), Contains(is_copied ? "/by/hand/2" : "/by/hand/1"));
    EXPECT_THAT(paths(), Contains("/d5/5")) << "the lease's own";
  }
  EXPECT_THAT(paths(), testing::Not(Contains("/by/hand/1"))) << "it lies elsewhere here";
}

TEST_F(RecordingTest, a_disk_that_is_none_is_a_note_and_no_more) {
  Recording recording([this](const std::string& note) { notes.push_back(note); }, kToNobody);
  recording.start("/dev/null");
  mount_root();
  recording.mounted(root().string(), 0, volume, filesystem);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("nothing is recorded: /dev/null")));
  EXPECT_TRUE(recording.finish(seconds(1)));
}

/// It outlived the daemon, and with it half a MiB of the kernel's memory for each processor.
TEST_F(RecordingTest, a_trace_that_was_made_for_a_disk_that_never_came_is_removed) {
  const auto own_traces = [] {
    const UniqueFd place = warm::BlockTrace::open_place();
    const std::string own = "warmroot-" + std::to_string(::getpid()) + "-";
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd/" + std::to_string(place.get())))
      count += entry.path().filename().string().starts_with(own) ? 1 : 0;
    return count;
  };
  Recording recording([](const std::string&) {}, kToNobody);
  recording.prepare();
  EXPECT_EQ(own_traces(), 1) << "else this test shows nothing";
  EXPECT_TRUE(recording.finish(seconds(1)));
  EXPECT_EQ(own_traces(), 0);
}

}  // namespace
}  // namespace warmroot::bootstrap
