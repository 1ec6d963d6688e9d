// A daemon that is killed and begun anew, and one that ends by itself or is told to.
#include "bootstrap/supervise.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {
namespace {

/// Shared by the test, the supervisor and its children.
struct Shared {
  std::atomic<int> lives = 0, asked = 0;
  std::atomic<pid_t> child = 0;
  std::atomic<bool> again = false;
};

class Supervise : public testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared_ = new (memory) Shared;
  }
  void TearDown() override { ::munmap(shared_, sizeof(Shared)); }

  /// As `up` does; it goes on until so many children have lived.
  void start(int (*life)(), int most_lives = 100) {
    supervisor_ = ::fork();
    if (supervisor_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    supervise(
        [&](bool again) {
          ::prctl(PR_SET_PDEATHSIG, SIGKILL);
          shared_->child = ::getpid();
          shared_->again = again;
          ++shared_->lives;
          return life();
        },
        [&] {
          ++shared_->asked;
          return shared_->lives < most_lives;
        });
  }

  bool lives_come_to(int lives) const {
    for (const auto end = boottime_ms() + 30'000; shared_->lives < lives; ::poll(nullptr, 0, 1))
      if (boottime_ms() > end) return false;
    return true;
  }

  int end() const {
    int status = 0;
    ::waitpid(supervisor_, &status, 0);
    return status;
  }

  static int wait_for_ever() {
    for (;;) ::pause();
  }

  Shared* shared_ = nullptr;
  pid_t supervisor_ = 0;
};

TEST_F(Supervise, one_that_ends_by_itself_is_not_begun_anew) {
  for (int (*life)() : {+[] { return 0; }, +[] { return 7; }}) {
    start(life);
    const int status = end();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), life());
    EXPECT_EQ(shared_->asked, 0);
  }
  EXPECT_EQ(shared_->lives, 2);
}

TEST_F(Supervise, one_that_is_killed_is_begun_anew_while_something_is_left_to_do) {
  start(wait_for_ever, 3);
  for (int life = 1; life <= 3; ++life) {
    ASSERT_TRUE(lives_come_to(life));
    EXPECT_EQ(shared_->again, life > 1);
    ::kill(shared_->child, SIGKILL);
  }
  const int status = end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(shared_->lives, 3);
  EXPECT_EQ(shared_->asked, 3);
}

/// A fault that comes each time must not keep a processor busy.
TEST_F(Supervise, one_that_dies_again_and_again_is_not_begun_anew_at_once) {
  start([] {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's own would end the process by itself
    ::raise(SIGSEGV);
    return 0;
  });
  EXPECT_TRUE(lives_come_to(6));
  ::poll(nullptr, 0, 1000);
  EXPECT_EQ(shared_->lives, 6) << "a minute";
  ::kill(supervisor_, SIGKILL);
  end();
}

TEST_F(Supervise, one_that_cannot_begin_rests_and_a_signal_has_it_begin_once_more) {
  start([] { return kTryLater; });
  ASSERT_TRUE(lives_come_to(1));
  ::poll(nullptr, 0, 1000);
  EXPECT_EQ(shared_->lives, 1) << "a minute";
  ::kill(supervisor_, SIGTERM);
  const int status = end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(shared_->lives, 2);
}

/// What is held has to be given back at a shutdown, also where that killed the daemon first.
TEST_F(Supervise, the_last_one_hears_the_signal_that_the_one_before_was_killed_behind) {
  start([] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    siginfo_t info{};
    ::sigwaitinfo(&signals, &info);  // it is blocked from the beginning
    return ::raise(SIGKILL);         // while it gives back
  });
  ASSERT_TRUE(lives_come_to(1));
  ::kill(supervisor_, SIGTERM);
  const int status = end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(shared_->lives, 2);
}

}  // namespace
}  // namespace warmroot::bootstrap
