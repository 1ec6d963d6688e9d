// The entries `sshd` and `nspawn`: the volume's own sshd, run in the volume's root or by the
// volume's init in a container, with its own configuration and accounts, gets the connections to
// the base's port. The base's sshd goes on listening there, and has them back as soon as the
// steering or the other socket is gone: closed here, by a dead sshd or by a dead bootstrap, the
// kernel sees to it alike.
//
// Why loopback: who gets a connection is not decided by the address that a socket is bound to once
// a program steers, so that the volume's sshd needs no address at which it could be reached from
// outside beside the port.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/container_plan.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/loopback_port.hpp"
#include "bootstrap/own_login.hpp"
#include "bootstrap/own_sshd.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/port_steering.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/volume_container.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxAccountFile = 4 * 1024 * 1024;
constexpr std::size_t kMostLogWords = 400;
/// Scans of the whole internet leave some MiB a day; /run is memory.
constexpr off_t kMostLog = 1 << 20;
/// A packet to the other end of the world and back.
constexpr milliseconds kHandshake{500};
/// It reads its program and its configuration anew, which may be cold again.
constexpr milliseconds kReload{30000};
/// While it serves, it is asked so often whether it still greets; somebody with root in a session
/// can have taken away what it needs. One that is busy may turn a client away (MaxStartups).
constexpr milliseconds kGreetingEvery{30000}, kGreetingLimit{5000};
constexpr int kMostUngreeted = 3;
/// A machine that is overloaded answers late for minutes; one that is stopped, never.
constexpr milliseconds kMostSilence{std::chrono::minutes(10)};
constexpr IpFamily kFamilies[] = {IpFamily::v4, IpFamily::v6};

class SshdEntry : public Entry {
 public:
  SshdEntry(std::vector<std::uint16_t> ports, std::unique_ptr<VolumeSshd> sshd)
      : ports_(std::move(ports)), sshd_(std::move(sshd)) {}
  ~SshdEntry() override { std::ignore = close(); }

  bool by_base_sshd() const override { return false; }
  std::string describe() const override {
    const std::lock_guard lock(mutex_);
    std::string ports;
    for (const std::uint16_t port : ports_)
      ports += (ports.empty() ? "" : ", ") + std::to_string(port);
    return sshd_->describe() +
           (not_listening_since_ms_ == 0 ? ", which has the base's port "
                                         : "; the base has port ") +
           ports;
  }

  Result<std::string> prepare(const EntryInput& input) override {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    if (!root.is_executable(kOwnSshd))
      return fail(ErrorKind::refused, std::string("the volume has no ") + kOwnSshd);
    if (ports_.empty())
      return fail(ErrorKind::misconfigured, "the base's sshd listens on no port to take over");
    TRY(sshd_->check_possible(root));
    TRY_ASSIGN(accounts_.files.passwd, root.read("etc/passwd", kMaxAccountFile));
    accounts_.files.group = root.read("etc/group", kMaxAccountFile).value_or("");
    accounts_.session_users = people_of(accounts_.files.passwd);
    TRY_ASSIGN(steering_, PortSteering::load(ports_));
    TRY(give_launch_key(accounts_.session_users, input.launch_key));
    TRY_ASSIGN(port_, hold_port());
    wishes_ = {port_.number, static_cast<bool>(port_.v6), has_node_keys(), {}};
    TRY(ask(root, input.cancelled));
    return std::string("the volume's, and none of the base's");
  }

  std::vector<LoginTrial> logins() const override { return probe_logins(accounts_); }

  Result<std::string> open(const EntryInput& input) override {
    const std::lock_guard lock(mutex_);
    TRY(start(input.cancelled));
    TRY_ASSIGN(const std::string greeting,
               read_greeting(port_.number, kProbeLimit, input.cancelled));
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY_ASSIGN(const std::string tried,
               try_own_login({accounts_.session_users, input.launch_key, wishes_, root.fd()},
                             input.cancelled));
    TRY(steering_->begin());
    return ", by its own sshd (" + greeting + "; " + tried + ")";
  }

  Ok check() override {
    TRY(check_process());
    return check_greeting();
  }

