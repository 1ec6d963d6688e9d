// A lease's hot list on a real volume: what is read is kept for the next lease, and whatever is
// wrong with what a volume brings along, sessions and the unmount do not depend on it.
#include "bootstrap/recording.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

const Recording::Recorded kToNobody = [](const std::string&, bool, const Recording::Taken&) {};

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
                        [this](std::string list, bool, const Recording::Taken& taken) {
                          recorded = std::move(list);
                          taken(others_take_it);
                        });
    recording.start(disk_loop_.device());
    mount_root();
    recording.made_from("vol-0abc", "snap-0a1");
    recording.mounted(root().string(), 0, volume, filesystem);
    if (somebody_comes) begin_session(recording);
    for (const auto& file : files)
      EXPECT_TRUE(warm::shell("cat " + root().string() + file + " > /dev/null"));
    const auto hot = recording.hot_blocks(warm::kFsBytes);
    EXPECT_TRUE(recording.finish(seconds(20)));
    kept = read_list();
    unmount();
    return hot;
  }

  /// Sessions may begin, and somebody starts a shell of the volume's.
  void begin_session(Recording& recording) const {
    recording.logins_tried();
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * warm::kRecordPollMs));
    EXPECT_TRUE(warm::shell("cd " + root().string() +
                            " && { test -e d9/bash || cp d9/29 d9/bash; } && chmod +x d9/bash && "
                            "cat d9/bash > /dev/null"));
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

  std::string volume = "vol-0abc", filesystem = "1cd5-01";
  bool somebody_comes = true;
  bool others_take_it = true;
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

/// A session that reads one file while a recording by hand is under way.
class RecordCommand : public RecordingTest {
 protected:
  Result<std::string> record(const RecordWish& wish, const std::string& file) {
    const RecordedVolume volume{
        disk_loop_.device(), root().string(), 0,
        [own = warm::OwnThreads()](pid_t thread) mutable { return own.contains(thread); }, told()};
    int looks = 0;
    return record_volume(wish, volume, [&] {
      if (++looks == 1 && !file.empty()) {
        EXPECT_TRUE(warm::shell("cat " + root().string() + file + " > /dev/null"));
      }
      return looks > 2;
    });
  }
  std::string told() const { return (top_ / "told.list").string(); }
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
  EXPECT_FALSE(fs::exists(told())) << "whoever wants a file gets that";
  const auto nothing = record({"training", output, seconds(30)}, "");
  ASSERT_FALSE(nothing) << *nothing;
  EXPECT_EQ(nothing.error().kind, ErrorKind::refused);
}

TEST_F(RecordCommand, adds_to_the_volumes_list_also_while_the_daemon_records) {
  lease({"/d1/1"});
  Recording daemon([](const std::string&) {}, kToNobody);
  daemon.start(disk_loop_.device());
  mount_root();
  daemon.mounted(root().string(), 0, volume, filesystem);
  begin_session(daemon);
  const auto said = record({"", "", seconds(30)}, "/d3/3");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_TRUE(warm::shell("cat " + root().string() + "/d5/5 > /dev/null"));
  EXPECT_TRUE(daemon.finish(seconds(20)));
  kept = read_list();
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d1/1", "/d3/3", "/d5/5"}));
}

/// The two had one name for their temporary files: each took the other's away, or kept it under its
/// name when half of it was written.
TEST_F(RecordCommand, leaves_what_the_daemon_is_writing_at_that_moment_alone) {
  mount_root();
  const fs::path other = (root() / kVolumeHotList).string() + ".new";
  fs::create_directories(other.parent_path());
  std::ofstream(other) << "half of it";
  const auto said = record({"", "", seconds(30)}, "/d3/3");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_TRUE(read_list());
  std::stringstream text;
  text << std::ifstream(other).rdbuf();
  EXPECT_EQ(text.str(), "half of it");
  for (const auto& entry : fs::directory_iterator(other.parent_path()))
    EXPECT_TRUE(entry.path() == other || entry.path() == root() / kVolumeHotList) << entry.path();
}

