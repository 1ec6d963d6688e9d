// The entry `nspawn` against real programs, on volumes that mean well.
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "tests/nspawn_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using NspawnEntryTest = NspawnTest;

TEST_F(NspawnEntryTest, a_person_lands_on_a_system_that_has_booted) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  EXPECT_THAT(greeting(), EndsWith(kVolume));
  EXPECT_EQ(said("cat /proc/1/comm"), "systemd");
  EXPECT_EQ(said("cat /proc/sys/kernel/hostname"), "a-volume");
  EXPECT_EQ(said("systemctl is-active work.service"), "active");
  EXPECT_EQ(said("systemctl is-active warmroot-sshd.service"), "active");
  EXPECT_EQ(said("systemctl is-enabled ssh.service 2>&1 || :"), "masked-runtime");
  EXPECT_EQ(said("id -un"), "ada");
  EXPECT_EQ(said("cat /etc/resolv.conf"), "nameserver 192.0.2.1");
  EXPECT_TRUE(assignment_.entry->check());

  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  mount_volume();
  EXPECT_EQ(*shell("cat " + inside("root/served")), "served");
}

TEST_F(NspawnEntryTest, nobody_waits_for_services_and_people_are_waited_for) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  const auto in = book_.snapshot().steps.size();
  ASSERT_TRUE(shell("mkfifo /run/hold; ssh -tt" + client("echo in; read -r line").substr(3) +
                    " >/run/session 2>&1 <>/run/hold & until grep -q in /run/session; do :; done"));
  const Ok released = release(leaving(std::chrono::seconds(26)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(*shell("grep -c 'a test ends. Save your work' /run/session || :"), "1");
  const auto steps = book_.snapshot().steps;
  const auto step = [&](const std::string& name) {
    return std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(in), steps.end(),
                        [&](const auto& each) { return each.name == name; });
  };
  const auto warned = step("warn sessions"), ended = step("end the entry");
  ASSERT_NE(warned, steps.end());
  ASSERT_NE(ended, steps.end());
  // 26 s before the end people have 4.
  EXPECT_GE(ended->start_ms - warned->start_ms, 3500);
  EXPECT_THAT(warned->detail, HasSubstr("1 terminals"));
  EXPECT_THAT(warned->detail, HasSubstr("sh ("));
  EXPECT_THAT(warned->detail, Not(HasSubstr("systemd")));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(NspawnEntryTest, an_idle_volume_is_not_kept_by_what_its_init_runs) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  const Ok released = release(leaving(std::chrono::seconds(120)), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  const auto steps = book_.snapshot().steps;
  const auto warned = std::find_if(steps.begin(), steps.end(),
                                   [](const auto& step) { return step.name == "warn sessions"; });
  ASSERT_NE(warned, steps.end());
  EXPECT_EQ(warned->detail, "there were none");
}

TEST_F(NspawnEntryTest, an_init_that_does_not_power_off_is_killed_and_gives_the_disk_back) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  ASSERT_EQ(::kill(init(), SIGSTOP), 0);
  EXPECT_TRUE(assignment_.entry->end(milliseconds(300)));
  EXPECT_NE(::kill(init(), 0), 0) << "it outlived its container";
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(NspawnEntryTest, a_release_while_the_system_boots_leaves_nothing_of_it) {
  make_system();
  std::thread stopper([&] {
    while (*shell("pgrep -xc -P $PPID systemd-nspawn || :") == "0") ::poll(nullptr, 0, 10);
    ::poll(nullptr, 0, 150);  // its init has begun, or is about to
    stop_.request({"operator", "a test stops it", boottime_ms() + 60000});
  });
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  stopper.join();
  EXPECT_FALSE(done);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(NspawnEntryTest, a_sshd_that_dies_is_started_again_by_the_volume_s_init) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  ASSERT_EQ(::kill(own_sshd(), SIGKILL), 0);
  const auto deadline = steady_clock::now() + kLimit;
  std::string greeted;
  while (!greeted.ends_with(kVolume) && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 1000);  // the daemon looks every 5 s
    const Ok works = assignment_.entry->check();
    ASSERT_TRUE(works) << works.error().message();
    greeted = greeting();
  }
  EXPECT_THAT(greeted, EndsWith(kVolume));
}

