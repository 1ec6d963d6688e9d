#include "bootstrap/bring_up.hpp"

#include <fcntl.h>

#include <algorithm>
#include <future>
#include <tuple>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/boot_pin_io.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/held_record.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/login_proof.hpp"
#include "bootstrap/login_trials.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/preflight_io.hpp"
#include "bootstrap/reboot.hpp"
#include "bootstrap/release_plan.hpp"
#include "bootstrap/session_switch.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/volume_fstab.hpp"
#include "bootstrap/volume_grow.hpp"
#include "bootstrap/volume_marks.hpp"
#include "bootstrap/volume_mounts.hpp"
#include "bootstrap/volume_root.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr char kSys[] = "/sys";
/// Uevents wake us; this is how often a stop request or the manager's word is looked at while there
/// are none.
constexpr milliseconds kLook{500};
/// While the manager's word is waited for: it is what the boot waits for.
constexpr milliseconds kWordLook{20};
/// A login that took longer than this part of BringUpInput::late_login proves nothing: the next
/// one, beside more work, might be late behind the switch.
constexpr int kQuickPart = 4;

class Work {
 public:
  Work(const BringUpInput& input, Assignment& assignment, StatusBook& book, StopRequest& stop)
      : input_(input), assignment_(assignment), book_(book), stop_(stop) {}

  Ok run() {
    TRY(book_.timed("find the disk", [&] { return find_disk(); }));
    assignment_.instance_id = input_.launch.instance_id;
    assignment_.launch_key = input_.launch.public_key;
    const RootOrder order{disk_.name, disk_fd_.get(), [this] { return confirmed(); },
                          [this] { input_.enter_stage(Stage::checked, {}); }, [this] { pin(); }};
    TRY(mount_volume_root(order, assignment_, book_, stop_));
    bound_dirty_memory();
    TRY(mount_volume_fstab(disk_.name, disk_fd_.get(), assignment_, book_, stop_));
    TRY(mount_inside(input_.sftp_server, book_));
    mounted_ms_ = book_.now_ms();
    book_.update(
        [&](Status& status) { status.disk_visible_to_mounted_ms = mounted_ms_ - visible_ms_; });
    input_.enter_stage(Stage::mounted, {});
    TRY(open_for_sessions());
    note_ready();
    input_.enter_stage(Stage::ready, {});
    TRY(try_behind_switch());
    tell_what_differs();
    prove_for_next();
    if (input_.grow) grow();
    logins_.try_others();
    return {};
  }

  /// What is mounted stays as it is, with whoever is in it. What the one that is gone may not have
  /// come to is done, once more where it has.
  Ok resume() {
    TRY(stop_.check());
    resumed_ = true;
    bound_dirty_memory();
    TRY(open_for_sessions());
    input_.enter_stage(Stage::ready, {});
    if (input_.login_worked) input_.login_worked();
    const auto table = book_.timed("read the partitions", [&] { return read_table_again(); });
    tell_what_differs();
    prove_for_next();
    if (input_.grow && table) grow();
    logins_.try_others();
    return {};
  }

 private:
  /// Before anybody is let in, or anything runs that lets people in.
  void keep_record(EntryKind entry) {
    assignment_.served_by = entry;
    if (const Ok kept = keep_held_record({assignment_, std::nullopt}); !kept)
      log_event(LogLevel::warning, "nobody could take the volume over from this process",
                {{"why", kept.error().message()}});
  }

  Ok open_for_sessions() {
    const EntryKind entry = assignment_.served_by.value_or(input_.entry);
    if (!resumed_ && entry == EntryKind::chroot) {
      proof_ = earlier_proof(assignment_.volume_id);
      assignment_.untried = proof_.has_value();
    }
    // What the volume keeps of us is synced to it, and that takes as long as a login does.
    kept_ = std::async(std::launch::async, [this] { return keep_on_volume(); });
    const Ok in = let_sessions_in(entry);
    wait_until_kept();
    return in;
  }

  // the disk

