#include "bootstrap/daemon.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "bootstrap/agent_sockets.hpp"
#include "bootstrap/base/bounded_thread.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/leaving.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/notice.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/report.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/supervise.hpp"
#include "bootstrap/warming.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{1000};
/// How long a session root that sshd refuses can go unnoticed; the look costs some stat(2).
constexpr int kTicksPerServingCheck = 5;
/// Between attempts to lead sessions back into a volume that they have left: somebody may break it
/// again and again.
constexpr milliseconds kReturnEvery{60000};
/// The release waits so long for one that is under way; it ends by itself, but on a volume that
/// does not answer.
constexpr milliseconds kReturnLimit{2000};
/// As often as EC2 advises to.
constexpr int kLooksPerHint = 5;
constexpr int kEbsAttempts = 3;
constexpr milliseconds kMetadataRetry{1000};
/// cloud-init waits 240 s for the metadata service; without it there is no instance id and no
/// report.
constexpr int kMetadataAttempts = 240;
/// The word normally comes with the answer to the report that the disk was seen, or a second later;
/// a manager that is down must not keep people out for longer.
constexpr milliseconds kConfirmationLimit{10000};
constexpr milliseconds kPeopleLook{5000};
/// Saving the map is one fsync of some hundred KiB; a volume that does not answer must not keep us.
constexpr milliseconds kWarmerLimit{15000};

/// Everything after the fork.
class Daemon {
 public:
  Daemon(Ticket ticket, StatusBook& book, SshdFacts sshd, std::optional<Error> early_failure,
         std::optional<HeldRecord> held)
      : ticket_(std::move(ticket)),
        book_(book),
        sshd_(std::move(sshd)),
        early_failure_(std::move(early_failure)),
        reporter_(
            book_, ticket_.manager_url, kKeyFile, [this] { return identity_.identity_signature(); },
            [this](const Wishes& wishes) { hear(wishes); }) {
    if (!held) return;
    assignment_ = taken_over(std::move(held->volume), book_);
    is_taken_over_ = true;
    warming_.taken_over(assignment_.volume_id);
    input_.launch.instance_id = assignment_.instance_id;
    input_.launch.public_key = assignment_.launch_key;
    // Whoever was told that the volume is being given back is not let in anew.
    if (!held->leaving) return;
    const auto cause = release_cause_from(held->leaving->word);
    shutting_down_ = cause && is_by_init(*cause);
    stop_.request(std::move(*held->leaving));
  }

  /// Until the volume was released, or left to the next boot.
  Ok run() {
    for (const auto& disk : scan_disks("/sys", {}, {})) input_.disks_at_start.insert(disk.name);
    start_ticker();
    if (!is_taken_over_) {
      TRY(ask_metadata());
      const KeyOwner owner{input_.launch.instance_id, ticket_.deployment, ticket_.manager_url};
      take_key_after_reboot(owner);
      input_.given_away = given_away_before(owner);
    }
    start_watching();
    reporter_.start();
    const Ok done = early_failure_ ? Ok{fail(*early_failure_)} : start_sessions();
    // Its volume is somebody else's by now, whatever went wrong here because of that.
    if (!done) let_go_of_lost_disk();
    if (!done && !stop_.reason()) {
      if (is_damage(done.error()) && give_back(done.error().message()))
        return leaving_.end_reporting();
      failed(done.error().message());
    }
    // The ticker looks after what serves.
    const std::int64_t again_ms = boottime_ms() + kReturnEvery.count();
    while (!stop_.wait_for(kTick * kTicksPerServingCheck)) {
      if (!done) let_go_of_lost_disk();
      // What sshd makes of its configuration is asked when a daemon begins.
      if (early_failure_ && is_taken_over_ && boottime_ms() >= again_ms) ::_exit(kTryLater);
    }
    end_serving();
    return leaving_.run();
  }

  /// `since_ms`: when it was asked for, by boottime_ms().
  void ask_to_stop(ReleaseCause cause, const std::string& sentence,
                   const std::string& notice_time = {}, std::int64_t since_ms = boottime_ms()) {
    const auto now = std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
    stop_.request(
        {std::string(to_string(cause)), sentence,
         since_ms + time_for_release(cause, notice_time, now, ticket_.release_wishes).count()});
    if (is_by_init(cause)) shutting_down_ = true;  // who sees it finds the reason there
  }

