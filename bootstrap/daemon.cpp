#include "bootstrap/daemon.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "bootstrap/agent_sockets.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/notice.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/ticket.hpp"
#include "bootstrap/warm/warmer.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxTicketFile = 64 * 1024;
constexpr std::size_t kMaxStatusFile = 16 * 1024 * 1024;
constexpr milliseconds kTick{1000};
constexpr milliseconds kMetadataRetry{1000};
/// cloud-init waits 240 s for the metadata service; without it there is no instance id and no
/// report.
constexpr int kMetadataAttempts = 240;
constexpr milliseconds kLastReports{5000};
/// Release is bounded by about two minutes; a daemon that needs longer is stuck.
constexpr std::int64_t kDownLimitMs = 180000;
constexpr int kDownPollMs = 200;
constexpr milliseconds kReleaseRetry{5000};
constexpr char kLateSentence[] =
    "sshd was running before the bootstrap: sessions stay on the base until it is restarted";

/// Everything after the fork.
class Daemon {
 public:
  Daemon(Ticket ticket, StatusBook& book, SshdFacts sshd, std::optional<Error> early_failure)
      : ticket_(std::move(ticket)),
        book_(book),
        sshd_(std::move(sshd)),
        early_failure_(std::move(early_failure)),
        reporter_(book_, ticket_.manager_url, [this](const Wishes& wishes) { hear(wishes); }) {}

  /// Until the volume was released.
  Ok run() {
    for (const auto& disk : scan_disks("/sys", {}, {})) input_.disks_at_start.insert(disk.name);
    start_ticker();
    TRY(ask_metadata());
    start_watching();
    reporter_.start();
    const Ok done = early_failure_ ? Ok{fail(*early_failure_)} : start_sessions();
    if (done)
      start_warming();
    else if (!stop_.reason())
      failed(done.error().message());
    while (!stop_.wait_for(std::chrono::hours(1))) {
    }
    return leave();
  }

  StopRequest& stop() { return stop_; }

 private:
  void enter(Stage stage, const std::string& reason, const std::string& message) {
    book_.update([&](Status& status) {
      status.stage = stage;
      if (!message.empty() || stage == Stage::mounted) status.message = message;
    });
    log_event(LogLevel::notice, "stage", {{"name", to_string(stage)}, {"message", message}});
    reporter_.stage_changed(stage, reason, message);
  }

  void failed(const std::string& message) {
    [[maybe_unused]] const Ok shown = set_banner(
        ticket_.pool,
        "Why: " + message + "\nMore: warmroot-bootstrap status, /run/warmroot/bootstrap.log");
    enter(Stage::failed, "failed", message);
  }

  void hear(const Wishes& wishes) {
    if (wishes.volume_id) {
      const std::lock_guard lock(mutex_);
      confirmed_ = wishes.volume_id;
    }
    if (wishes.drain) stop_.request({"manager-wish", "the manager asked for the volume"});
  }

  Ok ask_metadata() {
    Imds imds;
    const auto asked = book_.timed("metadata", [&]() -> Result<std::string> {
      for (int attempt = 1;; ++attempt) {
        auto facts = imds.launch_facts();
        if (facts) {
          input_.launch = std::move(*facts);
          return input_.launch.instance_id + " in " + input_.launch.zone;
        }
        if (attempt >= kMetadataAttempts || stop_.wait_for(kMetadataRetry))
          return fail(std::move(facts).error().within("asking the metadata service who we are"));
      }
    });
    if (!asked) {
      failed(asked.error().message());
      return fail(asked.error());
    }
    book_.update([&](Status& status) { status.instance_id = input_.launch.instance_id; });
    reporter_.stage_changed(Stage::hello, "", "");
    return {};
  }

  void start_ticker() {
    ticker_ = std::jthread([this](std::stop_token token) {
      std::string resolv;
      std::mutex mutex;
      std::condition_variable_any wake;
      while (!token.stop_requested()) {
        // DHCP replaces the base's file; the copy is bound into the volume and has to keep its
        // inode.
        const auto now = read_file("/etc/resolv.conf", 65536);
        if (now && !now->empty() && *now != resolv && write_in_place(kResolvConf, *now))
          resolv = *now;
        book_.update([](Status&) {});
        std::unique_lock lock(mutex);
        wake.wait_for(lock, token, kTick, [] { return false; });
      }
    });
  }

  void start_watching() {
    watcher_ = std::jthread([this](std::stop_token token) {
      Imds imds;
      watch_for_notice(
          [&] { return imds.find("meta-data/spot/instance-action"); }, token,
          [&](const std::string& action) {
            stop_.request({"spot-notice", "EC2 takes this spot instance back (" + action + ")"});
          });
    });
  }

