// The entry `chroot`: the base's sshd lets sessions in, its ChrootDirectory is a link that leads to
// the volume, and the base's account files know the volume's people meanwhile.
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "bootstrap/account_remarks.hpp"
#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/cloud_init.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/logins.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/own_unit.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/restart_limit.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_door.hpp"
#include "bootstrap/sshd_process.hpp"
#include "bootstrap/user_keys.hpp"

namespace warmroot::bootstrap {
namespace {

/// Of people and groups that were left alone, in a line of the timeline.
constexpr std::size_t kShownNotes = 20;
/// For the reading of people's keys that is under way to end; a volume that does not answer must
/// not keep whoever waits.
constexpr int kKeysLooks = 100, kKeysPauseMs = 10;
/// A login takes a tenth of that, with PAM; who holds one up must not find the base behind it.
constexpr std::chrono::milliseconds kLoginsLimit{500};

/// sshd's path leads to the very directory into which the probe logs in.
Ok check_session_path() {
  struct stat proved {
  }, used{};
  if (::stat(kVolumePoint, &proved) != 0 || ::stat(kSessionRoot, &used) != 0)
    return fail_errno("stat of the session root");
  if (proved.st_dev != used.st_dev || proved.st_ino != used.st_ino)
    return fail(ErrorKind::broken, std::string(kSessionRoot) + " does not lead to the volume");
  return check_chroot_path(kSessionRoot);
}

/// The second sshd of the base, behind its ports: with our configuration, and with the node's host
/// keys, where the sshd that runs has read others. Where it cannot be had, or is gone, the first
/// has the ports, and people get in as far as that one lets them.
class SecondDoor {
 public:
  explicit SecondDoor(SecondSshd wish) : wish_(std::move(wish)) {}
  ~SecondDoor() { end(); }
  SecondDoor(const SecondDoor&) = delete;
  SecondDoor& operator=(const SecondDoor&) = delete;

  bool is_open() const { return static_cast<bool>(door()); }

  /// People come in by it from now on; why they do not is in describe. One that was left alone is
  /// looked after again.
  void open(const Cancelled& cancelled) {
    if (wish_.program.empty()) return;
    serve(true);
    if (const auto there = door(); there && there->check()) return;
    auto opened = opened_door(cancelled);
    replace(opened ? std::move(*opened) : nullptr, opened ? "" : opened.error().message());
    serve(is_open());
  }

  /// sshd reads host keys and configuration when it starts: what has changed since a successor
  /// shows, to which the ports are led before this one ends. One that is gone is succeeded, too, so
  /// often at most. After open, and by one thread.
  void look_after() {
    const auto before = door();
    // One that is left alone still writes its log, whose size this bounds.
    if (!serves() && before) std::ignore = before->check();
    if (!serves()) return;
    std::ignore = make_directory(kPrivilegeSeparation, 0755);
    const Ok works =
        before ? before->check() : Ok(fail(ErrorKind::gone, "the second sshd of the base is gone"));
    if (works && read_ == what_it_reads()) return;
    if (!restarts_.allow(boottime_ms())) {
      if (!works && before) replace(nullptr, works.error().message());
      return;
    }
    auto next = opened_door({});
    if (!next && works) return;  // it goes on with what it has read
    if (next)
      log_event(
          LogLevel::notice, "another second sshd has the ports",
          {{"why", works ? "host keys or configuration have changed" : works.error().message()}});
    replace(next ? std::move(*next) : nullptr, next ? "" : next.error().message());
    if (before) before->end(kEndLimit);
  }

  /// It is not looked after any more; it has the ports until it is ended.
  void leave_alone() { serve(false); }

  /// False when nothing ran.
  bool end() {
    std::shared_ptr<SshdDoor> ended;
    {
      const std::lock_guard lock(mutex_);
      serves_ = false;
      ended = std::exchange(door_, nullptr);
    }
    return ended && ended->end(kEndLimit);
  }

  std::string describe() const {
    const auto open = door();
    if (open) return open->describe();
    const std::lock_guard lock(mutex_);
    return std::string("chroot: the base's sshd") +
           (why_not_.empty() ? ""
                             : ", with its own host keys and the configuration that it has "
                               "read: " +
                                   why_not_);
  }

