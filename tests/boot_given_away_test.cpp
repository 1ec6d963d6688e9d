// What a boot does with a disk that is there and is not its own by the manager's word, or by what
// the boot before has kept: behind a release, and where the manager gives none.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/reboot.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kNamesNone[] = R"({"wishes":{"drain":false}})";
constexpr char kDrains[] = R"({"wishes":{"drain":true}})";
constexpr char kNotice[] = R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})";
constexpr char kNames[] = R"({"wishes":{"drain":false,"volume_id":"vol-0abc","no_volume":null}})";
constexpr char kNamesOther[] = R"({"wishes":{"drain":false,"volume_id":"vol-0def"}})";
constexpr char kRefuses[] =
    R"({"wishes":{"drain":false,"volume_id":null,"no_volume":"no node is free"}})";

class BootGivenAway : public BootUp {
 protected:
  void SetUp() override {
    BootUp::SetUp();
    if (!reason_.empty()) return;
    ASSERT_TRUE(shell("rm -rf /run/heard /run/answers; mkdir /run/answers"));
    ASSERT_TRUE(write_in_place("/run/answers/hello",
                               R"({"key":")" + std::string(kReportKey) + R"(","node":"test-0"})"));
    ASSERT_TRUE(write_in_place(kReportAnswer, kNamesNone));
  }

  void TearDown() override {
    if (reason_.empty()) {
      EXPECT_TRUE(shell("rm -rf /run/block/vdy"));
    }
    BootUp::TearDown();
  }

  /// The volume that the manager names, until it is kept that it is served.
  void serve_by_name() {
    make_volume();
    dress_as_disk();
    ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes_ready()) << status().stage << ": " << status().message;
    ASSERT_TRUE(comes([] { return served_is_kept(); }));
  }

  /// Another disk of the instance's, which only a word tells from the volume's.
  static void dress_other_disk() {
    ASSERT_TRUE(
        shell("mkdir -p /run/block/vdy; echo 131072 >/run/block/vdy/size; echo vol0def "
              ">/run/block/vdy/serial; echo 202:4095 >/run/block/vdy/dev"));
  }

  /// The disks are left, and what was synced to them.
  static void reset() {
    kill_daemon();
    ASSERT_TRUE(comes([] { return unmount_tree(kVolumePoint).has_value(); }));
    ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));
  }

  static bool served_is_kept() { return ::access(kServedVolume, F_OK) == 0; }

  static bool hears_of(const std::string& word) {
    return comes(
        [&] { return read_file(kHeard, kMaxStatus).value_or("").find(word) != std::string::npos; });
  }
};

