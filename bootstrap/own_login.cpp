#include "bootstrap/own_login.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/beside.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxPublicKey = 16 * 1024, kMaxLog = 64 * 1024;
/// Each that is turned away takes some 50 ms. Where there are more, nothing is known of the others.
constexpr std::size_t kMostTrials = 8;

const std::string kTrialPublicKey = std::string(kTrialKey) + ".pub";
const std::string kTrialLog = std::string(kTrialKey) + ".log";

void remove_trial_files() {
  for (const std::string& file : {std::string(kTrialKey), kTrialPublicKey, kTrialLog})
    ::unlink(file.c_str());
}

Ok write_keys(const std::string& user, const std::string& lines) {
  return write_file_atomic(std::string(kLaunchKeys) + "/" + user, lines, 0644);
}

class Trial {
 public:
  Trial(const OwnLogin& login, std::string ssh, std::string keygen, const Cancelled& cancelled)
      : login_(login), ssh_(std::move(ssh)), keygen_(std::move(keygen)), cancelled_(cancelled) {
    remove_trial_files();  // of one that was killed; ssh-keygen asks before it overwrites
  }
  ~Trial() { remove_trial_files(); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Result<std::string> run() {
    std::string turned_away, unknown, reason;
    bool is_for_all = login_.people.size() <= kMostTrials;
    const std::size_t most = std::min(kMostTrials, login_.people.size());
    for (std::size_t i = 0; i < most; ++i) {
      const std::string& user = login_.people[i].name;
      TRY_ASSIGN(const TrialAnswer answer, log_in(user, is_for_all));
      if (cancelled_ && cancelled_())
        return fail(ErrorKind::retry_later, "trying a login was stopped");
      if (answer.verdict == TrialVerdict::in)
        return "a login as " + user + " was tried" +
               (turned_away.empty() ? "" : ", not let in: " + turned_away);
      if (answer.verdict == TrialVerdict::unknown && unknown.empty())
        unknown = user + ": " + answer.reason;
      if (answer.verdict == TrialVerdict::unknown) continue;
      if (reason.empty()) reason = answer.reason;
      turned_away += (turned_away.empty() ? "" : ", ") + user;
    }
    if (!unknown.empty()) return "whether somebody gets in is not known, " + unknown;
    if (login_.people.empty()) return std::string("no login was tried, it has no people");
    if (!is_for_all) return "not let in from here: " + turned_away + " (" + reason + ")";
    return fail(ErrorKind::refused, "the volume's own sshd lets nobody in, tried as " +
                                        turned_away + ": " + reason + "; see " + kOwnSshdLog);
  }

 private:
  milliseconds left() const {
    return milliseconds(std::max<std::int64_t>(1, deadline_ms_ - boottime_ms()));
  }

  Result<TrialAnswer> log_in(const std::string& user, bool& is_for_all) {
    const auto asked =
        run_program(trial_question(login_.wishes, user), left(), cancelled_, login_.root_fd);
    if (!asked || asked->exit_status != 0)
      return TrialAnswer{TrialVerdict::unknown, "sshd does not tell its configuration"};
    const TrialFacts facts = parse_trial_facts(asked->output);
    if (!facts.why_not.empty()) return TrialAnswer{TrialVerdict::unknown, facts.why_not};
    is_for_all = is_for_all && facts.is_for_all;
    if (!make_key(facts.key_type))
      return TrialAnswer{TrialVerdict::unknown, "the base makes no " + facts.key_type + " key"};
    const std::string launch = login_.launch_key.empty() ? "" : login_.launch_key + "\n";
    TRY(write_keys(user, launch + trial_key_line(public_key_)));
    ::unlink(kTrialLog.c_str());
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    // It ends when this process is killed: the session would hold the volume.
    TRY_ASSIGN(const pid_t client,
               start_beside({trial_command(ssh_, kTrialKey, kTrialLog, user, login_.wishes.port),
                             {},
                             -1,
                             nowhere.get(),
                             {}}));
    const auto status = wait_child(client, left(), cancelled_);
    std::optional<int> exit_status;
    if (status && WIFEXITED(*status)) exit_status = WEXITSTATUS(*status);
    return judge_trial(exit_status, read_file(kTrialLog, kMaxLog).value_or(""));
  }

  /// False where the base's ssh-keygen cannot.
  bool make_key(const std::string& type) {
    if (type == made_) return true;
    remove_trial_files();
    const auto made =
        run_program({keygen_, "-q", "-t", type, "-N", "", "-C", "warmroot-trial", "-f", kTrialKey},
                    left(), cancelled_);
    public_key_ = read_file(kTrialPublicKey, kMaxPublicKey).value_or("");
    const bool good = made && made->exit_status == 0 && !public_key_.empty();
    made_ = good ? type : "";
    return good;
  }

  const OwnLogin& login_;
  const std::string ssh_, keygen_;
  const Cancelled& cancelled_;
  const std::int64_t deadline_ms_ = boottime_ms() + kProbeLimit.count();
  std::string made_, public_key_;
};

}  // namespace

Ok give_launch_key(const std::vector<User>& people, const std::string& key) {
  remove_login_keys();
  TRY(make_directory(kLaunchKeys, 0755));
  if (key.empty()) return {};
  for (const User& user : people) TRY(write_keys(user.name, key + "\n"));
  return {};
}

void remove_login_keys() {
  for (const auto& name : list_directory(kLaunchKeys))
    ::unlink((std::string(kLaunchKeys) + "/" + name).c_str());
  remove_trial_files();
}

Result<std::string> try_own_login(const OwnLogin& login, const Cancelled& cancelled) {
  const std::string ssh = first_executable({"/usr/bin/ssh", "/bin/ssh"});
  const std::string keygen = first_executable({"/usr/bin/ssh-keygen", "/bin/ssh-keygen"});
  if (ssh.empty() || keygen.empty())
    return std::string("no login was tried, the base has no ssh and ssh-keygen");
  auto tried = Trial(login, ssh, keygen, cancelled).run();
  TRY(give_launch_key(login.people, login.launch_key));
  return tried;
}

}  // namespace warmroot::bootstrap
