// A probe login beside the rest of the process, against the real kernel. What it tells of a volume
// is boot_ns_test's.
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "bootstrap/base/detached.hpp"
#include "bootstrap/sshd.hpp"
#include "tests/boot_namespace.hpp"

namespace warmroot::bootstrap {
namespace {

std::atomic<bool> fork_another = false;
std::atomic<pid_t> another = -1;

/// As another thread does in the middle of a fork(2) of this one, but for its exec, to which this
/// child never comes.
void fork_beside() {
  if (!fork_another.exchange(false)) return;
  const long child = ::syscall(SYS_clone, static_cast<long>(SIGCHLD), 0L, 0L, 0L, 0L);
  if (child == 0)
    while (true) ::pause();
  another = static_cast<pid_t>(child);
}

/// It had both pipes of the login, and the daemon read from one until its end.
TEST_F(BootNamespace, a_probe_login_that_fails_does_not_wait_for_who_was_forked_at_that_moment) {
  ASSERT_NO_FATAL_FAILURE(make_volume());
  ASSERT_NO_FATAL_FAILURE(mount_volume());
  ASSERT_TRUE(perform_plan());
  ASSERT_EQ(::pthread_atfork(nullptr, fork_beside, nullptr), 0);
  fork_another = true;
  std::packaged_task<Ok()> task([] {
    return probe_login(kVolumePoint, ada("/bin/angry"), {2001}, std::chrono::seconds(20));
  });
  auto login = task.get_future();
  run_detached(std::move(task));
  const bool in_time = login.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  const pid_t child = another;
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const Ok done = login.get();
  EXPECT_GT(child, 0) << "nobody had its pipes";
  EXPECT_TRUE(in_time);
  EXPECT_THAT(done ? "it worked" : done.error().message(), testing::HasSubstr("profile is broken"));
}

/// What it wrote was read for as long as it wrote, into memory without end.
TEST_F(BootNamespace, a_probe_login_that_fails_does_not_read_on_for_who_writes_for_ever) {
  ASSERT_NO_FATAL_FAILURE(make_volume(R"(
    cp /usr/bin/setsid $t/bin/; chmod 1777 $t/tmp
    printf '#!/bin/sh\nwhile echo again and again || :; do : >/tmp/begun; done\n' >$t/bin/endless
    printf '#!/bin/sh\nsetsid /bin/endless &\nuntil [ -e /tmp/begun ]; do :; done\nexit 3\n' >$t/bin/leaver
    chmod 755 $t/bin/endless $t/bin/leaver)"));
  ASSERT_NO_FATAL_FAILURE(mount_volume());
  ASSERT_TRUE(perform_plan());
  std::packaged_task<Ok()> task([] {
    return probe_login(kVolumePoint, ada("/bin/leaver"), {2001}, std::chrono::seconds(20));
  });
  auto login = task.get_future();
  run_detached(std::move(task));
  ASSERT_EQ(login.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const Ok done = login.get();
  EXPECT_THAT(done ? "it worked" : done.error().message(), testing::HasSubstr("again"));
}

}  // namespace
}  // namespace warmroot::bootstrap
