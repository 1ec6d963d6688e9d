#include "bootstrap/beside.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr int kCannotStart = 127;

/// What the child does: system calls alone, because it runs between fork and exec of a threaded
/// program.
struct Start {
  int root_fd, null_fd, log_fd;
  pid_t parent;
  char* const* argv;
  char* const* environment;
  char* const* unmounted;
};

/// Whatever is mounted there, one over another. False where nothing was.
bool unmount_all_at(const char* place) {
  bool was_mounted = false;
  while (::umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) was_mounted = true;
  return was_mounted && errno == EINVAL;
}

/// In a mount namespace of this process's.
bool unmount_for_itself(char* const* trees) {
  if (*trees == nullptr) return true;
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return false;
  for (; *trees != nullptr; ++trees)
    if (!unmount_all_at(*trees)) return false;
  return true;
}

[[noreturn]] void become(const Start& start) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != start.parent) ::_exit(kCannotStart);
  ::dup2(start.null_fd, STDIN_FILENO);
  ::dup2(start.log_fd, STDOUT_FILENO);
  ::dup2(start.log_fd, STDERR_FILENO);
  if (!unmount_for_itself(start.unmounted)) ::_exit(kCannotStart);
  if (start.root_fd >= 0 && (::fchdir(start.root_fd) != 0 || ::chroot(".") != 0))
    ::_exit(kCannotStart);
  if (::chdir("/") != 0) ::_exit(kCannotStart);
  close_at_exec(STDERR_FILENO + 1);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(start.argv[0], start.argv, start.environment);
  ::_exit(kCannotStart);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> made;
  for (auto& word : words) made.push_back(word.data());
  made.push_back(nullptr);
  return made;
}

}  // namespace

std::string end_in_words(int status) {
  return WIFEXITED(status) ? "ended with " + std::to_string(WEXITSTATUS(status))
                           : "was killed by signal " + std::to_string(WTERMSIG(status));
}

Result<pid_t> start_beside(Beside program) {
  program.variables.push_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  const auto argv = pointers(program.words), environment = pointers(program.variables);
  const auto unmounted = pointers(program.unmounted);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Start start{program.root, null.get(),         program.log,     ::getpid(),
                    argv.data(),  environment.data(), unmounted.data()};
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) become(start);
  return child;
}

}  // namespace warmroot::bootstrap
