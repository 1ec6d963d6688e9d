#include "bootstrap/release.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>

#include "bootstrap/ahead_of_people.hpp"
#include "bootstrap/base/detached.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/hooks.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/kernel_users.hpp"
#include "bootstrap/mount_copies.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/preflight_io.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/volume_marks.hpp"
#include "bootstrap/volume_root.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::int64_t kFreeMs = 15000;
constexpr int kPauseMs = 100;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
/// While people save: each look reads what all processes of the machine have open.
constexpr int kPeoplePauseMs = 500;
/// A look is had for so long even where its step has no time left: without one nobody would be
/// ended, and nothing could be unmounted. Enough for the links of some ten thousand processes.
constexpr std::int64_t kLeastLookMs = 500;
constexpr std::int64_t kMostLookMs = 30'000;
/// Between two rounds of killing.
constexpr int kKillPauseMs = 20;
/// What run_hooks takes beyond its limit to end a hook that hangs.
constexpr Milliseconds kHooksGrace{4000};
/// For what the kernel used, once the volume is unmounted.
constexpr Milliseconds kKernelWordLimit{1000};

using Work = std::shared_future<void>;

bool runs(const Work& work) {
  return work.valid() && work.wait_for(Milliseconds(0)) != std::future_status::ready;
}

/// The root, and what else of the disk is mounted in it (`places`).
Result<std::string> write_back(const std::vector<std::string>& places) {
  TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
  Result<std::string> done;
  for (const std::string& place : places) {
    const auto mounted = root.open_inside(place, O_RDONLY | O_DIRECTORY);
    if (mounted && ::syncfs(mounted->get()) != 0) done = fail_errno("writing /" + place + " back");
  }
  TRY_ASSIGN(const UniqueFd top, root.open_inside(".", O_RDONLY | O_DIRECTORY));
  if (::syncfs(top.get()) != 0) return fail_errno("writing the volume back");
  return done;
}

/// Milliseconds until the next round: not fewer than this one took, because those who were killed
/// need the processor to end.
int pause_after(std::int64_t began_ms, int least) {
  return std::max(least, static_cast<int>(boottime_ms() - began_ms));
}

/// For the timeline and for the person who reads it.
std::string in_words(const HolderSearch& search) {
  if (search.complete) return search.found.empty() ? "there were none" : holders_text(search.found);
  return search.found.empty() ? "not every process could be looked at in time"
                              : holders_text(search.found) + ", and there may be more";
}

class Release {
 public:
  Release(const ReleaseInput& input, Assignment& assignment, StatusBook& book)
      : input_(input), assignment_(assignment), book_(book) {}

  Ok run() {
    attempt("show the banner", [&] { return show_banner(); });
    attempt("stop new sessions", [&] { return stop_new_sessions(); });
    // Not a person: nobody waits for it.
    if (!assignment_.entry->by_base_sshd() && !assignment_.entry->holds_sessions()) end_entry();
    if (assignment_.mounted) {
      attempt("find the volume", [&] { return find_volume(); });
      given_ = budget().warn;
      sessions_end_ms_ = boottime_ms() + given_.count();
      // Most is written while people save; sync waits for the rest.
      if (device_ && !runs(assignment_.write_back))
        assignment_.write_back =
            begin([places = assignment_.also_mounted] { std::ignore = write_back(places); });
      if (device_) attempt("warn sessions", [&] { return warn(); });
      attempt("stop warming", [&] { return stop_own_users(); });
      if (device_) empty_volume();
      if (!device_ && assignment_.entry->holds_sessions()) end_entry();
      if (auto done = book_.timed("unmount", [&] { return unmount(); }); !done) {
        if (device_ && device_mounted_at(kVolumePoint) && !runs(assignment_.write_back))
          attempt("take the clean mark back", [&] { return take_mark_back(); });
        return fail(std::move(done).error());
      }
      attempt("lift the bound on dirty memory", [&] { return lift_bound(); });
    }
    Result<std::string> proven;
    if (!assignment_.disk_node.empty())
      proven = book_.timed("prove the device free", [&] { return prove_free(); });
    // Also of a disk that somebody keeps: sessions have ended, and nobody comes to it any more.
    attempt("remove accounts", [&] { return undo_entry(); });
    // Until now, so that whoever comes during the release is told so by the node, not by a
    // stranger.
    if (assignment_.host_keys) attempt("show the base's host keys", [&] { return base_keys(); });
    std::ignore = show_message_of_the_day({});
    TRY(proven);
    return {};
  }