/// An upgrade has moved files to where no fresh volume has them.
TEST_F(RecordCommand, others_are_told_of_files_that_have_not_changed_since_the_first_lease_alone) {
  mount_root();
  fs::create_directories(root() / kVolumeState);  // as a bootstrap does with its first mount
  ASSERT_TRUE(warm::shell("cd " + root().string() +
                          " && cp d1/1 d3/5new && cat d1/2 > d5/5 && mv d5/6 d5/3moved && "
                          "sync -f ."));
  unmount();
  mount_root();
  const auto said = record({"training", "", seconds(30)}, "/d[35]/[35]*");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_THAT(*said, HasSubstr("have not changed since the first lease, go to the manager"));
  std::stringstream bytes;
  bytes << std::ifstream(told(), std::ios::binary).rdbuf();
  const auto list = warm::decode_hot_list(bytes.str());
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_EQ(list->recordings, 1u);
  EXPECT_EQ(list->workload, "training");
  std::set<std::string> told_paths;
  for (const auto& range : list->ranges) told_paths.insert(range.path);
  EXPECT_THAT(told_paths, testing::IsSupersetOf({"/d3/3", "/d3/5", "/d5/3"}));
  for (const char* other : {"/d3/5new", "/d5/5", "/d5/3moved", ""})
    EXPECT_THAT(told_paths, testing::Not(Contains(other)));
  kept = read_list();
  EXPECT_THAT(paths(), testing::IsSupersetOf({"/d3/5new", "/d5/5", "/d5/3moved"}))
      << "the volume's own list has them";
}

TEST_F(RecordCommand, others_are_told_nothing_where_nobody_knows_when_the_first_lease_was) {
  mount_root();
  const auto said = record({"", "", seconds(30)}, "/d3/3");
  ASSERT_TRUE(said) << said.error().message();
  EXPECT_THAT(*said, HasSubstr("none of them goes to the manager"));
  EXPECT_FALSE(fs::exists(told()));
  EXPECT_TRUE(read_list());
}

/// It was written to the base, below the mount point, and said to be kept on the volume.
TEST_F(RecordCommand, of_a_volume_that_is_unmounted_meanwhile_is_kept_nowhere) {
  mount_root();
  fs::create_directories(root() / kVolumeState);
  const RecordedVolume recorded_volume{disk_loop_.device(), root().string(), 0,
                                       [](pid_t) { return false; }, told()};
  int looks = 0;
  const auto said = record_volume({"", "", seconds(30)}, recorded_volume, [&] {
    if (++looks == 1) {
      EXPECT_TRUE(warm::shell("cat " + root().string() + "/d3/3 > /dev/null"));
    }
    if (looks == 3) unmount();
    return looks > 3;
  });
  ASSERT_FALSE(said) << *said;
  EXPECT_EQ(said.error().kind, ErrorKind::gone) << said.error().message();
  EXPECT_TRUE(fs::is_empty(root())) << "what lies below the mount point";
  EXPECT_FALSE(fs::exists(told()));
}

/// A release sends SIGHUP first, and it died with all that it had recorded.
TEST(RecordByHand, keeps_what_it_has_where_a_release_or_a_terminal_that_goes_ends_it) {
  const auto ends_by = [](int number, bool by_nohup) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGHUP, by_nohup ? SIG_IGN : SIG_DFL);
      const auto ended = told_to_end();
      const bool early = ended();
      ::raise(number);
      ::_exit(early ? 2 : ended() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? "killed" : WEXITSTATUS(status) == 0 ? "ended" : "goes on";
  };
  for (const int number : {SIGHUP, SIGTERM, SIGINT})
    EXPECT_STREQ(ends_by(number, false), "ended") << "signal " << number;
  EXPECT_STREQ(ends_by(SIGHUP, true), "goes on");
  EXPECT_STREQ(ends_by(SIGTERM, true), "ended");
}

/// One by hand weighed a sixteenth of what the leases before had recorded, and lost its name.
TEST_F(RecordCommand, weighs_as_much_as_all_before_it) {
  for (int i = 0; i < 4; ++i) lease({"/d1/1"});
  mount_root();
  ASSERT_TRUE(record({"training", "", seconds(30)}, "/d3/3"));
  kept = read_list();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->workload, "training");
  EXPECT_EQ(kept->recordings, 8u);
  const auto by_hand = std::ranges::find_if(
      kept->ranges, [](const warm::HotRange& range) { return range.path == "/d3/3"; });
  ASSERT_NE(by_hand, kept->ranges.end());
  EXPECT_EQ(by_hand->per_mille, 500u);
}

}  // namespace
}  // namespace warmroot::bootstrap
