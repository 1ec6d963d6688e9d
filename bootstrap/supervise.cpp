#include "bootstrap/supervise.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <string>

#include "bootstrap/base/log.hpp"
#include "bootstrap/beside.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/restart_limit.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPrompt{200};
constexpr milliseconds kLater{60'000};

class Supervisor {
 public:
  Supervisor(const std::function<int(bool)>& life, const std::function<bool()>& goes_on)
      : life_(life), goes_on_(goes_on) {
    ::signal(SIGCHLD, SIG_DFL);  // ignored, as it may have been, it would take the ends away
    sigemptyset(&heard_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&heard_, number);
    // From before the first child on: none of its ends is missed.
    ::sigprocmask(SIG_BLOCK, &heard_, nullptr);
  }

  [[noreturn]] void run() {
    for (bool again = false;; again = true) {
      const bool is_last = told_to_end_;
      const std::int64_t began_ms = boottime_ms();
      const pid_t child = start(again);
      const int status = child > 0 ? end_of(child) : 0;
      const bool killed = child > 0 && WIFSIGNALED(status);
      if (child > 0 && !killed && WEXITSTATUS(status) != kTryLater) ::_exit(WEXITSTATUS(status));
      log_event(LogLevel::warning, "the daemon is gone",
                {{"process", std::to_string(child)},
                 {"why", killed ? "it " + end_in_words(status) : "it could not begin"}});
      if (is_last || !goes_on_()) ::_exit(1);
      // One that could not begin for a minute has waited already.
      const bool has_waited = !killed && boottime_ms() - began_ms >= kLater.count();
      rest(has_waited || (killed && restarts_.allow(boottime_ms())) ? kPrompt : kLater);
    }
  }

 private:
  pid_t start(bool again) const {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      sigset_t ends;
      sigemptyset(&ends);
      sigaddset(&ends, SIGCHLD);
      ::sigprocmask(SIG_UNBLOCK, &ends, nullptr);
      ::_exit(life_(again));
    }
    if (child > 0 && told_to_end_) pass_on(child, SIGTERM);
    return child;
  }

  void pass_on(pid_t child, int number) const {
    sigval value{};
    value.sival_int = by_init_ ? kFromInit : 0;
    ::sigqueue(child, number, value);
  }

  int end_of(pid_t child) {
    for (int status = 0;;) {
      if (::waitpid(child, &status, WNOHANG) == child) return status;
      siginfo_t info{};
      if (::sigwaitinfo(&heard_, &info) > 0) hear(info, child);
    }
  }

  void rest(milliseconds time) {
    const std::int64_t end_ms = boottime_ms() + time.count();
    for (std::int64_t left = time.count(); left > 0 && !told_to_end_;
         left = end_ms - boottime_ms()) {
      const timespec limit{left / 1000, left % 1000 * 1'000'000};
      siginfo_t info{};
      if (::sigtimedwait(&heard_, &info, &limit) > 0) hear(info, 0);
    }
  }

  /// init tells all processes of the unit at a shutdown.
  void hear(const siginfo_t& info, pid_t child) {
    if (info.si_signo != SIGTERM && info.si_signo != SIGINT) return;
    told_to_end_ = true;
    by_init_ = info.si_pid == kInit;
    if (child > 0 && !by_init_) pass_on(child, info.si_signo);
  }

  const std::function<int(bool)>& life_;
  const std::function<bool()>& goes_on_;
  sigset_t heard_{};
  RestartLimit restarts_;
  bool told_to_end_ = false, by_init_ = false;
};

}  // namespace

void supervise(const std::function<int(bool)>& life, const std::function<bool()>& goes_on) {
  Supervisor(life, goes_on).run();
}

}  // namespace warmroot::bootstrap