  Result<std::string> find_disk() {
    TRY_ASSIGN(const UeventSocket uevents, UeventSocket::open());
    bool told = false;
    while (true) {
      TRY(stop_.check());
      const auto disks = named_disks(kSys, input_.disks_at_start);
      const auto word = input_.confirmed_volume();
      const auto& launched = input_.launch.device_names;
      const milliseconds since_up(book_.now_ms());
      if (given_away_.is_over(disks, launched, word, since_up)) forget_given_away();
      if (served_.is_over(disks, word, since_up)) forget_served();
      DiskChoice choice =
          choose_disk(disks, launched, word, given_away_.volume(), served_.volume());
      const auto refusal = input_.no_volume ? input_.no_volume() : std::nullopt;
      if (refusal) refused_ms_ = book_.now_ms();
      if (choice.disk) {
        disk_ = *choice.disk;
        see_disk();
        if (!refusal && wait_for_word(word)) break;
        if (!refusal) continue;  // the word may name another disk
      } else if (std::exchange(seen_, false)) {
        // It is gone, or not the one that is meant: nobody is to be told of it as of ours.
        show_disk("", "");
        raised_.clear();  // one that comes again has the usual limit
      }
      // The stage of a disk that was seen has words of its own.
      const std::string& now = refusal ? *refusal : choice.waiting_for;
      if (now != book_.snapshot().message) {
        book_.update([&](Status& status) { status.message = now; });
        log_event(LogLevel::notice, now);
        // Whoever logs in meanwhile lands on the base and should know why.
        const bool tells = refusal || choice.held_back;
        if (tells || told) std::ignore = set_banner(input_.pool, tells ? now : "");
        told = tells;
      }
      uevents.wait(kLook);
    }
    assignment_.disk = identify_disk(kSys, disk_.name);
    TRY_ASSIGN(disk_fd_, open_verified(kSys, disk_));
    assignment_.disk_node = "/dev/" + disk_.name;
    return disk_.name + " serial " + disk_.serial + ", " + std::to_string(disk_.size_bytes >> 20) +
           " MiB";
  }

  /// The report of it is also what asks the manager for its word.
  void see_disk() {
    // Before the first read: a request keeps the limit that it was started with.
    const std::string disk = disk_.name + " " + disk_.serial;
    if (std::exchange(raised_, disk) != disk) raise_timeout();
    if (input_.disk_likely) input_.disk_likely("/dev/" + disk_.name);
    show_disk("/dev/" + disk_.name,
              disk_.volume_id().value_or(input_.confirmed_volume().value_or("")));
    if (std::exchange(seen_, true)) return;
    visible_ms_ = book_.now_ms();
    input_.enter_stage(Stage::disk_seen, assignment_.volume_id + " is " + disk_.name);
  }

  void show_disk(const std::string& node, const std::string& volume_id) {
    assignment_.volume_id = volume_id;
    book_.update([&](Status& status) {
      status.device = node;
      status.volume_id = volume_id.empty() ? std::nullopt : std::optional(volume_id);
    });
  }

  /// True when the disk can be taken: the manager's word is the one that it was chosen by, or has
  /// not come in time, from when the disk was seen or a refusal stood last.
  bool wait_for_word(const std::optional<std::string>& chosen_by) {
    if (const auto word = input_.confirmed_volume()) return word == chosen_by || confirmed();
    const std::int64_t since_ms = std::max(visible_ms_, refused_ms_);
    if (book_.now_ms() - since_ms >= input_.confirmation_limit.count()) return true;
    stop_.wait_for(kWordLook);
    return false;
  }

  /// The record has of the disk's table what a release needs, and somebody in the volume may have
  /// written another one since. Behind the switch: a volume may not answer.
  Result<std::string> read_table_again() {
    const UniqueFd disk(::open(assignment_.disk_node.c_str(), O_RDONLY | O_CLOEXEC));
    if (!disk) return fail_errno("opening " + assignment_.disk_node);
    if (disk_has_gone(kSys, assignment_.disk, [] { return false; }))
      return fail(ErrorKind::gone, assignment_.disk_node + " is another disk by now");
    TRY_ASSIGN(assignment_.partitions, read_partitions(disk.get()));
    pin();
    const PartitionFacts mounted = assignment_.partition;
    for (const PartitionFacts& each : assignment_.partitions)
      if (each.number == mounted.number && each.offset_bytes == mounted.offset_bytes &&
          each.content == mounted.content) {
        assignment_.partition = each;
        return describe(each);
      }
    return fail(ErrorKind::refused, "what is mounted is not in it: " + describe(mounted));
  }

