// The entry `chroot`: the base's sshd lets sessions in, its ChrootDirectory is a link that leads to
// the volume, and the base's account files know the volume's people meanwhile.
#include <sys/stat.h>

#include <algorithm>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/cloud_init.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"

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

class ChrootEntry : public Entry {
 public:
  bool by_base_sshd() const override { return true; }
  std::string describe() const override { return "chroot: the base's sshd"; }

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
    TRY(point_sessions_at(kVolumePoint));
    TRY(check_session_path());
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(publish_keys(root, accounts_, input.launch_key, input.cancelled));
    return std::string();
  }

  Ok check() override { return check_chroot_path(kSessionRoot); }

  Ok close() override {
    withdraw_keys();
    return point_sessions_at("/");
  }

  bool holds_sessions() const override { return false; }
  bool runs(pid_t) const override { return false; }
  Result<std::string> end(std::chrono::milliseconds) override {
    return std::string("nothing of its own ran");
  }

  Ok undo() override {
    remove_login_keys();  // of another entry, whose process was killed
    // What failed half-way, or was another process's, is known by its record alone.
    TRY(remove_imported_accounts(accounts_.changed() ? accounts_ : recorded_accounts()));
    accounts_ = {};
    return {};
  }

 private:
  AccountEdit accounts_;
};

}  // namespace

std::shared_ptr<Entry> chroot_entry() {
  return std::make_shared<ChrootEntry>();
}

}  // namespace warmroot::bootstrap