 private:
  /// A step whose failure is recorded and does not keep the volume: a full or read-only file system
  /// (ENOSPC, EROFS) must not stay mounted because the mark that it was left clean cannot be
  /// written.
  void attempt(const std::string& name, const std::function<Result<std::string>()>& step) {
    std::ignore = book_.timed(name, step);
  }

  ReleaseBudget budget() const {
    return plan_release(Milliseconds(input_.deadline_ms() - boottime_ms()), input_.wishes);
  }

  /// On a thread of its own, so that a volume which does not answer keeps only that thread waiting.
  /// `work` keeps nothing of its caller's.
  static Work begin(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    Work begun = task.get_future().share();
    run_detached(std::move(task));
    return begun;
  }

  /// When the step has to end that has until `end_ms`: an end that comes nearer shortens it.
  std::int64_t nearest(std::int64_t end_ms, Milliseconds ReleaseBudget::*step) const {
    return std::min(end_ms, boottime_ms() + (budget().*step).count());
  }

  /// True once the step's time, from now on, is over.
  Cancelled over(Milliseconds ReleaseBudget::*step, std::int64_t end_ms = kNever) const {
    return [this, step, end_ms = nearest(end_ms, step)]() mutable {
      end_ms = nearest(end_ms, step);
      return boottime_ms() >= end_ms;
    };
  }

  /// The same, but not before the least that a look has.
  static Cancelled after_a_look(Cancelled over) {
    return [over = std::move(over), least_ms = boottime_ms() + kLeastLookMs] {
      return boottime_ms() >= least_ms && over();
    };
  }
  static Cancelled after(std::int64_t look_ms) {
    return [end_ms = boottime_ms() + look_ms] { return boottime_ms() >= end_ms; };
  }

  /// True when it has ended in the step's time; asks again and again how much that is.
  bool ended(const Work& work, Milliseconds ReleaseBudget::*step, std::int64_t& end_ms) const {
    while (runs(work)) {
      end_ms = nearest(end_ms, step);
      const std::int64_t left = end_ms - boottime_ms();
      if (left <= 0) return false;
      work.wait_for(Milliseconds(std::min<std::int64_t>(left, kPauseMs)));
    }
    return true;
  }

  /// Marking and sync share their time. One at a time, also over several attempts: on a volume that
  /// hangs each would keep it busy.
  Result<std::string> within(Milliseconds ReleaseBudget::*step,
                             std::function<Result<std::string>()> work) {
    const auto result = std::make_shared<std::optional<Result<std::string>>>();
    if (ended(assignment_.write_back, step, volume_end_ms_)) {
      assignment_.write_back = begin([result, work = std::move(work)] { result->emplace(work()); });
      if (ended(assignment_.write_back, step, volume_end_ms_)) return std::move(**result);
    }
    return fail(ErrorKind::retry_later, "not done in time, it goes on; the volume may not answer");
  }

  Result<std::string> show_banner() {
    TRY(set_banner(input_.pool, "The volume is being released: " + input_.sentence,
                   input_.turn_away ? Elsewhere::nowhere : Elsewhere::base));
    return std::string();
  }

  Result<std::string> stop_new_sessions() {
    TRY(assignment_.entry->close_to(input_.turn_away ? kNowhere : "/"));
    return std::string(input_.turn_away ? "they are refused" : "they land on the base");
  }