 private:
  static constexpr char kPrivilegeSeparation[] = "/run/sshd";

  /// The files, and when each was changed.
  static std::vector<std::string> what_it_reads() {
    std::vector<std::string> files{"/etc/ssh/sshd_config"};
    for (const char* directory : {kNodeKeys, "/etc/ssh/sshd_config.d"})
      for (const auto& name : list_directory(directory))
        if (name.ends_with("_key") || name.ends_with(".conf"))
          files.push_back(std::string(directory) + "/" + name);
    std::sort(files.begin(), files.end());
    for (auto& file : files) {
      struct stat facts {};
      if (::stat(file.c_str(), &facts) == 0)
        file += " " + std::to_string(facts.st_mtim.tv_sec) + "." +
                std::to_string(facts.st_mtim.tv_nsec);
    }
    return files;
  }

  /// Given up when cancelled, and when it is to serve no more.
  Result<std::shared_ptr<SshdDoor>> opened_door(const Cancelled& cancelled) {
    const auto stopped = [&] { return !serves() || (cancelled && cancelled()); };
    auto read = what_it_reads();
    TRY(make_directory(kPrivilegeSeparation, 0755));
    TRY_ASSIGN(auto options, sshd_unit_options());
    // Not the volume, which a start would keep from being unmounted.
    TRY_ASSIGN(const RootDirectory base, RootDirectory::open("/"));
    auto made = std::make_shared<SshdDoor>(
        wish_.ports, SshdProcess::of_base(wish_.program, options), kSecondSshdLog);
    TRY(made->prepare(base));
    const bool shows_nodes = wish_.node_host_keys && node_keys_are_shown();
    const OwnSshdWishes wishes{made->port(), made->v6(), shows_nodes, {}};
    TRY(ask(wishes, options, stopped));
    const auto greeting = made->start(base, wishes, stopped);
    if (!greeting) return fail(greeting.error());
    if (stopped()) return fail(ErrorKind::retry_later, "it is not wanted any more");
    TRY(made->open());
    read_ = std::move(read);
    return made;
  }

  /// Before it is started: by then it would have taken what it listens at.
  Ok ask(const OwnSshdWishes& wishes, const std::vector<std::string>& options,
         const Cancelled& cancelled) const {
    TRY_ASSIGN(const auto answer, run_program(second_sshd_question(wish_.program, wishes, options),
                                              kProbeLimit, cancelled));
    if (answer.exit_status != 0)
      return fail(ErrorKind::refused, "a second sshd rejects the base's configuration: " +
                                          without_controls(sshd_complaint(answer.output)));
    return check_second_sshd_facts(parse_own_sshd_facts(answer.output), wishes.port);
  }

  std::shared_ptr<SshdDoor> door() const {
    const std::lock_guard lock(mutex_);
    return door_;
  }
  bool serves() const {
    const std::lock_guard lock(mutex_);
    return serves_;
  }
  void serve(bool serves) {
    const std::lock_guard lock(mutex_);
    serves_ = serves;
  }

  void replace(std::shared_ptr<SshdDoor> next, const std::string& why_not) {
    {
      const std::lock_guard lock(mutex_);
      if (serves_) {
        door_ = std::exchange(next, nullptr);
        why_not_ = why_not;
      }
    }
    if (next) next->end(kEndLimit);  // it was ended meanwhile
  }

  const SecondSshd wish_;
  mutable std::mutex mutex_;
  std::shared_ptr<SshdDoor> door_;
  std::string why_not_;
  bool serves_ = false;
  // open's, and look_after's after it
  std::vector<std::string> read_;  ///< what the one that serves has read
  RestartLimit restarts_;
};

class ChrootEntry : public Entry {
 public:
  explicit ChrootEntry(SecondSshd second) : second_(std::move(second)) {}

  bool by_base_sshd() const override { return true; }
  bool waits_for_base_sshd() const override { return !second_.is_open(); }
  std::string describe() const override { return second_.describe(); }
  std::string remark() const override {
    std::string kept_out = remark_on_left_out(accounts_.left_out);
    const std::string without_groups = remark_on_groups(accounts_.without_groups);
    if (!kept_out.empty() && !without_groups.empty()) kept_out += "; ";
    return kept_out + without_groups;
  }

