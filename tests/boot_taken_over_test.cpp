// A daemon that is killed while people are in the volume: another one goes on with it, and gives it
// back when it is time.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "bootstrap/held_record.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr char kInTheVolume[] = "/home/ada PRETTY_NAME=\"Test Volume 1\"";
constexpr char kWhere[] = "read os </etc/os-release; echo $os";

constexpr char kTicketThatGrows[] = "/run/ticket-that-grows.json";
const std::string kAsked = std::string(kAskedLists) + "vol-0abc";
const std::string kAskedOut = std::string(kAskedListsOut) + "vol-0abc";
/// By udev's name for the disk that the base has of the volume's AMI.
constexpr char kOwnName[] = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0base";

class BootTakenOver : public BootUp {
 protected:
  void TearDown() override {
    BootUp::TearDown();
    if (twin_.empty()) return;
    EXPECT_TRUE(shell("umount /run/twin; losetup -d " + twin_ + "; rm -rf /etc/fstab /dev/disk " +
                      image_ + ".twin " + kBootRecord));
  }

  /// A copy of the volume, which the base has mounted at /run/twin.
  void mount_twin() {
    const auto twin = shell("cp --sparse=always " + image_ + " " + image_ +
                            ".twin; losetup -f --show " + image_ + ".twin");
    ASSERT_TRUE(twin) << twin.error().message();
    twin_ = *twin;
    const auto mounted =
        shell("mkdir -p /run/twin /dev/disk/by-id; mount -t ext4 " + twin_ +
              " /run/twin; ln -s ../../" + twin_.substr(twin_.rfind('/') + 1) + " " + kOwnName);
    ASSERT_TRUE(mounted) << mounted.error().message();
  }

  /// Whether one of the timeline's lines has all of this in it.
  static bool has_done(const std::string& step, const std::string& detail = "") {
    const auto steps = status().steps;
    return std::any_of(steps.begin(), steps.end(), [&](const std::string& line) {
      return line.find(step) != std::string::npos && line.find(detail) != std::string::npos;
    });
  }

  static std::uint64_t root_mib() {
    struct statfs facts {};
    if (::statfs(kVolumePoint, &facts) != 0) return 0;
    return facts.f_blocks * static_cast<std::uint64_t>(facts.f_bsize) >> 20;
  }

  void serve(const char* ticket = kTicket) {
    make_disk_with_fstab();
    run_up_to_ready(ticket);
  }

  void run_up_to_ready(const char* ticket = kTicket, long refused_call = -1) {
    ::unlink(kStatusFile);
    ASSERT_EQ(run_up(ticket, refused_call), "");
    if (sshd_ == 0) start_sshd();
    ASSERT_TRUE(comes_ready()) << status().message;
  }

  static std::string what_she_says() {
    const auto said = shell(
        "echo hello >/run/words; until grep -q hello /run/said; do sleep 0.01; done; "
        "tail -n 1 /run/said");
    return said ? *said : said.error().message();
  }

  /// As another daemon has found things; the file of the one before would say the same.
  void kill_and_come_ready() {
    ASSERT_NO_FATAL_FAILURE(kill_daemon_alone());
    ::unlink(kStatusFile);
    ASSERT_TRUE(comes_ready()) << status().message;
  }

  /// And has answered it.
  static void expect_manager_has_list(const std::string& list) {
    EXPECT_TRUE(comes([&] { return read_file(kHeardAsked, kMaxStatus).value_or("") == list; }));
    EXPECT_TRUE(comes([] { return ::access(kAskedOut.c_str(), F_OK) != 0; }));
    EXPECT_NE(::access(kAsked.c_str(), F_OK), 0);
  }

  void expect_given_back() {
    EXPECT_TRUE(comes([] { return !daemon_runs(); })) << "what it does last comes before that";
    EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
    EXPECT_TRUE(check_device_free("/dev/vdz"));
    EXPECT_FALSE(held_record());
  }

  std::string twin_;  ///< the device of mount_twin
};

/// `up` refused to begin anew, nobody watched for a notice, and the volume was still mounted when
/// its instance was taken.
TEST_F(BootTakenOver, another_daemon_goes_on_and_whoever_is_in_the_volume_stays) {
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string wanted = state();
  const StatusFields before = status();
  ASSERT_NO_FATAL_FAILURE(come_in());
  for (int kill = 0; kill < 3; ++kill) {
    SCOPED_TRACE(kill);
    ASSERT_NO_FATAL_FAILURE(kill_and_come_ready());
    EXPECT_EQ(state(), wanted);
    EXPECT_EQ(status().volume_id, before.volume_id);
    EXPECT_EQ(status().device, before.device);
    EXPECT_EQ(status().filesystem, before.filesystem);
    EXPECT_EQ(status().instance_id, before.instance_id);
  }
  EXPECT_EQ(what_she_says(), "hello, /home/ada");
  EXPECT_TRUE(down());
  EXPECT_EQ(status().stage, "released");
  EXPECT_TRUE(comes([] { return !daemon_runs(); }));
  expect_given_back();
}

