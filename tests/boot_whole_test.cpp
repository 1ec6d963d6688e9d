// The whole way in and out of the bootstrap against the real kernel: bring-up, repair, stops. Which
// disks are served is boot_disks_test.cpp's.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/session_switch.hpp"
#include "bootstrap/sshd.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(BootWhole, sessions_move_into_the_volume_and_back_and_the_device_ends_free) {
  make_volume();
  dress_as_disk();
  EXPECT_NE(session_os(), "Test Volume 1");
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "checked", "mounted", "ready"));
  EXPECT_THAT(*read_file("/etc/passwd", 1 << 20),
              HasSubstr("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_EQ(*read_file(std::string(kUserKeysDirectory) + "/ada", 65536),
            "ssh-ed25519 AAAA ada@volume\nssh-ed25519 BBBB launch\n");
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");

  int inside_now[2];
  ASSERT_EQ(::pipe(inside_now), 0);
  const pid_t session = ::fork();
  if (session == 0) {
    if (::chroot(kSessionRoot) != 0 || ::chdir("/") != 0) ::_exit(1);
    [[maybe_unused]] const auto put = ::write(inside_now[1], "y", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(inside_now[0], &byte, 1), 1);
  bool stopped = false;
  ReleaseInput input = leaving();
  input.stop_own_users = [&](Milliseconds) { return stopped = true; };
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_TRUE(stopped);
  int status = 0;
  ASSERT_EQ(::waitpid(session, &status, 0), session);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_EQ(::access(kAccountRecord, F_OK), -1);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  mount_volume();
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
}

/// They were copied once: a key that somebody had taken out of their file opened the node until the
/// lease ended.
TEST_F(BootWhole, keys_that_people_add_and_take_away_in_a_session_count_at_once) {
  make_volume();
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string keys = std::string(kUserKeysDirectory) + "/ada";
  const std::string file = inside("home/ada/.ssh/authorized_keys");
  ASSERT_TRUE(shell("echo ssh-ed25519 CCCC new >>" + file));
  assignment_.entry->follow_people({});
  EXPECT_THAT(*read_file(keys, 65536),
              AllOf(HasSubstr("AAAA ada@volume\n"), HasSubstr("CCCC new")));
  // As editors and ssh-copy-id do it, with another file of the same length.
  ASSERT_TRUE(shell("sed s/CCCC/DDDD/ " + file + " >" + file + ".new; chown --reference=" + file +
                    " " + file + ".new; mv " + file + ".new " + file));
  assignment_.entry->follow_people({});
  EXPECT_THAT(*read_file(keys, 65536),
              AllOf(HasSubstr("DDDD new"), testing::Not(HasSubstr("CCCC"))));
  ASSERT_TRUE(shell("rm " + file));
  assignment_.entry->follow_people({});
  EXPECT_EQ(*read_file(keys, 65536), "ssh-ed25519 BBBB launch\n");
  // What root may read and they may not is not shown to them.
  for (const char* secret : {"/proc/1/maps", "/etc/shadow", "/etc/secret"}) {
    ASSERT_TRUE(shell("echo root:x >" + inside("etc/shadow") + "; echo me >" +
                      inside("etc/secret") + "; chmod 600 " + inside("etc/shadow") + " " +
                      inside("etc/secret") + "; ln -sf " + secret + " " + file));
    assignment_.entry->follow_people({});
    EXPECT_EQ(*read_file(keys, 65536), "ssh-ed25519 BBBB launch\n") << secret;
  }
  ASSERT_TRUE(shell("rm " + file));
  ASSERT_TRUE(assignment_.entry->close());
  ASSERT_TRUE(shell("echo ssh-ed25519 EEEE >" + file));
  assignment_.entry->follow_people({});
  EXPECT_EQ(::access(keys.c_str(), F_OK), -1) << "it would open the base";
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

/// Another person of the volume's could add a key, or put one of root's files in its place.
TEST_F(BootWhole, keys_that_others_than_their_owner_can_write_count_only_when_that_has_ended) {
  make_volume("mkdir $t/srv; echo lab:x:2500:ada >>$t/etc/group");
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const auto keys = [&] {
    assignment_.entry->follow_people({});
    return *read_file(std::string(kUserKeysDirectory) + "/ada", 65536);
  };
  const std::string launch = "ssh-ed25519 BBBB launch\n";
  const std::string both = "ssh-ed25519 AAAA ada@volume\n" + launch;
  ASSERT_EQ(keys(), both);
  for (const char* part : {"ada/.ssh/authorized_keys", "ada/.ssh", "ada"})
    for (const char* change : {"chgrp 2500", "chmod o+w", "chown 2002"}) {
      const auto in_home = [&](const std::string& how) {
        return shell(how + " " + inside("home/") + part).has_value();
      };
      SCOPED_TRACE(std::string(change) + " " + part);
      ASSERT_TRUE(in_home("chgrp 2001") && in_home("chmod g+w"));
      EXPECT_EQ(keys(), both) << "a group that ada is alone in";
      ASSERT_TRUE(in_home(change));
      EXPECT_EQ(keys(), launch);
      ASSERT_TRUE(in_home("chmod go-w") && in_home("chown 2001"));
      EXPECT_EQ(keys(), both);
    }
  const std::string touch = "; touch " + inside("home/ada/.ssh/authorized_keys");
  ASSERT_TRUE(shell("chmod 777 " + inside("home") + touch));
  EXPECT_EQ(keys(), both) << "above the home, as with sshd";
  ASSERT_TRUE(shell("cd " + inside("home/ada") +
                    "; mv .ssh ../../srv/keys; ln -s /srv/keys .ssh"
                    "; touch ../../srv/keys/authorized_keys"));
  EXPECT_EQ(keys(), both);
  ASSERT_TRUE(shell("cd " + inside("srv") + "; chmod 777 .; touch keys/authorized_keys"));
  EXPECT_EQ(keys(), launch) << "another could rename the directory that a link leads to";
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

TEST_F(BootWhole, a_mark_that_cannot_be_written_keeps_nobody_from_mounting_or_unmounting) {
  make_volume("mkdir -p $t/var/lib; touch $t/var/lib/warmroot");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  // A banner that cannot be replaced is no reason to keep the volume either.
  ASSERT_TRUE(shell("rm -f /run/warmroot/banner; mkdir -p /run/warmroot/banner/in-the-way"));
  ReleaseInput input = leaving();
  input.stop_own_users = [](Milliseconds) { return false; };
  const Ok released = release(input, assignment_, book_);
  EXPECT_TRUE(shell("rm -r /run/warmroot/banner"));
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(link_text(kSessionRoot), "/") << "nobody is refused for it";
  std::vector<std::string> troubles;
  for (const auto& step : book_.snapshot().steps)
    if (step.outcome == Outcome::failed) troubles.push_back(step.name);
  EXPECT_THAT(troubles,
              ElementsAre("mark as in use", "show the banner", "stop warming", "mark clean"));
}

TEST_F(BootWhole, the_volume_s_keys_open_nothing_while_sessions_land_on_the_base) {
  // root's shell is run by every probe: it fails when it finds keys that came too early.
  make_volume(R"(printf '#!/bin/sh\n[ ! -e /run/warmroot/keys/ada ]\n' >$t/bin/bash)");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string keys = std::string(kUserKeysDirectory) + "/ada";
  EXPECT_EQ(::access(keys.c_str(), F_OK), 0);
  int found = 0;
  ReleaseInput input = leaving();
  input.stop_own_users = [&](Milliseconds) {
    found = ::access(keys.c_str(), F_OK);
    return true;
  };
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(found, -1) << "sessions landed on the base with the volume's keys";
}

TEST_F(BootWhole, the_lines_of_a_boot_that_lost_its_power_are_taken_away_by_the_next) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  ASSERT_NE(*read_file("/etc/passwd", 1 << 20), passwd_);
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // what a reboot leaves of it
  EXPECT_TRUE(remove_imported_accounts(recorded_accounts()));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

TEST_F(BootWhole, a_session_root_that_sshd_refuses_or_a_disk_that_is_gone_is_noticed_after_ready) {
  make_volume();
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const auto trouble = [&] {
    const Ok works = check_still_serving(*assignment_.entry, assignment_.root_device);
    return works ? std::string() : works.error().message();
  };
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(::chmod(kVolumePoint, 0777), 0);
  EXPECT_THAT(trouble(), HasSubstr("can be written by others than root"));
  ASSERT_EQ(::chmod(kVolumePoint, 0755), 0);
  const auto has_gone = [&] {
    return disk_has_gone("/sys", assignment_.disk, [] { return false; });
  };
  EXPECT_FALSE(has_gone());
  ASSERT_TRUE(shell("mv /run/block/vdz /run/block/.away"));
  EXPECT_TRUE(has_gone());
  ASSERT_TRUE(shell("mv /run/block/.away /run/block/vdz"));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  EXPECT_THAT(trouble(), HasSubstr("unmounted"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole,
       whom_the_uid_of_somebody_on_the_base_keeps_out_status_names_with_what_would_help) {
  ASSERT_TRUE(shell("echo 'owner:x:2077:2077::/root:/bin/sh' >>/etc/passwd"));
  make_volume("echo 'ubuntu:x:2077:2077::/home/ubuntu:/bin/sh' >>$t/etc/passwd");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_THAT(book_.snapshot().remarks,
              testing::Contains(AllOf(HasSubstr("ubuntu has uid 2077, which is owner on the base"),
                                      HasSubstr("with session.entry = \"sshd\""))));
  EXPECT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_TRUE(shell("sed -i '/^owner:/d' /etc/passwd"));
}

TEST_F(BootWhole, who_may_be_root_on_the_volume_gets_in_with_a_uid_that_is_taken_on_the_base) {
  ASSERT_TRUE(shell("echo 'owner:x:2077:2077::/root:/bin/sh' >>/etc/passwd"));
  make_volume(
      "echo 'cloud:x:2077:2077::/home/cloud:/bin/sh' >>$t/etc/passwd; "
      "echo sudo:x:27:cloud >>$t/etc/group");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(done) << done.error().message();
  const std::string passwd = *read_file("/etc/passwd", 1 << 20);
  EXPECT_LT(passwd.find("\nowner:x:2077:"),
            passwd.find("\ncloud:x:2077:2077::/home/cloud:/bin/sh\n"));
  EXPECT_NE(passwd.find("\ncloud:x:2077:"), std::string::npos);
  EXPECT_EQ(read_file(std::string(kUserKeysDirectory) + "/cloud", 65536).value_or("none"),
            "ssh-ed25519 BBBB launch\n");
  EXPECT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(shell("sed -i '/^owner:/d' /etc/passwd"));
}

TEST_F(BootWhole, an_sshd_that_ran_before_has_no_rescue_port_and_that_is_told) {
  make_volume();
  dress_as_disk();
  const auto remarks_on_it = [&](bool late, unsigned port) {
    input_.sshd_is_late = late;
    input_.rescue_port = port;
    Assignment assignment;
    const Ok done = bring_up(input_, assignment, book_, stop_);
    EXPECT_TRUE(done) << done.error().message();
    const auto remarks = book_.snapshot().remarks;
    EXPECT_TRUE(undo_bring_up(assignment));
    return std::count_if(remarks.begin(), remarks.end(), [](const auto& remark) {
      return remark.find("the rescue port 2222 is closed until it is restarted") != remark.npos;
    });
  };
  EXPECT_EQ(remarks_on_it(true, 2222), 1);
  EXPECT_EQ(remarks_on_it(true, 0), 0);
  EXPECT_EQ(remarks_on_it(false, 2222), 0);
}

TEST_F(BootWhole, nothing_is_written_to_a_foreign_disk_that_was_not_left_clean) {
  make_volume("rm -rf $t/etc");
  ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync " + loop_));
  dress_as_disk();
  const auto before = shell("sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("it has no etc/os-release"));
  EXPECT_EQ(shell("sync " + loop_ + "; sha256sum <" + loop_).value_or(""), before.value_or("-"));
}

TEST_F(BootWhole, nothing_is_written_to_a_foreign_disk_that_was_left_clean) {
  make_volume("rm -rf $t/etc");
  dress_as_disk();
  const auto before = shell("sync " + loop_ + "; sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("it has no etc/os-release"));
  EXPECT_EQ(shell("sync " + loop_ + "; sha256sum <" + loop_).value_or(""), before.value_or("-"));
}

TEST_F(BootWhole, sessions_are_open_before_the_logins_of_others_are_tried) {
  make_volume();
  dress_as_disk();
  std::size_t steps_when_ready = 0;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) steps_when_ready = book_.snapshot().steps.size();
  };
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const auto steps = book_.snapshot().steps;
  ASSERT_GT(steps.size(), steps_when_ready);
  EXPECT_EQ(steps.at(steps_when_ready - 1).name, "switch sessions");
  EXPECT_EQ(steps.back().name, "probe logins of others");
  EXPECT_THAT(steps.back().detail, HasSubstr("ada"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, a_root_that_was_not_left_clean_is_repaired_with_and_without_the_manager_s_word) {
  for (const char* word : {"vol-0abc", ""}) {
    SCOPED_TRACE(word);
    make_volume();
    ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync " + loop_));
    dress_as_disk();
    const std::string volume = word;
    input_.confirmed_volume = [volume] {
      return volume.empty() ? std::nullopt : std::optional<std::string>(volume);
    };
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(session_os(), "Test Volume 1");
    ASSERT_TRUE(undo_bring_up(assignment_));
    if (volume.empty()) break;
    ::umount("/sys/block");
    ASSERT_TRUE(shell("losetup -d " + loop_));
    ::unlink(image_.c_str());
  }
  int looks = 0;
  for (const auto& step : book_.snapshot().steps) looks += step.name == "look without writing";
  EXPECT_EQ(looks, 1);
}

TEST_F(BootWhole, the_only_disk_waits_for_the_manager_s_word_and_goes_on_without_at_the_limit) {
  make_volume();
  dress_as_disk();
  input_.confirmation_limit = milliseconds(1500);
  int asked = 0;
  input_.confirmed_volume = [&]() -> std::optional<std::string> {
    return ++asked < 10 ? std::nullopt : std::optional<std::string>("vol-0abc");
  };
  std::int64_t started = boottime_ms();
  Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_LT(boottime_ms() - started, 1400) << "the word came early";
  ASSERT_TRUE(undo_bring_up(assignment_));

  input_.confirmed_volume = [] { return std::optional<std::string>(); };
  started = boottime_ms();
  done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_GE(boottime_ms() - started, 1500);
  ASSERT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, one_user_s_bad_profile_keeps_nobody_else_out) {
  make_volume("sed -i 's,/home/ada:/bin/sh,/home/ada:/bin/angry,' $t/etc/passwd");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  std::map<std::string, std::string> details;
  for (const auto& step : book_.snapshot().steps) details[step.name] = step.detail;
  EXPECT_EQ(details["probe login"], "root");
  EXPECT_THAT(details["probe logins of others"],
              HasSubstr("the probe login of ada: /bin/angry failed: profile is broken"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, a_stop_during_a_probe_that_hangs_is_heard) {
  make_volume("cp $t/bin/hang $t/bin/bash");
  dress_as_disk();
  std::thread notice([this] {
    std::this_thread::sleep_for(milliseconds(1500));
    stop_.request({"spot-notice", "EC2 takes this spot instance back"});
  });
  const std::int64_t started = boottime_ms();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  notice.join();
  ASSERT_FALSE(done);
  EXPECT_LT(boottime_ms() - started, 10000);
  EXPECT_THAT(done.error().message(), HasSubstr("EC2 takes this spot instance back"));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
}

TEST_F(BootWhole, a_stop_while_waiting_for_the_disk_ends_the_wait) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));
  stop_.request({"operator", "the operator asked for it"});
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("the operator asked for it"));
}

}  // namespace
}  // namespace warmroot::bootstrap