/// What a reset leaves of the base's disk: what was synced.
TEST_F(BootGivenAway, what_was_given_away_or_served_is_known_behind_a_power_cut) {
  make_volume();
  for (const bool served : {false, true}) {
    SCOPED_TRACE(served ? "served" : "given away");
    ASSERT_TRUE(shell("mount " + loop_ + " /var/lib"));
    const EarlierVolume volume{served ? "vol-0def" : "vol-0abc", "vdz"};
    EXPECT_TRUE(served ? keep_served(kOwner, volume) : keep_given_away(kOwner, volume));
    {
      // Nothing of the journal that is not on the disk yet gets there. Source: fs/ext4/ioctl.c.
      constexpr unsigned long kExt4Shutdown = _IOR('X', 125, std::uint32_t);
      std::uint32_t without_flush = 2;
      const UniqueFd top(::open("/var/lib", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      EXPECT_TRUE(top);
      EXPECT_EQ(::ioctl(top.get(), kExt4Shutdown, &without_flush), 0) << std::strerror(errno);
    }
    ASSERT_TRUE(shell("umount /var/lib; mount " + loop_ + " /var/lib"));
    const EarlierVolume known = served ? served_before(kOwner) : given_away_before(kOwner);
    EXPECT_EQ(known.volume_id, volume.volume_id);
    EXPECT_EQ(known.disk_name, "vdz");
    EXPECT_TRUE(shell("umount /var/lib"));
  }
}

/// The manager heard of it, and nothing was kept before this machine shut down in order.
TEST_F(BootGivenAway, a_volume_that_is_given_back_for_repair_is_kept_from_a_boot_behind_a_reset) {
  make_volume();
  ASSERT_TRUE(shell("printf 'clri <2>\nssv state 0\n' | debugfs -w -f - " + loop_ +
                    " >/dev/null 2>&1; sync " + loop_));
  dress_as_disk();
  ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(hears_of("released")) << status().stage << ": " << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  kill_daemon();

  ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // what a reset leaves of it
  ASSERT_TRUE(write_in_place(kReportAnswer, kNamesNone));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  EXPECT_TRUE(comes([] { return status().message.starts_with("vol-0abc was given back before"); }))
      << status().stage << ": " << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// Its root is whole, so that it was served: without what people had in that partition.
TEST_F(BootGivenAway, a_volume_of_which_another_partition_is_damaged_is_given_back_for_repair) {
  make_disk_with_fstab();
  ASSERT_TRUE(
      shell("printf 'clri <2>\nssv state 0\n' | debugfs -w -f - /dev/vdz2 >/dev/null 2>&1; "
            "sync /dev/vdz2"));
  ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(hears_of("released unclean_beyond_repair"))
      << status().stage << ": " << status().message;
  const std::string why =
      "/srv (partition 2 (ext4, 20 MiB)), which the volume's fstab does not call nofail: the file "
      "system of partition 2";
  EXPECT_TRUE(comes([&] { return status().message.starts_with(why); })) << status().message;
  EXPECT_THAT(read_file(kBannerFile, 4096).value_or(""), HasSubstr(why));
  EXPECT_THAT(base_login("read os </etc/os-release; echo $os"),
              testing::AllOf(HasSubstr("="), testing::Not(HasSubstr("Test Volume 1"))));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  kill_daemon();
}

/// It has no disk of its own, and gives nothing back: only people's `down` is as good as a word.
TEST_F(BootGivenAway, a_boot_that_is_held_back_and_has_to_go_leaves_that_to_the_next_one) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(keep_given_away(kOwner, {"vol-0abc", "vdz"}));
  for (const bool is_wish : {false, true}) {
    SCOPED_TRACE(is_wish ? "by the manager's wish" : "by a spot notice");
    ASSERT_TRUE(write_in_place(kReportAnswer, kNamesNone));
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes([] {
      return status().message.starts_with("vol-0abc was given back before");
    })) << status().stage
        << ": " << status().message;
    const char* const file = is_wish ? kReportAnswer : kNoticeFile;
    ASSERT_TRUE(write_in_place(file, is_wish ? kDrains : kNotice));
    ASSERT_TRUE(hears_of("released")) << status().stage << ": " << status().message;
    EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
    kill_daemon();
    ::unlink(kNoticeFile);
    ASSERT_TRUE(shell("find /run/warmroot -type f -delete; rm /run/heard"));
  }
  ASSERT_TRUE(write_in_place(kReportAnswer, kNamesNone));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message.starts_with("vol-0abc was given back before"); }))
      << status().stage << ": " << status().message;
  EXPECT_TRUE(down());
  EXPECT_EQ(given_away_before(kOwner).volume_id, "") << "people want it forgotten";
  kill_daemon();
}

/// It was served once its word had not come in time, as if nobody had answered.
TEST_F(BootGivenAway, a_disk_of_which_the_manager_says_no_is_not_taken_as_long_as_it_says_so) {
  make_volume();
  dress_as_disk();
  input_.confirmation_limit = std::chrono::milliseconds(1000);
  const std::int64_t started = boottime_ms();
  std::int64_t last = started;
  std::string said, banner;
  input_.no_volume = [&]() -> std::optional<std::string> {
    if (boottime_ms() - started >= 2500) return std::nullopt;
    last = boottime_ms();
    said = book_.snapshot().message;
    banner = read_file(kBannerFile, 4096).value_or("");
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
    return "no node is free";
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_GE(boottime_ms() - started, 2500);
  EXPECT_GE(boottime_ms() - last, 1000) << "then a word is waited for as long as ever";
  EXPECT_EQ(said, "no node is free");
  EXPECT_THAT(banner, HasSubstr("no node is free"));
  ASSERT_TRUE(undo_bring_up(assignment_));
}

/// It was shown, and told to the manager, as the node's for good, and a release kept it from the
/// next boot; what came in its place waited for no word.
TEST_F(BootGivenAway, a_disk_that_is_gone_before_it_was_taken_is_not_shown_any_more) {
  make_volume();
  dress_as_disk();
  const auto has_serial = [](const std::string& serial) {
    EXPECT_TRUE(write_in_place("/run/block/vdz/serial", serial + "\n"));
  };
  std::vector<std::string> shown;  // at each look, before what it finds is shown
  input_.no_volume = [&]() -> std::optional<std::string> {
    const Status now = book_.snapshot();
    shown.push_back(now.device + " " + now.volume_id.value_or("none"));
    if (shown.size() == 2) has_serial("QM0001");
    if (shown.size() == 4) has_serial("vol0abc");
    if (shown.size() < 5) return "no node is free";
    return std::nullopt;
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(shown,
              ElementsAre(" none", "/dev/vdz vol-0abc", "/dev/vdz vol-0abc", " none", " none"));
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "disk_seen", "checked", "mounted", "ready"));
  EXPECT_EQ(book_.snapshot().volume_id, "vol-0abc");
  const auto steps = book_.snapshot().steps;
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                          [](const TimedStep& step) { return step.name == "raise io_timeout"; }),
            2)
      << "a disk that was attached anew has the kernel's limit";
  ASSERT_TRUE(undo_bring_up(assignment_));
}

