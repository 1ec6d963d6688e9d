#include "bootstrap/daemon.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>

#include "bootstrap/base/log.hpp"
#include "bootstrap/daemon_process.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/notice.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/supervise.hpp"
#include "bootstrap/unmount.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

/// As often as EC2 advises to.
constexpr int kLooksPerHint = 5;
constexpr int kEbsAttempts = 3;
constexpr char kAskingWho[] = "asking the metadata service who we are";

}  // namespace

Daemon::Daemon(Ticket ticket, StatusBook& book, SshdFacts sshd, std::optional<Error> early_failure,
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
  init_waits_ = cause && is_by_init(*cause);
  stop_.request(std::move(*held->leaving));
}

Ok Daemon::run() {
  for (const auto& disk : scan_disks("/sys", {}, {})) input_.disks_at_start.insert(disk.name);
  start_ticker();
  if (!is_taken_over_) {
    TRY(ask_metadata());
    const KeyOwner owner = owner_of(input_.launch, ticket_);
    take_key_after_reboot(owner);
    input_.given_away = given_away_before(owner);
    input_.served = served_before(owner, input_.given_away);
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

void Daemon::ask_to_stop(ReleaseCause cause, const std::string& sentence,
                         const std::string& notice_time, std::int64_t since_ms) {
  if (is_by_init(cause)) note_end_of_boot();
  const auto now = std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
  stop_.request(
      {std::string(to_string(cause)), sentence,
       since_ms + time_for_release(cause, notice_time, now, ticket_.release_wishes).count()});
  if (is_by_init(cause)) init_waits_ = true;  // who sees it finds the reason there
}

void Daemon::hear_init(bool again) {
  if (again && init_waits_) return;
  const std::int64_t since_ms = boottime_ms();
  switch (plan_of_init()) {
    case MachinePlan::reboots:
      return ask_to_stop(ReleaseCause::reboot,
                         "this machine reboots, and comes back with this volume", {}, since_ms);
    case MachinePlan::shuts_down:
      return ask_to_stop(ReleaseCause::shutdown, "this machine shuts down", {}, since_ms);
    case MachinePlan::soft_reboots:
      return ask_to_stop(ReleaseCause::shutdown, "this machine begins anew by a soft-reboot", {},
                         since_ms);
    case MachinePlan::stays:
      break;
  }
  // People's word, in the time that init gives.
  stop_.request({std::string(to_string(ReleaseCause::operator_)),
                 "the operator stopped the bootstrap's unit",
                 since_ms + time_for_release(ReleaseCause::shutdown, {}, {}, {}).count()});
  init_waits_ = true;
}

void Daemon::enter(Stage stage, const std::string& reason, const std::string& message) {
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

void Daemon::tell_people(const std::string& why) const {
  [[maybe_unused]] const Ok shown =
      set_banner(ticket_.pool, "Why: " + why + "\nMore: " + kProgram + " status, " + kLogFile);
}

void Daemon::failed(const std::string& message) {
  // Of a volume that was taken over sessions go on landing in it.
  if (link_text(kSessionRoot) != kVolumePoint) tell_people(message);
  enter(Stage::failed, "failed", message);
}

/// A volume that people have to repair serves nobody here: they can have it, and its node another
/// one. False while something may hold it.
bool Daemon::give_back(const std::string& why) {
  if (assignment_.mounted) return false;
  const auto free = book_.timed("prove the device free", [&]() -> Result<std::string> {
    TRY(check_device_free(assignment_.disk_node));
    return "opened " + assignment_.disk_node + " exclusively";
  });
  if (!free) return false;
  tell_people(why);
  leaving_.keep_from_next_boot();
  enter(Stage::released, std::string(kUncleanBeyondRepair), why);
  return true;
}

void Daemon::hear(const Wishes& wishes) {
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_news = wishes.volume_id && wishes.volume_id != confirmed_;
    if (wishes.volume_id || wishes.no_volume) confirmed_ = wishes.volume_id;
    no_volume_ = wishes.no_volume;
  }
  if (wishes.volume_id && wishes.snapshot_id)
    warming_.made_from(*wishes.volume_id, *wishes.snapshot_id);
  if (wishes.drain) ask_to_stop(ReleaseCause::wish, "the manager asked for the volume");
  if (is_news && is_another_volume(*wishes.volume_id)) base_disk_.ask(forget_served);
}

/// Than the one that is here, as far as that is known.
bool Daemon::is_another_volume(const std::string& volume_id) const {
  const auto here = book_.snapshot().volume_id;
  return here && *here != volume_id;
}

/// For a boot behind a reset. Not waited for, and not once a stop is requested: it is given back.
void Daemon::keep_served_volume() {
  if (stop_.reason()) return;
  const EarlierVolume volume{assignment_.volume_id, assignment_.disk.name};
  base_disk_.ask([owner = owner_of(input_.launch, ticket_), volume] {
    if (const Ok kept = keep_served(owner, volume); !kept)
      log_event(LogLevel::warning, "behind a reset the volume may need the manager's word",
                {{"why", kept.error().message()}});
  });
  // One that was heard meanwhile may have found nothing to be forgotten.
  const auto word = input_.confirmed_volume();
  if (word && is_another_volume(*word)) base_disk_.ask(forget_served);
}

/// Without an answer there is no instance id, and so no report.
Ok Daemon::ask_metadata() {
  const auto asked = book_.timed("metadata", [&]() -> Result<std::string> {
    Imds imds;
    auto facts = ask_until_answered([&imds] { return imds.launch_facts(); },
                                    [this](milliseconds pause) { return stop_.wait_for(pause); },
                                    [this](const Error& why) { tell_of_silence(why); });
    if (!facts) return fail(std::move(facts).error().within(kAskingWho));
    input_.launch = std::move(*facts);
    return input_.launch.instance_id + " in " + input_.launch.zone;
  });
  if (!asked) {
    failed(asked.error().message());
    return fail(asked.error());
  }
  if (book_.snapshot().stage != Stage::hello) std::ignore = set_banner(ticket_.pool, kNotReady);
  book_.update([&](Status& status) {
    status.stage = Stage::hello;
    status.message.clear();
    status.instance_id = input_.launch.instance_id;
  });
  reporter_.stage_changed(Stage::hello, "", "");
  return {};
}

/// Not by failed: the manager, which hears nothing for now, would hear that first when all is well
/// again.
void Daemon::tell_of_silence(const Error& why) {
  const std::string message = Error(why).within(kAskingWho).message() + "; asking goes on";
  log_event(LogLevel::warning, "no metadata", {{"why", message}});
  tell_people(message);
  book_.update([&](Status& status) {
    status.stage = Stage::failed;
    status.message = message;
  });
}

void Daemon::start_ticker() {
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
      reap_given_up();
      book_.update([](Status&) {});
      std::unique_lock lock(mutex);
      wake.wait_for(lock, token, kTick, [] { return false; });
    }
  });
}

