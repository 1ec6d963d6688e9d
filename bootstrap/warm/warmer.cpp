#include "bootstrap/warm/warmer.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <tuple>
#include <utility>

#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/claim_trial.hpp"
#include "bootstrap/warm/eta_estimate.hpp"
#include "bootstrap/warm/first_touches.hpp"
#include "bootstrap/warm/hot_reads.hpp"
#include "bootstrap/warm/list_reader.hpp"
#include "bootstrap/warm/map_keeper.hpp"
#include "bootstrap/warm/needed_search.hpp"
#include "bootstrap/warm/needed_set.hpp"
#include "bootstrap/warm/own_threads.hpp"
#include "bootstrap/warm/presence.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"
#include "bootstrap/warm/root_metadata.hpp"
#include "bootstrap/warm/session_wishes.hpp"
#include "bootstrap/warm/warm_plan.hpp"

namespace warmroot::warm {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kProgressEvery = milliseconds(500);
constexpr auto kForegroundEvery = milliseconds(50);
constexpr auto kSampleEvery = milliseconds(2000);
constexpr auto kLateEvery = milliseconds(1000);
constexpr std::size_t kSamplesAtOnce = 4;
/// No law of EBS has first touches that take so long; stalls of a minute are known.
constexpr auto kStalled = milliseconds(10'000);
constexpr std::uint64_t kMib = 1024 * 1024;
constexpr unsigned kRounds = 3;  // of asking again what is needed: sessions allocate meanwhile
/// The tags that lookups may hold beside those of depth_limits: a tenth, an old disk has 32.
constexpr unsigned kLookupsPart = 10;
constexpr unsigned kFewestLookups = 2;
/// Half of what most volumes take: from 8 on, the search cost a hot list a tenth of a second.
constexpr unsigned kStartDepth = 16;
constexpr const char* kReadWhole = "one touch does not bring a block in, so blocks are read whole";

std::uint64_t milliseconds_since(SteadyClock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(SteadyClock::now() - start).count());
}

/// One run: the state that Warmer::run needs from its first line to its last.
class Run {
 public:
  Run(WarmRequest& request, const Warmer::OnProgress& on_progress, std::stop_token stop)
      : request_(request), on_progress_(on_progress), stop_(std::move(stop)) {}

  Result<WarmProgress> run();

 private:
  Ok open();
  void look_for_map();
  Ok take_map();
  void take_read_before();
  std::vector<Block> disbelieve_read_before();
  Result<ReadPump::End> find_needed();
  Result<ReadPump::End> read_needed();
  Result<ReadPump::End> read_what_is_left();
  Result<ReadPump::End> read_everything();
  void finish(ReadPump::End end);
  void tell_end();
  void hear_late_list();

  void on_present(Block block, microseconds latency);
  std::vector<Block> on_tick();
  void report(bool now);
  void note(std::string text);
  bool reaches(Block block);
  std::uint64_t partition_bytes() const;

  WarmRequest& request_;
  const Warmer::OnProgress& on_progress_;
  std::stop_token stop_;
  SteadyClock::time_point start_ = SteadyClock::now();

  std::optional<BlockDevice> device_;
  std::uint64_t end_bytes_ = UINT64_MAX;  // of a device that has become smaller
  // The order matters: the engine reads from the device, the pump through the engine, and all that
  // follow through the pump.
  std::unique_ptr<ReadEngine> engine_;
  std::optional<DepthControl> control_;
  std::optional<ReadPump> pump_;

  Presence presence_;
  std::optional<ListReader> reader_;
  std::optional<RootMetadata> metadata_;
  std::optional<NeededSet> needed_;
  BlockSet given_up_;     // by any round; a later one may have read them
  bool filling_ = false;  // what is needed is known and being read
  bool is_over_ = false;  // but for a late hot list

