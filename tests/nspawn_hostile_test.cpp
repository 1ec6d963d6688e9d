// A volume that is hostile to the entry `nspawn`: what the bootstrap and systemd-nspawn itself read
// in it, find by its paths or mount on, before its init runs.
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "tests/hostile_kinds.hpp"
#include "tests/nspawn_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr char kBooted[] = "nspawn: the volume's sshd (process ";
constexpr char kInstead[] = "chroot: the base's sshd instead of nspawn: ";
/// A system boots, beside other tests; one that does not is waited for five minutes.
constexpr std::chrono::seconds kBootInTime{120};

/// Without those that are needed the volume may not be booted; the others keep it from nothing.
/// What its init reads is its own: it boots or does not. Its systemd is at one of two places.
constexpr HostilePlace kPlaces[] = {{"etc/resolv.conf", 1},
                                    {"etc/default/ssh", 1},
                                    {"home/ada/.ssh/authorized_keys", 1},
                                    {"etc/machine-id", 2, true},
                                    {"usr/lib/systemd/systemd", 3, true},
                                    {"lib/systemd/systemd", 3, true},
                                    {"run", 4, true},
                                    {"dev", 4, true},
                                    {"proc", 4, true},
                                    {"sys", 4, true}};

class NspawnHostile : public HostileVolume<NspawnTest> {
 protected:
  NspawnHostile() { bring_up_limit_ = kBootInTime; }

  /// Of the last bring-up.
  std::string entry_;
  const std::function<void(const Status&)> look_ = [this](const Status& status) {
    entry_ = status.entry;
    EXPECT_EQ(entry_, without_controls(entry_));
    if (entry_.starts_with(kBooted)) {
      EXPECT_THAT(greeting(), EndsWith(kVolume));
      EXPECT_EQ(said("cat /proc/1/comm"), "systemd");
      return;
    }
    EXPECT_THAT(greeting(), EndsWith(kBase));
    if (entry_.empty()) return;  // nobody serves
    EXPECT_THAT(entry_, StartsWith(kInstead));
  };
};

TEST(NspawnHostilePlaces, each_kind_is_tried_at_each_place) {
  expect_each_kind_at_each_place(kPlaces, NeededPlaces::only_together);
}

TEST_F(NspawnHostile, whatever_is_so_the_volume_boots_or_says_why_not_and_the_base_is_as_it_was) {
  make_system();
  put_canary();
  input_.entry = EntryKind::chroot;
  ASSERT_TRUE(comes_up()) << "what it leaves on the base is there from now on";
  input_.entry = EntryKind::nspawn;
  ASSERT_TRUE(comes_up(look_));
  ASSERT_THAT(entry_, StartsWith(kBooted));
  try_each_round(kPlaces, NeededPlaces::only_together, [this] {
    std::ignore = comes_up(look_);
    EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
    EXPECT_THAT(greeting(), EndsWith(kBase));
    return Tried{entry_.starts_with(kBooted), entry_};
  });
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, StartsWith(kBooted)) << "as it is, it boots";
}

/// systemd-nspawn waited at the base's pipe; a device of the base's it would have opened.
TEST_F(NspawnHostile, a_machine_id_that_is_a_link_is_followed_to_nothing_on_the_base) {
  make_system();
  ASSERT_TRUE(shell("mkfifo /run/waits"));
  change_volume("rm -f etc/machine-id; ln -s /run/waits etc/machine-id");
  EXPECT_TRUE(comes_up(look_));
  EXPECT_EQ(entry_, std::string(kInstead) +
                        "/etc/machine-id in the volume is a symbolic link, which systemd-nspawn "
                        "would follow on the base");
}

/// It was looked at before the first start alone: root in the container replaced it and rebooted.
TEST_F(NspawnHostile, a_machine_id_that_becomes_a_link_before_a_reboot_leads_to_nothing_either) {
  make_system();
  ASSERT_NO_FATAL_FAILURE(bring_up_booted());
  const std::string id = inside("etc/machine-id");
  ASSERT_TRUE(shell("mkfifo /run/waits-anew; rm -f " + id + "; ln -s /run/waits-anew " + id));
  ASSERT_EQ(::kill(init(), SIGRTMIN + 5), 0);  // systemd(1): reboot.target
  const auto deadline = steady_clock::now() + kBootInTime;
  Ok works = assignment_.entry->check();
  while (works && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 50);
    works = assignment_.entry->check();
  }
  ASSERT_FALSE(works) << "it waits at the base's pipe";
  EXPECT_THAT(works.error().message(), HasSubstr(id + " is no regular file"));
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(assignment_.entry->close());
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// What sessions by `chroot` have of the base's /run stayed in the container's.
TEST_F(NspawnHostile, a_run_that_is_a_link_shows_nothing_of_the_base_s_to_the_container) {
  make_system();
  change_volume("mkdir -p var/elsewhere; mv run run.was; ln -s var/elsewhere run");
  EXPECT_TRUE(comes_up(look_));
  EXPECT_EQ(entry_, std::string(kInstead) +
                        "/run in the volume is a symbolic link, which systemd-nspawn would follow "
                        "on the base");
}

/// Its sshd's unit was hidden by it, and the boot was waited for five minutes.
TEST_F(NspawnHostile, a_resolv_conf_that_leads_to_the_unit_of_its_sshd_does_not_take_its_place) {
  make_system();
  change_volume("ln -sfn /run/systemd/system/warmroot-sshd.service etc/resolv.conf");
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, StartsWith(kBooted));
}

/// Its log is on the base's tmpfs, and was bounded only once it served.
TEST_F(NspawnHostile, an_init_that_writes_on_its_console_without_end_does_not_fill_the_base_s_run) {
  constexpr off_t kBounded = 1 << 20, kFull = 256 << 20;
  make_system();
  change_volume(R"sh(
      for init in usr/lib/systemd/systemd lib/systemd/systemd; do
        [ -e $init ] || continue
        rm $init; printf '#!/bin/sh\nexec cat /dev/zero\n' >$init; chmod 755 $init
      done)sh");
  ::unlink(kOwnSshdLog);
  off_t most = 0;
  bool was_cut = false;
  std::thread watcher([&] {
    const auto deadline = steady_clock::now() + kLimit;
    for (off_t before = 0; !was_cut && before < kFull && steady_clock::now() < deadline;) {
      struct stat log {};
      const off_t now = ::stat(kOwnSshdLog, &log) == 0 ? log.st_size : 0;
      was_cut = before > kBounded && now < before;
      most = std::max(most, now);
      before = now;
      ::poll(nullptr, 0, 1);
    }
    stop_.request({"operator", "a test stops it", boottime_ms() + 60000});
  });
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  watcher.join();
  EXPECT_FALSE(done);
  EXPECT_TRUE(was_cut) << most << " bytes at most";
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

}  // namespace
}  // namespace warmroot::bootstrap
