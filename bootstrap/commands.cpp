#include "bootstrap/commands.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/boot_pin_io.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/daemon.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/held_record.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_listeners.hpp"
#include "bootstrap/supervise.hpp"
#include "bootstrap/volume_root.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxTicketFile = 64 * 1024;
constexpr std::size_t kMaxStatusFile = 16 * 1024 * 1024;
/// A release is bounded by about two minutes, by three where the ticket wishes that; a daemon that
/// needs longer is stuck.
constexpr std::int64_t kDownLimitMs = 240000;
constexpr std::chrono::milliseconds kDownPoll{200};
constexpr std::int64_t kLockLimitMs = 500;
constexpr std::chrono::milliseconds kLockPoll{10};

/// The background process: detached from whatever started `up`, its words in the log file.
void detach() {
  ::setsid();
  [[maybe_unused]] const int moved = ::chdir("/");
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  // Not for the shells of logins that are tried.
  const int log = ::open(kLogFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  ::dup2(null, STDIN_FILENO);
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
}

Result<SshdFacts> prepare_sshd(const Ticket& ticket, StatusBook& book, SessionLinks links) {
  TRY_ASSIGN(const bool late, sshd_is_late());
  Result<SshdFacts> facts = SshdFacts{};
  const auto installed = book.timed("configure sshd", [&]() -> Result<std::string> {
    std::string note;
    facts = install_sshd_config({ticket.host_keys, ticket.rescue_port}, links, note);
    if (!facts) return fail(facts.error());
    facts->ran_before = late;
    const std::string loaded =
        late ? "sshd was running before, and has not loaded it" : "loaded when sshd starts";
    return note.empty() ? loaded : loaded + "; " + note;
  });
  // A banner would be shown to whoever goes on landing in the volume, or hide why nobody does.
  if (links == SessionLinks::stay && link_text(kSessionRoot) != "/") return facts;
  const std::string why = installed ? kNotReady : "Why: " + installed.error().message();
  [[maybe_unused]] const Ok shown = set_banner(ticket.pool, why);
  return facts;
}

std::string base_os() {
  return pretty_name(read_file("/etc/os-release", 65536).value_or(""));
}

std::string said_stage() {
  return status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).stage;
}

bool is_said_to_be_released() {
  return said_stage() == "released";
}

/// Its volume is released, and nothing is held of it; it only goes on telling the manager so. A
/// status that could not be written says nothing of what is held.
bool only_reports() {
  return is_said_to_be_released() && ::access(kHeldRecord, F_OK) != 0;
}

/// Its machine reboots, and nothing is left to do before: the next boot goes on with the volume.
bool is_left_to_next_boot() {
  return said_stage() == "rebooting" && ::access(kHeldRecord, F_OK) != 0 &&
         mounts_at(kVolumePoint).empty();
}

Ok refuse_second_start() {
  if (running_daemon() == 0) return end_supervisor();  // it would begin another one
  if (only_reports()) {
    TRY(end_supervisor());
    TRY_ASSIGN(const pid_t pid, signal_daemon(SIGKILL));
    while (pid != 0 && running_daemon() == pid) std::this_thread::sleep_for(kDownPoll);
  }
  if (const pid_t pid = running_daemon(); pid != 0)
    return fail(ErrorKind::refused,
                "warmroot-bootstrap runs already as process " + std::to_string(pid));
  return {};
}

/// What can be known of a volume whose record is not there: an older program has mounted it.
HeldVolume unrecorded(const StatusFields& fields) {
  HeldVolume volume;
  volume.disk_node = fields.device;
  volume.disk.name = fields.device.substr(fields.device.rfind('/') + 1);
  volume.partition.content = fields.filesystem;
  volume.volume_id = fields.volume_id;
  volume.instance_id = fields.instance_id;
  volume.root_device = mounted_root().value_or(0);
  return volume;
}

