// Recordings by hand on a real volume: what they write, what of it goes to others, and that they
// and the daemon's own leave each other alone.
#include "bootstrap/record_command.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/paths.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "tests/recorded_lease.hpp"

namespace warmroot::bootstrap {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;

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
