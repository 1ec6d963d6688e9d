#include "bootstrap/sshd_door.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/entry.hpp"
#include "bootstrap/paths.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

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

}  // namespace

SshdDoor::SshdDoor(std::vector<std::uint16_t> ports, std::unique_ptr<SteeredSshd> sshd,
                   std::string log)
    : ports_(std::move(ports)),
      sshd_(std::move(sshd)),
      log_path_(std::move(log)),
      patience_(kReload) {}

Ok SshdDoor::prepare(const RootDirectory& root) {
  if (ports_.empty())
    return fail(ErrorKind::misconfigured, "the base's sshd listens on no port to take over");
  TRY(sshd_->check_possible(root));
  TRY_ASSIGN(steering_, PortSteering::load(ports_));
  TRY_ASSIGN(port_, hold_port());
  return {};
}

Result<std::string> SshdDoor::start(const RootDirectory& root, const OwnSshdWishes& wishes,
                                    const Cancelled& cancelled) {
  const std::lock_guard lock(mutex_);
  if (!steering_) return fail(ErrorKind::refused, sshd_->name() + " was ended");
  if (!started_) {
    wishes_ = wishes;
    log_ = UniqueFd(::open(log_path_.c_str(),
                           O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!log_) return fail_errno("opening " + log_path_);
    TRY(sshd_->start(root, wishes_, log_.get()));
    started_ = true;
  }
  TRY(wait_until_it_listens(cancelled));
  return read_greeting(port_.number, kProbeLimit, cancelled);
}

Ok SshdDoor::wait_until_it_listens(const Cancelled& cancelled) {
  const std::int64_t deadline = boottime_ms() + sshd_->start_limit().count();
  while (true) {
    TRY_ASSIGN(const bool listens, steer());
    if (listens) return {};
    if (const auto how = sshd_->how_it_ended())
      return fail(ErrorKind::refused, *how + last_words());
    if (cancelled && cancelled())
      return fail(ErrorKind::retry_later, "starting " + sshd_->name() + " was stopped");
    if (boottime_ms() >= deadline)
      return fail(ErrorKind::retry_later, sshd_->name() + " does not listen" + last_words());
    bound_log();  // a console that is written to without end, say
    ::poll(nullptr, 0, static_cast<int>(sshd_->start_look().count()));
  }
}

Ok SshdDoor::open(const Cancelled& cancelled) {
  const std::lock_guard lock(mutex_);
  // The release may have been faster than who opens it again.
  if (!steering_) return fail(ErrorKind::refused, sshd_->name() + " was ended");
  if (cancelled && cancelled())
    return fail(ErrorKind::retry_later, "sessions are not wanted in the volume any more");
  TRY(steering_->begin());
  closed_ = false;
  return {};
}

Ok SshdDoor::check() {
  TRY(check_process());
  return check_greeting();
}

void SshdDoor::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (steering_) steering_->stop();
}

bool SshdDoor::end(milliseconds limit) {
  const std::lock_guard lock(mutex_);
  // Of two programs the kernel goes by the first: only now a successor has the newcomers.
  if (steering_) steering_->stop();
  std::vector<UniqueFd> listeners;
  for (const IpFamily family : kFamilies)
    if (UniqueFd listener = wanted(family) ? sshd_->listener(family) : UniqueFd())
      listeners.push_back(std::move(listener));
  if (!listeners.empty()) let_handshakes_end(listeners, ports_, kHandshake);
  listeners.clear();
  const bool ran = sshd_->end(limit);
  started_ = false;
  steering_.reset();
  return ran;
}

bool SshdDoor::runs(pid_t process) const {
  const std::lock_guard lock(mutex_);
  return sshd_->runs(process);
}

std::string SshdDoor::describe() const {
  const std::lock_guard lock(mutex_);
  std::string ports;
  for (const std::uint16_t port : ports_)
    ports += (ports.empty() ? "" : ", ") + std::to_string(port);
  return sshd_->describe() + (is_away() ? "; the base has port " : ", which has the base's port ") +
         ports;
}