  std::string pause() const override {
    if (not_listening_since_ms_ == 0) return {};
    return begun_anew_ ? "the volume was rebooted and is starting; log in again in a moment"
                       : "the volume's own sshd does not listen just now";
  }

  Ok close() override {
    const std::lock_guard lock(mutex_);
    if (steering_) steering_->stop();
    return {};
  }

  bool holds_sessions() const override { return sshd_->holds_sessions(); }
  bool runs(pid_t process) const override {
    const std::lock_guard lock(mutex_);
    return sshd_->runs(process);
  }

  Result<std::string> end(milliseconds limit) override {
    const std::lock_guard lock(mutex_);
    std::vector<UniqueFd> listeners;
    for (const IpFamily family : kFamilies)
      if (UniqueFd listener = wanted(family) ? sshd_->listener(family) : UniqueFd())
        listeners.push_back(std::move(listener));
    if (!listeners.empty()) let_handshakes_end(listeners, ports_, kHandshake);
    listeners.clear();
    const bool ran = sshd_->end(limit);
    steering_.reset();
    return std::string(ran ? "what it ran has ended" : "it did not run");
  }

  Ok undo() override {
    remove_login_keys();
    return {};
  }

 private:
  Ok check_process() {
    const std::lock_guard lock(mutex_);
    if (!steering_) return fail(ErrorKind::refused, "the volume's own sshd was never started");
    bound_log();
    if (const auto how = sshd_->how_it_ended()) return begin_anew(*how);
    // After a reload it listens with another socket; until then the base has the port.
    bool listens = all_steered();
    if (!listens) {
      TRY_ASSIGN(listens, steer());
    }
    if (listens || not_listening_since_ms_ == 0)
      not_listening_since_ms_ = listens ? 0 : boottime_ms();
    if (listens) {
      patience_ = kReload;
      begun_anew_ = false;
    }
    if (listens || boottime_ms() - not_listening_since_ms_ < patience_.count()) return {};
    return fail(ErrorKind::refused, "the volume's own sshd does not listen any more");
  }

  /// Until it listens again, the base has the port. A start that failed is tried again, and both
  /// only so often: a volume may reboot itself for ever.
  Ok begin_anew(const std::string& how_it_ended) {
    const bool again = sshd_->wants_restart() || begun_anew_;
    if (!again || !restarts_.allow(boottime_ms()))
      return fail(ErrorKind::refused, how_it_ended + last_words());
    log_event(LogLevel::notice, "the volume's system begins anew", {{"how", how_it_ended}});
    sshd_->end(kEndLimit);
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    TRY(sshd_->start(root, wishes_, log_.get()));
    begun_anew_ = true;
    not_listening_since_ms_ = boottime_ms();
    patience_ = sshd_->start_limit();
    ungreeted_ = 0;
    ungreeted_since_ms_ = 0;
    return {};
  }

  /// bring_up has shown the node's keys, or could not.
  static bool has_node_keys() {
    return ::access((std::string(kNodeKeys) + "/ssh_host_ed25519_key").c_str(), F_OK) == 0;
  }

  Ok ask(const RootDirectory& root, const Cancelled& cancelled) {
    TRY_ASSIGN(const auto answer,
               run_program(own_sshd_question(wishes_), kProbeLimit, cancelled, root.fd()));
    if (answer.exit_status != 0)
      return fail(ErrorKind::refused, "the volume's own sshd rejects its configuration: " +
                                          without_controls(sshd_complaint(answer.output)));
    const OwnSshdFacts facts = parse_own_sshd_facts(answer.output);
    TRY(check_own_sshd_facts(facts, ports_, wishes_.node_host_keys));
    wishes_.authorized_keys = facts.authorized_keys;
    return {};
  }