/// It was, once an earlier word had been taken back: that one had told only that there was a word.
TEST_F(BootGivenAway, a_disk_chosen_without_a_word_is_not_taken_by_one_for_another_volume) {
  make_volume();
  dress_as_disk();
  std::optional<std::string> word;
  int looks = 0;
  input_.confirmed_volume = [&] { return word; };
  input_.no_volume = [&]() -> std::optional<std::string> {  // behind the choice of each look
    ++looks;
    if (looks == 2)
      word.reset();
    else
      word = looks < 4 ? "vol-0def" : "vol-0abc";
    return std::nullopt;
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(looks, 5) << "the first that begins with a word for this volume";
  ASSERT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootGivenAway, who_is_told_that_there_is_no_volume_has_none_until_one_is_named) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place(kReportAnswer, kRefuses));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message == "no node is free"; }))
      << status().stage << ": " << status().message;
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(comes([] {
    return read_file(kBannerFile, 4096).value_or("").find("no node is free") != std::string::npos;
  })) << "whoever logs in lands on the base";
  ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// The answer was dropped, and the disk was served once its word had not come in time.
TEST_F(BootGivenAway, a_disk_whose_volume_is_another_instances_by_now_is_not_taken) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(
      write_in_place(kReportAnswer, R"({"error":"volume vol-0abc is another instance's by now"})"));
  ASSERT_TRUE(write_in_place(kReportRefused, ""));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] {
    return session_wait(status()).there ||
           status().message == "volume vol-0abc is another instance's by now";
  })) << status().stage
      << ": " << status().message;
  EXPECT_FALSE(session_wait(status()).there);
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(comes([] {
    return read_file(kBannerFile, 4096).value_or("").find("another instance's by now") !=
           std::string::npos;
  })) << "whoever logs in lands on the base";
  ::unlink(kReportRefused);
  ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// It was in line for a volume, and got one from a manager that went just then.
TEST_F(BootGivenAway, a_no_from_before_the_disk_was_there_keeps_nobody_out_where_no_manager_is) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  ASSERT_TRUE(write_in_place(kReportAnswer, kRefuses));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message == "no node is free"; }))
      << status().stage << ": " << status().message;
  end_process(imds_);  // and with it the manager
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "vol0abc\n"));
  ASSERT_TRUE(comes_ready()) << status().stage << ": " << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// Its key was gone, and with it the word that told its disk from the others: people landed on the
/// base for good.
TEST_F(BootGivenAway, the_volume_that_was_served_is_served_behind_a_reset_without_a_word) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(dress_other_disk());
  ASSERT_TRUE(write_in_place(kReportAnswer, kNames));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().stage << ": " << status().message;
  ASSERT_TRUE(comes([] { return served_is_kept(); }));
  EXPECT_EQ(shell("stat -c %a " + std::string(kServedVolume)).value_or(""), "600");

  ASSERT_NO_FATAL_FAILURE(reset());
  ASSERT_TRUE(write_in_place("/run/answers/hello", "{}"));  // there is no other key
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().stage << ": " << status().message;
  EXPECT_EQ(status().volume_id, "vol-0abc");
  EXPECT_TRUE(down());

  // Given away since, it needs a word again.
  ASSERT_NO_FATAL_FAILURE(reset());
  ASSERT_EQ(run_up(kTicketOfManager), "");
  EXPECT_TRUE(comes([] { return status().message.starts_with("vol-0abc was given back before"); }))
      << status().stage << ": " << status().message;
  EXPECT_FALSE(served_is_kept());
  EXPECT_TRUE(down());
  kill_daemon();
}

TEST_F(BootGivenAway, what_is_served_is_forgotten_once_the_manager_names_another_volume) {
  ASSERT_NO_FATAL_FAILURE(serve_by_name());
  EXPECT_EQ(served_before(kOwner).volume_id, "vol-0abc");
  EXPECT_EQ(served_before(kOwner).disk_name, "vdz");
  ASSERT_TRUE(write_in_place(kReportAnswer, kNamesOther));
  EXPECT_TRUE(comes([] { return !served_is_kept(); }));
  EXPECT_TRUE(down());
  kill_daemon();
}

