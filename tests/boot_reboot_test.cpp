// A machine whose init reboots it, by the jobs that a systemctl of the test's tells: the volume is
// unmounted and stays with it, and the boot behind it goes on with the key of its reports. And one
// that was reset, and has to go before it has come to its volume.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "bootstrap/held_record.hpp"
#include "tests/base_disk.hpp"
#include "tests/boot_init.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::IsEmpty;

/// The volume was given back and the instance ended, for a new kernel as for a shutdown.
TEST_F(BootReboot, a_machine_that_reboots_comes_back_with_its_volume_and_its_key) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string wanted = state();
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(status().stage, "rebooting");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_FALSE(held_record());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_EQ(link_text(kSessionRoot), kNowhere) << "who comes now waits for the boot behind it";
  EXPECT_EQ(mode_of(kRebootKey), 0600U);
  EXPECT_EQ(mode_of(kBaseState), 0700U);
  const auto told = heard().words;
  EXPECT_THAT(told, Contains("rebooting reboot"));
  for (const std::string& word : told)
    EXPECT_TRUE(!word.starts_with("draining") && !word.starts_with("released")) << word;

  end_process(sshd_);
  ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // what a reboot leaves of it
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(state(), wanted);
  EXPECT_NE(::access(kRebootKey, F_OK), 0);
  ASSERT_TRUE(comes([&] {
    const auto words = heard().words;
    return std::find(words.begin() + static_cast<std::ptrdiff_t>(told.size()), words.end(),
                     "ready") != words.end();
  }));
  EXPECT_EQ(heard().hellos, 1);
  EXPECT_EQ(heard().forged, 0);
  EXPECT_TRUE(heard().in_turn);
  EXPECT_TRUE(down());
  EXPECT_EQ(status().stage, "released");
  kill_daemon();
}

TEST_F(BootReboot, who_asks_for_the_volume_while_the_machine_reboots_gets_it) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/ticket-of-reboot.json",
                             R"({"version":1,"deployment":"d","pool":"test",)"
                             R"("manager_url":"http://127.0.0.1:1338","session":{"grace_s":60}})"));
  ASSERT_NO_FATAL_FAILURE(serve("/run/ticket-of-reboot.json"));
  ASSERT_NO_FATAL_FAILURE(come_in());  // she has time to save
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  ASSERT_TRUE(comes([] { return link_text(kSessionRoot) == kNowhere; }));
  EXPECT_EQ(status().stage, "rebooting");
  EXPECT_EQ(status().message, "this machine reboots, and comes back with this volume");
  EXPECT_EQ(::access(kRebootKey, F_OK), 0) << "the boot may come before all this has ended";
  ASSERT_TRUE(
      write_in_place(kNoticeFile, R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"));
  ASSERT_TRUE(comes([] { return !daemon_runs(); }));
  EXPECT_EQ(status().stage, "released") << status().message;
  EXPECT_THAT(heard().words, Contains("released spot-notice"));
  EXPECT_NE(::access(kRebootKey, F_OK), 0);
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc")
      << "the next boot may come before its detach";
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
}

/// It was written when the manager had heard of the release, or five seconds later: init's patience
/// may be over before.
TEST_F(BootReboot, what_is_given_away_is_kept_from_the_next_boot_before_the_manager_hears_of_it) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  end_process(imds_);  // and with it the manager: it hears nothing
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  ASSERT_TRUE(comes([] { return status().stage == "rebooting"; })) << status().stage;
  ASSERT_EQ(::kill(running_daemon(), SIGINT), 0);  // the operator wants it all the same
  ASSERT_TRUE(comes([] { return status().stage == "released"; })) << status().message;
  EXPECT_EQ(::access(kGivenAway, F_OK), 0);
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
}

/// The key was synced first, however long that took.
TEST_F(BootReboot, a_disk_of_the_base_that_does_not_answer_keeps_no_volume_from_its_unmount) {
  make_volume();
  dress_as_disk();
  const BaseDisk base;
  ASSERT_TRUE(base.is_mounted());
  ASSERT_NO_FATAL_FAILURE(serve());
  ASSERT_TRUE(comes_to_preflight()) << "until then the base's boot loader is read";
  {
    const Frozen disk(BaseDisk::kPlace);
    ASSERT_TRUE(disk.is_frozen());
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
    EXPECT_TRUE(comes([] { return mounts_at(kVolumePoint).empty(); })) << status().stage;
  }
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(status().stage, "rebooting") << status().message;
  EXPECT_EQ(::access(kRebootKey, F_OK), 0) << "it answered before the machine was gone";
}