  /// From now on a reset must not come up on the volume. Beside the rest: no login waits for it.
  void pin() {
    pin_ = std::async(std::launch::async,
                      [disk = assignment_.disk.name, all = assignment_.partitions] {
                        return pin_boot("", disk, all);
                      });
  }

  void raise_timeout() {
    TimedStep step{"raise io_timeout", book_.now_ms(), 0, Outcome::ok, "4294967295 ms"};
    if (const Ok raised = raise_io_timeout(kSys, disk_.name); !raised) {
      step.outcome = Outcome::skipped;
      step.detail = raised.error().message();
    }
    step.ms = book_.now_ms() - step.start_ms;
    book_.record(std::move(step));
  }

  /// The manager says that this disk is the pool's.
  bool confirmed() const {
    const auto volume = input_.confirmed_volume();
    return volume && *volume == assignment_.volume_id;
  }

  /// Before anybody can write. A kernel that has no such bound is no reason to keep people out.
  void bound_dirty_memory() {
    TimedStep step{"bound dirty memory", book_.now_ms(), 0, Outcome::ok, {}};
    Result<std::string> done;
    auto found = DirtyBound::find(assignment_.disk.name, assignment_.partition.content);
    if (found) {
      assignment_.dirty_bound = std::move(*found);
      done = assignment_.dirty_bound.set(dirty_limit_bytes(input_.write_mib_s));
    } else {
      done = fail(std::move(found).error());
    }
    if (!done) step.outcome = Outcome::skipped;
    step.detail = done ? *done + ", at " + std::to_string(input_.write_mib_s) + " MiB/s"
                       : "not bounded: " + done.error().message();
    step.ms = book_.now_ms() - step.start_ms;
    book_.update([&](Status& status) { status.dirty_bound = step.detail; });
    book_.record(std::move(step));
  }

  // inside

  /// Before people can get in, so that nobody's client meets the base's keys under the node's name.
  Result<std::string> show_host_keys() const {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(root.make_directories(kVolumeState, 0755));
    TRY(root.check_same_mount(kVolumeState));
    return show_node_host_keys(root, assignment_.volume_id,
                               proof_ && marked_ ? proof_->host_key : std::string());
  }

  /// Steps that nothing else waits for until the switch; what fails is a line in the timeline: a
  /// full volume has to be mountable, people make room in a session, and one that cannot keep host
  /// keys is served with the base's. Recorded by the caller, so that steps have one order.
  std::vector<TimedStep> keep_on_volume() {
    std::vector<TimedStep> steps;
    const auto attempt = [&](const char* name, const std::function<Result<std::string>()>& work) {
      TimedStep step{name, book_.now_ms(), 0, Outcome::ok, {}};
      const auto done = work();
      step.ms = book_.now_ms() - step.start_ms;
      step.outcome = done ? Outcome::ok : Outcome::failed;
      step.detail = done ? *done : done.error().message();
      steps.push_back(std::move(step));
    };
    attempt("mark as in use", [this] { return mark_in_use(input_.launch.instance_id); });
    marked_ = steps.back().outcome == Outcome::ok;
    if (!input_.node_host_keys) return steps;
    assignment_.host_keys = true;
    if (resumed_ && node_keys_are_shown()) return steps;
    attempt("host keys", [this] { return show_host_keys(); });
    return steps;
  }

  /// For before people can get in, and before a sshd that is to show the keys is started.
  void wait_until_kept() {
    if (!kept_.valid()) return;
    for (TimedStep& step : kept_.get()) book_.record(std::move(step));
  }

  // sessions

  /// The base's sshd can do it with any volume that has a shell, and does where the entry that was
  /// asked for cannot.
  Ok let_sessions_in(EntryKind wish) {
    std::string instead;
    if (wish != EntryKind::chroot) {
      wait_until_kept();
      const bool booted = wish == EntryKind::nspawn;
      assignment_.entry = booted ? nspawn_entry(input_.base_ports) : sshd_entry(input_.base_ports);
      keep_record(wish);
      const Ok opened = open_entry();
      if (opened) return {};
      TRY(stop_.check());
      instead =
          std::string(" instead of ") + (booted ? "nspawn: " : "sshd: ") + opened.error().message();
      TRY(assignment_.entry->close());
      TRY(assignment_.entry->end(kEndLimit));
      TRY(assignment_.entry->undo());
    }
    assignment_.instead = std::move(instead);
    assignment_.entry = chroot_entry(input_.second_sshd);
    keep_record(EntryKind::chroot);
    // Its sshd reads them when it is started.
    if (!input_.second_sshd.program.empty()) wait_until_kept();
    TRY(open_entry());
    book_.update([&](Status& status) { status.entry += assignment_.instead; });
    return {};
  }