/// The daemon is gone but its mounts are not; what its ticket wished is not known. None begins
/// meanwhile.
Ok release_orphan() {
  // Ending the sessions may end the terminal or the pipe that this command writes to.
  for (const int number : {SIGPIPE, SIGHUP}) ::signal(number, SIG_IGN);
  const StatusFields fields = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  StatusBook book(kStatusFile, kMetricsFile);
  const auto held = held_record();
  Assignment assignment = taken_over(held ? held->volume : unrecorded(fields), book);
  assignment.mounted = true;  // whatever the record says
  book.update([&](Status& status) {
    status.pool = fields.pool;
    status.stage = Stage::draining;
    status.message = "the bootstrap that mounted the volume was gone";
  });
  const StopReason reason{
      std::string(to_string(ReleaseCause::operator_)), "the operator asked for it",
      boottime_ms() + time_for_release(ReleaseCause::operator_, "", {}, {}).count()};
  // Where this process is killed, too.
  std::ignore = keep_held_record({assignment, reason});
  const ReleaseInput input{fields.pool,
                           assignment.instance_id,
                           reason.word,
                           reason.sentence,
                           [&reason] { return reason.deadline_ms; },
                           [](Milliseconds) { return true; }};
  TRY(release(input, assignment, book));
  forget_held_record();
  forget_served();
  book.update([](Status& status) { status.stage = Stage::released; });
  std::printf("released %s; the bootstrap that mounted it was gone\n",
              assignment.disk_node.c_str());
  return {};
}

/// Prints steps that came since `shown`; returns how many there are now.
std::size_t print_new_steps(const std::vector<std::string>& steps, std::size_t shown) {
  shown = std::min(shown, steps.size());  // those of an attempt that failed are taken back
  for (; shown < steps.size(); ++shown) std::printf("%s\n", steps[shown].c_str());
  std::fflush(stdout);
  return shown;
}

/// A bootstrap that was killed between the unmount and its end: people it has changed, or sessions
/// that are pointed at a place where nothing is mounted any more. Or one whose volume, which was
/// still attached then, is gone by now.
bool is_left_changed() {
  struct stat link {};
  const bool pointed = ::lstat(kSessionRoot, &link) == 0;
  const std::string shell = std::string(kSessionRoot) + "/bin/sh";
  return recorded_accounts().changed() || (pointed && ::access(shell.c_str(), X_OK) != 0) ||
         is_boot_pinned_for_nothing("");
}

Ok take_back_leftovers() {
  TRY(clear_leftovers());
  if (::access(kHostKeys, F_OK) == 0) TRY(show_base_host_keys());
  TRY(unpin_boot(""));
  std::printf("took back what a bootstrap that was gone had left changed\n");
  return {};
}

/// Of one that was killed a moment ago, which may still be ending.
Result<DaemonLock> lock_once_free() {
  const std::int64_t limit_ms = boottime_ms() + kLockLimitMs;
  auto lock = lock_daemon();
  for (; !lock && boottime_ms() < limit_ms; lock = lock_daemon())
    std::this_thread::sleep_for(kLockPoll);
  return lock;
}

/// Nobody begins one meanwhile, either.
Ok down_without_daemon() {
  TRY(end_supervisor());
  TRY_ASSIGN(const DaemonLock lock, lock_once_free());
  if (!mounts_at(kVolumePoint).empty() || held_record()) return release_orphan();
  if (is_left_changed()) return take_back_leftovers();
  return fail(ErrorKind::gone, "no warmroot-bootstrap is running and no volume is mounted");
}

/// What a daemon begins with: in the process that `up` is, and in one that goes on where another
/// was killed.
class DaemonLife {
 public:
  explicit DaemonLife(const Ticket& ticket) : ticket_(ticket), book_(kStatusFile, kMetricsFile) {}

