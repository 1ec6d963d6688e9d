// The sessions of a daemon's volume: how they are opened, that they are led elsewhere where they
// would not work, and back; and what ends with them.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <tuple>

#include "bootstrap/agent_sockets.hpp"
#include "bootstrap/base/log.hpp"
#include "bootstrap/daemon.hpp"
#include "bootstrap/daemon_process.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/session_switch.hpp"
#include "bootstrap/sshd.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

/// The release waits so long for one that is under way; it ends by itself, but on a volume that
/// does not answer.
constexpr milliseconds kReturnLimit{2000};
/// The word normally comes with the answer to the report that the disk was seen, or a second later;
/// a manager that is down must not keep people out for longer.
constexpr milliseconds kConfirmationLimit{10000};
constexpr milliseconds kPeopleLook{5000};
/// Saving the map is one fsync of some hundred KiB; a volume that does not answer must not keep us.
constexpr milliseconds kWarmerLimit{15000};

}  // namespace

/// Where sessions no longer work, they go back to the base with the reason before them; the
/// volume stays mounted for whoever is in it, and they are led there again once they would work.
/// Until a login has worked, bring_up alone leads them.
void Daemon::check_serving() {
  if (!serving_ || !login_worked_) return;
  const Ok works = check_still_serving(*assignment_.entry, served_root_);
  if (!works && sessions_left_) return;
  if (works && sessions_left_ && !may_return()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!serving_) return;
    leading_ = true;
  }
  if (!works)
    lead_sessions_out(works.error());
  else if (sessions_left_)
    lead_sessions_back();
  else
    tell_of_entry();
  {
    const std::lock_guard lock(mutex_);
    leading_ = false;
  }
  led_.notify_all();
}

/// An sshd of the volume's that has gone listens again, and the last attempt is long ago.
bool Daemon::may_return() const {
  return assignment_.entry->pause().empty() && boottime_ms() >= next_return_ms_ && !stop_.reason();
}

void Daemon::lead_sessions_out(const Error& why) {
  sessions_left_ = true;
  if (const Ok moved = assignment_.entry->close(); !moved)
    log_event(LogLevel::warning, "sessions cannot be moved", {{"why", moved.error().message()}});
  failed("sessions left the volume: " + why.message());
}

void Daemon::lead_sessions_back() {
  next_return_ms_ = boottime_ms() + kReturnEvery.count();
  Entry& entry = *assignment_.entry;
  const EntryInput input{input_.launch.public_key, [this] { return stop_.reason().has_value(); }};
  const auto opened = entry.open(input);
  // A release that could not wait has closed it, or will, and may refuse sessions.
  if (!serving_) return;
  if (!opened) {
    std::ignore = entry.close();
    log_event(LogLevel::warning, "sessions cannot be led back",
              {{"why", opened.error().message()}});
    return;
  }
  sessions_left_ = false;
  pause_.clear();
  tell_of_return();
}

void Daemon::tell_of_return() {
  described_ = assignment_.entry->describe();
  log_event(LogLevel::notice, "sessions land in the volume again", {{"by", described_}});
  std::ignore = set_banner(ticket_.pool, {});
  book_.update([&](Status& status) {
    status.entry = described_ + assignment_.instead;
    status.message.clear();
  });
  enter(Stage::ready, "", what_is_otherwise());
  warming_.sessions_open();
}

/// A volume that is rebooted has other processes afterwards, and people land on the base
/// meanwhile: they should know why.
void Daemon::tell_of_entry() {
  const Entry& entry = *assignment_.entry;
  const std::string pause = entry.pause(), described = entry.describe();
  // A release that could not wait has words of its own.
  if (!serving_) return;
  if (pause == pause_ && described == described_) return;
  if (!pause.empty())
    tell_people(pause);
  else if (!pause_.empty())
    std::ignore = set_banner(ticket_.pool, {});
  pause_ = pause;
  described_ = described;
  book_.update([&](Status& status) {
    status.entry = described + assignment_.instead;
    status.message = pause;
  });
  const std::string otherwise = what_is_otherwise();
  if (!otherwise.empty()) book_.update([&](Status& status) { status.message = otherwise; });
}

