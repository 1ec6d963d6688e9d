// Which process is the daemon, while others run, lock or look at its files.
#include "bootstrap/daemon_lock.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr uid_t kNobody = 65534;

TEST_F(BootUp, run_twice_is_refused_and_changes_nothing) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  const std::string wanted = state();
  const pid_t daemon = running_daemon();
  EXPECT_EQ(run_up(), "warmroot-bootstrap runs already as process " + std::to_string(daemon));
  EXPECT_EQ(running_daemon(), daemon);
  EXPECT_EQ(state(), wanted);
  EXPECT_TRUE(down());
}

/// A process that has a lock of this type on the pid file until it is ended. Its wait status says
/// why it could not.
pid_t hold_pid_file(uid_t uid, short type, const char* name) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    if (name != nullptr) ::prctl(PR_SET_NAME, name);
    if (::setresuid(uid, uid, uid) != 0) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = ::open(kPidFile, type == F_WRLCK ? O_RDWR | O_CREAT : O_RDONLY, 0644);
    struct flock range {};
    range.l_type = type;
    // A daemon's lock is waited for: whoever does has it as soon as the daemon is killed.
    if (::fcntl(file, F_SETLK, &range) != 0 && type == F_WRLCK) ::_exit(2);
    [[maybe_unused]] const auto put = ::write(ready[1], "y", 1);
    if (type == F_RDLCK && ::fcntl(file, F_SETLKW, &range) != 0) ::_exit(3);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  [[maybe_unused]] const auto got = ::read(ready[0], &byte, 1);
  ::close(ready[0]);
  return child;
}

bool still_runs(pid_t child) {
  return ::waitpid(child, nullptr, WNOHANG) == 0;
}

/// After a kill `up` took a person's lock for a daemon's, and `down` sent the person a signal.
TEST_F(BootUp, a_person_who_locks_the_pid_file_is_neither_a_daemon_nor_in_the_way_of_one) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  pid_t first = hold_pid_file(kNobody, F_RDLCK, nullptr);
  ASSERT_TRUE(still_runs(first));
  EXPECT_NE(running_daemon(), first);
  ASSERT_NO_FATAL_FAILURE(kill_daemon());
  EXPECT_FALSE(daemon_runs());
  ::unlink(kStatusFile);
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes_ready()) << status().message;
  pid_t second = hold_pid_file(kNobody, F_RDLCK, nullptr);
  ASSERT_TRUE(still_runs(second));
  EXPECT_EQ(std::to_string(running_daemon()), read_attribute(kPidFile));
  struct stat facts {};
  ASSERT_EQ(::stat(kLockFile, &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u) << "else it could be locked just so";
  EXPECT_TRUE(down());
  EXPECT_TRUE(still_runs(first));
  EXPECT_TRUE(still_runs(second));
  end_process(first);
  end_process(second);
}

TEST_F(BootUp, people_see_that_a_daemon_runs_although_its_lock_is_root_s) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(), "");
  ASSERT_TRUE(comes([] { return daemon_runs(); }));
  const pid_t person = ::fork();
  if (person == 0) {
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    if (::open(kLockFile, O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) ::_exit(2);
    ::_exit(daemon_runs() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(person, &status, 0), person);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(comes_ready());
  EXPECT_TRUE(down());
}

/// It has locked the pid file alone.
TEST_F(BootUp, a_daemon_of_an_older_program_is_seen_and_nobody_else_in_its_place_is_signalled) {
  ::unlink(kStatusFile);
  pid_t other = hold_pid_file(0, F_WRLCK, "other");
  ASSERT_TRUE(still_runs(other));
  const Ok refused = down();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("is no bootstrap of root's"));
  EXPECT_TRUE(still_runs(other));
  end_process(other);
  const pid_t older = hold_pid_file(0, F_WRLCK, "warmroot-bootst");
  ASSERT_TRUE(still_runs(older));
  EXPECT_EQ(run_up(), "warmroot-bootstrap runs already as process " + std::to_string(older));
  std::ignore = down();
  int status = 0;
  ASSERT_EQ(::waitpid(older, &status, 0), older);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

}  // namespace
}  // namespace warmroot::bootstrap
