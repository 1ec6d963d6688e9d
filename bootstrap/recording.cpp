#include "bootstrap/recording.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/volume_file.hpp"

namespace warmroot::bootstrap {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// What a session reads after so long is seldom what the next one waits for at its start.
constexpr std::chrono::minutes kRecordFor{10};
/// A release waits no longer to hear whether others have the list.
constexpr std::chrono::milliseconds kTakenLimit{500};
constexpr int kTakenPollMs = 20;
constexpr std::size_t kMostOwnerBytes = 256;
/// A line behind that of the volume's id, while others do not know what it has recorded.
constexpr const char* kUntold = "\nuntold\n";
/// Nodes that start beside this one, or soon after, need not wait for its end. From the first
/// session on.
constexpr std::chrono::seconds kTellAfter[] = {std::chrono::seconds{20}, std::chrono::seconds{60},
                                               std::chrono::seconds{180}};

/// What `record` has read of a list that it has added to one that was copied here: what it has not
/// read counts less than before, and lies elsewhere.
warm::HotList added_to(const warm::HotList& copied, warm::HotList list) {
  std::map<std::pair<std::uint64_t, std::string_view>, std::uint32_t> before;
  for (const warm::HotRange& range : copied.ranges)
    before[{range.device.offset / warm::kGridBytes, range.path}] = range.per_mille;
  std::erase_if(list.ranges, [&](const warm::HotRange& range) {
    const auto known = before.find({range.device.offset / warm::kGridBytes, range.path});
    return known != before.end() && range.per_mille < known->second;
  });
  // It was half of a whole of which the other half is gone.
  for (warm::HotRange& range : list.ranges)
    range.per_mille = std::min<std::uint32_t>(1000, 2 * range.per_mille);
  list.recordings = 1;
  return list;
}

}  // namespace

void Recording::prepare() {
  if (auto made = warm::BlockTrace::make(warm::BlockTrace::open_place()))
    made_trace_.emplace(std::move(*made));
}

