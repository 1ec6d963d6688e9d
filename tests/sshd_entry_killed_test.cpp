// The entry `sshd` when the volume's sshd or the bootstrap dies, or greets nobody any more: the
// base has the port, whoever is in the volume stays, and the next one goes on.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "bootstrap/leftovers.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

using SshdEntryTest = VolumeSshdTest;

/// A process that has done this and stays until it is killed; -1 when it could not.
pid_t stays_once(const std::function<bool()>& done) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    std::ignore = ::write(ready[1], done() ? "y" : "n", 1);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char byte = 'n';
  std::ignore = ::read(ready[0], &byte, 1);
  ::close(ready[0]);
  return byte == 'y' ? child : -1;
}

TEST_F(SshdEntryTest, the_base_has_the_port_as_soon_as_the_volume_s_sshd_is_dead) {
  make_volume_with_sshd();
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  ASSERT_THAT(greeting(), EndsWith(kVolume));
  EXPECT_TRUE(assignment_.entry->check());
  ASSERT_EQ(::kill(own_sshd(), SIGKILL), 0);
  siginfo_t ended{};  // dead, and not yet reaped
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(own_sshd()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  const Ok works = assignment_.entry->check();
  ASSERT_FALSE(works);
  EXPECT_THAT(works.error().message(), HasSubstr("was killed by signal 9"));
}

/// As the daemon does, which looks every 5 s.
TEST_F(SshdEntryTest, one_that_died_is_started_anew_and_has_the_port_once_it_lets_people_in) {
  make_volume_with_sshd();
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  const pid_t first = own_sshd();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  const auto deadline = steady_clock::now() + kLimit;
  Ok works = assignment_.entry->check();
  while (works && steady_clock::now() < deadline) works = assignment_.entry->check();
  ASSERT_FALSE(works);
  EXPECT_TRUE(assignment_.entry->close());
  works = assignment_.entry->check();
  EXPECT_TRUE(works) << works.error().message();
  EXPECT_THAT(assignment_.entry->pause(), testing::Not(IsEmpty())) << "it is only starting";
  EXPECT_THAT(greeting(), EndsWith(kBase));
  while ((!works || !assignment_.entry->pause().empty()) && steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 10);
    works = assignment_.entry->check();
  }
  ASSERT_TRUE(works) << works.error().message();
  EXPECT_THAT(greeting(), EndsWith(kBase)) << "nobody is led to it by a look";
  const auto opened = assignment_.entry->open({input_.launch.public_key, {}});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_THAT(*opened, HasSubstr("a login as ada was tried"));
  EXPECT_THAT(greeting(), EndsWith(kVolume));
  EXPECT_TRUE(assignment_.entry->check());
  EXPECT_THAT(assignment_.entry->describe(),
              testing::Not(HasSubstr("process " + std::to_string(first) + ")")));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(SshdEntryTest, one_that_lives_and_greets_nobody_any_more_is_noticed) {
  make_volume_with_sshd();
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  ASSERT_TRUE(shell("rmdir " + inside("run/sshd")));  // its children end without it
  Ok works = assignment_.entry->check();
  for (int looks = 1; works && looks < 10; ++looks) works = assignment_.entry->check();
  ASSERT_FALSE(works);
  EXPECT_THAT(works.error().message(), HasSubstr("greets nobody"));
  EXPECT_TRUE(assignment_.entry->close());
  EXPECT_THAT(greeting(), EndsWith(kBase));
  EXPECT_FALSE(assignment_.entry->check()) << "once turned away is enough for one that was left";
  ASSERT_TRUE(shell("mkdir " + inside("run/sshd")));
  works = assignment_.entry->check();
  ASSERT_TRUE(works) << works.error().message();
  const auto opened = assignment_.entry->open({input_.launch.public_key, {}});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_THAT(greeting(), EndsWith(kVolume));
}

TEST_F(SshdEntryTest, the_base_has_the_port_as_soon_as_the_bootstrap_is_killed) {
  make_volume_with_sshd();
  const pid_t bootstrap =
      stays_once([this] { return bring_up(input_, assignment_, book_, stop_).has_value(); });
  ASSERT_GT(bootstrap, 0);
  EXPECT_THAT(greeting(), EndsWith(kVolume));
  ::kill(bootstrap, SIGKILL);
  ::waitpid(bootstrap, nullptr, 0);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  // Nobody is in the volume: its sshd went with the bootstrap, and the next one can begin.
  const Ok cleared = clear_leftovers();
  EXPECT_TRUE(cleared) << cleared.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(assignment_.dirty_bound.remove());
}

/// Whatever the ticket says by then: accounts and ports are this entry's.
TEST_F(SshdEntryTest, whoever_is_in_it_stays_when_the_next_one_takes_it_and_the_port_over) {
  make_volume_with_sshd();
  const pid_t bootstrap =
      stays_once([this] { return bring_up(input_, assignment_, book_, stop_).has_value(); });
  ASSERT_GT(bootstrap, 0);
  const pid_t session = stays_once([] { return ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0; });
  ASSERT_GT(session, 0);
  ::kill(bootstrap, SIGKILL);
  ::waitpid(bootstrap, nullptr, 0);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  auto held = take_leftovers();
  ASSERT_TRUE(held) << held.error().message();
  ASSERT_TRUE(*held);
  EXPECT_EQ((*held)->volume.served_by, EntryKind::sshd);
  Assignment assignment = taken_over(std::move((*held)->volume), book_);
  input_.entry = EntryKind::chroot;
  const Ok done = resume(input_, assignment, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_THAT(greeting(), EndsWith(kVolume));
  EXPECT_EQ(::kill(session, 0), 0);
  EXPECT_EQ(::waitpid(session, nullptr, WNOHANG), 0) << "she has noticed nothing";
  ::kill(session, SIGKILL);
  ::waitpid(session, nullptr, 0);
  const Ok released = release(leaving(), assignment, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_THAT(greeting(), EndsWith(kBase));
}

TEST_F(SshdEntryTest,
       killed_after_any_step_of_its_own_it_leaves_a_login_and_what_the_next_one_begins_with) {
  make_volume_with_sshd();
  ASSERT_TRUE(shell("echo \"127.0.0.1 $(cut -d' ' -f1,2 /run/keys/volume.pub)\" >/run/known"));
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  const auto in = book_.snapshot().steps;
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  const auto all = book_.snapshot().steps;
  ASSERT_NO_FATAL_FAILURE(kill_after_each_step_of_the_entry(in, clear_leftovers, [] {
    const auto said = shell(client("read -r os </etc/os-release; echo $USER $os") + " 2>&1");
    EXPECT_EQ(said.value_or("no login"), "ada PRETTY_NAME=\"Test Volume 1\"");
  }));
  for (std::size_t steps = 1; all[in.size() + steps - 1].name != "sync"; ++steps) {
    SCOPED_TRACE(all[in.size() + steps - 1].name);
    EXPECT_TRUE(killed_after(in.size() + steps, [&](auto& book) {
      Assignment lost;
      if (bring_up(input_, lost, book, stop_)) std::ignore = release(leaving(), lost, book);
    }));
    EXPECT_THAT(greeting(), EndsWith(kBase));
    // As `down` finds things when the daemon is gone.
    Assignment found;
    found.disk_node = "/dev/vdz";
    found.mounted = true;
    StatusBook book("");
    const Ok released = release(leaving(), found, book);
    ASSERT_TRUE(released) << released.error().message();
    EXPECT_TRUE(check_device_free("/dev/vdz"));
  }
}

TEST_F(SshdEntryTest, whoever_is_in_the_volume_stays_when_the_bootstrap_is_killed) {
  make_volume_with_sshd();
  ASSERT_TRUE(
      shell("mkfifo /run/words; echo \"127.0.0.1 $(cut -d' ' -f1,2 "
            "/run/keys/volume.pub)\" >/run/known"));
  EXPECT_TRUE(killed_after(1, [&](auto& book) {
    StatusBook quiet("");
    if (!bring_up(input_, assignment_, quiet, stop_)) return;
    if (shell("(" + client("echo in; read -r word; echo heard $word") +
              ") >/run/said 2>&1 <>/run/words & until grep -q in /run/said; do :; done"))
      book.record({"a session has begun", 0, 0, Outcome::ok, ""});
  }));
  EXPECT_THAT(greeting(), EndsWith(kBase));
  ASSERT_TRUE(shell("echo you >/run/words; until grep -q heard /run/said; do :; done"));
  EXPECT_EQ(*shell("tail -n 1 /run/said"), "heard you");
  assignment_.mounted = true;
  assignment_.disk_node = "/dev/vdz";
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
}

TEST_F(SshdEntryTest, killed_while_it_tries_a_login_it_leaves_no_key) {
  make_volume_with_sshd();
  mount_volume();
  ASSERT_TRUE(shell("printf 'ForceCommand : >/tmp/tried; kill -STOP $$\n' >>" +
                    inside("etc/ssh/sshd_config")));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  const pid_t bootstrap = ::fork();
  if (bootstrap == 0) {
    std::ignore = bring_up(input_, assignment_, book_, stop_);
    ::_exit(0);
  }
  ASSERT_TRUE(shell("for i in $(seq 600); do [ -e " + inside("tmp/tried") +
                    " ] && exit 0; sleep 0.1; done; exit 1"));
  EXPECT_EQ(::access(kTrialKey, F_OK), 0);
  ::kill(bootstrap, SIGKILL);
  ::waitpid(bootstrap, nullptr, 0);
  EXPECT_THAT(greeting(), EndsWith(kBase));
  // What the volume's own ForceCommand has begun stays, as with any session.
  ASSERT_TRUE(
      shell("for process in /proc/[0-9]*; do grep -qs '^State:.*(stopped)' "
            "$process/status && kill -KILL ${process#/proc/}; done; :"));
  const Ok cleared = clear_leftovers();
  EXPECT_TRUE(cleared) << cleared.error().message();
  EXPECT_NE(::access(kTrialKey, F_OK), 0);
  EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
  EXPECT_TRUE(assignment_.dirty_bound.remove());
}

}  // namespace
}  // namespace warmroot::bootstrap