  Ok open_entry() {
    TRY(book_.timed("accounts", [&] { return assignment_.entry->prepare(entry_input_); }));
    logins_.of(assignment_.entry->logins());
    if (!is_proven()) TRY(try_login());
    wait_until_kept();
    TRY(book_.timed("switch sessions", [&] { return sessions_.lead_in(); }));
    book_.update([&](Status& status) { status.entry = assignment_.entry->describe(); });
    return {};
  }

  /// This volume was left clean by a lease in which this login worked: trying it once more before
  /// sessions are switched over would tell nothing new.
  bool is_proven() {
    const User* user = logins_.first();
    if (!proof_ || user == nullptr || proof_->login != login_line(*user)) return false;
    wait_until_kept();
    return marked_;  // else the next lease would not know of this one
  }

  Ok try_login(const std::function<void()>& look = {}) {
    const std::int64_t started_ms = book_.now_ms();
    TRY(logins_.try_first(input_.login_limit, look));
    was_quick_ = book_.now_ms() - started_ms <= (input_.late_login / kQuickPart).count();
    if (std::exchange(assignment_.untried, false)) keep_record(EntryKind::chroot);
    return {};
  }

  /// Where sessions were switched over first. One that fails now ends as one that fails before.
  Ok try_behind_switch() {
    if (assignment_.untried) {
      const std::int64_t late_ms = book_.now_ms() + input_.late_login.count();
      Ok done = try_login([&] {
        if (stop_.reason() || book_.now_ms() >= late_ms) lead_back_while_late();
      });
      if (done && is_late_) done = sessions_.lead_in_again(input_.login_limit);
      // People may be in the volume: a release warns them, and leaves it clean.
      if (stop_.reason()) return {};
      if (!done) {
        if (input_.leads_back) input_.leads_back();
        sessions_.lead_back(done.error().message());
        return done;
      }
    }
    if (is_late_) note_ready();
    if (input_.login_worked) input_.login_worked();
    return {};
  }

  /// It may be a disk that stalls: nobody is ended for that. The login is not begun anew: one that
  /// waits for a disk cannot be ended, and goes on where that answers. A release waits for its end.
  void lead_back_while_late() {
    if (std::exchange(is_late_, true)) return;
    if (const auto stop = stop_.reason()) return sessions_.lead_back_at_stop(stop->sentence);
    const auto why = sessions_.lead_back_while_late(logins_.first()->name, input_.late_login);
    if (input_.login_is_late) input_.login_is_late(why);
  }

  void note_ready() {
    book_.update(
        [&](Status& status) { status.mounted_to_ready_ms = book_.now_ms() - mounted_ms_; });
  }

  /// So that the next lease of the volume can switch first, where this one ends clean. An ed25519
  /// key of the same content is as good as when it was read, whoever shows it.
  void prove_for_next() {
    const User* user = logins_.first();
    if (assignment_.served_by != EntryKind::chroot || assignment_.volume_id.empty() || !marked_ ||
        assignment_.untried || !was_quick_ || user == nullptr || stop_.reason())
      return;
    const std::string before = proof_ ? proof_->host_key : std::string();
    const LoginProof proof{assignment_.volume_id, input_.launch.instance_id, login_line(*user),
                           input_.node_host_keys ? shown_key_checksum() : before};
    std::ignore = book_.timed("keep the proof", [&]() -> Result<std::string> {
      TRY(keep_proof(proof));
      return proof.login;
    });
  }