/// False where the disk is there, or a stop was requested anyway.
bool Daemon::let_go_of_lost_disk() {
  if (!disk_has_gone("/sys", assignment_.disk, [this] { return stop_.wait_for(kTick); }))
    return false;
  ask_to_stop(ReleaseCause::disk_gone, disk_gone_sentence(assignment_));
  return true;
}

/// The main thread has the bound again when serving_ is false.
void Daemon::keep_bound() {
  const std::lock_guard lock(mutex_);
  if (const auto bound = serving_ ? assignment_.dirty_bound.keep() : std::nullopt)
    book_.update([&](Status& status) {
      status.dirty_bound = *bound + ", at " + std::to_string(input_.write_mib_s) + " MiB/s";
    });
}

/// A device that keeps no such counters is not asked for ever.
void Daemon::ask_ebs() {
  if (!serving_ || ebs_silent_ == kEbsAttempts) return;
  const auto counted = read_ebs_statistics(served_disk_);
  ebs_silent_ = counted ? 0 : ebs_silent_ + 1;
  book_.update(
      [&](Status& status) { status.ebs = counted ? std::optional(*counted) : std::nullopt; });
}

void Daemon::start_watching() {
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
void Daemon::look_for_hint(Imds& imds) {
  if (book_.snapshot().rebalance) return;
  const auto body = imds.find("meta-data/events/recommendations/rebalance");
  const auto since = body && *body ? parse_rebalance(**body) : std::nullopt;
  if (!since) return;
  log_event(LogLevel::notice, "EC2 recommends to rebalance", {{"since", *since}});
  book_.update([&](Status& status) { status.rebalance = since; });
}

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