TEST_F(BootTakenOver, logins_land_in_the_volume_all_the_while) {
  ASSERT_NO_FATAL_FAILURE(serve());
  std::atomic<int> logins = 0, elsewhere = 0;
  std::string said;
  std::jthread people([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto where = base_login(kWhere); where != "PRETTY_NAME=\"Test Volume 1\"") {
        if (elsewhere++ == 0) said = where;
      }
      ++logins;
    }
  });
  const auto more = [&] {
    const int seen = logins;
    ASSERT_TRUE(comes([&] { return logins >= seen + 3; }));
  };
  for (int kill = 0; kill < 3; ++kill) {
    ASSERT_NO_FATAL_FAILURE(more());
    ASSERT_NO_FATAL_FAILURE(kill_and_come_ready());
  }
  more();
  people.request_stop();
  people.join();
  EXPECT_EQ(elsewhere, 0) << said;
  EXPECT_TRUE(down());
}

/// Not by itself: also the process that would have begun it anew was killed.
TEST_F(BootTakenOver, up_takes_a_volume_over_in_which_somebody_is) {
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string wanted = state();
  ASSERT_NO_FATAL_FAILURE(come_in());
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  ::poll(nullptr, 0, 500);
  EXPECT_FALSE(daemon_runs());
  ::unlink(kStatusFile);
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(state(), wanted);
  EXPECT_EQ(what_she_says(), "hello, /home/ada");
  EXPECT_TRUE(down());
  expect_given_back();
}

TEST_F(BootTakenOver, a_release_that_was_under_way_goes_on_and_nobody_is_let_in_anew) {
  ASSERT_NO_FATAL_FAILURE(serve());
  ASSERT_NO_FATAL_FAILURE(come_in());
  ASSERT_EQ(::kill(running_daemon(), SIGTERM), 0);
  ASSERT_TRUE(comes([] { return link_text(kSessionRoot) == kNowhere; }));
  ASSERT_NO_FATAL_FAILURE(kill_daemon_alone());
  int logins = 0;
  for (; daemon_runs() && status().stage != "released"; ++logins)
    EXPECT_NE(base_login(kWhere), "PRETTY_NAME=\"Test Volume 1\"");
  EXPECT_GT(logins, 0) << "she had time to save";
  ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  EXPECT_EQ(status().stage, "released") << status().message;
  expect_given_back();
  EXPECT_NE(base_login(kWhere), "PRETTY_NAME=\"Test Volume 1\"");
  ASSERT_TRUE(shell("mount /dev/vdz1 " + std::string(kVolumePoint)));
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
  EXPECT_TRUE(unmount_tree(kVolumePoint));
}

TEST_F(BootTakenOver, a_disk_that_went_while_no_daemon_ran_is_told_as_gone) {
  ASSERT_NO_FATAL_FAILURE(serve());
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  ASSERT_TRUE(shell("rm -r /run/block/vdz /dev/vdz"));
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  EXPECT_EQ(status().message, "the volume's disk /dev/vdz is gone");
}

TEST_F(BootTakenOver, one_that_is_killed_before_a_disk_is_there_waits_for_it_again) {
  make_volume();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes([] { return running_daemon() != 0; }));
  ASSERT_NO_FATAL_FAILURE(kill_daemon_alone());
  dress_as_disk();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
}

/// It would have taken the disk again that it had just given back.
TEST_F(BootTakenOver, one_that_only_reports_is_not_begun_anew) {
  ASSERT_NO_FATAL_FAILURE(serve(kTicketOfManager));
  EXPECT_TRUE(down());
  ASSERT_TRUE(daemon_runs());
  const pid_t reports = running_daemon();
  ::kill(reports, SIGKILL);
  ASSERT_TRUE(comes([&] { return running_daemon() != reports; }));
  ::poll(nullptr, 0, 1000);
  EXPECT_FALSE(daemon_runs());
  EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
  // Where one still does, `up` ends it.
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    EXPECT_EQ(login(), kInTheVolume);
    EXPECT_TRUE(down());
  }
  kill_daemon();
}