  /// The base's own processes hold what is at the volume's place once somebody has unmounted it.
  Result<std::string> find_volume() {
    const auto found = mounted_root(assignment_.root_device);
    if (!found || (assignment_.root_device != 0 && *found != assignment_.root_device))
      return fail(ErrorKind::gone, assignment_.unmounting->is_under_way()
                                       ? "its unmount goes on"
                                       : "somebody else has unmounted the volume");
    device_ = found;
    const Milliseconds left(input_.deadline_ms() - boottime_ms());
    return std::to_string(left.count() / 1000) + " s are left for the release";
  }

  // people and programs

  void empty_volume() {
    run_volume_hooks();
    wait_for_people();
    if (assignment_.entry->holds_sessions()) end_entry();
    attempt("end sessions", [&] { return end_sessions(); });
    attempt("mark clean", [&] { return mark_clean(); });
    attempt("sync", [&] { return sync_volume(); });
  }

  void end_entry() {
    attempt("end the entry", [&] { return assignment_.entry->end(budget().terminate); });
  }

  /// Without what the entry itself runs, which nobody has to wait for.
  HolderSearch people(const Cancelled& over) const {
    HolderSearch search = search_holders(*device_, over);
    std::erase_if(search.found,
                  [&](const auto& each) { return assignment_.entry->runs(each.pid); });
    return search;
  }

  /// Those who are seen at once: a warning must not come late.
  Result<std::string> warn() const {
    const HolderSearch search = people(after(kLeastLookMs));
    const auto& holders = search.found;
    if (holders.empty()) return in_words(search);
    const std::int64_t seconds =
        std::max<std::int64_t>(0, sessions_end_ms_ - boottime_ms() + 500) / 1000;
    const std::string when =
        seconds == 0 ? "Sessions end now"
                     : "Save your work: sessions end in " + std::to_string(seconds) + " seconds";
    const std::size_t terminals =
        warn_terminals(holders, "warmroot: " + input_.sentence + ". " + when + ".");
    return std::to_string(terminals) + " terminals, " + when + ": " + in_words(search);
  }

  /// Who has long may have forgotten the warning, or come to it late. Asked again and again: the
  /// end may have come nearer.
  void remind_in_time() {
    sessions_end_ms_ = nearest(sessions_end_ms_, &ReleaseBudget::warn);
    const Milliseconds left(sessions_end_ms_ - boottime_ms());
    if (reminded_ || !is_reminder_due(given_, left)) return;
    reminded_ = true;
    attempt("remind sessions", [&] { return warn(); });
  }

  /// Their time begins with the people's, and may be longer.
  void run_volume_hooks() {
    if (::access(kHooksRun, F_OK) == 0) return;
    std::int64_t end_ms = nearest(kNever, &ReleaseBudget::hooks);
    const auto deadline = std::make_shared<std::atomic<std::int64_t>>(end_ms);
    const HookOrder order{input_.reason, input_.pool, input_.instance_id, assignment_.volume_id,
                          deadline};
    std::packaged_task<Result<std::vector<TimedStep>>()> task(
        [order, device = *device_] { return hooks_of_volume(order, device); });
    auto result = task.get_future();
    run_detached(std::move(task));
    while (result.wait_for(Milliseconds(kPauseMs)) != std::future_status::ready &&
           boottime_ms() < end_ms + kHooksGrace.count()) {
      *deadline = end_ms = nearest(end_ms, &ReleaseBudget::hooks);
      remind_in_time();
    }
    const bool done = result.wait_for(Milliseconds(0)) == std::future_status::ready;
    auto steps = done ? result.get()
                      : Result<std::vector<TimedStep>>(
                            fail(ErrorKind::retry_later, "not done in time, they go on"));
    if (!steps) {
      attempt("hooks", [&]() -> Result<std::string> { return fail(steps.error()); });
      return;
    }
    const std::int64_t started_ms = boottime_ms() - book_.now_ms();
    for (TimedStep step : *steps) {
      step.start_ms -= started_ms;
      book_.record(std::move(step));
    }
  }

  /// Until nobody is left or their time is over; it may be shortened meanwhile.
  void wait_for_people() {
    const Cancelled over = this->over(&ReleaseBudget::warn, sessions_end_ms_);
    while (!over() && !people(over).none()) {
      remind_in_time();
      ::poll(nullptr, 0, kPeoplePauseMs);
    }
  }

