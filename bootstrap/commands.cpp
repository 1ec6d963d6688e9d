#include "bootstrap/commands.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/boot_pin_io.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/daemon.hpp"
#include "bootstrap/daemon_lock.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_listeners.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxTicketFile = 64 * 1024;
constexpr std::size_t kMaxStatusFile = 16 * 1024 * 1024;
/// Release is bounded by about two minutes; a daemon that needs longer is stuck.
constexpr std::int64_t kDownLimitMs = 180000;
constexpr std::chrono::milliseconds kDownPoll{200};

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

Result<SshdFacts> prepare_sshd(const Ticket& ticket, StatusBook& book) {
  TRY_ASSIGN(const bool late, sshd_is_late());
  Result<SshdFacts> facts = SshdFacts{};
  const auto installed = book.timed("configure sshd", [&]() -> Result<std::string> {
    std::string note;
    facts = install_sshd_config({ticket.host_keys, ticket.rescue_port}, note);
    if (!facts) return fail(facts.error());
    facts->ran_before = late;
    const std::string loaded =
        late ? "sshd was running before, and has not loaded it" : "loaded when sshd starts";
    return note.empty() ? loaded : loaded + "; " + note;
  });
  const std::string why =
      installed ? "The volume is not ready yet." : "Why: " + installed.error().message();
  [[maybe_unused]] const Ok shown = set_banner(ticket.pool, why);
  return facts;
}

std::string base_os() {
  return pretty_name(read_file("/etc/os-release", 65536).value_or(""));
}

/// Its volume is released; it only goes on telling the manager so.
bool only_reports() {
  return status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).stage == "released";
}

Ok refuse_second_start() {
  if (running_daemon() != 0 && only_reports()) {
    TRY_ASSIGN(const pid_t pid, signal_daemon(SIGKILL));
    while (pid != 0 && running_daemon() == pid) std::this_thread::sleep_for(kDownPoll);
  }
  if (const pid_t pid = running_daemon(); pid != 0)
    return fail(ErrorKind::refused,
                "warmroot-bootstrap runs already as process " + std::to_string(pid));
  return {};
}

/// The daemon is gone but its mounts are not.
Ok release_orphan() {
  // Ending the sessions may end the terminal or the pipe that this command writes to.
  for (const int number : {SIGPIPE, SIGHUP}) ::signal(number, SIG_IGN);
  const StatusFields fields = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  StatusBook book(kStatusFile, kMetricsFile);
  book.update([&](Status& status) {
    status.instance_id = fields.instance_id;
    status.pool = fields.pool;
    status.device = fields.device;
    status.filesystem = fields.filesystem;
    status.stage = Stage::draining;
    status.message = "the bootstrap that mounted the volume was gone";
  });
  Assignment assignment;
  assignment.disk_node = fields.device;
  assignment.mounted = true;
  assignment.volume_id = fields.volume_id;
  assignment.host_keys = ::access(kNodeKeys, F_OK) == 0;
  if (auto bound =
          DirtyBound::find(fields.device.substr(fields.device.rfind('/') + 1), fields.filesystem)) {
    assignment.dirty_bound = std::move(*bound);
  }
  const std::int64_t deadline_ms =
      boottime_ms() + time_for_release(ReleaseCause::operator_, "", {}).count();
  const ReleaseInput input{fields.pool,
                           fields.instance_id,
                           std::string(to_string(ReleaseCause::operator_)),
                           "the operator asked for it",
                           [deadline_ms] { return deadline_ms; },
                           [](Milliseconds) { return true; }};
  TRY(release(input, assignment, book));
  book.update([](Status& status) { status.stage = Stage::released; });
  std::printf("released %s; the bootstrap that mounted it was gone\n", fields.device.c_str());
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
  // An instance that lost its power kept the lines of the volume's people, a bootstrap that was
  // killed its mounts as well.
  TRY(clear_leftovers());
  if (const Ok done = unpin_boot(""); !done)
    log_event(LogLevel::warning, "boot loader and fstab still name this disk",
              {{"why", done.error().message()}});
  StatusBook book(kStatusFile, kMetricsFile);
  book.update([&](Status& status) {
    status.deployment = ticket.deployment;
    status.pool = ticket.pool;
    status.base_os = base_os();
  });
  const auto sshd = prepare_sshd(ticket, book);
  const Ok answer = sshd ? Ok{} : Ok{fail(sshd.error())};
  if (mode == UpMode::foreground) return run_daemon(ticket, book, sshd);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child > 0) return answer;
  detach();
  const Ok done = run_daemon(ticket, book, sshd);
  log_event(LogLevel::warning, "cannot run", {{"why", done ? "" : done.error().message()}});
  ::_exit(1);
}

Ok down() {
  std::size_t shown =
      status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).steps.size();
  TRY_ASSIGN(const pid_t pid, signal_daemon(SIGTERM));
  if (pid == 0) {
    if (!mounts_at(kVolumePoint).empty()) return release_orphan();
    if (is_left_changed()) return take_back_leftovers();
    return fail(ErrorKind::gone, "no warmroot-bootstrap is running and no volume is mounted");
  }
  const std::int64_t deadline = boottime_ms() + kDownLimitMs;
  while (running_daemon() != 0 && !only_reports() && boottime_ms() < deadline) {
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
    const bool over = line.ended || !daemon_runs();
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