  Ok start(const Cancelled& cancelled) {
    TRY_ASSIGN(const RootDirectory root, RootDirectory::open(kVolumePoint));
    log_ = UniqueFd(
        ::open(kOwnSshdLog, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!log_) return fail_errno(std::string("opening ") + kOwnSshdLog);
    TRY(sshd_->start(root, wishes_, log_.get()));
    const std::int64_t deadline = boottime_ms() + sshd_->start_limit().count();
    while (true) {
      TRY_ASSIGN(const bool listens, steer());
      if (listens) return {};
      if (const auto how = sshd_->how_it_ended())
        return fail(ErrorKind::refused, *how + last_words());
      if (cancelled && cancelled())
        return fail(ErrorKind::retry_later, "starting the volume's own sshd was stopped");
      if (boottime_ms() >= deadline)
        return fail(ErrorKind::retry_later, "the volume's own sshd does not listen" + last_words());
      ::poll(nullptr, 0, static_cast<int>(sshd_->start_look().count()));
    }
  }

  bool wanted(IpFamily family) const { return family == IpFamily::v4 || wishes_.v6; }

  bool all_steered() const {
    for (const IpFamily family : kFamilies)
      if (wanted(family) && !steering_->has(family)) return false;
    return true;
  }

  /// Gives the steering what sshd listens with. Our copy goes at once: it would keep a socket open
  /// that nobody takes connections from. False while sshd does not listen yet.
  Result<bool> steer() {
    for (const IpFamily family : kFamilies) {
      if (!wanted(family)) continue;
      const UniqueFd listener = sshd_->listener(family);
      if (!listener) return false;
      TRY(steering_->set(family, listener.get()));
    }
    return true;
  }

  /// Not under the lock: it may take a while, and port_ stays. While nobody listens nobody greets.
  Ok check_greeting() {
    if (not_listening_since_ms_ != 0 || boottime_ms() < next_greeting_ms_) return {};
    const auto greeting = read_greeting(port_.number, kGreetingLimit, {});
    const bool turned_away = !greeting && greeting.error().kind == ErrorKind::refused;
    if (greeting || ungreeted_since_ms_ == 0) ungreeted_since_ms_ = greeting ? 0 : boottime_ms();
    // Stopped, or its volume does not answer: nobody gets in by it.
    if (!greeting && boottime_ms() - ungreeted_since_ms_ >= kMostSilence.count())
      return fail(greeting.error());
    ungreeted_ = turned_away ? ungreeted_ + 1 : 0;
    if (!turned_away) next_greeting_ms_ = boottime_ms() + kGreetingEvery.count();
    if (ungreeted_ < kMostUngreeted) return {};
    return fail(greeting.error());
  }

  /// What sshd has said last, for a sentence.
  std::string last_words() const {
    struct stat facts {};
    if (::fstat(log_.get(), &facts) != 0 || facts.st_size == 0) return {};
    char text[kMostLogWords];
    const off_t from = std::max<off_t>(0, facts.st_size - static_cast<off_t>(sizeof text));
    const ssize_t got = ::pread(log_.get(), text, sizeof text, from);
    std::string words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.pop_back();
    return ": " + without_controls(words.substr(words.rfind('\n') + 1));
  }

  void bound_log() const {
    struct stat facts {};
    if (::fstat(log_.get(), &facts) == 0 && facts.st_size > kMostLog)
      std::ignore = ::ftruncate(log_.get(), 0);
  }

  const std::vector<std::uint16_t> ports_;
  AccountEdit accounts_;  ///< the volume's files, nothing of which is changed
  mutable std::mutex mutex_;
  HeldPort port_;
  OwnSshdWishes wishes_;
  UniqueFd log_;
  const std::unique_ptr<VolumeSshd> sshd_;
  std::optional<PortSteering> steering_;
  // check's alone
  std::int64_t not_listening_since_ms_ = 0;  ///< 0: it listens
  milliseconds patience_ = kReload;          ///< how long it need not
  bool begun_anew_ = false;                  ///< and has not listened since
  RestartLimit restarts_;
  std::int64_t next_greeting_ms_ = 0;
  int ungreeted_ = 0;                    ///< times in a row
  std::int64_t ungreeted_since_ms_ = 0;  ///< since when no greeting came; 0: the last one did
};

}  // namespace

std::shared_ptr<Entry> sshd_entry(std::vector<std::uint16_t> ports) {
  return std::make_shared<SshdEntry>(std::move(ports), std::make_unique<OwnSshd>());
}

std::shared_ptr<Entry> nspawn_entry(std::vector<std::uint16_t> ports) {
  return std::make_shared<SshdEntry>(std::move(ports), std::make_unique<VolumeContainer>());
}

}  // namespace warmroot::bootstrap