  Result<std::string> end_sessions() const {
    const Cancelled told = over(&ReleaseBudget::terminate);
    // An interactive shell ignores SIGTERM and obeys SIGHUP; a stopped program hears neither before
    // SIGCONT.
    const HolderSearch search =
        search_holders(*device_, after_a_look(told), {SIGHUP, SIGTERM, SIGCONT});
    const std::string who = in_words(search);
    if (search.none() || wait_for_none(told)) return who;
    const HolderSearch left = kill_all(over(&ReleaseBudget::kill));
    if (left.none()) return who + "; not all obeyed, the rest was killed";
    return fail(ErrorKind::retry_later,
                left.found.empty() ? in_words(left) : in_words(left) + " did not end when killed");
  }

  bool wait_for_none(const Cancelled& over) const {
    while (!over()) {
      if (search_holders(*device_, over).none()) return true;
      ::poll(nullptr, 0, kPauseMs);
    }
    return false;
  }

  /// Round after round, until two have found nobody: one may miss a program that forks and ends all
  /// the time. Returns who was there in the last.
  HolderSearch kill_all(const Cancelled& over) const {
    const AheadOfPeople ahead;
    std::int64_t began_ms = boottime_ms();
    HolderSearch round = kill_holders(*device_, after_a_look(over));
    for (bool none = round.none(); !over(); none = round.none()) {
      ::poll(nullptr, 0, pause_after(began_ms, kKillPauseMs));
      began_ms = boottime_ms();
      HolderSearch next = kill_holders(*device_, over);
      if (next.complete || !next.found.empty()) round = std::move(next);
      if (none && round.none()) break;
    }
    return round;
  }

  Result<std::string> stop_own_users() {
    if (!input_.stop_own_users(budget().own_users))
      return fail(ErrorKind::retry_later,
                  "the warmer, the recording or the host keys have not ended in time");
    return std::string("the warmer, the recording and the host keys have ended");
  }

  // the file system

  Result<std::string> mark_clean() {
    return within(&ReleaseBudget::sync,
                  [id = input_.instance_id] { return bootstrap::mark_clean(id); });
  }

  /// Power may be cut before the next attempt: what is mounted was not left clean.
  Result<std::string> take_mark_back() {
    volume_end_ms_ = kNever;
    return within(&ReleaseBudget::sync,
                  [id = input_.instance_id] { return take_clean_mark_back(id); });
  }

  /// What still writes when its time is over holds the volume, and unmounting waits for it.
  Result<std::string> sync_volume() {
    return within(&ReleaseBudget::sync,
                  [places = assignment_.also_mounted] { return write_back(places); });
  }

  /// On a thread of its own: what was swapped out has to be read back first.
  void end_kernel_users_beside() {
    if (!device_ || runs(assignment_.kernel_work)) return;
    assignment_.kernel_users = std::make_shared<std::vector<std::string>>();
    assignment_.kernel_work =
        begin([device = *device_, places = assignment_.also_mounted,
               users = assignment_.kernel_users] { *users = end_kernel_users(device, places); });
  }

  /// What the last round has found.
  std::string kernel_users_text() const {
    if (runs(assignment_.kernel_work)) return "a swap file that is being read back";
    return joined(*assignment_.kernel_users, ", ");
  }

  HolderSearch kill_for(std::int64_t look_ms) const {
    if (!device_) return {};
    const AheadOfPeople ahead;
    return kill_holders(*device_, after(look_ms));
  }

