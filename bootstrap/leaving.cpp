#include "bootstrap/leaving.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <tuple>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/held_record.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/release_plan.hpp"

namespace warmroot::bootstrap {
namespace {

/// Between the two looks for a disk that may be gone.
constexpr Milliseconds kDiskLook{1000};
/// Nobody else can tell the manager that the volume is free: its restart, or an outage, is waited
/// for.
constexpr Milliseconds kLastReports{600'000};
/// The machine's shutdown waits for us, and EC2 tells the manager of its end.
constexpr Milliseconds kLastReportsAtShutdown{5000};
constexpr Milliseconds kShutdownLook{500};
/// Of the 80 s that a shutdown or a reboot leaves: files are synced to the base's disk.
constexpr Milliseconds kBaseDiskLimit{2000};
/// Who was told of the release ends this machine within seconds. Where that fails people have to
/// get in, later than EC2 takes a machine back that it has given notice to.
constexpr Milliseconds kTurnedAway{150'000};
/// Between attempts to release; whoever holds the volume may be gone in a moment, or only after
/// hours.
constexpr Milliseconds kFirstReleaseRetry{5000};
constexpr Milliseconds kLastReleaseRetry{60000};

bool is_reboot(const StopReason& reason) {
  return reason.word == to_string(ReleaseCause::reboot);
}

KeyOwner owner_of(const LeavingInput& input) {
  return owner_of(input.launch, input.ticket);
}

EarlierVolume here_of(const LeavingInput& input) {
  return {input.assignment.volume_id, input.assignment.disk.name};
}

/// The volume that this boot has, else the one that a boot before served, and that this one has not
/// come to: it is given back with that. is_none() where there is neither.
EarlierVolume volume_of(const KeyOwner& owner, const EarlierVolume& here) {
  return here.is_none() ? served_before(owner) : here;
}

}  // namespace

std::string disk_gone_sentence(const Assignment& assignment) {
  return "the volume's disk /dev/" + assignment.disk.name + " is gone";
}

Ok Leaving::run() {
  const StopReason reason = *input_.stop.reason();
  if (input_.assignment.mounted) {
    // One that could not be told so would let people in anew.
    if (const Ok kept = keep_held_record({input_.assignment, reason}); !kept) forget_held_record();
  }
  // Who drains is replaced.
  const StopReason why = given_back_for();
  if (is_reboot(why)) keep_key();
  input_.enter_stage(is_reboot(why) ? Stage::rebooting : Stage::draining, why.word, why.sentence);
  const bool turned_away = give_back(reason);
  // Taken away before or during all this, as whatever it began: nobody knows what it holds.
  const std::string lost(to_string(ReleaseCause::disk_gone));
  const auto wait = [] {
    std::this_thread::sleep_for(kDiskLook);
    return false;
  };
  const bool is_lost = reason.word == lost || disk_has_gone("/sys", input_.assignment.disk, wait);
  if (!is_lost && tell_of_reboot()) {
    wait_for_base_disk();  // what is not kept by now goes with this process
    look_whether_machine_stays(turned_away);
    return {};
  }
  keep_from_next_boot();  // before the manager hears of it: this machine may end while we tell
  if (is_lost)
    input_.enter_stage(Stage::released, lost, disk_gone_sentence(input_.assignment));
  else
    tell_of_release();
  forget_held_record();  // behind it: one that begins in between must not take the disk anew
  input_.base_disk.ask(forget_key_over_reboot);
  if (turned_away) turned_away_until_ms_ = boottime_ms() + kTurnedAway.count();
  return end_reporting();
}

/// Nobody else can give the volume back: for as long as it is held, try again. Whether new sessions
/// are refused still.
bool Leaving::give_back(const StopReason& reason) {
  ReleaseInput release_input{input_.ticket.pool,
                             input_.launch.instance_id,
                             reason.word,
                             reason.sentence,
                             [this] { return input_.stop.reason()->deadline_ms; },
                             input_.stop_own_users,
                             true,
                             machine_goes(reason.word),
                             input_.ticket.release_wishes};
  Milliseconds pause = kFirstReleaseRetry;
  int requests = input_.stop.requests();
  std::optional<std::size_t> first_steps;
  for (Ok done = release(release_input, input_.assignment, input_.book); !done;
       done = release(release_input, input_.assignment, input_.book)) {
    input_.enter_stage(Stage::failed, reason.word,
                       "the volume could not be released, trying again: " + done.error().message());
    // People may have to look why.
    release_input.turn_away = release_input.machine_goes = false;
    // Of all attempts the first, which ran the hooks, and the last are told.
    if (!first_steps) first_steps = input_.book.snapshot().steps.size();
    // A notice or a shutdown does not have the time that the next attempt would let pass.
    input_.stop.wait_for_another(requests, pause);
    pause = std::min(2 * pause, kLastReleaseRetry);
    requests = input_.stop.requests();
    input_.book.forget_steps_after(*first_steps);
  }
  return release_input.machine_goes;
}

/// The manager keeps instance and volume together, and the next boot goes on with both, and with
/// the key. False where the machine does not reboot, or somebody wants the volume: also with the
/// answer to this very report.
bool Leaving::tell_of_reboot() {
  const StopReason why = given_back_for();
  if (!is_reboot(why)) return false;
  input_.enter_stage(Stage::rebooting, why.word,
                     "the volume is unmounted, and is served again after the reboot");
  forget_held_record();
  const auto end = std::chrono::steady_clock::now() + kLastReportsAtShutdown;
  while (keeps_volume() && std::chrono::steady_clock::now() < end &&
         !input_.reporter.flush(kShutdownLook, true)) {
  }
  if (!keeps_volume()) return false;
  input_.reporter.stop();
  return true;
}

/// A volume that was attached when this machine was reset, and that nobody has mounted since, is as
/// the reset has left it.
void Leaving::tell_of_release() const {
  if (input_.assignment.root_device != 0)
    input_.enter_stage(Stage::released, given_back_for().word, "the volume is free");
  else
    input_.enter_stage(Stage::released, std::string(kNeverMounted), "no volume was mounted");
}

/// Before the manager hears of the reboot: it may come at any moment, by init's patience or by
/// people's, and a boot without the key is one that nobody hears of.
void Leaving::keep_key() const {
  const auto key = input_.reporter.key_for_next_boot();
  if (!key) return;
  input_.base_disk.ask([owner = owner_of(input_), text = *key] {
    if (const Ok kept = keep_key_over_reboot(owner, text); !kept)
      log_event(LogLevel::warning, "the next boot has to ask for a key",
                {{"why", kept.error().message()}});
  });
  wait_for_base_disk();
}

/// No longer than that: it may not answer, and neither the volume nor whoever is told of its
/// release must wait for that.
void Leaving::wait_for_base_disk() const {
  if (!input_.base_disk.wait_for(kBaseDiskLimit))
    log_event(LogLevel::warning, "what the next boot should know is not kept yet",
              {{"why", "the base's disk has not answered"}});
}

/// Whoever has asked for the volume gets it, and this machine may boot anew all the same: by a
/// reset, by an order that init tells us when we are gone, or when it is started after a stop. EC2
/// may not have detached the volume by then, and the next boot would serve it until it is gone. One
/// that an earlier boot gave away, and that this one did not get, is kept from the next one, too,
/// unless people want it forgotten.
void Leaving::keep_from_next_boot() const {
  const bool people_asked = input_.stop.was_asked_for(to_string(ReleaseCause::operator_));
  const bool is_unwanted = people_asked && !init_ends_machine();
  const bool has_manager = !input_.ticket.manager_url.empty();
  input_.base_disk.ask(
      [owner = owner_of(input_), here = here_of(input_), is_unwanted, has_manager] {
        const EarlierVolume volume = volume_of(owner, here);
        if (volume.is_none() && is_unwanted) forget_given_away();
        if (volume.is_none() || !has_manager) return;
        const Ok kept = keep_given_away(owner, volume);
        if (kept) return;
        log_event(LogLevel::warning, "the next boot may serve a volume that was given away",
                  {{"why", kept.error().message()}});
        forget_served();  // which nothing outranks then
      });
  wait_for_base_disk();
}

bool Leaving::init_ends_machine() const {
  return input_.stop.was_asked_for(to_string(ReleaseCause::shutdown)) ||
         input_.stop.was_asked_for(to_string(ReleaseCause::reboot));
}

/// A shutdown has no other node in mind. A manager that has not heard of it has the volume leased
/// to this instance still, and may not be there to say so when that is started. What it has
/// detached because EC2 showed it a stopped instance is gone by then: no guest holds that up.
bool Leaving::is_given_to_nobody() const {
  const auto shutdown = to_string(ReleaseCause::shutdown);
  // The volume last: it may have to be looked up on the base's disk, which may not answer.
  return input_.stop.was_asked_for(shutdown) && !input_.stop.who_else_asked(shutdown) &&
         !input_.reporter.has_told(Stage::released) &&
         !volume_of(owner_of(input_), here_of(input_)).is_none();
}

/// A reboot gives it back to nobody: whoever else has asked gets it.
StopReason Leaving::given_back_for() const {
  const StopReason first = *input_.stop.reason();
  if (!is_reboot(first)) return first;
  return input_.stop.who_else_asked(first.word).value_or(first);
}

bool Leaving::keeps_volume() const {
  return is_reboot(given_back_for());
}

/// The manager, EC2 or init ends it now. Where nobody is told so, or would let people onto the
/// base again, they are let onto it at once.
bool Leaving::machine_goes(const std::string& word) const {
  if (input_.ticket.manager_url.empty()) return false;
  const auto cause = release_cause_from(word);
  return cause &&
         (cause == ReleaseCause::spot_notice || cause == ReleaseCause::wish || is_by_init(*cause));
}

void Leaving::let_onto_base_in_time() {
  if (!turned_away_until_ms_ || boottime_ms() < *turned_away_until_ms_) return;
  turned_away_until_ms_.reset();
  std::ignore =
      let_onto_base(input_.ticket.pool, "The volume was released: " + given_back_for().sentence);
}

/// For the very end: a shutdown or a reboot may have been taken back, or people stop the unit of a
/// machine that should be gone by now, and nobody is left to let them in later. Nor may anybody be
/// behind a soft-reboot, which keeps the link that refuses them. Whoever begins in a boot that goes
/// on must not take it for the next one, whether sessions are refused or not.
void Leaving::look_whether_machine_stays(bool is_turned_away) const {
  if (!is_turned_away && !init_ends_machine()) return;
  const MachinePlan plan = plan_of_init();
  if (plan == MachinePlan::shuts_down || plan == MachinePlan::reboots) return;
  if (plan == MachinePlan::stays) std::ignore = take_end_of_boot();
  if (!is_turned_away) return;
  std::ignore =
      let_onto_base(input_.ticket.pool, "The volume is unmounted: " + given_back_for().sentence);
}

/// Where init waits. EC2 tells the manager nothing of a machine that stays.
Milliseconds Leaving::time_for_last_reports() const {
  const Milliseconds left(input_.stop.reason()->deadline_ms - boottime_ms());
  return init_ends_machine() ? kLastReportsAtShutdown : std::max(left, kLastReportsAtShutdown);
}

Ok Leaving::end_reporting() {
  const auto end = std::chrono::steady_clock::now() + kLastReports;
  while (!input_.init_waits && std::chrono::steady_clock::now() < end &&
         !input_.reporter.flush(kShutdownLook))
    let_onto_base_in_time();
  if (input_.init_waits) input_.reporter.flush(time_for_last_reports(), true);
  stay_until_init_waits();
  input_.reporter.stop();  // first: what is on its way may be taken yet
  if (is_given_to_nobody()) {
    input_.base_disk.ask(forget_given_away);  // what is served stays so, for the next boot
  } else {
    keep_from_next_boot();
    // Not before: where this process does not come to it, the other file counts.
    input_.base_disk.ask(forget_served);
  }
  wait_for_base_disk();
  look_whether_machine_stays(turned_away_until_ms_.has_value());
  return {};
}

/// What the manager has heard it may lose with its ledger: a node goes on saying that its volume
/// is free, or it would be given one again. Not while init waits for us, as at a shutdown. Only its
/// own word tells: /run/nologin is there five minutes before a shutdown that may be taken back, or
/// for as long as people want it.
void Leaving::stay_until_init_waits() {
  while (!input_.ticket.manager_url.empty() && !input_.init_waits) {
    let_onto_base_in_time();
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace warmroot::bootstrap