  Result<std::string> prepare(const EntryInput& input) override {
    const auto waited = wait_for_cloud_init_users(input.cancelled);
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY_ASSIGN(accounts_, import_accounts(root));
    std::string detail = waited.count() == 0 ? ""
                                             : "waited " + std::to_string(waited.count()) +
                                                   " ms for cloud-init's users; ";
    detail += std::to_string(accounts_.passwd_added.size()) + " users and " +
              std::to_string(accounts_.group_added.size()) + " groups added to the base";
    const std::size_t shown = std::min(accounts_.notes.size(), kShownNotes);
    for (std::size_t i = 0; i < shown; ++i) detail += "; " + accounts_.notes[i];
    if (shown < accounts_.notes.size())
      detail += "; and " + std::to_string(accounts_.notes.size() - shown) + " more such notes";
    return detail;
  }

  std::vector<LoginTrial> logins() const override { return probe_logins(accounts_); }

  Result<std::string> open(const EntryInput& input) override {
    TRY(check_chroot_path(kVolumePoint));
    // Before the link: whoever came by the first one then would be in the volume and would have
    // met another host key.
    second_.open(input.cancelled);
    std::unique_lock following(following_, std::try_to_lock);
    for (int look = 0; look < kKeysLooks && !following.owns_lock(); ++look) {
      ::poll(nullptr, 0, kKeysPauseMs);
      std::ignore = following.try_lock();
    }
    if (!following.owns_lock())
      return fail(ErrorKind::retry_later, "reading people's keys on the volume takes too long");
    {
      const std::lock_guard lock(switching_);
      // A release, for which it is cancelled, may have been faster.
      if (input.cancelled && input.cancelled())
        return fail(ErrorKind::retry_later, "sessions are not wanted in the volume any more");
      TRY(point_sessions_at(kVolumePoint));
      closed_ = false;
    }
    TRY(check_session_path());
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(keys_.publish(root, accounts_.session_users, input.launch_key, input.cancelled));
    return second_.is_open() ? ", by a second sshd of the base" : std::string();
  }

  Ok check() override {
    second_.look_after();
    return check_chroot_path(closed_ ? kVolumePoint : kSessionRoot);
  }

  void follow_people(const Cancelled& cancelled) override {
    const std::lock_guard following(following_);
    if (const auto root = RootDirectory::open(kVolumePoint)) keys_.follow(*root, cancelled);
  }

  Ok close_to(const std::string& directory) override {
    closed_ = true;
    second_.leave_alone();
    const bool let_in = !list_directory(kUserKeysDirectory).empty();
    keys_.withdraw();
    const unsigned ended = let_in ? let_logins_end(kLoginsLimit) : 0;
    if (ended > 0)
      log_event(LogLevel::notice, "logins that took too long were ended",
                {{"count", std::to_string(ended)}});
    const std::lock_guard lock(switching_);
    closed_ = true;
    return point_sessions_at(directory);
  }

  bool holds_sessions() const override { return false; }
  bool runs(pid_t) const override { return false; }
  Result<std::string> end(std::chrono::milliseconds) override {
    return std::string(second_.end() ? "what it ran has ended" : "nothing of its own ran");
  }

  Ok undo() override {
    second_.end();
    remove_login_keys();  // of another entry, whose process was killed
    // What failed half-way, or was another process's, is known by its record alone.
    TRY(remove_imported_accounts(accounts_.changed() ? accounts_ : recorded_accounts()));
    accounts_ = {};
    return {};
  }

 private:
  AccountEdit accounts_;
  UserKeys keys_;
  std::mutex switching_;  ///< held while sessions are pointed elsewhere
  std::mutex following_;  ///< held while people's keys are read: by open, or by follow_people
  std::atomic<bool> closed_ = false;
  SecondDoor second_;
};

}  // namespace

std::shared_ptr<Entry> chroot_entry(SecondSshd second) {
  return std::make_shared<ChrootEntry>(std::move(second));
}

}  // namespace warmroot::bootstrap