  Ok start_sessions() {
    input_.pool = ticket_.pool;
    input_.sftp_server = sshd_.sftp_server;
    input_.confirmed_volume = [this] {
      const std::lock_guard lock(mutex_);
      return confirmed_;
    };
    input_.enter_stage = [this](Stage stage, const std::string& message) {
      enter(stage, "", message);
    };
    TRY(bring_up(input_, assignment_, book_, stop_));
    enter(Stage::ready, "", sshd_.ran_before ? kLateSentence : "");
    agents_ = std::jthread(
        [](std::stop_token token) { mirror_agent_sockets("/tmp", kVolumePoint, token); });
    return {};
  }

  void start_warming() {
    if (!ticket_.warm_enabled) return;
    reporter_.report_often(true);
    enter(Stage::warming, "", "");
    warm::WarmRequest request;
    request.device_path = assignment_.disk_node;
    request.partition_offset_bytes = assignment_.partition.offset_bytes;
    request.partition_size_bytes = assignment_.partition.size_bytes;
    request.mount_point = kVolumePoint;
    request.filesystem = assignment_.partition.content;
    request.map_path = kVolumeMap;
    request.volume_id = assignment_.volume_id;
    request.max_depth = ticket_.max_depth;
    warmer_ = std::jthread([this, request](std::stop_token token) { warm_up(request, token); });
  }

  void warm_up(const warm::WarmRequest& request, std::stop_token token) {
    const auto show = [this](const warm::WarmProgress& progress) {
      book_.update([&](Status& status) { status.warm = progress; });
    };
    const auto done = warm::Warmer(request).run(token, show);
    if (done)
      show(*done);
    else
      book_.update([&](Status& status) {
        status.warm.state = warm::WarmState::failed;
        status.warm.note = done.error().message();
      });
    // Sessions do not depend on warming: a failure of it is a note, not a stage.
    if (done && done->state == warm::WarmState::done) enter(Stage::warm, "", "");
    reporter_.report_often(false);
  }

  static void join(std::jthread& thread) {
    thread.request_stop();
    if (thread.joinable()) thread.join();
  }

  Ok leave() {
    const StopReason reason = stop_.reason().value_or(StopReason{});
    enter(Stage::draining, reason.word, reason.sentence);
    ReleaseInput input{ticket_.pool, input_.launch.instance_id, reason.sentence, [this] {
                         join(warmer_);
                         join(agents_);
                       }};
    Ok done = release(input, assignment_, book_);
    if (!done) {
      // Whoever holds the volume may be gone in a moment, and nobody else can give it back.
      std::this_thread::sleep_for(kReleaseRetry);
      done = release(input, assignment_, book_);
    }
    if (done)
      enter(Stage::released, reason.word, "the volume is free");
    else
      enter(Stage::failed, reason.word,
            "the volume could not be released: " + done.error().message());
    reporter_.flush(kLastReports);
    reporter_.stop();
    return done;
  }

  const Ticket ticket_;
  StatusBook& book_;
  const SshdFacts sshd_;
  const std::optional<Error> early_failure_;
  StopRequest stop_;
  BringUpInput input_;
  Assignment assignment_;
  std::mutex mutex_;
  std::optional<std::string> confirmed_;
  Reporter reporter_;
  // Last, so that they end first.
  std::jthread ticker_, watcher_, agents_, warmer_;
};

