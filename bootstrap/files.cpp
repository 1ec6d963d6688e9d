#include "bootstrap/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <future>
#include <mutex>

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxProgramOutput = 256 * 1024;
/// How often a child's run looks whether it is still wanted.
constexpr std::int64_t kSliceMs = 200;
/// e2fsck ends at SIGTERM with its file system consistent; it gets this long before SIGKILL.
constexpr std::int64_t kPoliteMs = 2000;
/// What was killed has this long to be gone. One that waits for a disk may take for ever: requests
/// to a volume's have no time limit.
constexpr std::int64_t kKilledMs = 5000;
constexpr int kGonePauseMs = 10;

/// Children that were given up, of all threads.
std::mutex given_up_mutex;
std::vector<pid_t> given_up;

bool is_cancelled(const Cancelled& cancelled) {
  return cancelled && cancelled();
}

/// True when there is something to read before the deadline, and the work is still wanted.
bool wait_readable(int fd, std::int64_t deadline_ms, const Cancelled& cancelled) {
  pollfd item{fd, POLLIN, 0};
  while (!is_cancelled(cancelled)) {
    const std::int64_t left = deadline_ms - boottime_ms();
    if (left <= 0) return false;
    const int ready = ::poll(&item, 1, static_cast<int>(std::min(left, kSliceMs)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

/// Takes the child's wait status, by looks: what is traced by somebody keeps it back though its end
/// is there. False where it is not to be had before the deadline.
bool take_status(pid_t child, std::int64_t deadline_ms, int& status) {
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (boottime_ms() >= deadline_ms) return false;
    ::poll(nullptr, 0, kGonePauseMs);
  }
  return true;
}

/// Reads what a child says until it closes its end, the deadline passes or it is cancelled.
void drain_output(int fd, std::int64_t deadline_ms, const Cancelled& cancelled,
                  std::string& output) {
  while (wait_readable(fd, deadline_ms, cancelled)) {
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return;
    if (output.size() < kMaxProgramOutput) output.append(buffer, static_cast<std::size_t>(got));
  }
}

/// What SELinux goes by. A file that is made beside another has their directory's, with which
/// /etc/shadow could be read by more services, and changed by passwd(1) no more. Where that is
/// forbidden, as by the warmer's filter, it has that one.
void keep_label(const std::string& of, int file) {
  constexpr char kLabel[] = "security.selinux";
  char label[1024];
  const ssize_t size = ::getxattr(of.c_str(), kLabel, label, sizeof label);
  if (size > 0) ::fsetxattr(file, kLabel, label, static_cast<std::size_t>(size), 0);
}

}  // namespace

std::int64_t boottime_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

Result<std::string> read_all(int fd, std::size_t limit, const std::string& name) {
  std::string text;
  char buffer[8192];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("reading " + name);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > limit)
      return fail(ErrorKind::broken, name + " is longer than " + std::to_string(limit) + " bytes");
  }
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("opening " + path);
  return read_all(file.get(), limit, path);
}

