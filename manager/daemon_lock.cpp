#include "manager/daemon_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>
#include <utility>

#include "manager/daemon_log.hpp"

namespace warmroot::manager {
namespace {

Error unusable(const std::string& folder) {
  const Error error = errno_error(folder, errno);
  return {
      ErrorKind::misconfigured,
      fmt::format("cannot use the state folder {}; name another with --state DIR", error.message()),
      "", ""};
}

/// The process id that the holder wrote, or "unknown".
std::string holder_of(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string holder(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  while (holder.ends_with('\n')) holder.pop_back();
  return holder.empty() ? "unknown" : holder;
}

}  // namespace

Ok make_state_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return fail(unusable(folder));
}

Result<StateLock> StateLock::wait(const std::string& folder, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kAgain{100};
  const auto deadline = std::chrono::steady_clock::now() + kWaitForLock;
  bool told = false;
  while (true) {
    auto lock = take(folder);
    const bool held = !lock && lock.error().code == kStateHeld;
    if (!held || stop.stop_requested() || std::chrono::steady_clock::now() >= deadline) return lock;
    if (!std::exchange(told, true))
      log_event(LogLevel::info, "waiting for the state folder",
                {{"because", lock.error().message()}});
    std::this_thread::sleep_for(kAgain);
  }
}

Result<StateLock> StateLock::take(const std::string& folder) {
  const std::string path = folder + "/lock";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return fail(unusable(path));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(unusable(path));
    return fail(Error{ErrorKind::misconfigured,
                      fmt::format("another manager (process {}) uses the state folder {}; stop it, "
                                  "or give this one its own with --state DIR",
                                  holder_of(file.get()), folder),
                      kStateHeld, ""});
  }
  const std::string holder = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder.data(), holder.size(), 0) < 0)
    return fail(unusable(path));
  return StateLock(std::move(file));
}

}  // namespace warmroot::manager