  /// An instance that lost its power kept the lines of the volume's people, a bootstrap that was
  /// killed its mounts as well, and perhaps people in them. The lock is this process's from here
  /// on: another one may be about to do the same. `again`: it is begun in place of one that was
  /// killed, by nobody's order.
  Ok begin(bool again) {
    TRY_ASSIGN(lock_, lock_once_free());
    // It was killed before it could. Who orders it serves a volume whose reboot was taken back.
    const bool is_over = is_said_to_be_released() || (!again && said_stage() == "rebooting");
    if (is_over && mounts_at(kVolumePoint).empty()) forget_held_record();
    // It was given back in this boot, and somebody wants it served all the same.
    const bool is_new_boot = !again && take_end_of_boot();
    if (!again && !is_new_boot && is_said_to_be_released()) {
      forget_given_away();
      forget_served();
    }
    TRY_ASSIGN(held_, take_leftovers());
    if (!held_) unpin();
    book_.update([&](Status& status) {
      status.deployment = ticket_.deployment;
      status.pool = ticket_.pool;
      status.base_os = base_os();
    });
    sshd_ = prepare_sshd(ticket_, book_, held_ ? SessionLinks::stay : SessionLinks::to_base);
    return {};
  }
  Ok sshd_answer() const { return sshd_ ? Ok{} : Ok{fail(sshd_.error())}; }
  /// For a process that goes on in a child: a lock is not inherited.
  void unlock() { lock_.reset(); }
  bool has_lock() const { return lock_.has_value(); }
  Ok run() {
    if (!lock_) {
      TRY_ASSIGN(lock_, lock_daemon());
    }
    run_daemon(ticket_, book_, sshd_, std::move(held_));
  }

 private:
  static void unpin() {
    if (const Ok done = unpin_boot(""); !done)
      log_event(LogLevel::warning, "boot loader and fstab still name this disk",
                {{"why", done.error().message()}});
  }

  const Ticket& ticket_;
  StatusBook book_;
  std::optional<DaemonLock> lock_;
  std::optional<HeldRecord> held_;
  Result<SshdFacts> sshd_;
};

}  // namespace

Ok up(const std::string& ticket_path, UpMode mode) {
  ::umask(022);
  TRY_ASSIGN(const std::string text, read_file(ticket_path, kMaxTicketFile));
  TRY_ASSIGN(const Ticket ticket, parse_ticket(text));
  if (::geteuid() != 0) return fail(ErrorKind::misconfigured, "up has to run as root");
  TRY(make_directory(kRunDirectory, 0755));
  TRY(refuse_second_start());
  if (mode == UpMode::usual) {
    // One that runs would be stopped by a restart at once and started when the wait has ended.
    const bool sshd_runs = sshd_is_running();
    if (auto done = up_in_own_unit(ticket_path)) {
      if (*done && !sshd_runs) have_logins_wait(ticket.login_wait_s);
      return std::move(*done);
    }
  }
  DaemonLife first(ticket);
  TRY(first.begin(false));
  if (mode == UpMode::foreground) return first.run();
  first.unlock();
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child > 0) return first.sshd_answer();
  detach();
  const auto alone = lock_supervisor();
  if (!alone)
    log_event(LogLevel::warning, "nobody begins the daemon anew",
              {{"why", alone.error().message()}});
  const auto live = [&](bool again) {
    DaemonLife next(ticket);
    const Ok begun = again ? next.begin(true) : Ok{};
    // Until here it has ended with the process that it was begun by.
    ::prctl(PR_SET_PDEATHSIG, 0);
    const Ok done = !begun ? begun : again ? next.run() : first.run();
    log_event(LogLevel::warning, "cannot run", {{"why", done ? "" : done.error().message()}});
    if (begun || !next.has_lock()) return 1;  // it is another one's
    // Nobody gives the volume back for now, and somebody may have to look why.
    if (link_text(kSessionRoot) == kNowhere)
      std::ignore = let_onto_base(ticket.pool, "Why: " + begun.error().message());
    return kTryLater;
  };
  supervise(live, [&] {
    if (is_left_to_next_boot()) return false;
    if (!only_reports()) return true;
    // It may have died while sessions were refused, and nobody else lets them onto the base.
    std::ignore = let_onto_base(ticket.pool, "The volume was released.");
    return false;
  });
}