  /// Sessions are open: whatever this meets is no reason to end them. Not once a stop is requested:
  /// the volume that this looks at may not answer, and a release would wait for that.
  void tell_what_differs() {
    if (stop_.reason()) return;
    [[maybe_unused]] const auto told = book_.timed("preflight", [&]() -> Result<std::string> {
      TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
      PreflightFacts facts = preflight_facts(kSys, "/proc", root);
      facts.own_mount_namespace = assignment_.entry->holds_sessions();  // they are in its container
      if (input_.instance_type) facts.instance_type = input_.instance_type();
      if (pin_.valid()) facts.boot = pin_.get();
      auto remarks = preflight(facts);
      remarks.insert(remarks.end(), assignment_.fstab.begin(), assignment_.fstab.end());
      if (input_.sshd_is_late && assignment_.entry->waits_for_base_sshd())
        remarks.push_back(
            {"sshd was running before the bootstrap: unless it has been restarted "
             "since, this is the base system, and nothing here is kept",
             true});
      // A second sshd has the other ports alone, and so has the volume's.
      if (input_.sshd_is_late && input_.rescue_port != 0)
        remarks.push_back({"sshd was running before the bootstrap: the rescue port " +
                               std::to_string(input_.rescue_port) +
                               " is closed until it is restarted",
                           false});
      if (const std::string remark = assignment_.entry->remark(); !remark.empty())
        remarks.push_back({remark, false});
      book_.update([&](Status& status) {
        status.remarks.clear();
        for (const auto& remark : remarks) status.remarks.push_back(remark.text);
      });
      const Entry& entry = *assignment_.entry;
      TRY(show_message_of_the_day(remarks));
      // A container has a /run of its own.
      if (!entry.by_base_sshd() && !entry.holds_sessions())
        TRY(show_message_in_volume(root, remarks));
      return std::to_string(remarks.size()) + " remarks";
    });
  }

  /// Behind the switch: on a cold disk it takes a while, and a root that stays small serves too.
  void grow() {
    const auto done = book_.timed("grow the root", [&] { return grow_root(assignment_, stop_); });
    if (done || stop_.reason()) return;
    book_.update([&](Status& status) {
      status.remarks.push_back("the root does not fill its disk: " + done.error().message());
    });
  }

  const BringUpInput& input_;
  Assignment& assignment_;
  StatusBook& book_;
  StopRequest& stop_;
  const Cancelled cancelled_ = [this] { return stop_.reason().has_value(); };
  const EntryInput entry_input_{input_.launch.public_key, cancelled_};
  GivenAway given_away_{input_.given_away};
  ServedBefore served_{input_.served};
  DiskFacts disk_;
  UniqueFd disk_fd_;
  std::int64_t visible_ms_ = 0, mounted_ms_ = 0, refused_ms_ = 0;
  bool seen_ = false;
  std::string raised_;  ///< the disk whose time limit was raised last
  LoginTrials logins_{book_, stop_};
  SessionSwitch sessions_{input_.pool, assignment_, entry_input_, book_, stop_};
  bool resumed_ = false;             ///< what is mounted was taken over
  std::optional<LoginProof> proof_;  ///< of the lease before, where it counts
  bool was_quick_ = false;           ///< the login that was tried
  bool is_late_ = false;             ///< the one behind the switch, or was, or a stop came first
  bool marked_ = false;  ///< the volume says that it is ours, and proves nothing any more
  std::future<BootPin> pin_;
  std::future<std::vector<TimedStep>> kept_;  ///< last: waited for before the rest goes
};

}  // namespace

Ok bring_up(const BringUpInput& input, Assignment& assignment, StatusBook& book,
            StopRequest& stop) {
  Ok done = Work(input, assignment, book, stop).run();
  if (done) return done;
  Error error = std::move(done).error();
  if (input.let_go) input.let_go();
  if (const Ok undone = undo_bring_up(assignment); !undone)
    error.context += "; undoing it failed: " + undone.error().message();
  return fail(std::move(error));
}

/// Whatever else of the entry is not as it should be: a login works.
static bool leads_in(const HeldVolume& volume) {
  return mounted_root(volume.root_device) == volume.root_device &&
         link_text(kSessionRoot) == kVolumePoint && check_chroot_path(kSessionRoot);
}

Ok resume(const BringUpInput& input, Assignment& assignment, StatusBook& book, StopRequest& stop) {
  Ok done = Work(input, assignment, book, stop).resume();
  if (!done && !stop.reason() && (assignment.untried || !leads_in(assignment)))
    std::ignore = assignment.entry->close();
  return done;
}

}  // namespace warmroot::bootstrap