  /// `again`: init has told so a process that is gone. What it answered when that one asked is the
  /// reason that was taken over with a release, and its jobs may be others by now.
  void hear_init(bool again) {
    if (again && shutting_down_) return;
    const std::int64_t since_ms = boottime_ms();
    if (init_reboots())
      ask_to_stop(ReleaseCause::reboot, "this machine reboots, and comes back with this volume", {},
                  since_ms);
    else
      ask_to_stop(ReleaseCause::shutdown, "this machine shuts down", {}, since_ms);
  }

 private:
  void enter(Stage stage, const std::string& reason, const std::string& message) {
    const std::lock_guard lock(stage_mutex_);  // reports come in the order of the stages
    const Stage present = book_.snapshot().stage;
    const bool about_warming = stage == Stage::warming || stage == Stage::warm;
    // A warmer that ends while the volume is given back, or while new sessions land on the base,
    // has nothing to say about that.
    if (about_warming && (present > Stage::warm || present < Stage::ready)) return;
    book_.update([&](Status& status) {
      status.stage = stage;
      if (!message.empty() || stage == Stage::mounted) status.message = message;
    });
    log_event(LogLevel::notice, "stage", {{"name", to_string(stage)}, {"message", message}});
    reporter_.stage_changed(stage, reason, message);
  }

  void tell_people(const std::string& why) const {
    [[maybe_unused]] const Ok shown =
        set_banner(ticket_.pool, "Why: " + why + "\nMore: " + kProgram + " status, " + kLogFile);
  }

  void failed(const std::string& message) {
    // Of a volume that was taken over sessions go on landing in it.
    if (link_text(kSessionRoot) != kVolumePoint) tell_people(message);
    enter(Stage::failed, "failed", message);
  }

  /// A volume that people have to repair serves nobody here: they can have it, and its node another
  /// one. False while something may hold it.
  bool give_back(const std::string& why) {
    if (assignment_.mounted) return false;
    const auto free = book_.timed("prove the device free", [&]() -> Result<std::string> {
      TRY(check_device_free(assignment_.disk_node));
      return "opened " + assignment_.disk_node + " exclusively";
    });
    if (!free) return false;
    tell_people(why);
    enter(Stage::released, std::string(kUncleanBeyondRepair), why);
    return true;
  }

