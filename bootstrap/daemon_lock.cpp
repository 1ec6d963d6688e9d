#include "bootstrap/daemon_lock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr int kEndLookMs = 1;

bool lock_for_writing(int fd) {
  struct flock range {};
  range.l_type = F_WRLCK;
  return ::fcntl(fd, F_SETLK, &range) == 0;
}

/// Whose write lock is on the file; 0: of a process that is not to be seen from here. Whoever can
/// read a file can take a read lock on it: those are passed over.
std::optional<pid_t> writer_of(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  struct flock range {};
  range.l_type = F_RDLCK;
  if (::fcntl(file.get(), F_GETLK, &range) != 0 || range.l_type != F_WRLCK) return std::nullopt;
  return range.l_pid;
}

Result<UniqueFd> take_lock(const char* path) {
  UniqueFd file(::open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return fail_errno(std::string("opening ") + path);
  if (!lock_for_writing(file.get()))
    return fail(ErrorKind::refused, "another warmroot-bootstrap is running");
  return file;
}

/// Locked too, for people, who cannot open the other one, and a new file each time, for root alone
/// until it is: on one that they can read, somebody's read lock would be in the way.
Result<UniqueFd> make_pid_file() {
  const std::string fresh = std::string(kPidFile) + ".new";
  ::unlink(fresh.c_str());
  UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno("creating " + fresh);
  if (!lock_for_writing(file.get())) return fail_errno("locking " + fresh);
  TRY(write_fully(file.get(), std::to_string(::getpid()) + "\n", fresh));
  if (::fchmod(file.get(), 0644) != 0 || ::rename(fresh.c_str(), kPidFile) != 0)
    return fail_errno(std::string("replacing ") + kPidFile);
  return file;
}

std::optional<pid_t> lock_holder() {
  const auto holder = writer_of(kLockFile);
  return holder ? holder : writer_of(kPidFile);
}

/// By what proc(5) shows to everybody. A command's name is cut at 15 bytes.
bool is_bootstrap_of_root(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string name = read_attribute(folder + "/comm");
  const std::string status = read_file(folder + "/status", 65536).value_or("");
  return status.find("\nUid:\t0\t0\t") != std::string::npos &&
         (name == "warmroot-bootst" || name == read_attribute("/proc/self/comm"));
}

pid_t supervisor() {
  return writer_of(kSupervisorLock).value_or(0);
}

/// `who` is asked twice: what it names by then is the process that is signalled.
Result<pid_t> signal_holder(pid_t (*who)(), int number) {
  const pid_t pid = who();
  if (pid == 0) return 0;
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  // It has ended, and its number may be another's; while it has the lock the descriptor is its own.
  if (who() != pid) return 0;
  if (!process) return fail_errno("finding process " + std::to_string(pid));
  if (!is_bootstrap_of_root(pid))
    return fail(ErrorKind::refused, "process " + std::to_string(pid) +
                                        " has the bootstrap's lock and is no bootstrap of root's");
  if (::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0) != 0)
    return fail_errno("signalling process " + std::to_string(pid));
  return pid;
}

}  // namespace

Result<DaemonLock> lock_daemon() {
  TRY_ASSIGN(UniqueFd lock, take_lock(kLockFile));
  // Daemons of older programs have locked the pid file alone.
  if (writer_of(kPidFile)) return fail(ErrorKind::refused, "another warmroot-bootstrap is running");
  TRY_ASSIGN(UniqueFd pid_file, make_pid_file());
  return DaemonLock{std::move(lock), std::move(pid_file)};
}

pid_t running_daemon() {
  return lock_holder().value_or(0);
}

Result<pid_t> signal_daemon(int number) {
  return signal_holder(running_daemon, number);
}

bool daemon_runs() {
  return lock_holder().has_value();
}

Result<UniqueFd> lock_supervisor() {
  return take_lock(kSupervisorLock);
}

bool supervisor_runs() {
  return writer_of(kSupervisorLock).has_value();
}

Ok end_supervisor() {
  TRY_ASSIGN(const pid_t pid, signal_holder(supervisor, SIGKILL));
  while (pid != 0 && supervisor() == pid) ::poll(nullptr, 0, kEndLookMs);
  return {};
}

}  // namespace warmroot::bootstrap
