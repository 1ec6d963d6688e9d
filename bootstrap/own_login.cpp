#include "bootstrap/own_login.hpp"

#include <unistd.h>

#include <tuple>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

constexpr std::size_t kMaxKeyFile = 16 * 1024;

Ok write_keys(const std::string& user, const std::string& lines) {
  return write_file_atomic(std::string(kLaunchKeys) + "/" + user, lines, 0644);
}

/// A key pair in files that only root reads, for as long as this lives.
class TrialKey {
 public:
  TrialKey() = default;
  ~TrialKey() { remove(); }
  TrialKey(const TrialKey&) = delete;
  TrialKey& operator=(const TrialKey&) = delete;

  /// The public half.
  static Result<std::string> make(const std::string& keygen, const std::string& type,
                                  const Cancelled& cancelled) {
    remove();  // of one that was killed; ssh-keygen asks before it overwrites
    TRY_ASSIGN(const auto made, run_program({keygen, "-q", "-t", type, "-N", "", "-C",
                                             "warmroot-trial", "-f", kTrialKey},
                                            kProbeLimit, cancelled));
    if (made.exit_status != 0)
      return fail(ErrorKind::broken, "ssh-keygen -t " + type + " failed: " + made.output);
    return read_file(std::string(kTrialKey) + ".pub", kMaxKeyFile);
  }

 private:
  static void remove() {
    ::unlink(kTrialKey);
    ::unlink((std::string(kTrialKey) + ".pub").c_str());
  }
};

/// The first of them that gets in.
Result<std::string> log_in(const OwnLogin& login, const std::string& ssh, const std::string& line,
                           const Cancelled& cancelled) {
  std::string reason, names;
  for (const std::string& user : trial_users(login.people)) {
    const bool person = user != "root" && !login.launch_key.empty();
    TRY(write_keys(user, (person ? login.launch_key + "\n" : "") + line));
    TRY_ASSIGN(const auto done, run_program(trial_command(ssh, kTrialKey, user, login.port),
                                            kProbeLimit, cancelled));
    const TrialAnswer answer = judge_trial(done.exit_status, done.output);
    if (answer.verdict == TrialVerdict::in) return "a login as " + user + " was tried";
    if (answer.verdict == TrialVerdict::more)
      return "no login was tried: it asks " + user + " for more than a key";
    if (reason.empty()) reason = without_controls(answer.reason);
    names += (names.empty() ? "" : ", ") + user;
  }
  return fail(ErrorKind::refused,
              "the volume's own sshd lets nobody in, tried as " + names + ": " + reason);
}

}  // namespace

Ok give_launch_key(const std::vector<User>& people, const std::string& key) {
  remove_launch_keys();
  TRY(make_directory(kLaunchKeys, 0755));
  if (key.empty()) return {};
  for (const User& user : people) TRY(write_keys(user.name, key + "\n"));
  return {};
}

void remove_launch_keys() {
  for (const auto& name : list_directory(kLaunchKeys))
    ::unlink((std::string(kLaunchKeys) + "/" + name).c_str());
}

Result<std::string> try_own_login(const OwnLogin& login, const Cancelled& cancelled) {
  const std::string ssh = first_executable({"/usr/bin/ssh", "/bin/ssh"});
  const std::string keygen = first_executable({"/usr/bin/ssh-keygen", "/bin/ssh-keygen"});
  if (ssh.empty() || keygen.empty())
    return std::string("no login was tried: the base has no ssh and ssh-keygen");
  if (login.key_type.empty()) return std::string("no login was tried: a key does not begin one");
  const TrialKey files;
  TRY_ASSIGN(const std::string key, TrialKey::make(keygen, login.key_type, cancelled));
  auto tried = log_in(login, ssh, trial_key_line(key), cancelled);
  TRY(give_launch_key(login.people, login.launch_key));
  return tried;
}

}  // namespace warmroot::bootstrap