  void hear(const Wishes& wishes) {
    {
      const std::lock_guard lock(mutex_);
      if (wishes.volume_id) confirmed_ = wishes.volume_id;
      no_volume_ = wishes.no_volume;
    }
    if (wishes.volume_id && wishes.snapshot_id)
      warming_.made_from(*wishes.volume_id, *wishes.snapshot_id);
    if (wishes.drain) ask_to_stop(ReleaseCause::wish, "the manager asked for the volume");
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
      int ticks = 0;
      while (!token.stop_requested()) {
        // DHCP replaces the base's file; the copy is bound into the volume and has to keep its
        // inode.
        const auto now = read_file("/etc/resolv.conf", 65536);
        if (now && !now->empty() && *now != resolv && write_in_place(kResolvConf, *now))
          resolv = *now;
        if (!(serving_ && let_go_of_lost_disk()) && ++ticks % kTicksPerServingCheck == 0) {
          check_serving();
          ask_ebs();
          keep_bound();
          warming_.tell_asked();
        }
        book_.update([](Status&) {});
        std::unique_lock lock(mutex);
        wake.wait_for(lock, token, kTick, [] { return false; });
      }
    });
  }

  /// False where the disk is there, or a stop was requested anyway.
  bool let_go_of_lost_disk() {
    if (!disk_has_gone("/sys", assignment_.disk, [this] { return stop_.wait_for(kTick); }))
      return false;
    ask_to_stop(ReleaseCause::disk_gone, disk_gone_sentence(assignment_));
    return true;
  }

  /// Where sessions no longer work, they go back to the base with the reason before them; the
  /// volume stays mounted for whoever is in it, and they are led there again once they would work.
  /// Until a login has worked, bring_up alone leads them.
  void check_serving() {
    if (!serving_ || !login_worked_) return;
    const Ok works = check_still_serving(*assignment_.entry, served_root_);
    if (works && !sessions_left_) return tell_of_entry();
    if (!works && sessions_left_) return;
    if (works && !may_return()) return;
    {
      const std::lock_guard lock(mutex_);
      if (!serving_) return;
      leading_ = true;
    }
    if (works)
      lead_sessions_back();
    else
      lead_sessions_out(works.error());
    {
      const std::lock_guard lock(mutex_);
      leading_ = false;
    }
    led_.notify_all();
  }

  /// An sshd of the volume's that has gone listens again, and the last attempt is long ago.
  bool may_return() const {
    return assignment_.entry->pause().empty() && boottime_ms() >= next_return_ms_ &&
           !stop_.reason();
  }

  void lead_sessions_out(const Error& why) {
    sessions_left_ = true;
    if (const Ok moved = assignment_.entry->close(); !moved)
      log_event(LogLevel::warning, "sessions cannot be moved", {{"why", moved.error().message()}});
    failed("sessions left the volume: " + why.message());
  }

  void lead_sessions_back() {
    next_return_ms_ = boottime_ms() + kReturnEvery.count();
    Entry& entry = *assignment_.entry;
    const EntryInput input{input_.launch.public_key, [this] { return stop_.reason().has_value(); }};
    const auto opened = entry.open(input);
    // A release that could not wait has closed it before.
    if (!opened || !serving_) {
      std::ignore = entry.close();
      if (!opened)
        log_event(LogLevel::warning, "sessions cannot be led back",
                  {{"why", opened.error().message()}});
      return;
    }
    sessions_left_ = false;
    pause_.clear();
    tell_of_return();
  }

  void tell_of_return() {
    described_ = assignment_.entry->describe();
    log_event(LogLevel::notice, "sessions land in the volume again", {{"by", described_}});
    std::ignore = set_banner(ticket_.pool, {});
    book_.update([&](Status& status) {
      status.entry = described_ + assignment_.instead;
      status.message.clear();
    });
    enter(Stage::ready, "", what_is_otherwise());
    warming_.sessions_open();
  }

  /// A volume that is rebooted has other processes afterwards, and people land on the base
  /// meanwhile: they should know why.
  void tell_of_entry() {
    const Entry& entry = *assignment_.entry;
    if (!serving_) return;
    const std::string pause = entry.pause(), described = entry.describe();
    if (pause == pause_ && described == described_) return;
    if (!pause.empty())
      tell_people(pause);
    else if (!pause_.empty())
      std::ignore = set_banner(ticket_.pool, {});
    pause_ = pause;
    described_ = described;
    book_.update([&](Status& status) {
      status.entry = described + assignment_.instead;
      status.message = pause;
    });
    const std::string otherwise = what_is_otherwise();
    if (!otherwise.empty()) book_.update([&](Status& status) { status.message = otherwise; });
  }

  /// The main thread has the bound again when serving_ is false.
  void keep_bound() {
    const std::lock_guard lock(mutex_);
    if (const auto bound = serving_ ? assignment_.dirty_bound.keep() : std::nullopt)
      book_.update([&](Status& status) {
        status.dirty_bound = *bound + ", at " + std::to_string(input_.write_mib_s) + " MiB/s";
      });
  }

  /// A device that keeps no such counters is not asked for ever.
  void ask_ebs() {
    if (!serving_ || ebs_silent_ == kEbsAttempts) return;
    const auto counted = read_ebs_statistics(served_disk_);
    ebs_silent_ = counted ? 0 : ebs_silent_ + 1;
    book_.update(
        [&](Status& status) { status.ebs = counted ? std::optional(*counted) : std::nullopt; });
  }

  void start_watching() {
    watcher_ = std::jthread([this](std::stop_token token) {
      Imds imds;
      int looks = 0;
      const auto look = [&] {
        auto notice = imds.find("meta-data/spot/instance-action");
        const bool is_notice = notice && *notice;
        if (looks++ % kLooksPerHint == 0 && !is_notice) look_for_hint(imds);
        return notice;
      };
      watch_for_notice(look, token, [&](const InstanceAction& notice) {
        ask_to_stop(
            ReleaseCause::spot_notice,
            "EC2 takes this spot instance back (" + notice.action + " at " + notice.time + ")",
            notice.time);
      });
    });
  }

  /// The manager hears of it with the next report, and acts where the spec asks for it.
  void look_for_hint(Imds& imds) {
    if (book_.snapshot().rebalance) return;
    const auto body = imds.find("meta-data/events/recommendations/rebalance");
    const auto since = body && *body ? parse_rebalance(**body) : std::nullopt;
    if (!since) return;
    log_event(LogLevel::notice, "EC2 recommends to rebalance", {{"since", *since}});
    book_.update([&](Status& status) { status.rebalance = since; });
  }

  Ok start_sessions() {
    input_.pool = ticket_.pool;
    input_.entry = ticket_.entry;
    input_.base_ports = session_ports();
    input_.sftp_server = sshd_.sftp_server;
    input_.write_mib_s = ticket_.write_mib_s;
    input_.grow = ticket_.grow;
    input_.sshd_is_late = sshd_.ran_before;
    if (std::count(sshd_.ports.begin(), sshd_.ports.end(), ticket_.rescue_port) != 0)
      input_.rescue_port = ticket_.rescue_port;
    // Another sshd is started when they are there, whatever the one that runs can do.
    input_.node_host_keys = sshd_.node_host_keys || sshd_.needs_second_sshd ||
                            (ticket_.host_keys && ticket_.entry != EntryKind::chroot);
    input_.second_sshd = {"", input_.base_ports, sshd_.node_host_keys || sshd_.needs_second_sshd};
    if (sshd_.needs_second_sshd || (sshd_.ran_before && sshd_.everywhere))
      input_.second_sshd.program = sshd_.program;
    input_.confirmed_volume = [this] {
      const std::lock_guard lock(mutex_);
      return confirmed_;
    };
    input_.no_volume = [this] {
      const std::lock_guard lock(mutex_);
      return no_volume_;
    };
    input_.instance_type = [] { return Imds().instance_type(); };
    if (!ticket_.manager_url.empty()) input_.confirmation_limit = kConfirmationLimit;
    input_.enter_stage = [this](Stage stage, const std::string& message) {
      if (stage == Stage::disk_seen)
        reporter_.report_often(true);  // its answers confirm the volume
      if (stage == Stage::checked) warming_.disk_checked(assignment_.disk_node);
      if (stage == Stage::mounted) warming_.root_mounted(assignment_);
      if (stage == Stage::ready)
        sessions_open();
      else
        enter(stage, "", message);
    };
    input_.disk_likely = [this](const std::string& disk_node) { warming_.disk_likely(disk_node); };
    input_.login_is_late = [this](const std::string& why) { enter(Stage::mounted, "", why); };
    input_.login_worked = [this] {
      if (book_.snapshot().stage == Stage::mounted) tell_of_return();
      login_worked_ = true;
    };
    input_.leads_back = [this] { end_serving(); };
    input_.let_go = [this] { stop_own_users(kWarmerLimit); };
    if (!is_taken_over_) warming_.before_disk();
    const Ok done =
        is_taken_over_ ? resume_sessions() : bring_up(input_, assignment_, book_, stop_);
    if (done) {
      warming_.logins_tried();
      return {};
    }
    reporter_.report_often(false);
    stop_own_users(kWarmerLimit);
    return done;
  }

  /// Until they land in the volume, or it is to be given back: people may be in it.
  Ok resume_sessions() {
    // Without a recording: what sessions read first is in memory by now.
    if (!stop_.reason()) warming_.root_mounted(assignment_);
    for (;;) {
      const Ok done = resume(input_, assignment_, book_, stop_);
      if (done || stop_.reason()) return done;
      if (link_text(kSessionRoot) == kVolumePoint)
        log_event(LogLevel::warning, "new sessions land in the volume as they did",
                  {{"why", done.error().message()}});
      else
        failed("sessions left the volume: " + done.error().message());
      const std::int64_t again_ms = boottime_ms() + kReturnEvery.count();
      while (boottime_ms() < again_ms)
        if (let_go_of_lost_disk() || stop_.wait_for(kTick * kTicksPerServingCheck)) return done;
    }
  }

  void sessions_open() {
    reporter_.report_often(false);
    enter(Stage::ready, "", what_is_otherwise());
    served_disk_ = assignment_.disk_node;
    served_root_ = assignment_.root_device;
    described_ = assignment_.entry->describe();
    serving_ = true;
    if (assignment_.entry->by_base_sshd())
      agents_.start(
          [](std::stop_token token) { mirror_agent_sockets("/tmp", kVolumePoint, token); });
    people_.start(
        [entry = assignment_.entry](std::stop_token token) { follow_people(*entry, token); });
    if (assignment_.host_keys)
      host_keys_.start([volume_id = assignment_.volume_id](std::stop_token token) {
        make_other_host_keys(volume_id, token);
      });
    warming_.sessions_open();
  }

  /// Than the ticket asked for; empty when nothing is.
  std::string what_is_otherwise() const {
    if (!assignment_.entry->by_base_sshd()) return {};
    if (sshd_.ran_before && assignment_.entry->waits_for_base_sshd()) return kLateSentence;
    return ticket_.entry == EntryKind::chroot ? std::string() : book_.snapshot().entry;
  }

  /// Where people come in, without the port that is to lead to the base.
  std::vector<std::uint16_t> session_ports() const {
    std::set<std::uint16_t> ports(sshd_.ports.begin(), sshd_.ports.end());
    ports.erase(static_cast<std::uint16_t>(ticket_.rescue_port));
    return {ports.begin(), ports.end()};
  }

  static void follow_people(Entry& entry, const std::stop_token& token) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, token, kPeopleLook, [&] { return token.stop_requested(); }))
      entry.follow_people([&] { return token.stop_requested(); });
  }

  static void make_other_host_keys(const std::string& volume_id, const std::stop_token& token) {
    const Ok made =
        complete_host_keys(kVolumePoint, volume_id, [&] { return token.stop_requested(); });
    if (!made && !token.stop_requested())
      log_event(LogLevel::warning, "host keys", {{"why", made.error().message()}});
  }

  /// False when one of them has not ended in time, as on a volume that does not answer; it may
  /// still, and is asked again then.
  bool stop_own_users(milliseconds limit) {
    BoundedThread* const threads[] = {&agents_, &host_keys_, &people_};
    for (BoundedThread* thread : threads) thread->request_stop();
    // All have the same time, whichever takes long.
    const auto deadline = std::chrono::steady_clock::now() + limit;
    bool ended = warming_.stop(limit);
    for (BoundedThread* thread : threads) ended = thread->stop_by(deadline) && ended;
    return ended;
  }

  /// Nobody leads sessions any more.
  void end_serving() {
    {
      const std::lock_guard lock(mutex_);
      serving_ = false;
    }
    // First of all: its reads compete with the writing back of what sessions left.
    warming_.request_stop();
    std::unique_lock lock(mutex_);
    led_.wait_for(lock, kReturnLimit, [this] { return !leading_; });
  }

  const Ticket ticket_;
  StatusBook& book_;
  const SshdFacts sshd_;
  const std::optional<Error> early_failure_;
  StopRequest stop_;
  BringUpInput input_;
  Assignment assignment_;
  bool is_taken_over_ = false;  ///< it is from a daemon that was killed
  std::string served_disk_;     ///< written before serving_ is set
  dev_t served_root_ = 0;       ///< the same
  // the ticker's; the main thread's before a login has worked, but the first
  int ebs_silent_ = 0;               ///< attempts in a row
  std::string pause_, described_;    ///< of the entry, as they were told last
  bool sessions_left_ = false;       ///< the volume, which serves them no more
  std::int64_t next_return_ms_ = 0;  ///< by boottime_ms()
  /// Sessions were opened and the volume is not given back yet: it is the ticker's to look after.
  std::atomic<bool> serving_ = false;
  /// In the volume: the ticker may lead sessions.
  std::atomic<bool> login_worked_ = false;
  std::atomic<bool> shutting_down_ = false;
  bool leading_ = false;         ///< the ticker leads sessions out or back
  std::condition_variable led_;  ///< with mutex_: not any more
  std::mutex mutex_, stage_mutex_;
  std::optional<std::string> confirmed_, no_volume_;
  Imds identity_;  ///< the reporter's thread's own
  Reporter reporter_;
  Warming warming_{ticket_, book_, reporter_, [this](Stage stage) { enter(stage, "", ""); }};
  Leaving leaving_{
      LeavingInput{ticket_, input_.launch, assignment_, book_, stop_, reporter_, shutting_down_,
                   [this](Stage stage, const std::string& reason, const std::string& message) {
                     enter(stage, reason, message);
                   },
                   [this](milliseconds limit) { return stop_own_users(limit); }}};
  // Last, so that they end first.
  std::jthread ticker_, watcher_;
  BoundedThread agents_, host_keys_, people_;
};

}  // namespace

