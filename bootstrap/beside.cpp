#include "bootstrap/beside.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
  char* const* no_links;
  char* const* regular_files;
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

void say(const char* text) {
  [[maybe_unused]] const auto put = ::write(STDERR_FILENO, text, std::strlen(text));
}

/// What is there, if anything, no link followed at its end. Says which is otherwise, and why that
/// matters.
bool is_all(char* const* places, bool (*is_so)(mode_t), const char* otherwise) {
  for (; *places != nullptr; ++places) {
    struct stat facts {};
    const bool is_there = ::lstat(*places, &facts) == 0;
    if (is_there ? is_so(facts.st_mode) : errno == ENOENT) continue;
    say(*places);
    say(is_there ? otherwise : " cannot be looked at\n");
    return false;
  }
  return true;
}

bool leads_nowhere_else(const Start& start) {
  return is_all(
             start.no_links, [](mode_t mode) { return !S_ISLNK(mode); },
             " is a symbolic link, which would be followed on the base\n") &&
         is_all(
             start.regular_files, [](mode_t mode) { return S_ISREG(mode); },
             " is no regular file, and would be opened on the base\n");
}

[[noreturn]] void become(const Start& start) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != start.parent) ::_exit(kCannotStart);
  ::dup2(start.null_fd, STDIN_FILENO);
  ::dup2(start.log_fd, STDOUT_FILENO);
  ::dup2(start.log_fd, STDERR_FILENO);
  if (!unmount_for_itself(start.unmounted) || !leads_nowhere_else(start)) ::_exit(kCannotStart);
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
  const auto unmounted = pointers(program.unmounted), no_links = pointers(program.no_links),
             regular_files = pointers(program.regular_files);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Start start{program.root,     null.get(),      program.log,
                    ::getpid(),       argv.data(),     environment.data(),
                    unmounted.data(), no_links.data(), regular_files.data()};
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) become(start);
  return child;
}

}  // namespace warmroot::bootstrap