Ok SshdDoor::check_process() {
  const std::lock_guard lock(mutex_);
  if (!steering_) return fail(ErrorKind::refused, sshd_->name() + " was never started");
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
  return fail(ErrorKind::refused, sshd_->name() + " does not listen any more");
}

/// Until it listens again, the base has the port. A start that failed is tried again, and a process
/// that has died once people were told so; a system that somebody has powered off stays off. All
/// only so often: a volume may reboot itself for ever.
Ok SshdDoor::begin_anew(const std::string& how_it_ended) {
  const bool died = closed_ && !sshd_->holds_sessions();
  const bool again = sshd_->wants_restart() || begun_anew_ || died;
  if (!again || !restarts_.allow(boottime_ms()))
    return fail(ErrorKind::refused, how_it_ended + last_words());
  log_event(LogLevel::notice,
            sshd_->holds_sessions() ? "the volume's system begins anew"
                                    : "the volume's own sshd is started anew",
            {{"how", how_it_ended}});
  sshd_->end(kEndLimit);
  TRY_ASSIGN(const RootDirectory volume, RootDirectory::open(kVolumePoint));
  TRY(sshd_->start(volume, wishes_, log_.get()));
  begun_anew_ = true;
  not_listening_since_ms_ = boottime_ms();
  patience_ = sshd_->start_limit();
  ungreeted_ = 0;
  ungreeted_since_ms_ = 0;
  return {};
}

bool SshdDoor::all_steered() const {
  return std::all_of(std::begin(kFamilies), std::end(kFamilies), [&](const IpFamily family) {
    return !wanted(family) || steering_->has(family);
  });
}

/// Gives the steering what sshd listens with. Our copy goes at once: it would keep a socket open
/// that nobody takes connections from. False while sshd does not listen yet.
Result<bool> SshdDoor::steer() {
  for (const IpFamily family : kFamilies) {
    if (!wanted(family)) continue;
    const UniqueFd listener = sshd_->listener(family);
    if (!listener) return false;
    TRY(steering_->set(family, listener.get()));
  }
  return true;
}

/// Not under the lock: it may take a while, and port_ stays. While nobody listens nobody greets.
/// Who was led away from it is led back when it has greeted, and not for want of an answer.
Ok SshdDoor::check_greeting() {
  if (not_listening_since_ms_ != 0) return {};
  if (boottime_ms() < next_greeting_ms_) {
    if (!closed_ || ungreeted_since_ms_ == 0) return {};
    return fail(ErrorKind::retry_later, sshd_->name() + " has not greeted yet");
  }
  const auto greeting = read_greeting(port_.number, kGreetingLimit, {});
  const bool turned_away = !greeting && greeting.error().kind == ErrorKind::refused;
  if (greeting || ungreeted_since_ms_ == 0) ungreeted_since_ms_ = greeting ? 0 : boottime_ms();
  // Stopped, or its volume does not answer: nobody gets in by it.
  const bool silent = !greeting && boottime_ms() - ungreeted_since_ms_ >= kMostSilence.count();
  ungreeted_ = turned_away ? ungreeted_ + 1 : 0;
  if (!turned_away) next_greeting_ms_ = boottime_ms() + kGreetingEvery.count();
  if (greeting || (!closed_ && !silent && ungreeted_ < kMostUngreeted)) return {};
  return fail(greeting.error());
}

/// What sshd has said last, for a sentence.
std::string SshdDoor::last_words() const {
  struct stat facts {};
  if (::fstat(log_.get(), &facts) != 0 || facts.st_size == 0) return {};
  char text[kMostLogWords];
  const off_t from = std::max<off_t>(0, facts.st_size - static_cast<off_t>(sizeof text));
  const ssize_t got = ::pread(log_.get(), text, sizeof text, from);
  std::string words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.pop_back();
  return ": " + without_controls(words.substr(words.rfind('\n') + 1));
}

void SshdDoor::bound_log() const {
  struct stat facts {};
  if (::fstat(log_.get(), &facts) == 0 && facts.st_size > kMostLog)
    std::ignore = ::ftruncate(log_.get(), 0);
}

}  // namespace warmroot::bootstrap
