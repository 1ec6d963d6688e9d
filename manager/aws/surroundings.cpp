// See surroundings.hpp.
#include "manager/aws/surroundings.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::aws {
namespace {

Result<std::string> read_real_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Written beside the old one and moved over it: a reader sees either whole.
Ok write_real_file(const std::string& path, const Secret& text) {
  const std::string beside = path + ".warmroot-" + std::to_string(::getpid());
  UniqueFd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return fail_errno(beside);
  const std::string& bytes = text.reveal();
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const auto failure = fail_errno(beside);
      ::unlink(beside.c_str());
      return failure;
    }
    done += static_cast<std::size_t>(put);
  }
  if (::rename(beside.c_str(), path.c_str()) == 0) return {};
  const auto failure = fail_errno(path);
  ::unlink(beside.c_str());
  return failure;
}

/// A started program in a process group of its own; killed with all its children when it is left.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Its wait status.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = 0;
    return status;
  }
  /// nullopt while it runs.
  std::optional<int> poll() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_;
};

/// stdin and stderr are /dev/null: what it says beside the keys may hold keys too. Of our other
/// descriptors it gets none: cpp-httplib's connections are not closed by an exec.
Result<pid_t> spawn(const std::vector<std::string>& arguments, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // `serve` blocks signals; the program must not inherit that.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail(errno_error("starting " + arguments.front(), error));
  return pid;
}

Result<Secret> run_real_program(const std::vector<std::string>& arguments,
                                const ProcessLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("making a pipe");
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  TRY_ASSIGN(const pid_t pid, spawn(arguments, in.get()));
  in.reset();
  Child child(pid);
  const auto until = std::chrono::steady_clock::now() + limits.timeout;
  const auto too_late = [&] {
    return fail(ErrorKind::refused, arguments.front() + " did not end within " +
                                        std::to_string(limits.timeout.count() / 1000) + " s");
  };
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd ready{out.get(), POLLIN, 0};
    const int found = left > 0 ? ::poll(&ready, 1, static_cast<int>(left)) : 0;
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return too_late();
    char bytes[4096];
    const ssize_t got = ::read(out.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
    if (text.size() > limits.output)
      return fail(ErrorKind::refused, arguments.front() + " wrote more than " +
                                          std::to_string(limits.output / 1024) + " KiB");
  }
  // It has closed its output and should end at once.
  std::optional<int> status;
  while (!(status = child.poll())) {
    if (std::chrono::steady_clock::now() > until) return too_late();
    ::poll(nullptr, 0, 5);
  }
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return Secret(std::move(text));
  return fail(ErrorKind::refused,
              arguments.front() +
                  (WIFEXITED(*status) ? " ended with status " + std::to_string(WEXITSTATUS(*status))
                                      : std::string(" was killed")));
}

}  // namespace

bool says_true(const std::string& text) {
  return text.size() == 4 && std::equal(text.begin(), text.end(), "true", [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool Surroundings::is_on(const std::string& name) const {
  return says_true(value(name));
}

std::string home_directory() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> room{};
  if (::getpwuid_r(::geteuid(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return {};
  return found->pw_dir;
}

Surroundings real_surroundings() {
  Surroundings real;
  real.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (name == "HOME") return home_directory();
    if (value != nullptr) return std::string(value);
    return std::nullopt;
  };
  real.read_file = read_real_file;
  real.write_file = write_real_file;
  // Whoever needs credentials first looks for them, in whatever thread.
  struct SharedClient {
    std::mutex mutex;
    HttpClient http;
  };
  real.http = [client = std::make_shared<SharedClient>()](const HttpRequest& request) {
    const std::lock_guard lock(client->mutex);
    return client->http.perform(request);
  };
  real.run = run_real_program;
  real.now = [] {
    return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
  };
  real.sleep = [](Milliseconds time) { std::this_thread::sleep_for(time); };
  return real;
}

}  // namespace warmroot::aws
