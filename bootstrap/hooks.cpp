#include "bootstrap/hooks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <set>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {
namespace {

/// More is a mistake; each is a line of the timeline, which reports carry.
constexpr std::size_t kMostHooks = 32;
constexpr std::size_t kMostNameBytes = 64;
constexpr std::size_t kMostLines = 50, kMostLineBytes = 200;
/// From SIGTERM to SIGKILL of a hook that took too long.
constexpr std::int64_t kHookPoliteMs = 1000;
/// For what was killed to be gone; what waits in the kernel stays.
constexpr std::int64_t kGoneMs = 2000;
constexpr int kHookPauseMs = 20;
/// How late an end that has come nearer is noticed.
constexpr std::int64_t kHookLookMs = 100;
/// A hook that hangs must leave time for the ones after it.
constexpr std::int64_t kShareOf = 3, kShare = 2;
constexpr int kCannotStart = 127;

/// What is root's alone to change.
const char* unfit_owner(const struct stat& facts) {
  if (facts.st_uid != 0) return "it is not root's";
  if ((facts.st_mode & 022) != 0) return "others than root can write it";
  return nullptr;
}

bool plain_name(const std::string& name) {
  return name.size() <= kMostNameBytes &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
             std::string::npos;
}

std::string unfitness(const RootDirectory& root, const std::string& name) {
  if (!plain_name(name))
    return "its name is not made of up to 64 letters, digits, '-', '_' and '.'";
  const auto file = root.open_inside(std::string(kHooksFolder) + "/" + name, O_PATH | O_NOFOLLOW);
  struct stat facts {};
  if (!file || ::fstat(file->get(), &facts) != 0) return "it cannot be looked at";
  if (!S_ISREG(facts.st_mode)) return "it is no regular file";
  if ((facts.st_mode & S_IXUSR) == 0) return "it is not executable";
  const char* owner = unfit_owner(facts);
  return owner != nullptr ? owner : "";
}

// what the children do: system calls alone, because they run between fork and exec of a threaded
// program

struct Start {
  int root_fd;
  int null_fd;
  int output_fd;
  int status_fd;
  const char* path;
  char* const* argv;
  char* const* environment;
};

[[noreturn]] void become_hook(const Start& start) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would keep its time
  if (::fchdir(start.root_fd) != 0 || ::chroot(".") != 0 || ::chdir("/") != 0)
    ::_exit(kCannotStart);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(start.path, start.argv, start.environment);
  ::_exit(kCannotStart);
}

/// The father of a hook and of all that it leaves: tells how the hook ended, and ends itself when
/// nothing is left. Keeps nothing of the daemon's open but its own two ends.
[[noreturn]] void supervise(Start start) {
  constexpr int kFirst = 3;
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(start.null_fd, STDIN_FILENO);
  ::dup2(start.output_fd, STDOUT_FILENO);
  ::dup2(start.output_fd, STDERR_FILENO);
  const int status_fd = ::fcntl(start.status_fd, F_DUPFD_CLOEXEC, 256);
  start.root_fd = ::fcntl(start.root_fd, F_DUPFD_CLOEXEC, status_fd + 1);
  if (status_fd < 0 || start.root_fd < 0) ::_exit(1);
  ::syscall(SYS_close_range, kFirst, status_fd - 1, 0);
  ::syscall(SYS_close_range, status_fd + 1, start.root_fd - 1, 0);
  ::syscall(SYS_close_range, start.root_fd + 1, ~0U, 0);
  const pid_t hook = ::fork();
  if (hook == 0) become_hook(start);
  ::close(start.root_fd);
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == hook) [[maybe_unused]]
      const auto put = ::write(status_fd, &status, sizeof status);
    if (ended < 0 && errno != EINTR) ::_exit(0);
  }
}

// what the daemon does

/// Everything below `ancestor`. What detached itself is the supervisor's child again.
std::set<pid_t> descendants_of(pid_t ancestor) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& name : list_directory("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto stat = parse_process_stat(read_attribute("/proc/" + name + "/stat"));
    // One whose first thread has ended looks like one that has ended.
    const bool lives =
        stat && (stat->state != 'Z' || list_directory("/proc/" + name + "/task").size() > 1);
    if (lives) children.emplace(stat->parent, std::stoi(name));
  }
  std::set<pid_t> found;
  std::vector<pid_t> open{ancestor};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child)
      if (found.insert(child->second).second) open.push_back(child->second);
  }
  return found;
}