/// The one that begins it anew would have taken the volume once more.
TEST_F(BootTakenOver, down_before_another_daemon_begins_gives_the_volume_back_for_good) {
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_TRUE(held_record());
  ::kill(running_daemon(), SIGKILL);
  EXPECT_TRUE(down());
  EXPECT_FALSE(supervisor_runs());
  ::poll(nullptr, 0, 500);
  EXPECT_FALSE(daemon_runs());
  expect_given_back();
}

TEST_F(BootTakenOver, down_where_nobody_begins_another_daemon_gives_the_volume_back) {
  ASSERT_NO_FATAL_FAILURE(serve());
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  EXPECT_TRUE(down());
  EXPECT_FALSE(daemon_runs());
  expect_given_back();
}

/// A reset would have come up on the volume for the rest of the lease.
TEST_F(BootTakenOver, shared_names_are_replaced_where_the_one_before_had_not_come_to_it) {
  const std::string uuid = "6a30ab86-fd1c-4b86-a8b0-7a4c6a3a4b90", line = " /run/twin ext4\n";
  const std::string shared = "UUID=" + uuid + line, own = kOwnName + line;
  const auto fstab = [] { return read_file("/etc/fstab", 4096).value_or("none"); };
  make_disk("mke2fs -q -t ext4 -U " + uuid + " -E root_owner=0:0 -d $t $image");
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(mount_twin());
  ASSERT_TRUE(write_file_atomic("/etc/fstab", shared, 0644));
  ASSERT_NO_FATAL_FAILURE(run_up_to_ready());
  ASSERT_TRUE(comes([&] { return fstab() == own; })) << fstab();
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  // As one leaves it that is killed before.
  ASSERT_TRUE(write_file_atomic("/etc/fstab", shared, 0644));
  ASSERT_EQ(::unlink(kBootRecord), 0);
  ASSERT_NO_FATAL_FAILURE(run_up_to_ready());
  ASSERT_TRUE(comes([&] { return fstab() == own; })) << fstab();
  ASSERT_TRUE(comes([] { return has_done("preflight"); }));
  const std::string record = read_file(kBootRecord, 65536).value_or("none");
  EXPECT_THAT(record, testing::HasSubstr(uuid));
  ASSERT_NO_FATAL_FAILURE(kill_and_come_ready());
  ASSERT_TRUE(comes([] { return has_done("preflight"); }));
  EXPECT_EQ(fstab(), own);
  EXPECT_EQ(read_file(kBootRecord, 65536).value_or("none"), record);
  EXPECT_THAT(read_file(kStatusFile, kMaxStatus).value_or(""),
              testing::HasSubstr("an image made of it would not boot"));
  EXPECT_TRUE(down());
  expect_given_back();
}

/// Nothing did before the next lease.
TEST_F(BootTakenOver, a_root_that_is_to_grow_does_where_the_one_before_had_not_come_to_it) {
  make_disk(R"(
      part=$image.part; truncate -s 320M $part; mkfs.xfs -q $part
      mkdir $t.mnt; mount -o loop $part $t.mnt; cp -a $t/. $t.mnt/; umount $t.mnt; rmdir $t.mnt
      dd if=$part of=$image bs=1M conv=notrunc,sparse status=none seek=1; rm $part
      echo 'start=2048, size=655360, type=linux' |
        sfdisk --quiet --wipe never --label gpt $image >/dev/null 2>&1)",
            "480M");
  dress_as_disk();
  dress_partitions();
  ASSERT_TRUE(write_in_place(
      kTicketThatGrows, R"({"version":1,"deployment":"d","pool":"test","volume":{"grow":true}})"));
  // By a ticket that asks for nothing of the kind: as far as one comes that is killed before.
  ASSERT_NO_FATAL_FAILURE(run_up_to_ready());
  EXPECT_LT(root_mib(), 330u);
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  ASSERT_NO_FATAL_FAILURE(run_up_to_ready(kTicketThatGrows));
  ASSERT_TRUE(comes([] { return root_mib() > 400; })) << root_mib();
  ASSERT_TRUE(comes([] { return has_done("grow the root", "instead of"); }));
  const std::uint64_t grown = root_mib();
  ASSERT_NO_FATAL_FAILURE(kill_and_come_ready());
  ASSERT_TRUE(comes([] { return has_done("grow the root", "already"); }));
  EXPECT_EQ(root_mib(), grown);
  EXPECT_TRUE(down());
  expect_given_back();
  EXPECT_TRUE(shell("xfs_repair -n /dev/vdz1"));
}

