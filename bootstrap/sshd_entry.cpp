// The entries `sshd` and `nspawn`: the volume's own sshd, run in the volume's root or by the
// volume's init in a container, with its own configuration and accounts, gets the connections to
// the base's port.
#include <fcntl.h>

#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/own_sshd_reads.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_door.hpp"
#include "bootstrap/sshd_process.hpp"
#include "bootstrap/volume_container.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxDefaults = 64 * 1024;
constexpr std::size_t kMostComplaint = 400;

class SshdEntry : public Entry {
 public:
  SshdEntry(std::vector<std::uint16_t> ports, std::unique_ptr<SteeredSshd> sshd)
      : ports_(ports), door_(std::move(ports), std::move(sshd), kOwnSshdLog) {}

  bool by_base_sshd() const override { return false; }
  bool waits_for_base_sshd() const override { return false; }
  std::string describe() const override { return door_.describe(); }

  Result<std::string> prepare(const EntryInput& input) override {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    if (!root.is_executable(kOwnSshd))
      return fail(ErrorKind::refused, std::string("the volume has no ") + kOwnSshd);
    const UnitOptions given = own_unit_options(
        kUnitCommand, {root.read("etc/default/ssh", kMaxDefaults).value_or(""),
                       root.read("etc/sysconfig/sshd", kMaxDefaults).value_or("")});
    TRY(check_own_sshd_reads(root, given.options));
    TRY(door_.prepare(root));
    TRY_ASSIGN(accounts_.files.passwd, root.read("etc/passwd", kMaxAccountFile));
    accounts_.files.group = root.read("etc/group", kMaxAccountFile).value_or("");
    accounts_.session_users = people_of(accounts_.files.passwd);
    TRY(give_launch_key(accounts_.session_users, input.launch_key));
    wishes_ = {door_.port(), door_.v6(), node_keys_are_shown(), {}};
    TRY(ask(root, given, input.cancelled));
    return std::string("the volume's, and none of the base's");
  }

  std::vector<LoginTrial> logins() const override { return probe_logins(accounts_); }

  Result<std::string> open(const EntryInput& input) override {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY_ASSIGN(const std::string greeting, door_.start(root, wishes_, input.cancelled));
    TRY_ASSIGN(const std::string tried,
               try_own_login({accounts_.session_users, input.launch_key, wishes_, root.fd()},
                             input.cancelled));
    TRY(door_.open(input.cancelled));
    return ", by its own sshd (" + greeting + "; " + tried + ")";
  }

  Ok check() override { return door_.check(); }
  std::string remark() const override { return remark_; }

  std::string pause() const override {
    if (!door_.is_away()) return {};
    return door_.begun_anew() ? "the volume was rebooted and is starting; log in again in a moment"
                              : "the volume's own sshd does not listen just now";
  }

  Ok close_to(const std::string& directory) override {
    Ok pointed = point_sessions_at(directory);  // of the base's sshd, which has the ports then
    door_.close();
    return pointed;
  }

  bool holds_sessions() const override { return door_.sshd().holds_sessions(); }
  bool runs(pid_t process) const override { return door_.runs(process); }

  Result<std::string> end(std::chrono::milliseconds limit) override {
    return std::string(door_.end(limit) ? "what it ran has ended" : "it did not run");
  }

  Ok undo() override {
    remove_login_keys();
    return {};
  }

 private:
  Ok ask(const RootDirectory& root, const UnitOptions& given, const Cancelled& cancelled) {
    wishes_.options = given.options;
    TRY_ASSIGN(const auto answer,
               run_program(own_sshd_question(wishes_), kProbeLimit, cancelled, root.fd()));
    if (answer.exit_status != 0)
      return fail(ErrorKind::refused,
                  "the volume's own sshd rejects its configuration: " +
                      shortened(without_controls(sshd_complaint(answer.output)), kMostComplaint));
    OwnSshdFacts facts = parse_own_sshd_facts(answer.output);
    // What stands in the stock configuration of some distributions proves nothing without a file.
    std::erase_if(facts.other_host_keys, [&root](const std::string& line) {
      return line.starts_with(kHostKeyLine) &&
             !root.open_inside(line.substr(kHostKeyLine.size()), O_PATH);
    });
    TRY(check_own_sshd_facts(facts, ports_, wishes_.node_host_keys));
    wishes_.authorized_keys = facts.authorized_keys;
    remark_ = remark_on_addresses(facts);
    if (const std::string options = remark_on_options(given); !options.empty())
      remark_ += (remark_.empty() ? "" : "; ") + options;
    return {};
  }

  const std::vector<std::uint16_t> ports_;
  AccountEdit accounts_;  ///< the volume's files, nothing of which is changed
  OwnSshdWishes wishes_;
  std::string remark_;  ///< prepare's
  SshdDoor door_;
};

}  // namespace

std::shared_ptr<Entry> sshd_entry(std::vector<std::uint16_t> ports) {
  return std::make_shared<SshdEntry>(std::move(ports), SshdProcess::of_volume());
}

std::shared_ptr<Entry> nspawn_entry(std::vector<std::uint16_t> ports) {
  return std::make_shared<SshdEntry>(std::move(ports), std::make_unique<VolumeContainer>());
}

}  // namespace warmroot::bootstrap