/// Lines to the log as they come, so many and so long.
class HookOutput {
 public:
  HookOutput(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  ~HookOutput() {
    if (!line_.empty()) end_line();
    if (lines_ > kMostLines)
      log_event(LogLevel::info, "hook output left out",
                {{"name", name_}, {"lines", std::to_string(lines_ - kMostLines)}});
  }
  HookOutput(const HookOutput&) = delete;
  HookOutput& operator=(const HookOutput&) = delete;

  /// What is there now.
  void take() {
    char buffer[4096];
    const ssize_t got = ::read(fd_.get(), buffer, sizeof buffer);
    if (got == 0) fd_.reset();
    for (ssize_t i = 0; i < got; ++i)
      if (buffer[i] == '\n')
        end_line();
      else if (line_.size() < kMostLineBytes)
        line_ += buffer[i];
  }
  int fd() const { return fd_.get(); }  ///< -1 after its end, which poll(2) leaves out
  const std::string& last_line() const { return last_; }

 private:
  void end_line() {
    line_ = without_controls(std::move(line_));  // for a terminal of root's
    if (++lines_ <= kMostLines)
      log_event(LogLevel::info, "hook", {{"name", name_}, {"says", line_}});
    if (!line_.empty()) last_ = std::move(line_);
    line_.clear();
  }

  UniqueFd fd_;
  const std::string name_;
  std::string line_, last_;
  std::size_t lines_ = 0;
};

class HookRun {
 public:
  HookRun(pid_t supervisor, UniqueFd status, UniqueFd output, const std::string& name)
      : supervisor_(supervisor), status_fd_(std::move(status)), output_(std::move(output), name) {}

  /// How it ended, in words; ok when it ended with 0 in time.
  /// `last_ms` may come nearer meanwhile.
  Result<std::string> finish(std::int64_t limit_ms, const std::atomic<std::int64_t>& last_ms) {
    const std::int64_t started_ms = boottime_ms();
    const bool in_time = wait_until(started_ms + limit_ms, last_ms);
    if (!in_time) {
      limit_ms = std::clamp<std::int64_t>(last_ms - started_ms, 0, limit_ms);
      signal_all(SIGTERM);
      wait_until(boottime_ms() + kHookPoliteMs, std::numeric_limits<std::int64_t>::max());
    }
    const std::size_t left_behind = kill_all();
    const std::string rest =
        left_behind == 0 ? "" : ", left " + std::to_string(left_behind) + " behind, killed";
    if (!in_time)
      return fail(ErrorKind::retry_later,
                  "took longer than " + std::to_string(limit_ms / 1000) + " s and was ended");
    return in_words(rest);
  }

 private:
  Result<std::string> in_words(const std::string& rest) const {
    if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return "ended with 0" + rest;
    const std::string& last = output_.last_line();
    const std::string how = WIFEXITED(status_)
                                ? "ended with " + std::to_string(WEXITSTATUS(status_))
                                : "was killed by signal " + std::to_string(WTERMSIG(status_));
    return fail(ErrorKind::broken, how + rest + (last.empty() ? "" : ": " + last));
  }

  /// True when the hook itself has ended.
  bool wait_until(std::int64_t deadline_ms, const std::atomic<std::int64_t>& last_ms) {
    while (!ended_) {
      const std::int64_t left = std::min(deadline_ms, last_ms.load()) - boottime_ms();
      if (left <= 0) return false;
      pollfd items[] = {{status_fd_.get(), POLLIN, 0}, {output_.fd(), POLLIN, 0}};
      if (::poll(items, 2, static_cast<int>(std::min(left, kHookLookMs))) <= 0) continue;
      if (items[1].revents != 0) output_.take();
      if (items[0].revents == 0) continue;
      ended_ = true;
      if (::read(status_fd_.get(), &status_, sizeof status_) != sizeof status_)
        status_ = kCannotStart << 8;  // the supervisor could not start it
    }
    return true;
  }

  void signal_all(int number) const {
    for (const pid_t pid : descendants_of(supervisor_)) ::kill(pid, number);
  }

  /// Until the supervisor, which waits for all of them, has ended, for some seconds at most: the
  /// hooks behind this one have their time, too. Returns how many were killed.
  std::size_t kill_all() {
    std::set<pid_t> killed;
    const std::int64_t deadline = boottime_ms() + kGoneMs;
    while (::waitpid(supervisor_, nullptr, WNOHANG) == 0) {
      for (const pid_t pid : descendants_of(supervisor_)) {
        ::kill(pid, SIGKILL);
        killed.insert(pid);
      }
      if (boottime_ms() >= deadline) {
        ::kill(supervisor_, SIGKILL);
        give_up(supervisor_);
        break;
      }
      pollfd item{output_.fd(), POLLIN, 0};
      if (::poll(&item, 1, kHookPauseMs) > 0) output_.take();
    }
    while (output_.fd() >= 0) {  // what is in the pipe
      pollfd item{output_.fd(), POLLIN, 0};
      if (::poll(&item, 1, 0) <= 0) break;
      output_.take();
    }
    return killed.size();
  }