  Result<std::string> unmount() {
    const ReleaseBudget times = budget();
    const std::int64_t start_ms = boottime_ms(), deadline = start_ms + times.unmount.count();
    const UnmountRound order{kVolumePoint, assignment_.other_devices,
                             start_ms + times.servers.count(), deadline};
    // Longer each time: where there are very many processes, one that is cut short ends at the same
    // place again.
    for (std::int64_t look_ms = kLeastLookMs;; look_ms = std::min(2 * look_ms, kMostLookMs)) {
      Ok done = assignment_.unmounting->round(order);
      if (done) break;
      const std::int64_t began_ms = boottime_ms();
      const HolderSearch held = kill_for(std::clamp(deadline - began_ms, kLeastLookMs, look_ms));
      if (boottime_ms() >= deadline) {
        Error error = std::move(done).error();
        if (!held.none())
          error.context += (held.found.empty() ? ", " : ", held by ") + in_words(held);
        if (const auto users = kernel_users_text(); !users.empty())
          error.context += ", used by the kernel: " + users;
        if (runs(assignment_.write_back)) error.context += ", still being written back";
        return fail(std::move(error));
      }
      end_kernel_users_beside();
      ::poll(nullptr, 0, pause_after(began_ms, kPauseMs));
    }
    assignment_.mounted = false;
    if (assignment_.kernel_work.valid()) assignment_.kernel_work.wait_for(kKernelWordLimit);
    const std::string users = kernel_users_text();
    return assignment_.unmounting->remarks(users.empty() ? users : "the kernel used it: " + users);
  }

  Result<std::string> lift_bound() {
    TRY(assignment_.dirty_bound.remove());
    book_.update([](Status& status) { status.dirty_bound.clear(); });
    return std::string();
  }

  /// Somebody has taken the disk away, by force: nobody here can keep it any more.
  static bool is_gone(const Error& error) {
    return error.code == "ENOENT" || error.code == "ENXIO" || error.code == "ENODEV";
  }

  Result<std::string> prove_free() {
    const std::int64_t deadline = boottime_ms() + kFreeMs;
    std::vector<dev_t> devices = assignment_.other_devices;
    devices.push_back(device_.value_or(assignment_.root_device));
    MountCopies elsewhere(devices);
    std::string copies;
    while (true) {
      const Ok unused = assignment_.unmounting->check_free(assignment_.disk_node, deadline);
      if (unused)
        return "opened " + assignment_.disk_node + " exclusively" +
               (copies.empty() ? "" : "; a copy of the mount was taken from " + copies);
      if (is_gone(unused.error())) return "the disk is gone from this machine";
      if (boottime_ms() >= deadline) {
        Error error = unused.error();
        if (const auto keepers = elsewhere.keepers(); !keepers.empty())
          error.context += "; still mounted in the namespace of " + keepers;
        return fail(std::move(error));
      }
      // In this attempt the numbers were the volume's; later they may be another disk's.
      const bool are_own = device_ || are_of_disk("/sys", assignment_.disk, devices);
      if (const auto whose = are_own ? elsewhere.take() : std::string(); !whose.empty())
        copies += (copies.empty() ? "" : ", ") + whose;
      ::poll(nullptr, 0, kPauseMs);
    }
  }

  Result<std::string> undo_entry() {
    TRY(assignment_.entry->undo());
    return std::string();
  }

  Result<std::string> base_keys() {
    TRY(show_base_host_keys());
    assignment_.host_keys = false;
    return std::string();
  }

  const ReleaseInput& input_;
  Assignment& assignment_;
  StatusBook& book_;
  std::int64_t volume_end_ms_ = kNever;  ///< when marking and sync have to have ended
  std::optional<dev_t> device_;          ///< the volume's root, once found at its place
  Milliseconds given_{0};                ///< to people, when they were warned
  std::int64_t sessions_end_ms_ = 0;     ///< when that is over; may come nearer
  bool reminded_ = false;
};

}  // namespace

Ok release(const ReleaseInput& input, Assignment& assignment, StatusBook& book) {
  Ok done = Release(input, assignment, book).run();
  if (!done)
    std::ignore = let_onto_base(input.pool, "The volume cannot be released: " + input.sentence);
  else if (!input.machine_goes)
    std::ignore = let_onto_base(input.pool, "The volume was released: " + input.sentence);
  return done;
}

Ok let_onto_base(const std::string& pool, const std::string& sentence) {
  const Ok told = set_banner(pool, sentence);
  TRY(point_sessions_at("/"));
  return told;
}

}  // namespace warmroot::bootstrap