void run_daemon(const Ticket& ticket, StatusBook& book, const Result<SshdFacts>& sshd,
                std::optional<HeldRecord> held) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  // Before any thread exists, so that all of them inherit it and only the signal thread hears.
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Daemon daemon(ticket, book, sshd.value_or(SshdFacts{}),
                sshd ? std::nullopt : std::optional<Error>(sshd.error()), std::move(held));
  std::thread([&daemon, signals] {
    for (siginfo_t info{}; ::sigwaitinfo(&signals, &info) > 0 || errno == EINTR; info = {}) {
      if (info.si_signo == 0 || info.si_signo == SIGHUP) continue;
      const bool passed_on = info.si_code == SI_QUEUE && info.si_value.sival_int == kFromInit;
      const bool by_init = info.si_signo == SIGTERM && (info.si_pid == kInit || passed_on);
      if (by_init)
        daemon.hear_init(passed_on);
      else
        daemon.ask_to_stop(ReleaseCause::operator_, "the operator asked for it");
    }
  }).detach();
  const Ok done = daemon.run();
  ::unlink(kPidFile);  // a number that somebody else may have soon
  // The signal thread still waits with a reference to `daemon`: end here, where nothing is left to
  // be destroyed.
  ::_exit(done ? 0 : 1);
}

}  // namespace warmroot::bootstrap