void Recording::start(const std::string& disk_node) {
  if (recorder_) return;
  const UniqueFd disk(::open(disk_node.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!disk || ::fstat(disk.get(), &status) != 0 || !S_ISBLK(status.st_mode) ||
      ::ioctl(disk.get(), BLKGETSIZE64, &request_.device_bytes) != 0)
    return note_(errno_error("nothing is recorded: " + disk_node, errno).message());
  request_.disk = status.st_rdev;
  request_.disk_node = disk_node;
  const pid_t caller = ::gettid();
  auto recorder = warm::Recorder::start(
      request_,
      [caller, own = warm::OwnThreads()](pid_t thread) mutable {
        return thread != caller && own.contains(thread);
      },
      std::move(made_trace_));
  made_trace_.reset();
  if (!recorder) return note_(recorder.error().message());
  recorder_.emplace(std::move(*recorder));
}

void Recording::mounted(const std::string& mount_point, std::uint64_t partition_offset,
                        const std::string& volume_id, const std::string& filesystem_uuid) {
  request_.mount_point = mount_point;
  filesystem_uuid_ = filesystem_uuid;
  // Recognised again by its device: once the root is gone, nothing is saved to what lies below.
  if (auto file = warm::VolumeFile::at(mount_point, kVolumeHotList, "the hot list")) {
    file_.emplace(std::move(*file));
    volume_id_ = volume_id;
    read_owner(mount_point);
    const auto bytes = file_->load(warm::kMostListBytes);
    if (!bytes) note_(bytes.error().message());
    if (bytes && *bytes) {
      auto own = warm::decode_hot_list(**bytes);
      if (!own) note_(own.error().message());
      const std::lock_guard lock(mutex_);
      if (own) own_ = std::move(*own);
      // Nobody can tell it from another volume with the same list.
      if (volume_id_.empty()) has_taught_ = was_used_ = own_.has_value();
      if (own_ && is_copied_)
        note_("the volume's hot list was written on another file system: only its files count");
    }
  }
  if (!recorder_) return;
  if (const auto watched = recorder_->watch_files(mount_point, partition_offset); !watched)
    note_(watched.error().message());
  if (recorder_->source().empty()) return recorder_.reset();
  note_("recording from " + recorder_->source());
  std::promise<void> ended;
  ended_ = ended.get_future();
  thread_ = std::jthread([this, ended = std::move(ended)](std::stop_token stop) mutable {
    run(stop);
    ended.set_value();
  });
}

/// A snapshot may hold the list of the volume that it was made of: each of its children would count
/// as used before, and what they read would never reach the others.
void Recording::read_owner(const std::string& mount_point) {
  auto file = warm::VolumeFile::at(mount_point, kVolumeHotListOf, "the hot list's volume");
  if (!file || volume_id_.empty()) return;
  owner_.emplace(std::move(*file));
  if (const auto text = owner_->load(kMostOwnerBytes); text && *text) owner_text_ = **text;
  const bool is_ours = owner_text_.starts_with(volume_id_ + "\n");
  has_taught_ = is_ours && owner_text_.find(kUntold) == std::string::npos;
  const std::lock_guard lock(mutex_);
  was_used_ = is_ours;
  const bool is_here = !filesystem_uuid_.empty() && owner_text_.ends_with(filesystem_line());
  const bool says_where =
      owner_text_.empty() || owner_text_.find("\nfilesystem ") != std::string::npos;
  is_copied_ = !is_ours && !is_here && says_where;
}

/// Nothing where the file system has no UUID.
std::string Recording::filesystem_line() const {
  return filesystem_uuid_.empty() ? std::string() : "filesystem " + filesystem_uuid_ + "\n";
}

Ok Recording::write_owner(bool has_taught) {
  std::string text = volume_id_ + (has_taught ? "\n" : kUntold) + filesystem_line();
  if (!owner_ || text == owner_text_) return {};
  TRY(owner_->save(text));
  owner_text_ = std::move(text);
  return {};
}

Ok Recording::take(std::string_view list) {
  TRY_ASSIGN(auto taken, warm::decode_hot_list(list));
  const std::lock_guard lock(mutex_);
  told_ = std::move(taken);
  return {};
}

void Recording::made_from(const std::string& volume_id, const std::string& snapshot_id) {
  const std::lock_guard lock(mutex_);
  lineage_of_ = volume_id;
  lineage_ = snapshot_id;
}

/// With its lineage, as far as that is known.
std::string Recording::encoded(warm::HotList list) const {
  const std::lock_guard lock(mutex_);
  if (!lineage_.empty() && lineage_of_ == volume_id_) list.lineage = lineage_;
  return warm::encode_hot_list(list);
}

bool Recording::was_told() const {
  const std::lock_guard lock(mutex_);
  return told_.has_value();
}

bool Recording::was_used() const {
  const std::lock_guard lock(mutex_);
  return was_used_;
}

Ok Recording::take_elsewhere(std::string_view list) {
  TRY_ASSIGN(const auto taken, warm::decode_hot_list(list));
  const std::lock_guard lock(mutex_);
  elsewhere_ = warm::hot_files(taken);
  return {};
}

std::vector<warm::WantedFile> Recording::files_elsewhere() const {
  const std::lock_guard lock(mutex_);
  if (!elsewhere_.empty()) return elsewhere_;
  if (is_foreign_locked()) return warm::hot_files(*told_);
  return own_ && is_copied_ ? warm::hot_files(*own_) : elsewhere_;
}

/// Who has changed the lineage's tag of a volume may have made it another's.
bool Recording::is_foreign_locked() const {
  return told_ && !told_->lineage.empty() && !lineage_.empty() && told_->lineage != lineage_;
}

std::optional<std::string> Recording::foreign_lineage() const {
  const std::lock_guard lock(mutex_);
  return is_foreign_locked() ? std::optional(told_->lineage) : std::nullopt;
}

/// The one to begin with first.
std::vector<warm::HotList> Recording::lists() const {
  const std::lock_guard lock(mutex_);
  std::vector<warm::HotList> lists;
  for (const auto* list : {was_used_ ? &own_ : &told_, was_used_ ? &told_ : &own_})
    if (*list && !(list == &told_ ? is_foreign_locked() : is_copied_)) lists.push_back(**list);
  return lists;
}

std::vector<warm::Block> Recording::hot_blocks(std::uint64_t device_bytes) const {
  const warm::Block size = warm::grid_blocks(device_bytes);
  std::vector<warm::Block> blocks;
  warm::BlockSet taken(size);
  for (const warm::HotList& list : lists())
    for (const warm::Block block : warm::hot_blocks(list, size)) {
      if (taken.contains(block)) continue;
      taken.insert(block);
      blocks.push_back(block);
    }
  return blocks;
}

std::size_t Recording::ranges_beyond(std::uint64_t device_bytes) const {
  std::size_t beyond = 0;
  for (const warm::HotList& list : lists())
    beyond += static_cast<std::size_t>(std::ranges::count_if(
        list.ranges,
        [&](const warm::HotRange& range) { return range.device.offset >= device_bytes; }));
  return beyond;
}

/// Shells before that were logins that we have tried. Where opened files cannot be watched,
/// somebody always comes.
bool Recording::somebody_came() {
  if (!open_) return false;
  if (!std::exchange(saw_open_, true)) return false;  // what was opened before is still to be taken
  const auto shells = recorder_->shells_opened();
  if (shells && !shells_before_) {
    shells_before_ = shells;
    note_("waiting for the first session");
  }
  return !shells || *shells > *shells_before_;
}

void Recording::run(const std::stop_token& stop) {
  std::optional<SteadyClock::time_point> first;
  const auto* tell = std::begin(kTellAfter);
  while (!stop.stop_requested() && (!first || SteadyClock::now() < *first + kRecordFor)) {
    if (first && tell != std::end(kTellAfter) && SteadyClock::now() >= *first + *tell) {
      ++tell;
      if (const auto list = recorder_->list(); !has_taught_ && !list.ranges.empty())
        recorded_(encoded(list), true, [](bool) {});
    }
    ::poll(nullptr, 0, warm::kRecordPollMs);
    if (const auto taken = recorder_->poll(); !taken) {
      note_(taken.error().message());
      break;
    }
    if (!first && somebody_came()) first = SteadyClock::now();
  }
  // The last moments count, too.
  if (recorder_->poll() && !first && somebody_came()) first = SteadyClock::now();
  if (first) return save(stop);
  recorder_.reset();
  note_("nobody came: nothing was kept");
  // A list that its snapshot brought along would count as the volume's own from then on.
  if (was_used_ || !own_) std::ignore = write_owner(has_taught_);
}

void Recording::save(const std::stop_token& stop) {
  warm::HotList list = recorder_->list();
  const std::string source = recorder_->source();
  recorder_.reset();
  if (list.ranges.empty()) return;
  enum class Answer { none, yes, no };
  const auto answer = std::make_shared<std::atomic<Answer>>(Answer::none);
  if (!has_taught_)
    recorded_(encoded(list), false,
              [answer](bool taken) { *answer = taken ? Answer::yes : Answer::no; });
  auto before = lists();
  before.resize(std::min<std::size_t>(before.size(), 1));
  // `record` may have added to the volume's list since the mount.
  if (const auto bytes = file_ ? file_->load(warm::kMostListBytes) : std::nullopt; bytes && *bytes)
    if (auto now = warm::decode_hot_list(**bytes); now && (was_used_ || *now != own_))
      before.assign(1, is_copied_ && own_ ? added_to(*own_, std::move(*now)) : std::move(*now));
  before.push_back(std::move(list));
  list = warm::merge_hot_lists(before);
  // A list without its volume counts as one that was copied here. One that the snapshot brought
  // along is not to become the volume's own.
  if (was_used_ || !own_) std::ignore = write_owner(has_taught_);
  const Ok saved =
      file_ ? file_->save(encoded(list)) : Ok{fail(ErrorKind::gone, "the root is not mounted")};
  note_(saved ? "kept " + std::to_string(list.ranges.size()) + " ranges of " +
                    std::to_string(list.recordings) + " recordings; this one from " + source
              : "the hot list was not kept: " + saved.error().message());
  if (!saved || !write_owner(has_taught_) || has_taught_) return;
  std::optional<SteadyClock::time_point> limit;
  while (*answer == Answer::none && (!limit || SteadyClock::now() < *limit)) {
    if (!limit && stop.stop_requested()) limit = SteadyClock::now() + kTakenLimit;
    ::poll(nullptr, 0, limit ? kTakenPollMs : warm::kRecordPollMs);
  }
  if (*answer == Answer::yes) std::ignore = write_owner(true);
}

bool Recording::finish(std::chrono::milliseconds limit) {
  made_trace_.reset();  // no disk came to it
  thread_.request_stop();
  if (thread_.joinable() && ended_.wait_for(limit) != std::future_status::ready) return false;
  if (thread_.joinable()) thread_.join();
  recorder_.reset();
  return true;
}

}  // namespace warmroot::bootstrap