/// Pid of a living daemon; 0 for none. The file is locked by the daemon for as long as it lives.
pid_t running_daemon() {
  const UniqueFd file(::open(kPidFile, O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  struct flock range {};
  range.l_type = F_WRLCK;
  if (::fcntl(file.get(), F_GETLK, &range) != 0 || range.l_type == F_UNLCK) return 0;
  return range.l_pid;
}

Result<UniqueFd> lock_pid_file() {
  UniqueFd file(::open(kPidFile, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return fail_errno(std::string("opening ") + kPidFile);
  struct flock range {};
  range.l_type = F_WRLCK;
  if (::fcntl(file.get(), F_SETLK, &range) != 0)
    return fail(ErrorKind::refused, "another warmroot-bootstrap is running");
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) != 0) return fail_errno("emptying the pid file");
  TRY(write_fully(file.get(), pid, kPidFile));
  return file;
}

/// The background process: detached from whatever started `up`, its words in the log file.
void detach() {
  ::setsid();
  [[maybe_unused]] const int moved = ::chdir("/");
  const int null = ::open("/dev/null", O_RDONLY);
  const int log = ::open(kLogFile, O_WRONLY | O_CREAT | O_APPEND, 0640);
  ::dup2(null, STDIN_FILENO);
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
}

Ok run_daemon(const Ticket& ticket, StatusBook& book, const Result<SshdFacts>& sshd) {
  TRY_ASSIGN(const UniqueFd pid_lock, lock_pid_file());
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  // Before any thread exists, so that all of them inherit it and only the signal thread hears.
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Daemon daemon(ticket, book, sshd.value_or(SshdFacts{}),
                sshd ? std::nullopt : std::optional<Error>(sshd.error()));
  std::thread([&daemon, signals] {
    for (int number = 0; ::sigwait(&signals, &number) == 0;)
      if (number != SIGHUP) daemon.stop().request({"operator", "the operator asked for it"});
  }).detach();
  const Ok done = daemon.run();
  ::unlink(kPidFile);  // a number that somebody else may have soon
  // The signal thread still waits with a reference to `daemon`: end here, where nothing is left to
  // be destroyed.
  ::_exit(done ? 0 : 1);
}

Result<SshdFacts> prepare_sshd(const Ticket& ticket, StatusBook& book) {
  // A second `up` of the same boot finds its own configuration loaded.
  const bool late = sshd_is_running() && ::access(kSshdConfig, F_OK) != 0;
  Result<SshdFacts> facts = SshdFacts{};
  const auto installed = book.timed("configure sshd", [&]() -> Result<std::string> {
    facts = install_sshd_config();
    if (!facts) return fail(facts.error());
    facts->ran_before = late;
    return std::string(late ? kLateSentence : "loaded when sshd starts");
  });
  const std::string why =
      installed ? "The volume is not ready yet." : "Why: " + installed.error().message();
  [[maybe_unused]] const Ok shown = set_banner(ticket.pool, why);
  return facts;
}

std::string base_os() {
  return pretty_name(read_file("/etc/os-release", 65536).value_or(""));
}

Ok refuse_second_start() {
  if (const pid_t pid = running_daemon(); pid != 0)
    return fail(ErrorKind::refused,
                "warmroot-bootstrap runs already as process " + std::to_string(pid));
  if (!mounts_at(kVolumePoint).empty())
    return fail(ErrorKind::refused,
                "an earlier warmroot-bootstrap left the volume mounted; run `warmroot-bootstrap "
                "down` first");
  return {};
}

/// The daemon is gone but its mounts are not.
Ok release_orphan() {
  StatusBook book("");
  const StatusFields fields = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  Assignment assignment;
  assignment.disk_node = fields.device;
  assignment.mounted = true;
  assignment.accounts = recorded_accounts();
  const ReleaseInput input{fields.pool, fields.instance_id, "the operator asked for it", [] {}};
  TRY(release(input, assignment, book));
  std::printf("released %s; the bootstrap that mounted it was gone\n", fields.device.c_str());
  return {};
}

/// Prints steps that came since `shown`; returns how many there are now.
std::size_t print_new_steps(const std::vector<std::string>& steps, std::size_t shown) {
  for (; shown < steps.size(); ++shown) std::printf("%s\n", steps[shown].c_str());
  std::fflush(stdout);
  return shown;
}

}  // namespace

Ok up(const std::string& ticket_path, bool foreground) {
  ::umask(022);
  TRY_ASSIGN(const std::string text, read_file(ticket_path, kMaxTicketFile));
  TRY_ASSIGN(const Ticket ticket, parse_ticket(text));
  if (::geteuid() != 0) return fail(ErrorKind::misconfigured, "up has to run as root");
  TRY(make_directory(kRunDirectory, 0755));
  TRY(refuse_second_start());
  StatusBook book(kStatusFile);
  book.update([&](Status& status) {
    status.deployment = ticket.deployment;
    status.pool = ticket.pool;
    status.base_os = base_os();
  });
  const auto sshd = prepare_sshd(ticket, book);
  const Ok answer = sshd ? Ok{} : Ok{fail(sshd.error())};
  if (foreground) return run_daemon(ticket, book, sshd);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child > 0) return answer;
  detach();
  const Ok done = run_daemon(ticket, book, sshd);
  log_event(LogLevel::warning, "cannot run", {{"why", done ? "" : done.error().message()}});
  ::_exit(1);
}

Ok down() {
  const pid_t pid = running_daemon();
  if (pid == 0) {
    if (!mounts_at(kVolumePoint).empty()) return release_orphan();
    return fail(ErrorKind::gone, "no warmroot-bootstrap is running and no volume is mounted");
  }
  std::size_t shown =
      status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).steps.size();
  if (::kill(pid, SIGTERM) != 0) return fail_errno("signalling process " + std::to_string(pid));
  const std::int64_t deadline = boottime_ms() + kDownLimitMs;
  while (running_daemon() != 0 && boottime_ms() < deadline) {
    shown = print_new_steps(
        status_fields(read_file(kStatusFile, kMaxStatusFile).value_or("")).steps, shown);
    std::this_thread::sleep_for(milliseconds(kDownPollMs));
  }
  const StatusFields end = status_fields(read_file(kStatusFile, kMaxStatusFile).value_or(""));
  print_new_steps(end.steps, shown);
  if (end.stage == "released") return {};
  return fail(ErrorKind::refused,
              end.message.empty() ? "the volume was not released in time" : end.message);
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