TEST_F(NspawnEntryTest, a_system_that_powers_off_gives_the_port_back_and_says_so) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  ASSERT_TRUE(shell(client("true")));
  ASSERT_EQ(::kill(init(), SIGRTMIN + 4), 0);  // systemd(1): poweroff.target
  const auto deadline = steady_clock::now() + kLimit;
  Ok works = assignment_.entry->check();
  while (works && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 50);
    works = assignment_.entry->check();
  }
  ASSERT_FALSE(works);
  EXPECT_THAT(works.error().message(), HasSubstr("the volume's container ended with 0"));
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(assignment_.entry->close());
  EXPECT_FALSE(assignment_.entry->check()) << "it stays off";
}

TEST_F(NspawnEntryTest, a_system_that_is_rebooted_by_a_person_comes_back) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  ASSERT_TRUE(shell(client("true")));
  const pid_t first = init();
  ASSERT_EQ(::kill(first, SIGRTMIN + 5), 0);  // systemd(1): reboot.target
  const auto deadline = steady_clock::now() + kLimit;
  std::string described, paused;
  while (steady_clock::now() < deadline && (described.empty() || !greeting().ends_with(kVolume))) {
    ::poll(nullptr, 0, 200);
    const Ok works = assignment_.entry->check();
    ASSERT_TRUE(works) << works.error().message();
    if (const auto why = assignment_.entry->pause(); !why.empty()) paused = why;
    const std::string now = assignment_.entry->describe();
    if (now.find("process " + std::to_string(first) + ")") == std::string::npos) described = now;
  }
  EXPECT_THAT(paused, HasSubstr("was rebooted and is starting"));
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_THAT(assignment_.entry->pause(), IsEmpty());
  EXPECT_THAT(assignment_.entry->describe(), HasSubstr("under its own init"));
  EXPECT_THAT(greeting(), EndsWith(kVolume));
  EXPECT_EQ(said("systemctl is-active work.service"), "active");
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// What it has left of the container ends by itself, in its own time.
Ok cleared_in_time() {
  const auto deadline = steady_clock::now() + kLimit;
  Ok cleared = clear_leftovers();
  while (!cleared && steady_clock::now() < deadline) cleared = clear_leftovers();
  return cleared;
}

TEST_F(NspawnEntryTest, killed_after_any_step_of_its_own_the_next_one_boots_the_volume) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  const auto in = book_.snapshot().steps;
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  ASSERT_NO_FATAL_FAILURE(kill_after_each_step_of_the_entry(
      in, cleared_in_time, [] { EXPECT_EQ(said("cat /proc/1/comm"), "systemd"); }));
}

TEST_F(NspawnEntryTest, a_bootstrap_that_is_killed_takes_the_container_along) {
  make_system();
  EXPECT_TRUE(killed_after(1, [&](auto& book) {
    StatusBook quiet("");
    if (bring_up(input_, assignment_, quiet, stop_) && greeting().ends_with(kVolume))
      book.record({"the volume serves", 0, 0, Outcome::ok, ""});
  }));
  EXPECT_THAT(greeting(), EndsWith(kBase));
  const Ok cleared = cleared_in_time();
  EXPECT_TRUE(cleared) << cleared.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(NspawnEntryTest, a_volume_without_systemd_lets_people_in_by_chroot_and_says_why) {
  ASSERT_NO_FATAL_FAILURE(make_volume(kWithSshd));
  dress_as_disk();
  input_.entry = EntryKind::nspawn;
  input_.base_ports = {kPort};
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(book_.snapshot().entry,
            "chroot: the base's sshd instead of nspawn: the init of the volume is not systemd");
}

}  // namespace
}  // namespace warmroot::bootstrap