/// Begun anew it would lack what is in memory by then, and be told to others as what sessions read
/// first.
TEST_F(BootTakenOver, a_recording_that_it_was_killed_in_is_left_to_the_next_lease) {
  const auto serve_first_session = [this] {
    ::unlink(kLogFile);
    ASSERT_NO_FATAL_FAILURE(run_up_to_ready(kTicket, SYS_fsopen));
    std::string said;
    ASSERT_TRUE(comes([&] {
      said = read_file(kLogFile, kMaxStatus).value_or("");
      return said.find("waiting for the first session") != std::string::npos;
    })) << said;
    EXPECT_EQ(login(), kInTheVolume);
  };
  // By opened files and pages in memory.
  ASSERT_TRUE(shell("mount -t tmpfs tmpfs /sys/kernel"));
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve_first_session());
  ASSERT_NO_FATAL_FAILURE(kill_and_come_ready());
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
  expect_given_back();
  mount_volume();
  EXPECT_NE(::access(inside(kVolumeHotList).c_str(), F_OK), 0);
  EXPECT_NE(::access(inside(kVolumeHotListOf).c_str(), F_OK), 0) << "nobody was taught";
  EXPECT_TRUE(unmount_tree(kVolumePoint));

  ASSERT_NO_FATAL_FAILURE(serve_first_session());
  EXPECT_TRUE(down());
  expect_given_back();
  ASSERT_TRUE(shell("umount /sys/kernel"));
  mount_volume();
  EXPECT_THAT(read_file(inside(kVolumeHotList), kMaxStatus).value_or("none"),
              testing::HasSubstr("/bin/sh"));
  EXPECT_TRUE(unmount_tree(kVolumePoint));
}

/// It knew of which volume lists are sent only once it warmed that one.
TEST_F(BootTakenOver, what_record_was_asked_for_is_sent_with_a_release_that_was_under_way) {
  ::unlink(kHeardAsked);
  ASSERT_NO_FATAL_FAILURE(serve(kTicketOfManager));
  ASSERT_NO_FATAL_FAILURE(come_in());
  const pid_t killed = running_daemon();
  ASSERT_EQ(::kill(killed, SIGTERM), 0);
  ASSERT_TRUE(comes([] { return link_text(kSessionRoot) == kNowhere; }));
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  ASSERT_TRUE(write_file_atomic(kAsked, "asked for", 0600));
  expect_manager_has_list("asked for");
  ASSERT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
  expect_given_back();
}

/// It was in the memory of the one that was killed, and nowhere else.
TEST_F(BootTakenOver, what_record_was_asked_for_is_sent_again_where_the_answer_was_missed) {
  ::unlink(kHeardAsked);
  ASSERT_TRUE(shell("mkdir -p /run/answers"));
  ASSERT_NO_FATAL_FAILURE(serve(kTicketOfManager));
  ASSERT_TRUE(write_file_atomic(kAskedLater, "", 0600));
  ASSERT_TRUE(write_file_atomic(kAsked, "asked for", 0600));
  ASSERT_TRUE(comes([] { return ::access(kAsked.c_str(), F_OK) != 0; }));
  EXPECT_EQ(::access(kAskedOut.c_str(), F_OK), 0);
  ASSERT_NO_FATAL_FAILURE(kill_daemon_alone());
  EXPECT_NE(::access(kHeardAsked, F_OK), 0) << "else this test shows nothing";
  ASSERT_EQ(::unlink(kAskedLater), 0);
  expect_manager_has_list("asked for");
  EXPECT_TRUE(down());
  kill_daemon();
  expect_given_back();
}

/// The one that waits to begin it anew comes too late.
TEST_F(BootTakenOver, up_between_two_daemons_leaves_one) {
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string wanted = state();
  for (int round = 0; round < 3; ++round) {
    const pid_t killed = running_daemon();
    ::kill(killed, SIGKILL);
    const std::string said = run_up();
    ASSERT_TRUE(said.empty() || said.find("running") != std::string::npos ||
                said.find("runs already") != std::string::npos)
        << said;
    ASSERT_TRUE(comes([&] { return running_daemon() != 0 && running_daemon() != killed; }));
    ::unlink(kStatusFile);
    ASSERT_TRUE(comes_ready()) << status().message;
    ::poll(nullptr, 0, 300);
    EXPECT_TRUE(daemon_runs());
    EXPECT_EQ(state(), wanted);
  }
  EXPECT_TRUE(down());
  expect_given_back();
}

}  // namespace
}  // namespace warmroot::bootstrap
