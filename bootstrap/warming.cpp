#include "bootstrap/warming.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/confine.hpp"
#include "bootstrap/warm/first_run_files.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

/// For the list that other nodes recorded, from the mount on; warming without it begins then.
constexpr milliseconds kListLimit{1000};
/// For reads before the mount to end, once no more of them are started.
constexpr milliseconds kEarlyLimit{1000};

/// Who may log in on the volume, for what they read first.
std::vector<warm::LoginUser> login_users() {
  constexpr std::size_t kMaxPasswd = 1024 * 1024;
  constexpr std::size_t kMostUsers = 32;
  std::vector<warm::LoginUser> users;
  const auto root = RootDirectory::open(kVolumePoint);
  if (!root) return users;
  for (const User& user : parse_passwd(root->read("etc/passwd", kMaxPasswd).value_or("")))
    if (is_login_shell(user.shell) && users.size() < kMostUsers)
      users.push_back({user.shell, user.home});
  return users;
}

}  // namespace

void Warming::taken_over(const std::string& volume_id) {
  const std::lock_guard lock(mutex_);
  volume_id_ = volume_id;
}

void Warming::before_disk() {
  if (ticket_.record) recording_.prepare();
}

void Warming::disk_likely(const std::string& disk_node) {
  if (!ticket_.warm_enabled) return;
  early_.start(disk_node, ticket_.max_depth, ticket_.max_mib_s, [this] { confine(); });
  if (std::exchange(likely_disk_, disk_node) != disk_node) ask_for_list(disk_node);
}

void Warming::disk_checked(const std::string& disk_node) {
  if (ticket_.record) recording_.start(disk_node);
}

/// Others of the lineage may have recorded what sessions read first; the manager is asked as soon
/// as it knows which volume this is, so that the list is there before the mount.
void Warming::ask_for_list(const std::string& disk_node) {
  if (ticket_.manager_url.empty()) return;
  const auto answered = std::make_shared<std::promise<void>>();
  list_answered_ = answered->get_future();
  const auto note = [](const Ok& taken) {
    if (!taken) log_event(LogLevel::warning, "hot list", {{"what", taken.error().message()}});
  };
  ask_for_block_list();
  reporter_.exchange("GET", "/v1/hot-list", "", [=, this](const auto& list) {
    if (list) note(recording_.take(*list));
    if (const auto lineage = recording_.foreign_lineage())
      note(fail(ErrorKind::misconfigured,
                "the manager's list is of " + *lineage +
                    ", not of this volume's lineage: its blocks mean nothing here"));
    if (recording_.knows_nothing()) {
      reporter_.exchange("GET", "/v1/hot-list?of=pool", "", [=, this](const auto& other) {
        if (other) note(recording_.take_elsewhere(*other));
        answered->set_value();
      });
      return;
    }
    if (const auto disk = warm::BlockDevice::open(disk_node))
      early_.hot(recording_.hot_blocks(disk->size_bytes()));
    answered->set_value();
  });
}

/// Where the manager knows what the volume's snapshot holds, nothing else has to be fetched.
void Warming::ask_for_block_list() {
  reporter_.exchange("GET", "/v1/block-list", "", [this](const auto& list) {
    if (list) volume_blocks_.take(*list);
  });
}

/// The volume's own list is there now. What is missing is asked for once more: the first time the
/// manager may not have known yet whose disk this is.
void Warming::root_mounted(const Assignment& assignment) {
  {
    const std::lock_guard lock(mutex_);
    volume_id_ = assignment.volume_id;
  }
  recording_.mounted(kVolumePoint, assignment.partition.offset_bytes, assignment.volume_id,
                     assignment.partition.uuid);
  if (!ticket_.warm_enabled) return;
  if (!recording_.was_told())
    ask_for_list(assignment.disk_node);
  else if (!ticket_.manager_url.empty() && !volume_blocks_.has_list())
    ask_for_block_list();
  start_warmer(assignment);
}

/// Sessions need not wait for the warmer, nor it for them: it begins at the mount.
void Warming::start_warmer(const Assignment& assignment) {
  warm::WarmRequest request;
  request.device_path = assignment.disk_node;
  request.partition_offset_bytes = assignment.partition.offset_bytes;
  request.partition_size_bytes = assignment.partition.size_bytes;
  request.mount_point = kVolumePoint;
  request.filesystem = assignment.partition.content;
  request.map_path = kVolumeMap;
  request.volume_id = assignment.volume_id;
  request.max_depth = ticket_.max_depth;
  request.max_mib_s = ticket_.max_mib_s;
  request.used_before = recording_.was_used();
  request.listed = [this, volume_id = assignment.volume_id,
                    root = assignment.partition.offset_bytes](std::uint64_t device_bytes) {
    return volume_blocks_.on_device(volume_id, device_bytes, root);
  };
  request.set_up = [this] { confine(); };
  warmer_.start([this, request = std::move(request)](std::stop_token token) mutable {
    warm_up(std::move(request), token);
  });
}

/// For the thread that calls it. A kernel or a sandbox that refuses filters is no reason not to
/// warm.
void Warming::confine() {
  const Ok done = warm::confine_thread();
  if (!done && !told_unconfined_.test_and_set())
    log_event(LogLevel::warning, "the warmer may make any system call",
              {{"why", done.error().message()}});
}