  const pid_t supervisor_;
  UniqueFd status_fd_;
  HookOutput output_;
  int status_ = 0;
  bool ended_ = false;
};

Result<std::string> run_hook(const RootDirectory& root, const std::string& name,
                             const HookOrder& order, std::int64_t limit_ms) {
  int status[2], output[2];
  if (::pipe2(status, O_CLOEXEC) != 0) return fail_errno("pipe");
  UniqueFd status_read(status[0]), status_write(status[1]);
  if (::pipe2(output, O_CLOEXEC) != 0) return fail_errno("pipe");
  UniqueFd output_read(output[0]), output_write(output[1]);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string path = std::string("/") + kHooksFolder + "/" + name;
  std::vector<std::string> words{path, order.reason};
  std::vector<std::string> variables{
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "HOME=/root",
      "WARMROOT_REASON=" + order.reason,
      "WARMROOT_DEADLINE_SECONDS=" + std::to_string(limit_ms / 1000),
      "WARMROOT_POOL=" + order.pool,
      "WARMROOT_INSTANCE_ID=" + order.instance_id,
      "WARMROOT_VOLUME_ID=" + order.volume_id};
  std::vector<char*> argv, environment;
  for (auto& word : words) argv.push_back(word.data());
  for (auto& variable : variables) environment.push_back(variable.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const Start start{root.fd(),    null.get(),  output_write.get(), status_write.get(),
                    path.c_str(), argv.data(), environment.data()};
  const pid_t supervisor = ::fork();
  if (supervisor < 0) return fail_errno("fork");
  if (supervisor == 0) supervise(start);
  status_write.reset();
  output_write.reset();
  return HookRun(supervisor, std::move(status_read), std::move(output_read), name)
      .finish(limit_ms, *order.deadline_ms);
}

}  // namespace

Result<std::vector<HookFile>> find_hooks(const RootDirectory& root) {
  std::vector<HookFile> hooks;
  const std::string folder = kHooksFolder;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = folder.find('/', end + 1);
    const std::string part = folder.substr(0, end);
    const auto found = root.open_inside(part, O_PATH | O_NOFOLLOW);
    struct stat facts {};
    if (!found && found.error().code == "ENOENT") return hooks;
    if (!found || ::fstat(found->get(), &facts) != 0)
      return fail(ErrorKind::refused, "/" + part + " in the volume cannot be looked at");
    const char* unfit = S_ISDIR(facts.st_mode) ? unfit_owner(facts) : "it is no directory";
    if (unfit != nullptr)
      return fail(ErrorKind::refused,
                  "no hook is run because of /" + part + " in the volume: " + unfit);
  }
  TRY_ASSIGN(const UniqueFd listed, root.open_inside(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  auto names = list_directory("/proc/self/fd/" + std::to_string(listed.get()));
  std::sort(names.begin(), names.end());
  for (const auto& name : names) {
    if (name.front() == '.' || name.back() == '~') continue;
    if (hooks.size() == kMostHooks)
      return fail(ErrorKind::refused,
                  "there are more than 32 hooks in /" + folder + " in the volume: none is run");
    hooks.push_back({name, unfitness(root, name)});
  }
  return hooks;
}

std::vector<TimedStep> run_hooks(const RootDirectory& root, const std::vector<HookFile>& hooks,
                                 const HookOrder& order) {
  std::vector<TimedStep> steps;
  for (const auto& hook : hooks) {
    TimedStep step{"hook " + without_controls(hook.name), boottime_ms(), 0, Outcome::skipped,
                   hook.unfit};
    const std::int64_t limit_ms = (*order.deadline_ms - boottime_ms()) * kShare / kShareOf;
    if (hook.unfit.empty() && limit_ms < 1000) {
      step.detail = "no time is left for it";
    } else if (hook.unfit.empty()) {
      const auto done = run_hook(root, hook.name, order, limit_ms);
      step.outcome = done ? Outcome::ok : Outcome::failed;
      step.detail = done ? *done : done.error().message();
    }
    step.ms = boottime_ms() - step.start_ms;
    steps.push_back(std::move(step));
  }
  return steps;
}

Result<std::vector<TimedStep>> hooks_of_volume(const HookOrder& order, dev_t device) {
  TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
  struct stat facts {};
  if (::fstat(root.fd(), &facts) != 0 || facts.st_dev != device)
    return fail(ErrorKind::gone, "the volume is not mounted any more");
  TRY_ASSIGN(const auto hooks, find_hooks(root));
  if (hooks.empty()) return std::vector<TimedStep>();
  // Before the first: whatever happens now, none is run twice.
  TRY(write_file_atomic(kHooksRun, order.reason + "\n", 0644));
  return run_hooks(root, hooks, order);
}

}  // namespace warmroot::bootstrap