TEST_F(BootGivenAway, a_word_for_another_volume_than_the_one_that_was_served_is_obeyed) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(dress_other_disk());
  input_.served = {"vol-0def", "vdy"};
  ASSERT_TRUE(keep_served(kOwner, input_.served));
  input_.confirmation_limit = std::chrono::milliseconds(60'000);
  std::optional<std::string> word;
  input_.confirmed_volume = [&] { return word; };
  std::vector<std::string> shown;  // at each look, before what it finds is shown
  input_.no_volume = [&]() -> std::optional<std::string> {
    shown.push_back(book_.snapshot().volume_id.value_or("none"));
    if (shown.size() == 2) word = "vol-0abc";
    return std::nullopt;
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(shown, ElementsAre("none", "vol-0def", "vol-0def"));
  EXPECT_EQ(book_.snapshot().volume_id, "vol-0abc");
  EXPECT_FALSE(served_is_kept());
  ASSERT_TRUE(undo_bring_up(assignment_));
}

/// The first disk that was no launch's would have been taken for it.
TEST_F(BootGivenAway, another_disk_is_not_taken_while_that_of_what_was_served_is_probed_late) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(dress_other_disk());
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  input_.served = {"vol-0abc", "vdz"};
  std::vector<std::string> said;  // at each look, before what it finds is said
  input_.no_volume = [&]() -> std::optional<std::string> {
    said.push_back(book_.snapshot().message);
    if (said.size() == 2) {
      EXPECT_TRUE(write_in_place("/run/block/vdz/serial", "vol0abc\n"));
    }
    return std::nullopt;
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string waiting =
      "waiting for the disk of vol-0abc, which was served before this machine booted";
  EXPECT_THAT(said, ElementsAre("", waiting, waiting));
  EXPECT_EQ(book_.snapshot().volume_id, "vol-0abc");
  ASSERT_TRUE(undo_bring_up(assignment_));
}

/// The manager gives it to another node then, and the boot behind it would take it without a word.
TEST_F(BootGivenAway, who_has_to_go_before_the_disk_of_what_was_served_has_come_gives_it_away) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  ASSERT_TRUE(keep_served(kOwner, {"vol-0abc", "vdz"}));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] {
    return status().message.starts_with("waiting for the disk of vol-0abc");
  })) << status().stage
      << ": " << status().message;
  ASSERT_TRUE(write_in_place(kNoticeFile, kNotice));
  ASSERT_TRUE(hears_of("released")) << status().stage << ": " << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  kill_daemon();
}

TEST_F(BootGivenAway, what_another_instance_served_or_no_disk_can_be_is_forgotten) {
  const EarlierVolume volume{"vol-0abc", "vdz"};
  for (const KeyOwner& other : {KeyOwner{"i-10", kOwner.deployment, kOwner.manager_url},
                                KeyOwner{kOwner.instance_id, "other", kOwner.manager_url},
                                KeyOwner{kOwner.instance_id, kOwner.deployment, ""}}) {
    SCOPED_TRACE(other.instance_id + " " + other.deployment + " " + other.manager_url);
    ASSERT_TRUE(keep_served(kOwner, volume));
    EXPECT_EQ(served_before(kOwner).volume_id, "vol-0abc");
    EXPECT_TRUE(served_before(other).is_none());
    EXPECT_FALSE(served_is_kept());
  }
  const auto is_forgotten = [] { return served_before(kOwner).is_none() && !served_is_kept(); };
  ASSERT_TRUE(keep_served(kOwner, {"vol-0abc\x1b", "vdz"}));
  EXPECT_TRUE(is_forgotten());
  ASSERT_TRUE(keep_served(kOwner, {"", "vdz"}));
  EXPECT_TRUE(is_forgotten());
  ASSERT_TRUE(keep_served(kOwner, {"vol-0abc", std::string(8192, 'x')}));
  EXPECT_TRUE(is_forgotten()) << "it is longer than such a file can be";
  ASSERT_TRUE(keep_served(kOwner, volume));
  EXPECT_TRUE(served_before(kOwner, volume).is_none()) << "it was given away since";
  EXPECT_FALSE(served_is_kept());
}

/// The boot behind a reset would have served it without a word, whatever else was attached.
TEST_F(BootGivenAway, what_cannot_be_kept_as_given_away_is_not_kept_as_served_either) {
  ASSERT_NO_FATAL_FAILURE(serve_by_name());
  const std::string in_the_way = std::string(kGivenAway) + ".warmroot";  // as of a full disk
  ASSERT_TRUE(make_directory(in_the_way, 0700));
  ASSERT_TRUE(write_in_place(kNoticeFile, kNotice));
  EXPECT_TRUE(hears_of("released")) << status().stage << ": " << status().message;
  EXPECT_TRUE(given_away_before(kOwner).is_none());
  EXPECT_FALSE(served_is_kept());
  kill_daemon();
  EXPECT_EQ(::rmdir(in_the_way.c_str()), 0);
}

}  // namespace
}  // namespace warmroot::bootstrap