/// A manager that is being restarted while the root is mounted answers some seconds later. One that
/// has answered with no list, or was given up, will tell none.
void Warming::hear_of_list_later(warm::WarmRequest& request, std::uint64_t device_bytes) {
  if (ticket_.manager_url.empty()) return;
  request.late_hot = [this, device_bytes]() -> std::optional<std::vector<warm::Block>> {
    const bool is_answered =
        list_answered_.valid() &&
        list_answered_.wait_for(milliseconds(0)) == std::future_status::ready;  // before it is told
    if (recording_.was_told()) return recording_.hot_blocks(device_bytes);
    return is_answered ? std::optional(std::vector<warm::Block>()) : std::nullopt;
  };
}

void Warming::warm_up(warm::WarmRequest request, std::stop_token token) {
  if (recording_.knows_nothing() && list_answered_.valid()) list_answered_.wait_for(kListLimit);
  // Of a disk that does not answer, which may not even be this one, nothing is waited for.
  if (early_.stop_by(std::chrono::steady_clock::now() + kEarlyLimit)) {
    request.read_before = early_.finish();
    request.under_way = early_.under_way();
    request.depth = early_.depth();
    request.read_whole = early_.reads_whole();
  }
  if (const auto disk = warm::BlockDevice::open(request.device_path)) {
    if (!recording_.was_told()) hear_of_list_later(request, disk->size_bytes());
    request.hot = recording_.hot_blocks(disk->size_bytes());
    if (const auto beyond = recording_.ranges_beyond(disk->size_bytes()); beyond > 0)
      log_event(LogLevel::warning, "hot list",
                {{"what", std::to_string(beyond) + " ranges lie beyond the device: left out"}});
  }
  if (request.hot.empty()) request.files = recording_.files_elsewhere();
  request.guess = {warm::first_run_files, [] { return warm::first_run_files_of(login_users()); }};
  std::string noted;
  const auto show = [&](const warm::WarmProgress& progress) {
    book_.update([&](Status& status) { status.warm = progress; });
    if (progress.state == warm::WarmState::running) return;
    if (std::exchange(noted, progress.note) != progress.note)
      log_event(LogLevel::notice, "warming", {{"what", progress.note}});
    // Sessions do not depend on warming: a failure of it is a note, not a stage.
    tell_warm(progress.state == warm::WarmState::done &&
                  progress.present_blocks == progress.needed_blocks,
              true);
  };
  const auto done = warm::Warmer(std::move(request)).run(token, show);
  if (done) return;
  warm::WarmProgress failed = book_.snapshot().warm;
  failed.state = warm::WarmState::failed;
  failed.note = done.error().message();
  show(failed);
}

void Warming::sessions_open() {
  if (!ticket_.warm_enabled) return;
  reporter_.report_often(true);
  enter_(Stage::warming);
  tell_warm(false, false);
}

/// The manager keeps the latest alone: what comes too early for it waits in its file, where
/// `record` replaces it.
void Warming::tell_asked() {
  const std::lock_guard lock(mutex_);
  if (!asked_is_out_ && std::chrono::steady_clock::now() >= asked_again_) send_asked();
}

/// Under mutex_. What is on its way has a file of its own until it is answered: the daemon may be
/// killed before. The reporter keeps it while the manager is away.
void Warming::send_asked() {
  if (volume_id_.empty()) return;
  const std::string place = kAskedLists + volume_id_, out = kAskedListsOut + volume_id_;
  const bool is_new = ::rename(place.c_str(), out.c_str()) == 0;
  if (!is_new && (asked_is_out_ || ::access(out.c_str(), F_OK) != 0)) return;
  auto list = read_file(out, warm::kMostListBytes);
  if (!list || ticket_.manager_url.empty()) ::unlink(out.c_str());
  if (ticket_.manager_url.empty()) return;
  const auto say = [](const std::string& what) {
    log_event(LogLevel::notice, "hot list", {{"what", what}});
  };
  if (!list) return say(list.error().message());
  asked_is_out_ = true;
  const auto answered = [this, say, out, number = ++asked_sent_](const auto& answer) {
    say(answer ? "the manager has what `record` was asked for"
               : "the manager has not taken what `record` was asked for");
    const std::lock_guard lock(mutex_);
    if (number != asked_sent_) return;  // a later one has its place by now
    ::unlink(out.c_str());
    asked_is_out_ = false;
    asked_again_ = std::chrono::steady_clock::now() + warm::kAskedPause;
  };
  reporter_.exchange("POST", "/v1/hot-list?asked=1", std::move(*list), answered);
}

/// The stage comes behind "warming", also where the warmer was done before sessions were. The
/// warmer tells its end more than once: the first time what it saves then may take long.
void Warming::tell_warm(bool is_warm, bool has_ended) {
  const std::lock_guard lock(mutex_);
  if (has_ended && std::exchange(warmer_done_, true)) return;
  warmed_ = warmed_ || is_warm;
  ready_ = ready_ || !has_ended;
  if (!ready_ || !warmer_done_) return;
  if (warmed_) enter_(Stage::warm);
  reporter_.report_often(false);
}

bool Warming::stop(milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    send_asked();  // early or not: the machine may go
  }
  warmer_.request_stop();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const bool kept = recording_.finish(limit);
  // The warmer takes the early reads over, but not those of a disk that does not answer. While it
  // is there, they are its own to stop.
  const bool ended = !warmer_.started() || warmer_.stop_by(deadline);
  return ended && early_.stop_by(deadline) && kept;
}

}  // namespace warmroot::bootstrap