Ok Daemon::start_sessions() {
  input_.pool = ticket_.pool;
  input_.entry = ticket_.entry;
  input_.base_ports = session_ports();
  input_.sftp_server = sshd_.sftp_server;
  input_.write_mib_s = ticket_.write_mib_s;
  input_.grow = ticket_.grow;
  input_.sshd_is_late = sshd_.ran_before;
  if (std::count(sshd_.ports.begin(), sshd_.ports.end(), ticket_.rescue_port) != 0)
    input_.rescue_port = ticket_.rescue_port;
  // Another sshd is started when they are there, whatever the one that runs can do.
  input_.node_host_keys = sshd_.node_host_keys || sshd_.needs_second_sshd ||
                          (ticket_.host_keys && ticket_.entry != EntryKind::chroot);
  input_.second_sshd = {"", input_.base_ports, sshd_.node_host_keys || sshd_.needs_second_sshd};
  if (sshd_.needs_second_sshd || (sshd_.ran_before && sshd_.everywhere))
    input_.second_sshd.program = sshd_.program;
  input_.confirmed_volume = [this] {
    const std::lock_guard lock(mutex_);
    return confirmed_;
  };
  input_.no_volume = [this] {
    const std::lock_guard lock(mutex_);
    return no_volume_;
  };
  input_.instance_type = [] { return Imds().instance_type(); };
  if (!ticket_.manager_url.empty()) input_.confirmation_limit = kConfirmationLimit;
  input_.enter_stage = [this](Stage stage, const std::string& message) {
    if (stage == Stage::disk_seen) expect_word();
    if (stage == Stage::checked) warming_.disk_checked(assignment_.disk_node);
    if (stage == Stage::mounted) warming_.root_mounted(assignment_);
    if (stage == Stage::ready)
      sessions_open();
    else
      enter(stage, "", message);
  };
  input_.disk_likely = [this](const std::string& disk_node) { warming_.disk_likely(disk_node); };
  input_.login_is_late = [this](const std::string& why) { enter(Stage::mounted, "", why); };
  input_.login_worked = [this] {
    if (book_.snapshot().stage == Stage::mounted) tell_of_return();
    login_worked_ = true;
    keep_served_volume();
  };
  input_.leads_back = [this] { end_serving(); };
  input_.let_go = [this] { stop_own_users(kWarmerLimit); };
  if (!is_taken_over_) warming_.before_disk();
  const Ok done = is_taken_over_ ? resume_sessions() : bring_up(input_, assignment_, book_, stop_);
  if (done) {
    warming_.logins_tried();
    return {};
  }
  reporter_.report_often(false);
  stop_own_users(kWarmerLimit);
  return done;
}

/// The answer to the report of the disk is about it. What was said before was not, and a manager
/// that has gone since keeps nobody out.
void Daemon::expect_word() {
  reporter_.report_often(true);
  const std::lock_guard lock(mutex_);
  no_volume_.reset();
}

/// Until they land in the volume, or it is to be given back: people may be in it.
Ok Daemon::resume_sessions() {
  // Without a recording: what sessions read first is in memory by now.
  if (!stop_.reason()) warming_.root_mounted(assignment_);
  for (;;) {
    const Ok done = resume(input_, assignment_, book_, stop_);
    if (done || stop_.reason()) return done;
    if (link_text(kSessionRoot) == kVolumePoint)
      log_event(LogLevel::warning, "new sessions land in the volume as they did",
                {{"why", done.error().message()}});
    else
      failed("sessions left the volume: " + done.error().message());
    const std::int64_t again_ms = boottime_ms() + kReturnEvery.count();
    while (boottime_ms() < again_ms)
      if (let_go_of_lost_disk() || stop_.wait_for(kTick * kTicksPerServingCheck)) return done;
  }
}

void Daemon::sessions_open() {
  reporter_.report_often(false);
  enter(Stage::ready, "", what_is_otherwise());
  served_disk_ = assignment_.disk_node;
  served_root_ = assignment_.root_device;
  described_ = assignment_.entry->describe();
  serving_ = true;
  if (assignment_.entry->by_base_sshd())
    agents_.start([](std::stop_token token) { mirror_agent_sockets("/tmp", kVolumePoint, token); });
  people_.start(
      [entry = assignment_.entry](std::stop_token token) { follow_people(*entry, token); });
  if (assignment_.host_keys)
    host_keys_.start([volume_id = assignment_.volume_id](std::stop_token token) {
      make_other_host_keys(volume_id, token);
    });
  warming_.sessions_open();
}

/// Than the ticket asked for; empty when nothing is.
std::string Daemon::what_is_otherwise() const {
  if (!assignment_.entry->by_base_sshd()) return {};
  if (sshd_.ran_before && assignment_.entry->waits_for_base_sshd()) return kLateSentence;
  return ticket_.entry == EntryKind::chroot ? std::string() : book_.snapshot().entry;
}

/// Where people come in, without the port that is to lead to the base.
std::vector<std::uint16_t> Daemon::session_ports() const {
  std::set<std::uint16_t> ports(sshd_.ports.begin(), sshd_.ports.end());
  ports.erase(static_cast<std::uint16_t>(ticket_.rescue_port));
  return {ports.begin(), ports.end()};
}

void Daemon::follow_people(Entry& entry, const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, token, kPeopleLook, [&] { return token.stop_requested(); }))
    entry.follow_people([&] { return token.stop_requested(); });
}

void Daemon::make_other_host_keys(const std::string& volume_id, const std::stop_token& token) {
  const Ok made =
      complete_host_keys(kVolumePoint, volume_id, [&] { return token.stop_requested(); });
  if (!made && !token.stop_requested())
    log_event(LogLevel::warning, "host keys", {{"why", made.error().message()}});
}

/// False when one of them has not ended in time, as on a volume that does not answer; it may
/// still, and is asked again then.
bool Daemon::stop_own_users(milliseconds limit) {
  BoundedThread* const threads[] = {&agents_, &host_keys_, &people_};
  for (BoundedThread* thread : threads) thread->request_stop();
  // All have the same time, whichever takes long.
  const auto deadline = std::chrono::steady_clock::now() + limit;
  bool ended = warming_.stop(limit);
  for (BoundedThread* thread : threads) ended = thread->stop_by(deadline) && ended;
  return ended;
}

/// Nobody leads sessions any more.
void Daemon::end_serving() {
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
  }
  // First of all: its reads compete with the writing back of what sessions left.
  warming_.request_stop();
  std::unique_lock lock(mutex_);
  led_.wait_for(lock, kReturnLimit, [this] { return !leading_; });
}

}  // namespace warmroot::bootstrap
