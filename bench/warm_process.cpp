#include "bench/warm_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

namespace warmroot::bench {
namespace {

using std::chrono::milliseconds;

/// Others' builds on a shared machine would stretch the processor's part of a session. Where the
/// kernel groups processes by session, the group's niceness is what counts. Refused, it goes
/// without.
constexpr int kNice = -15;
constexpr char kGroupNice[] = "-15";

/// In the child: only calls that are safe after fork() in a process with threads.
[[noreturn]] void become(const Command& command, char* const* words, char* const* environment) {
  ::setsid();
  if (const int group = ::open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC); group >= 0)
    (void)!::write(group, kGroupNice, sizeof kGroupNice - 1);
  ::setpriority(PRIO_PROCESS, 0, kNice);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  const int null = ::open("/dev/null", O_RDWR);
  const int out = command.output.empty()
                      ? null
                      : ::open(command.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (!command.root.empty() && (::chroot(command.root.c_str()) != 0 || ::chdir("/") != 0))
    ::_exit(127);
  ::execve(words[0], words, environment);
  ::_exit(127);
}

double peak_mib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

Result<Process> Process::start(const Command& command) {
  std::vector<std::string> words = command.words;
  std::vector<std::string> settings = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C"};
  std::vector<char*> argv, environment;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& setting : settings) environment.push_back(setting.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become(command, argv.data(), environment.data());
  return Process(pid);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), peak_mib_(other.peak_mib_), ended_(other.ended_) {}

Process::~Process() {
  if (pid_ != 0) stop();
}

void Process::notify() const {
  if (!ended_) ::kill(pid_, SIGUSR1);
}

std::optional<Usage> Process::poll() {
  if (ended_) return ended_;
  peak_mib_ = std::max(peak_mib_, peak_mib(pid_));
  Usage usage;
  rusage spent{};
  if (::wait4(pid_, &usage.status, WNOHANG, &spent) != pid_) return {};
  usage.cpu_s = seconds(spent.ru_utime) + seconds(spent.ru_stime);
  usage.peak_mib = peak_mib_;
  ended_ = usage;
  return ended_;
}

Usage Process::stop() {
  constexpr int kPatience = 200;
  for (int i = 0; !poll(); ++i) {
    if (i == 0) ::kill(-pid_, SIGTERM);
    if (i == kPatience) ::kill(-pid_, SIGKILL);
    std::this_thread::sleep_for(milliseconds(10));
  }
  ::kill(-pid_, SIGKILL);  // what it left behind
  return *ended_;
}

}  // namespace warmroot::bench
