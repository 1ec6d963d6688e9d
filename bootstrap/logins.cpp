#include "bootstrap/logins.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "bootstrap/files.hpp"
#include "bootstrap/login_plan.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr int kLoginLookMs = 20;
/// sshd's own LoginGraceTime.
constexpr std::chrono::milliseconds kLoginGrace{120'000};

/// The root may be a person's own file system, whose server never answers: by what the kernel
/// knows.
LoginProcess::Root root_of(const std::string& place) {
  struct statx root {};
  struct stat base {};
  struct stat volume {};
  const auto is = [&root](const struct stat& other) {
    return makedev(root.stx_dev_major, root.stx_dev_minor) == other.st_dev &&
           root.stx_ino == other.st_ino;
  };
  if (::statx(AT_FDCWD, (place + "/root").c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO,
              &root) != 0)
    return LoginProcess::Root::other;
  if (::stat("/", &base) == 0 && is(base)) return LoginProcess::Root::base;
  if (::stat(kVolumePoint, &volume) == 0 && is(volume)) return LoginProcess::Root::volume;
  return LoginProcess::Root::other;
}

/// One that does not leads nobody to the volume or the base: a container's, or of another test.
bool sees_session_link(const std::string& place) {
  struct stat ours {};
  struct stat theirs {};
  return ::lstat(kSessionRoot, &ours) == 0 &&
         ::lstat((place + "/root" + kSessionRoot).c_str(), &theirs) == 0 &&
         theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

std::set<pid_t> logins_now() {
  std::vector<LoginProcess> all;
  for (const auto& name : list_directory("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (pid <= 0) continue;
    const std::string place = "/proc/" + name;
    const auto stat = parse_process_stat(read_attribute(place + "/stat"));
    struct stat owner {};
    if (!stat || ::stat(place.c_str(), &owner) != 0) continue;
    const std::string command = read_attribute(place + "/comm");
    // Of all others only parent and session count; there may be very many.
    auto root = command.starts_with("sshd") ? root_of(place) : LoginProcess::Root::other;
    // Nobody else's: what a person has mounted there may never answer.
    if (root == LoginProcess::Root::base && owner.st_uid == 0 && !sees_session_link(place))
      root = LoginProcess::Root::other;
    const auto age = boottime_ms() -
                     static_cast<std::int64_t>(stat->started_ticks) * 1000 / ::sysconf(_SC_CLK_TCK);
    all.push_back({pid, stat->parent, stat->session, command, owner.st_uid == 0, root,
                   age > kLoginGrace.count()});
  }
  return logins_under_way(all);
}

}  // namespace

unsigned let_logins_end(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::set<pid_t> waited_for = logins_now();
  while (!waited_for.empty() && std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, kLoginLookMs);
    const std::set<pid_t> now = logins_now();
    std::set<pid_t> left;
    std::set_intersection(waited_for.begin(), waited_for.end(), now.begin(), now.end(),
                          std::inserter(left, left.end()));
    waited_for = std::move(left);
  }
  for (const pid_t pid : waited_for) ::kill(pid, SIGTERM);
  return static_cast<unsigned>(waited_for.size());
}

}  // namespace warmroot::bootstrap