/// It was served again, and lost under its sessions when EC2 had detached it.
TEST_F(BootReboot, a_volume_that_was_given_away_is_not_served_by_the_next_boot_without_a_word) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_TRUE(
      write_in_place(kNoticeFile, R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"));
  ASSERT_TRUE(comes([] { return status().stage == "released"; }));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc") << "a reset does not ask before";
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(mode_of(kGivenAway), 0600U);

  // The disk is there still. It is the instance's again by another word of the manager's alone.
  ASSERT_TRUE(shell("find /run/warmroot -type f -delete; rm " + std::string(kNoticeFile)));
  ASSERT_TRUE(write_in_place("/run/answers/hello",
                             R"({"key":")" + std::string(kReportKey) + R"(","node":"test-0"})"));
  ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message.starts_with("vol-0abc was given back before"); }))
      << status().stage;
  const auto banner = [] { return read_file(kBannerFile, 4096).value_or(""); };
  EXPECT_TRUE(comes([&] { return banner().find("was given back before") != std::string::npos; }))
      << "whoever logs in lands on the base";
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  ASSERT_TRUE(
      write_in_place(kReportAnswer, R"({"wishes":{"drain":false,"volume_id":"vol-0abc"}})"));
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "");
  EXPECT_TRUE(down());
  kill_daemon();
}

/// The first look at the disks forgot it, as it was not there then.
TEST_F(BootReboot, a_volume_that_was_given_away_is_not_served_where_its_disk_is_probed_late) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  ASSERT_TRUE(keep_given_away(kOwner, {"vol-0abc", "vdz"}));
  ASSERT_TRUE(write_in_place("/run/answers/hello",
                             R"({"key":")" + std::string(kReportKey) + R"(","node":"test-0"})"));
  ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().message == "waiting for a volume to be attached"; }));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "vol0abc\n"));
  ASSERT_TRUE(comes([] { return status().message.starts_with("vol-0abc was given back before"); }))
      << status().stage;
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  ASSERT_TRUE(
      write_in_place(kReportAnswer, R"({"wishes":{"drain":false,"volume_id":"vol-0abc"}})"));
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "") << "it was given again";
  EXPECT_TRUE(down());
  kill_daemon();
}

/// systemd writes it five minutes before a scheduled reboot. The daemon took it for the shutdown,
/// and was gone, with the file of what it had given away, when the reboot came.
TEST_F(BootReboot, a_reboot_that_is_scheduled_forgets_nothing_that_was_given_away_before) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_TRUE(write_in_place("/run/nologin", "System is going down.\n"));
  ASSERT_TRUE(
      write_in_place(kNoticeFile, R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"));
  ASSERT_TRUE(comes([] { return status().stage == "released"; }));
  const auto told = [] { return heard().words; };
  ASSERT_TRUE(comes([&] { return !told().empty() && told().back() == "released spot-notice"; }));
  const std::size_t words = told().size();
  EXPECT_TRUE(comes([&] { return told().size() > words || !daemon_runs(); }));
  EXPECT_TRUE(daemon_runs()) << "it goes on saying that its volume is free";
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  if (daemon_runs()) {
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  }
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  ::unlink("/run/nologin");
}

/// A stop left nothing: its start served what the manager had just given to another node.
TEST_F(BootReboot, a_start_behind_a_stop_does_not_serve_what_the_stop_gave_back_without_a_word) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_TRUE(write_in_place("/run/answers/hello",
                             R"({"key":")" + std::string(kReportKey) + R"(","node":"test-0"})"));
  for (const char* boot : {"one that had the volume", "one that was held back"}) {
    SCOPED_TRACE(boot);
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kPowersOff));
    ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
    EXPECT_EQ(status().stage, "released") << status().message;
    EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
    EXPECT_TRUE(served_before(kOwner).is_none());
    ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // the machine is off
    ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes([] {
      return status().message.starts_with("vol-0abc was given back before this machine booted");
    })) << status().stage;
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  }
  ASSERT_TRUE(
      write_in_place(kReportAnswer, R"({"wishes":{"drain":false,"volume_id":"vol-0abc"}})"));
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "");
  EXPECT_TRUE(down());
  kill_daemon();
}