std::string read_lines(const std::string& path, std::size_t limit) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[65536];
  bool is_whole = false;
  while (file && !is_whole && text.size() < limit) {
    const ssize_t got = ::read(file.get(), buffer, std::min(sizeof buffer, limit - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    is_whole = got == 0;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (!is_whole) text.resize(text.rfind('\n') + 1);
  return text;
}

std::string read_attribute(const std::string& path) {
  auto text = read_file(path, 65536);
  if (!text) return {};
  return text->substr(0, text->find('\n'));
}

std::string link_text(const std::string& path) {
  char text[4096];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
  return length <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

Ok write_fully(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno("writing " + name);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<StagedFile> StagedFile::write(const std::string& path, std::string_view text, mode_t mode) {
  StagedFile staged(path, {});
  const std::string temporary = staged.temporary();
  ::unlink(temporary.c_str());
  staged.file_.reset(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const int file = staged.file_.get();
  if (file < 0) return fail_errno("creating " + temporary);
  struct stat before {};
  const bool existed = ::stat(path.c_str(), &before) == 0;
  TRY(write_fully(file, text, temporary));
  if (existed) keep_label(path, file);
  if ((existed && ::fchown(file, before.st_uid, before.st_gid) != 0) || ::fchmod(file, mode) != 0)
    return fail_errno("replacing " + path);
  return staged;
}

StagedFile::~StagedFile() {
  if (file_) ::unlink(temporary().c_str());
}

std::string StagedFile::temporary() const {
  return path_ + ".warmroot";
}

Ok StagedFile::sync() const {
  if (::fdatasync(file_.get()) != 0) return fail_errno("replacing " + path_);
  return {};
}

Ok StagedFile::take_place() {
  if (::rename(temporary().c_str(), path_.c_str()) != 0) return fail_errno("replacing " + path_);
  file_.reset();
  return {};
}

Ok sync_all(const std::vector<StagedFile>& files) {
  // One behind the other where no thread is to be had.
  constexpr auto kBeside = std::launch::async | std::launch::deferred;
  std::vector<std::future<Ok>> others;
  for (std::size_t i = 1; i < files.size(); ++i)
    others.push_back(std::async(kBeside, [&file = files[i]] { return file.sync(); }));
  Ok done = files.empty() ? Ok{} : files.front().sync();
  for (auto& other : others)
    if (Ok synced = other.get(); done && !synced) done = std::move(synced);
  return done;
}

Ok write_file_atomic(const std::string& path, std::string_view text, mode_t mode) {
  TRY_ASSIGN(StagedFile staged, StagedFile::write(path, text, mode));
  TRY(staged.sync());
  return staged.take_place();
}

Ok sync_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  const UniqueFd folder(
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("opening " + directory);
  if (::fsync(folder.get()) != 0 && errno != EINVAL) return fail_errno("syncing " + directory);
  return {};
}

Ok write_in_place(const std::string& path, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return fail_errno("opening " + path);
  return write_fully(file.get(), text, path);
}

Ok replace_symlink(const std::string& target, const std::string& path) {
  const std::string temporary = path + ".warmroot";
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0)
    return fail_errno("making the link " + path + " -> " + target);
  return {};
}

Ok make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno("making " + path);
  if (::chmod(path.c_str(), mode) != 0) return fail_errno("setting the mode of " + path);
  return {};
}

bool each_name(const std::string& path, const std::function<bool(const char*)>& show) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return true;
  bool goes_on = true;
  while (const dirent* entry = goes_on ? ::readdir(directory) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") goes_on = show(entry->d_name);
  }
  ::closedir(directory);
  return goes_on;
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  each_name(path, [&](const char* name) {
    names.emplace_back(name);
    return true;
  });
  return names;
}

Result<int> wait_child(pid_t child, std::chrono::milliseconds limit, const Cancelled& cancelled) {
  reap_given_up();
  // Readable when the child has ended.
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const bool ended =
      handle && wait_readable(handle.get(), boottime_ms() + limit.count(), cancelled);
  const bool stopped = !ended && is_cancelled(cancelled);
  if (stopped) {
    ::kill(child, SIGTERM);
    wait_readable(handle.get(), boottime_ms() + kPoliteMs, {});
  }
  if (!ended) ::kill(child, SIGKILL);
  std::string why;
  if (!ended) why = stopped ? "asked to stop" : "time limit passed";
  int status = 0;
  if (!take_status(child, boottime_ms() + kKilledMs, status)) {
    give_up(child);
    return fail(ErrorKind::retry_later,
                why + (why.empty() ? "" : ", and ") + "process " + std::to_string(child) +
                    " was given up: it cannot be ended, and may wait for a disk");
  }
  if (!ended) return fail(ErrorKind::retry_later, why);
  return status;
}

void give_up(pid_t child) {
  const std::lock_guard lock(given_up_mutex);
  given_up.push_back(child);
}

void reap_given_up() {
  const std::lock_guard lock(given_up_mutex);
  std::erase_if(given_up, [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; });
}

void close_at_exec(int first) {
  if (::syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  // opendir would allocate.
  const int listed = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  alignas(dirent64) char entries[4096];
  for (long got; (got = ::syscall(SYS_getdents64, listed, entries, sizeof entries)) > 0;)
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      int fd = -1;
      std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
      if (fd >= first) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      at += entry->d_reclen;
    }
}

Result<ProgramResult> run_program(const std::vector<std::string>& arguments,
                                  std::chrono::milliseconds limit, const Cancelled& cancelled,
                                  int root_fd) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
  UniqueFd reading(ends[0]), writing(ends[1]);
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::int64_t deadline = boottime_ms() + limit.count();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) {
    // This thread waits for it: an e2fsck that outlived us would keep the device from the next one.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(writing.get(), STDOUT_FILENO);
    ::dup2(writing.get(), STDERR_FILENO);
    close_at_exec(STDERR_FILENO + 1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (root_fd >= 0 && (::fchdir(root_fd) != 0 || ::chroot(".") != 0)) ::_exit(127);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  writing.reset();
  ProgramResult result;
  drain_output(reading.get(), deadline, cancelled, result.output);
  auto status = wait_child(
      child, std::chrono::milliseconds(std::max<std::int64_t>(1, deadline - boottime_ms())),
      cancelled);
  if (!status) return fail(std::move(status).error().within(arguments[0]));
  result.exit_status = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
  if (result.exit_status == 127) return fail(ErrorKind::gone, "cannot run " + arguments[0]);
  return result;
}

std::string first_executable(const std::vector<std::string>& paths) {
  for (const auto& path : paths)
    if (::access(path.c_str(), X_OK) == 0) return path;
  return {};
}

}  // namespace warmroot::bootstrap