Ok down() {
  std::size_t shown =
      status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).steps.size();
  TRY_ASSIGN(pid_t pid, signal_daemon(SIGTERM));
  if (pid == 0) return down_without_daemon();
  const std::int64_t deadline = boottime_ms() + kDownLimitMs;
  while (!only_reports() && boottime_ms() < deadline) {
    const pid_t now = running_daemon();
    // It was killed before it could obey, or by us.
    if (now == 0) return down_without_daemon();
    if (now != pid) {
      TRY_ASSIGN(pid, signal_daemon(SIGTERM));
    }
    shown = print_new_steps(
        status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).steps, shown);
    std::this_thread::sleep_for(kDownPoll);
  }
  const StatusFields end = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  print_new_steps(end.steps, shown);
  if (end.stage == "released") return {};
  return fail(ErrorKind::refused,
              end.message.empty() ? "the volume was not released in time" : end.message);
}

Ok watch_warming() {
  constexpr std::chrono::milliseconds kRedraw{200};
  constexpr std::int64_t kLineEveryMs = 10'000;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  std::int64_t shown_ms = -kLineEveryMs;
  for (;;) {
    const auto document = read_file(kStatusFile, kMaxStatusFile);
    if (!document)
      return fail(ErrorKind::gone,
                  "no warmroot-bootstrap has run on this machine since it started");
    winsize window{};
    const bool sized = terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
    const WarmLine line = warm_line(*document, sized && window.ws_col > 0 ? window.ws_col : 80);
    const bool over = line.ended || !(daemon_runs() || supervisor_runs());
    if (terminal) {
      std::printf("\r%s\033[K%s", line.text.c_str(), over ? "\n" : "");
    } else if (over || boottime_ms() - shown_ms >= kLineEveryMs) {
      std::printf("%s\n", line.text.c_str());
      shown_ms = boottime_ms();
    }
    std::fflush(stdout);
    if (line.failed)
      return fail(ErrorKind::broken, std::string("warming has failed: ") + kProgram + " status");
    if (line.ended) return {};
    if (over) return fail(ErrorKind::gone, "no warmroot-bootstrap is running");
    std::this_thread::sleep_for(kRedraw);
  }
}

Ok wait_for_sessions(std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kLook{50};
  /// Between `up` and its daemon's lock nobody is there; also for a `wait` that comes with `up`.
  constexpr std::int64_t kNobodyMs = 2000;
  const std::int64_t start_ms = boottime_ms();
  const std::int64_t limit_ms = std::chrono::milliseconds(limit).count();
  std::int64_t seen_ms = start_ms;
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::int64_t now_ms = boottime_ms();
    if (daemon_runs()) {
      const StatusFields status =
          status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
      const SessionWait wait = session_wait(status);
      seen_ms = now_ms;
      if (wait.there && status.message == kLateSentence && sshd_is_late().value_or(true))
        return fail(ErrorKind::refused, kLateSentence);
      if (wait.there) {
        std::printf("sessions land in the volume, after %.1f s\n",
                    static_cast<double>(now_ms - start_ms) / 1000);
        return {};
      }
      if (wait.vain) return fail(ErrorKind::refused, "sessions land on the base: " + *wait.vain);
    } else if (supervisor_runs()) {
      seen_ms = now_ms;
    } else if (now_ms - seen_ms >= kNobodyMs) {
      return fail(ErrorKind::gone, "no warmroot-bootstrap is running");
    }
    if (now_ms - start_ms >= limit_ms)
      return fail(ErrorKind::retry_later, "sessions land on the base after " +
                                              std::to_string(limit.count()) +
                                              " s, until the volume is there");
  }
}

Ok print_status(bool json) {
  const auto document = read_file(kStatusFile, kMaxStatusFile);
  if (!document)
    return fail(ErrorKind::gone,
                "no warmroot-bootstrap has run on this machine since it started (" +
                    document.error().context + ")");
  if (json) {
    std::fputs(document->c_str(), stdout);
    return {};
  }
  TRY_ASSIGN(const std::string text, status_text(*document));
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace warmroot::bootstrap