/// It keeps /run, where the release looked like one of the same boot, behind which `up` is an
/// order; and the link that refuses sessions, for good where no bootstrap began.
TEST_F(BootReboot, a_soft_reboot_keeps_run_and_does_not_serve_what_was_given_back_before_it) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  for (const char* boot : {"one that had the volume", "one that was held back"}) {
    SCOPED_TRACE(boot);
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kSoftReboots));
    ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
    EXPECT_EQ(status().stage, "released") << status().message;
    EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
    EXPECT_EQ(link_text(kSessionRoot), "/");
    ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes([] {
      return status().message.starts_with("vol-0abc was given back before this machine booted");
    })) << status().stage;
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  }
  // In the boot that it was held back in, `up` by hand is an order still.
  EXPECT_TRUE(down());
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// It is this instance's still, and nobody may be there to say so.
TEST_F(BootReboot, a_start_behind_a_stop_that_no_manager_heard_of_serves_the_volume) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  ASSERT_TRUE(comes([] { return ::access(kServedVolume, F_OK) == 0; }));
  end_process(imds_);  // and with it the manager
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kPowersOff));
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(status().stage, "released") << status().message;
  EXPECT_EQ(given_away_before(kOwner).volume_id, "");
  EXPECT_EQ(served_before(kOwner).volume_id, "vol-0abc");
  ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // the machine is off
  ASSERT_TRUE(write_in_place("/run/answers/hello",
                             R"({"key":")" + std::string(kReportKey) + R"(","node":"test-0"})"));
  ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
  imds_ = ::fork();
  if (imds_ == 0) serve_imds();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// It was looked whether the manager had heard of the release while that was on its way.
TEST_F(BootReboot, a_start_behind_a_stop_does_not_serve_what_a_slow_manager_took_at_the_very_end) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  // The report that it drains takes most of the five seconds that init is kept waiting.
  ASSERT_TRUE(write_in_place(kReportSlow, ""));
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kPowersOff));
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(status().stage, "released") << status().message;
  EXPECT_THAT(heard().words, Contains("released shutdown"));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
}

/// It is an order, and the manager may have no word for it.
TEST_F(BootReboot, up_by_hand_behind_down_in_the_same_boot_holds_nothing_back) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  ASSERT_TRUE(write_in_place(kReportAnswer, R"({"wishes":{"drain":false}})"));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  EXPECT_EQ(given_away_before(kOwner).volume_id, "");
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(down());
  kill_daemon();
}

/// It asked init once more, whose jobs were others by then, and the volume was handed away.
TEST_F(BootReboot, a_reboot_goes_on_where_the_daemon_is_killed_and_inits_jobs_are_others_by_then) {
  make_volume();
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve());
  ASSERT_NO_FATAL_FAILURE(come_in());  // she has time to save, and the daemon to be killed
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
  ASSERT_TRUE(comes([] {
    const auto held = held_record();
    return held && held->leaving && held->leaving->word == "reboot";
  }));
  ASSERT_NO_FATAL_FAILURE(kill_daemon_alone());
  ASSERT_NO_FATAL_FAILURE(init_ends_it(kPowersOff));
  ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
  EXPECT_EQ(status().stage, "rebooting") << status().message;
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_FALSE(held_record());
  EXPECT_EQ(::access(kRebootKey, F_OK), 0);
  const auto told = heard().words;
  EXPECT_THAT(told, Contains("rebooting reboot"));
  for (const std::string& word : told) EXPECT_FALSE(word.starts_with("released")) << word;
}

/// Also where both processes were killed between the unmount and their end.
TEST_F(BootReboot, a_reboot_that_was_taken_back_is_not_found_by_the_next_up) {
  make_volume();
  dress_as_disk();
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed ? "killed" : "not killed");
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    const auto serves = held_record();
    ASSERT_TRUE(serves && !serves->leaving);
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kReboots));
    ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
    ASSERT_EQ(status().stage, "rebooting") << status().message;
    EXPECT_FALSE(held_record());
    if (killed) {
      ASSERT_TRUE(keep_held_record(
          {serves->volume, StopReason{"reboot", "this machine reboots", boottime_ms()}}));
    }
    ASSERT_EQ(run_up(kTicketOfManager), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    const auto serves_again = held_record();
    ASSERT_TRUE(serves_again);
    EXPECT_FALSE(serves_again->leaving);
    ASSERT_NO_FATAL_FAILURE(init_ends_it(kPowersOff));
    ASSERT_TRUE(comes([] { return !daemon_runs() && !supervisor_runs(); }));
    EXPECT_EQ(status().stage, "released") << status().message;
  }
}

