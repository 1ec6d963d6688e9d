// The entry `chroot`: the base's sshd lets sessions in, its ChrootDirectory is a link that leads to
// the volume, and the base's account files know the volume's people meanwhile.
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/cloud_init.hpp"
#include "bootstrap/container_plan.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_door.hpp"
#include "bootstrap/sshd_process.hpp"

namespace warmroot::bootstrap {
namespace {

/// Of people and groups that were left alone, in a line of the timeline.
constexpr std::size_t kShownNotes = 20;

/// sshd's path leads to the very directory into which the probe has logged in.
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

  /// People come in by it from now on; why they do not is in describe.
  void open(const Cancelled& cancelled) {
    if (wish_.program.empty()) return;
    auto opened = opened_door(cancelled);
    const std::lock_guard lock(mutex_);
    why_not_ = opened ? std::string() : opened.error().message();
    if (opened) door_ = std::move(*opened);
    serves_ = static_cast<bool>(opened);
  }

  /// sshd reads its host keys when it starts: those that were made since are shown by a successor,
  /// to which the ports are led before this one ends. One that is gone is succeeded, too, so often
  /// at most. After open, and by one thread.
  void look_after() {
    const auto before = door();
    if (!serves()) return;
    const Ok works =
        before ? before->check() : Ok(fail(ErrorKind::gone, "the second sshd of the base is gone"));
    if (works && shown_ == node_key_files()) return;
    if (!restarts_.allow(boottime_ms())) {
      if (!works) replace(nullptr, works.error().message());
      return;
    }
    auto next = opened_door({});
    if (!next && works) return;  // it shows the keys that it has
    if (next)
      log_event(LogLevel::notice, "another second sshd has the ports",
                {{"why", works ? "more host keys are there" : works.error().message()}});
    replace(next ? std::move(*next) : nullptr, next ? "" : next.error().message());
    if (before) before->end(kEndLimit);
  }

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
  static std::vector<std::string> node_key_files() {
    auto files = list_directory(kNodeKeys);
    std::erase_if(files, [](const auto& file) { return !file.ends_with("_key"); });
    std::sort(files.begin(), files.end());
    return files;
  }

  Result<std::shared_ptr<SshdDoor>> opened_door(const Cancelled& cancelled) {
    auto shown = node_key_files();
    TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
    auto made = std::make_shared<SshdDoor>(wish_.ports, SshdProcess::of_base(wish_.program),
                                           kSecondSshdLog);
    TRY(made->prepare(volume));
    const auto greeting =
        made->start(volume, {made->port(), made->v6(), node_keys_are_shown(), {}}, cancelled);
    if (!greeting) return fail(greeting.error());
    TRY(made->open());
    shown_ = std::move(shown);
    return made;
  }

  std::shared_ptr<SshdDoor> door() const {
    const std::lock_guard lock(mutex_);
    return door_;
  }
  bool serves() const {
    const std::lock_guard lock(mutex_);
    return serves_;
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
  std::vector<std::string> shown_;  ///< files of host keys that were there when it was started
  RestartLimit restarts_;
};

class ChrootEntry : public Entry {
 public:
  explicit ChrootEntry(SecondSshd second) : second_(std::move(second)) {}

  bool by_base_sshd() const override { return true; }
  bool waits_for_base_sshd() const override { return !second_.is_open(); }
  std::string describe() const override { return second_.describe(); }

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
    TRY(point_sessions_at(kVolumePoint));
    TRY(check_session_path());
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(publish_keys(root, accounts_, input.launch_key, input.cancelled));
    return second_.is_open() ? ", by a second sshd of the base" : std::string();
  }

  Ok check() override {
    second_.look_after();
    return check_chroot_path(kSessionRoot);
  }

  Ok close() override {
    withdraw_keys();
    return point_sessions_at("/");
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
  SecondDoor second_;
};

}  // namespace

std::shared_ptr<Entry> chroot_entry(SecondSshd second) {
  return std::make_shared<ChrootEntry>(std::move(second));
}

}  // namespace warmroot::bootstrap