  WarmProgress progress_;
  FirstTouches first_touches_;
  LatencyHistogram warm_reads_;
  MapKeeper map_{start_, [this](std::string text) { note(std::move(text)); }};
  std::optional<ClaimTrial> trial_;
  std::optional<SessionWishes> wishes_;
  std::optional<HotReads> hot_;
  EtaEstimate eta_;
  SteadyClock::time_point last_report_{};
  SteadyClock::time_point last_foreground_{};
  SteadyClock::time_point last_sample_ = SteadyClock::now();
};

std::uint64_t Run::partition_bytes() const {
  const std::uint64_t after =
      device_->size_bytes() - std::min(device_->size_bytes(), request_.partition_offset_bytes);
  return request_.partition_size_bytes == 0 ? after
                                            : std::min(after, request_.partition_size_bytes);
}

/// EBS volumes only grow; whatever else makes a disk smaller, nothing is lost by not reading on.
bool Run::reaches(Block block) {
  // One without any bytes has not become smaller, it is gone.
  if (const std::uint64_t now = device_->size_now(); now > 0 && now < device_->size_bytes()) {
    if (end_bytes_ == UINT64_MAX)
      note("the device has become smaller: " + std::to_string(device_->size_bytes()) + " bytes, " +
           std::to_string(now) + " now");
    end_bytes_ = now;
  }
  return std::uint64_t{block} * kGridBytes < end_bytes_;
}

/// Notes add up: what was unexpected stays visible.
void Run::note(std::string text) {
  if (progress_.note.find(text) != std::string::npos) return;
  if (!progress_.note.empty()) progress_.note += "; ";
  progress_.note += text;
}

Ok Run::open() {
  TRY_ASSIGN(device_, BlockDevice::open(request_.device_path));
  DepthLimits limits = depth_limits(request_.max_depth, device_->tags());
  limits.start = std::min(limits.ceiling, kStartDepth);
  TRY_ASSIGN(engine_, make_read_engine(device_->fd(), limits.ceiling + ReadPump::kExtraCapacity));
  if (request_.depth)
    control_.emplace(std::move(*request_.depth))
        .hand_over(limits, static_cast<unsigned>(request_.under_way.size()));
  else
    control_.emplace(limits);
  PumpEvents events;
  events.present = [this](Block block, microseconds latency) { on_present(block, latency); };
  events.not_present = [this](std::span<const Block> blocks) {
    note(kReadWhole);
    for (const Block block : blocks)
      if (presence_.erase_read(block)) --progress_.blocks_read;
    const std::vector<Block> before = disbelieve_read_before();
    hot_->went();
    return before;
  };
  events.exists = [this](Block block) { return reaches(block); };
  // The kernel answers reads of a disk that was taken away as those of a bad sector: EIO.
  events.has_gone = [this] { return device_->size_now() == 0; };
  events.given_up = [this](Block block) {
    given_up_.insert(block);
    wishes_->give_up(block);
    reader_->give_up(block);
  };
  events.sampled = [this](microseconds latency) { warm_reads_.record(latency); };
  events.tick = [this] { return on_tick(); };
  events.wanted = [this](Block block) {
    return std::uint64_t{block} * kGridBytes < end_bytes_ && reader_->is_wanted(block);
  };
  pump_.emplace(*engine_, *control_, device_->size_bytes(), std::move(events),
                RateCap(std::uint64_t{request_.max_mib_s} * kMib));
  if (request_.read_whole) {
    pump_->read_whole();
    note(kReadWhole);
  }
  const Block blocks = grid_blocks(device_->size_bytes());
  presence_ = Presence(blocks);
  given_up_ = BlockSet(blocks);
  reader_.emplace(*pump_, presence_, stop_);
  const auto on_note = [this](std::string text) { note(std::move(text)); };
  const ByteRange partition = {request_.partition_offset_bytes, partition_bytes()};
  metadata_.emplace(*reader_, *device_, request_.filesystem, partition, on_note);
  const RootGeometry geometry = {device_->size_bytes(), partition};
  needed_.emplace(NeededQuestion{request_.mount_point, request_.filesystem, geometry},
                  std::move(request_.listed), presence_, *reader_, *metadata_, on_note);
  trial_.emplace(ClaimTrial::Parts{*engine_, *pump_, *reader_, presence_, *needed_, map_,
                                   first_touches_, warm_reads_},
                 stop_, on_note);
  const unsigned tags = device_->tags().value_or(kLookupsPart * FileFinder::kMostLookups);
  wishes_.emplace(*pump_, blocks, request_.partition_offset_bytes,
                  std::clamp(tags / kLookupsPart, kFewestLookups, FileFinder::kMostLookups),
                  on_note);
  hot_.emplace(HotReads::Parts{*control_, *pump_, *reader_, presence_, *wishes_, progress_}, start_,
               std::move(request_.late_hot));
  progress_.device_blocks = blocks;
  progress_.engine = engine_->name();
  progress_.state = WarmState::running;
  needed_->take_listed();
  return {};
}

/// A volume that nobody can name may be another one next time: of it no map is kept.
void Run::look_for_map() {
  map_.look(request_.mount_point, request_.volume_id.empty() ? std::string() : request_.map_path,
            {request_.volume_id, device_->size_bytes()});
}

Ok Run::take_map() {
  look_for_map();
  return trial_->try_map();
}

void Run::on_present(Block block, microseconds latency) {
  if (presence_.insert_read(block)) {
    first_touches_.record(latency, pump_->sees_late());
    ++progress_.blocks_read;
    map_.count_block();
  }
  hot_->came(block);
}

/// What somebody read before the mount, when there was no warmer yet.
void Run::take_read_before() {
  for (const BlockRead& before : request_.read_before)
    if (before.block < presence_.size() && !presence_.contains(before.block))
      on_present(before.block, before.latency);
}

/// The list in hand was planned without them. Those that a later list has named are asked for.
std::vector<Block> Run::disbelieve_read_before() {
  std::vector<Block> again;
  for (const BlockRead& before : std::exchange(request_.read_before, {})) {
    if (before.block >= presence_.size() || !presence_.erase_read(before.block)) continue;
    --progress_.blocks_read;
    if (reader_->is_wanted(before.block)) again.push_back(before.block);
  }
  return again;
}

Result<ReadPump::End> Run::find_needed() {
  const bool first = !needed_->is_known();
  TRY_ASSIGN(const auto end, needed_->find());
  if (end != ReadPump::End::finished) return end;
  progress_.needed_source = needed_->source();
  if (first) progress_.resumed_blocks = presence_.claimed().intersection(needed_->blocks()).count();
  return end;
}

Result<ReadPump::End> Run::read_needed() {
  bool once_more = true;  // for what an outage of some seconds made us give up
  for (unsigned round = 0; round < kRounds; ++round) {
    TRY_ASSIGN(const auto found, find_needed());
    if (found != ReadPump::End::finished) return found;
    if (!std::exchange(filling_, true)) {
      TRY_ASSIGN(const bool warm, trial_->is_warm_already());
      if (warm) break;
    }
    const std::uint64_t given_up = pump_->given_up();
    const std::vector<Block> order = plan_reads({&needed_->blocks(),
                                                 &presence_.present(),
                                                 {},
                                                 metadata_->ranges(),
                                                 metadata_->unused_tables(),
                                                 needed_->used()});
    if (order.empty()) break;
    TRY_ASSIGN(const auto end, reader_->read(order));
    if (end != ReadPump::End::finished) return end;
    if (pump_->given_up() != given_up) {
      if (!std::exchange(once_more, false)) break;
      continue;
    }
    if (progress_.needed_source == "whole") break;
  }
  return ReadPump::End::finished;
}

Result<ReadPump::End> Run::read_everything() {
  // A volume that was used before is mostly warm: what its map vouches for was no first touch. One
  // that was not has no map to look for.
  bool looked_for_map = request_.used_before;
  if (looked_for_map) TRY(take_map());
  take_read_before();
  // A session on a warm volume must not feel us: no lists and no lookups before that is known.
  if (first_touches_.count() >= ClaimTrial::kFirstDrawn && first_touches_.may_be_warm() &&
      says_what_is_free(request_.filesystem)) {
    if (!std::exchange(looked_for_map, true)) TRY(take_map());
    TRY_ASSIGN(auto end, metadata_->read_superblock());
    // Before the kernel is asked what is free: it would fetch the bitmaps one by one, and of a
    // volume that EBS has filled in part they are cold.
    if (end == ReadPump::End::finished && !map_.exists()) {
      TRY_ASSIGN(end, metadata_->read());
    }
    if (end == ReadPump::End::finished && !map_.exists() && first_touches_.may_be_warm()) {
      TRY_ASSIGN(end, find_needed());
    }
    if (end != ReadPump::End::finished) return end;
    TRY_ASSIGN(const bool warm, trial_->is_warm_already());
    // What of it the needed blocks do not cover, and that it is there.
    if (warm) return hot_->read(std::move(request_.hot), request_.under_way);
  }
  wishes_->expect(request_.hot);
  wishes_->expect(request_.under_way);
  wishes_->start(request_.device_path, request_.mount_point, std::move(request_.files),
                 std::move(request_.guess), !request_.hot.empty());
  // Before the map, which in a cold file system takes some first touches to look for.
  TRY_ASSIGN(const auto hot_end, hot_->read(std::move(request_.hot), request_.under_way));
  if (hot_end != ReadPump::End::finished) return hot_end;
  if (!looked_for_map) look_for_map();
  if (!looked_for_map && trial_->has_looked_for_map()) {
    looked_for_map = true;
    TRY(take_map());
  }
  if (says_what_is_free(request_.filesystem)) {
    TRY_ASSIGN(const auto end, metadata_->read());
    if (end != ReadPump::End::finished) return end;
  }
  if (!looked_for_map) TRY(take_map());
  TRY_ASSIGN(const auto end, read_needed());
  if (end != ReadPump::End::finished) return end;
  wishes_->stop_lookups();  // one may hang for a minute: that is waited for behind the map's saving
  TRY(pump_->sample(trial_->random_of(presence_.present(), ClaimTrial::kSamples), stop_));
  return end;
}

/// A hot list names what nobody needs, too, as what lies outside the partition or was freed since.
/// It may be on its way still, and what was told while present blocks were sampled is not asked for
/// yet.
Result<ReadPump::End> Run::read_what_is_left() {
  TRY_ASSIGN(const auto end, reader_->read({}, [this] { return reader_->have_all_ended(); }));
  // All that is needed was read, or given up, before somebody asked to stop.
  return end == ReadPump::End::stopped ? ReadPump::End::finished : end;
}

std::vector<Block> Run::on_tick() {
  const auto now = SteadyClock::now();
  if (now - last_foreground_ >= kForegroundEvery || control_->waits_for_others()) {
    last_foreground_ = now;
    const unsigned ours = engine_->in_flight();
    if (const auto all = device_->in_flight())
      control_->others_in_flight(*all - std::min(*all, ours));
    hot_->take_late();
  }
  const BlockSet any;
  wishes_->prefer(now, presence_.present(), needed_->is_known() ? needed_->blocks() : any,
                  hot_->is_being_read());
  map_.keep_up(now, wishes_->at_rest_since(), presence_);
  report(false);
  if (now - last_sample_ < kSampleEvery) return {};
  last_sample_ = now;
  return trial_->random_of(presence_.present(), kSamplesAtOnce);
}

void Run::report(bool now) {
  const auto since = SteadyClock::now() - last_report_;
  if (!now && since < kProgressEvery) return;
  const auto interval = std::chrono::duration_cast<milliseconds>(since).count();
  last_report_ = SteadyClock::now();
  progress_.needed_blocks = needed_->is_known() ? needed_->blocks().count() : 0;
  progress_.file_blocks = wishes_->files().count();
  hot_->count();
  progress_.present_blocks =
      needed_->is_known() ? needed_->blocks().intersection(presence_.present()).count() : 0;
  progress_.present_device_blocks = presence_.present().count();
  progress_.warmth = progress_.needed_blocks == 0
                         ? 0
                         : static_cast<double>(progress_.present_blocks) /
                               static_cast<double>(progress_.needed_blocks);
  if (!is_over_) progress_.elapsed_ms = milliseconds_since(start_);
  progress_.depth = control_->found();
  progress_.errors = pump_->errors();
  if (pump_->longest_in_flight() >= kStalled) note("a read took more than 10 s, or still does");
  progress_.bytes_read = pump_->bytes_read();
  progress_.touch_bytes = pump_->touch_bytes();
  progress_.first_touch = first_touches_.summary();
  progress_.warm_reads = warm_reads_.summary();
  eta_.update(needed_->is_known() ? std::optional(progress_.present_blocks) : std::nullopt,
              static_cast<std::uint64_t>(interval));
  progress_.eta_ms.reset();
  if (progress_.state == WarmState::done)
    progress_.eta_ms = 0;
  else if (progress_.state == WarmState::running && needed_->is_known())
    progress_.eta_ms = eta_.ms_for(progress_.needed_blocks - progress_.present_blocks);
  if (on_progress_) on_progress_(progress_);
}

/// Before the map is saved, which may take a stall's minute.
void Run::tell_end() {
  report(true);
  // On a disk that has gone every write fails.
  if (!pump_->has_gone() && map_.save_now(presence_)) report(true);
}

void Run::finish(ReadPump::End end) {
  wishes_->stop_lookups();  // or it would look files up while the map is saved
  // Also in what was read last, or before any read has failed of it: who asks to stop may know.
  if (pump_->has_gone()) end = ReadPump::End::device_lost;
  switch (end) {
    case ReadPump::End::finished:
      progress_.state = WarmState::done;
      break;
    case ReadPump::End::stopped:
      progress_.state = WarmState::stopped;
      break;
    case ReadPump::End::device_lost:
      progress_.state = WarmState::failed;
      note(pump_->has_gone()
               ? "the disk is gone"
               : errno_error("the device answers errors only", pump_->last_error()).message());
      break;
  }
  const Block unread = given_up_.difference(presence_.present()).count();
  if (unread > 0 && progress_.state != WarmState::failed)
    note(std::to_string(unread) + " blocks could not be read: " +
         errno_error("the last error", pump_->last_error()).message());
  if (stop_.stop_requested() && progress_.state == WarmState::done &&
      !needed_->blocks().difference(presence_.present()).members().empty())
    progress_.state = WarmState::stopped;
  tell_end();
}

/// With a full map a run takes a second or three; a manager that was away at the mount answers
/// later. What of its list is there was there by the end; what is not is read, if it can be.
void Run::hear_late_list() {
  if (progress_.state != WarmState::done || !hot_->waits_for_late()) return;
  wishes_->end();
  is_over_ = true;
  const bool was_there = progress_.hot_ms.has_value();
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  for (hot_->take_late(); hot_->waits_for_late(); hot_->take_late())
    if (stopped.wait_for(lock, stop_, kLateEvery, [this] { return stop_.stop_requested(); }))
      return;
  if (progress_.hot_ms && !was_there) progress_.hot_ms = progress_.elapsed_ms;
  std::ignore = read_what_is_left();
  tell_end();
}

Result<WarmProgress> Run::run() {
  enlist_own_thread();
  TRY(open());
  if (request_.set_up) request_.set_up();
  report(true);
  auto end = read_everything();
  if (end && *end == ReadPump::End::finished && !stop_.stop_requested()) end = read_what_is_left();
  if (!end) {
    progress_.state = WarmState::failed;
    note(end.error().message());
    tell_end();
    return progress_;
  }
  finish(*end);
  hear_late_list();
  return progress_;
}

}  // namespace

Result<WarmProgress> Warmer::run(std::stop_token stop, const OnProgress& on_progress) {
  Run run(request_, on_progress, std::move(stop));
  return run.run();
}

}  // namespace warmroot::warm
