// The entries `sshd` and `nspawn`: the volume's own sshd, run in the volume's root or by the
// volume's init in a container, with its own configuration and accounts, gets the connections to
// the base's port.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/words.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/host_key_document.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/sshd_door.hpp"
#include "bootstrap/sshd_process.hpp"
#include "bootstrap/volume_container.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxDefaults = 64 * 1024;
constexpr std::size_t kMostComplaint = 400;
/// All names there count.
constexpr std::size_t kMostDropIns = 1000;
/// What sshd and the C library read of the volume before they let anybody in.
constexpr const char* kReadBySshd[] = {
    "/etc/passwd",      "/etc/group",      "/etc/shadow",  "/etc/nsswitch.conf",
    "/etc/hosts.allow", "/etc/hosts.deny", "/etc/nologin", "/etc/ssh/sshd_config"};
constexpr char kDropIns[] = "/etc/ssh/sshd_config.d";

/// From a pipe sshd would wait for its other end, while sshd is waited for or people are; an
/// endless device it would read into all memory there is. What is not there is sshd's to miss.
Ok check_read_by_sshd(const RootDirectory& root, const std::string& path) {
  const auto found = root.open_inside(path, O_PATH);
  if (!found && found.error().kind == ErrorKind::gone) return {};
  if (!found)
    return fail(found.error().kind, without_controls(found.error().context), found.error().code);
  struct stat facts {};
  if (::fstat(found->get(), &facts) != 0) return fail_errno("stat of a file in the volume");
  const std::string name = without_controls(path) + " in the volume";
  if (!S_ISREG(facts.st_mode)) return fail(ErrorKind::refused, name + " is no regular file");
  if (facts.st_size > static_cast<off_t>(kMaxAccountFile))
    return fail(ErrorKind::refused, name + " is longer than 4 MiB");
  return {};
}

/// What sshd_config includes in every distribution.
Result<std::vector<std::string>> drop_ins_of_sshd(const RootDirectory& root) {
  std::vector<std::string> files;
  const auto listed = root.open_inside(kDropIns, O_RDONLY | O_DIRECTORY);
  if (!listed && listed.error().kind == ErrorKind::gone) return files;
  if (!listed) return fail(listed.error());
  std::size_t names = 0;
  each_name("/proc/self/fd/" + std::to_string(listed->get()), [&](const char* name) {
    if (std::string_view(name).ends_with(".conf"))
      files.push_back(std::string(kDropIns) + "/" + name);
    return ++names <= kMostDropIns;
  });
  if (names > kMostDropIns)
    return fail(ErrorKind::refused, std::string(kDropIns) + " in the volume has too many names");
  return files;
}

Ok check_what_sshd_reads(const RootDirectory& root) {
  for (const char* path : kReadBySshd) TRY(check_read_by_sshd(root, path));
  for (const char* type : kHostKeyTypes)
    for (const char* half : {"_key", "_key.pub"})
      TRY(check_read_by_sshd(root, std::string("/etc/ssh/ssh_host_") + type + half));
  TRY_ASSIGN(const auto drop_ins, drop_ins_of_sshd(root));
  for (const auto& path : drop_ins) TRY(check_read_by_sshd(root, path));
  return {};
}

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
    TRY(check_what_sshd_reads(root));
    TRY(door_.prepare(root));
    TRY_ASSIGN(accounts_.files.passwd, root.read("etc/passwd", kMaxAccountFile));
    accounts_.files.group = root.read("etc/group", kMaxAccountFile).value_or("");
    accounts_.session_users = people_of(accounts_.files.passwd);
    TRY(give_launch_key(accounts_.session_users, input.launch_key));
    wishes_ = {door_.port(), door_.v6(), node_keys_are_shown(), {}};
    TRY(ask(root, input.cancelled));
    return std::string("the volume's, and none of the base's");
  }

  std::vector<LoginTrial> logins() const override { return probe_logins(accounts_); }

  Result<std::string> open(const EntryInput& input) override {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY_ASSIGN(const std::string greeting, door_.start(root, wishes_, input.cancelled));
    TRY_ASSIGN(const std::string tried,
               try_own_login({accounts_.session_users, input.launch_key, wishes_, root.fd()},
                             input.cancelled));
    TRY(door_.open());
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
  Ok ask(const RootDirectory& root, const Cancelled& cancelled) {
    const UnitOptions given = own_unit_options(
        kUnitCommand, {root.read("etc/default/ssh", kMaxDefaults).value_or(""),
                       root.read("etc/sysconfig/sshd", kMaxDefaults).value_or("")});
    wishes_.options = given.options;
    for (std::size_t i = 1; i < given.options.size(); ++i)
      if (given.options[i - 1] == "-f") TRY(check_read_by_sshd(root, given.options[i]));
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