TEST_F(BootReboot,
       where_init_does_not_say_that_it_boots_the_machine_anew_the_volume_is_given_back) {
  make_volume();
  dress_as_disk();
  for (const char* jobs : {kPowersOff, kSoftReboots, static_cast<const char*>(nullptr)}) {
    SCOPED_TRACE(jobs != nullptr ? jobs : "it says nothing");
    ASSERT_EQ(run_up(), "");
    ASSERT_TRUE(comes_ready()) << status().message;
    ASSERT_NO_FATAL_FAILURE(init_ends_it(jobs));
    ASSERT_TRUE(comes([] { return !daemon_runs(); }));
    EXPECT_EQ(status().stage, "released") << status().message;
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  }
}

/// It has no such directory.
TEST_F(BootReboot, where_init_is_another_the_volume_is_given_back) {
  ASSERT_TRUE(write_in_place(kJobs, kReboots));
  EXPECT_EQ(plan_of_init(), MachinePlan::reboots);
  ASSERT_TRUE(shell("mv /run/systemd /run/elsewhere"));
  EXPECT_EQ(plan_of_init(), MachinePlan::shuts_down);
  EXPECT_TRUE(shell("mv /run/elsewhere /run/systemd"));
}

/// The manager took it for left clean, whatever the machine had left of it before a reset.
TEST_F(BootReboot, a_volume_that_is_given_back_before_it_was_mounted_is_not_told_as_left_clean) {
  const auto give_back_on_notice = [] {
    ASSERT_TRUE(
        write_in_place(kNoticeFile, R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"));
    ASSERT_TRUE(comes([] { return !heard().words.empty() && status().stage == "released"; }));
    ASSERT_TRUE(comes([] { return heard().words.back().starts_with("released"); }));
    EXPECT_EQ(heard().words.back(), "released never-mounted");
    EXPECT_EQ(status().message, "no volume was mounted");
    kill_daemon();
    ASSERT_TRUE(shell("rm /run/heard " + std::string(kNoticeFile)));
  };
  make_volume("rm $t/bin/sh");  // so that it stays unmounted
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));  // and is not seen at first
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return !heard().words.empty(); }));
  ASSERT_NO_FATAL_FAILURE(give_back_on_notice());
  EXPECT_EQ(status().volume_id, "");

  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "vol0abc\n"));
  ASSERT_EQ(run_up(kTicketOfManager), "");
  ASSERT_TRUE(comes([] { return status().stage == "failed"; })) << status().stage;
  ASSERT_NO_FATAL_FAILURE(give_back_on_notice());
  EXPECT_EQ(status().volume_id, "vol-0abc");
}

/// An image made of an instance between its reboot and the boot behind it has its file.
TEST_F(BootReboot, a_key_of_another_instance_or_manager_is_not_used_and_nothing_of_it_stays) {
  const KeyOwner& own = kOwner;
  const std::string key = std::string(kReportKey) + "\ntest-0\n4711\n";
  const auto taken_by = [&](const KeyOwner& owner) {
    ::unlink(kKeyFile);
    EXPECT_TRUE(keep_key_over_reboot(own, key));
    take_key_after_reboot(owner);
    EXPECT_NE(::access(kRebootKey, F_OK), 0);
    return read_file(kKeyFile, 4096).value_or("none");
  };
  EXPECT_EQ(taken_by({"i-10", "d", "http://127.0.0.1:1338"}), "none");
  EXPECT_EQ(taken_by({"i-1", "other", "http://127.0.0.1:1338"}), "none");
  EXPECT_EQ(taken_by({"i-1", "d", "http://127.0.0.1:13"}), "none");
  EXPECT_EQ(taken_by(own), key);
  EXPECT_EQ(mode_of(kKeyFile), 0600U);
  take_key_after_reboot(own);
  EXPECT_EQ(read_file(kKeyFile, 4096).value_or("none"), key) << "where none was kept it stays";
  ::unlink(kKeyFile);
}

TEST_F(BootReboot, what_another_instance_has_given_away_holds_nothing_back) {
  EXPECT_TRUE(keep_given_away(kOwner, {"vol-0abc", "vdz"}));
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc");
  EXPECT_EQ(given_away_before(kOwner).volume_id, "vol-0abc") << "until it is detached";
  EXPECT_EQ(given_away_before(kOwner).disk_name, "vdz");
  EXPECT_TRUE(given_away_before({"i-10", kOwner.deployment, kOwner.manager_url}).is_none());
  EXPECT_NE(::access(kGivenAway, F_OK), 0);
}

}  // namespace
}  // namespace warmroot::bootstrap
