#include "bootstrap/release.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"

namespace warmroot::bootstrap {
namespace {

/// A spot notice leaves about 120 s, of which EC2 needs some to detach: people get five to save
/// what is open, programs ten after SIGTERM, as systemd's shortest usual stop time; what is left is
/// killed.
constexpr std::int64_t kWarnMs = 5000;
constexpr std::int64_t kTermMs = 10000;
constexpr std::int64_t kKillMs = 5000;
/// Writing back what a session left dirty is done by sync before; these wait for stragglers alone.
constexpr std::int64_t kUnmountMs = 30000;
constexpr std::int64_t kFreeMs = 15000;
constexpr int kPauseMs = 100;

class Release {
 public:
  Release(const ReleaseInput& input, Assignment& assignment, StatusBook& book)
      : input_(input), assignment_(assignment), book_(book) {}

  Ok run() {
    withdraw_keys();
    attempt("stop new sessions", [&] { return stop_new_sessions(); });
    attempt("show the banner", [&] { return show_banner(); });
    if (assignment_.mounted) {
      struct stat root {};
      if (::stat(kVolumePoint, &root) == 0) device_ = root.st_dev;
      attempt("end sessions", [&] { return end_sessions(); });
      attempt("stop warming", [&] { return stop_own_users(); });
      attempt("mark clean", [&] { return mark_clean(); });
      attempt("sync", [&] { return sync_volume(); });
      TRY(book_.timed("unmount", [&] { return unmount(); }));
    }
    if (!assignment_.disk_node.empty())
      TRY(book_.timed("prove the device free", [&] { return prove_free(); }));
    attempt("remove accounts", [&] { return remove_accounts(); });
    return {};
  }

 private:
  /// A step whose failure is recorded and does not keep the volume: a full or read-only file system
  /// (ENOSPC, EROFS) must not stay mounted because the mark that it was left clean cannot be
  /// written.
  void attempt(const std::string& name, const std::function<Result<std::string>()>& step) {
    [[maybe_unused]] const auto recorded = book_.timed(name, step);
  }

  Result<std::string> show_banner() {
    TRY(set_banner(input_.pool, "The volume is being released: " + input_.sentence));
    return std::string();
  }

  Result<std::string> stop_new_sessions() {
    TRY(point_sessions_at("/"));
    return std::string("they land on the base");
  }

  Result<std::string> end_sessions() {
    auto holders = holders_of(device_);
    if (holders.empty()) return std::string("there were none");
    const std::string who = holders_text(holders);
    warn_terminals("warmroot: " + input_.sentence + ". Save your work: sessions end in " +
                   std::to_string(kWarnMs / 1000) + " seconds.");
    wait_for_none(kWarnMs);
    // An interactive shell ignores SIGTERM and obeys SIGHUP; a stopped program hears neither before
    // SIGCONT.
    holders = holders_of(device_);
    for (const int signal_number : {SIGHUP, SIGTERM, SIGCONT}) signal_all(holders, signal_number);
    if (!wait_for_none(kTermMs)) {
      signal_all(holders_of(device_), SIGKILL);
      wait_for_none(kKillMs);
    }
    return who;
  }

  bool wait_for_none(std::int64_t limit_ms) const {
    for (const std::int64_t deadline = boottime_ms() + limit_ms; boottime_ms() < deadline;) {
      if (holders_of(device_).empty()) return true;
      ::poll(nullptr, 0, kPauseMs);
    }
    return holders_of(device_).empty();
  }

  Result<std::string> stop_own_users() {
    if (!input_.stop_own_users())
      return fail(ErrorKind::retry_later, "the warmer has not ended in time");
    return std::string("map saved");
  }

  Result<std::string> mark_clean() {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(root.write(kVolumeMarker, "clean " + input_.instance_id + "\n", 0644));
    return std::string();
  }

  Result<std::string> sync_volume() {
    const UniqueFd root(::open(kVolumePoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root || ::syncfs(root.get()) != 0) return fail_errno("writing the volume back");
    return std::string();
  }

  Result<std::string> unmount() {
    const std::int64_t deadline = boottime_ms() + kUnmountMs;
    while (true) {
      Ok done = unmount_tree(kVolumePoint);
      if (done) break;
      const auto holders = holders_of(device_);
      signal_all(holders, SIGKILL);
      if (boottime_ms() >= deadline) {
        Error error = std::move(done).error();
        if (!holders.empty()) error.context += ", held by " + holders_text(holders);
        return fail(std::move(error));
      }
      ::poll(nullptr, 0, kPauseMs);
    }
    assignment_.mounted = false;
    return std::string();
  }

  Result<std::string> prove_free() {
    const std::int64_t deadline = boottime_ms() + kFreeMs;
    while (true) {
      const Ok unused = check_device_free(assignment_.disk_node);
      if (unused) return "opened " + assignment_.disk_node + " exclusively";
      if (boottime_ms() >= deadline) {
        const auto keepers = namespaces_holding(device_);
        Error error = unused.error();
        if (!keepers.empty())
          error.context += "; still mounted in the namespace of " + holders_text(keepers);
        return fail(std::move(error));
      }
      ::poll(nullptr, 0, kPauseMs);
    }
  }

  Result<std::string> remove_accounts() {
    TRY(remove_imported_accounts(assignment_.accounts));
    assignment_.accounts = {};
    return std::string();
  }

  const ReleaseInput& input_;
  Assignment& assignment_;
  StatusBook& book_;
  dev_t device_ = 0;
};

}  // namespace

Ok release(const ReleaseInput& input, Assignment& assignment, StatusBook& book) {
  return Release(input, assignment, book).run();
}

}  // namespace warmroot::bootstrap
