#include "bootstrap/warm/warmer.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <random>
#include <system_error>
#include <unordered_set>

#include "bootstrap/warm/block_device.hpp"
#include "bootstrap/warm/demand_follow.hpp"
#include "bootstrap/warm/file_finder.hpp"
#include "bootstrap/warm/fs_layout.hpp"
#include "bootstrap/warm/needed_search.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"
#include "bootstrap/warm/session_trace.hpp"
#include "bootstrap/warm/volume_file.hpp"
#include "bootstrap/warm/warm_draws.hpp"
#include "bootstrap/warm/warm_map.hpp"
#include "bootstrap/warm/warm_plan.hpp"

namespace warmroot::warm {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kProgressEvery = milliseconds(500);
/// What a kill may cost in blocks read twice (cheap: they are warm), against an fsync in the
/// session's file system; ext4 commits every 5 s by itself.
constexpr auto kSaveEvery = milliseconds(5000);
/// Saving allocates blocks, which on a cold volume cost first touches of their own. Fewer blocks
/// than this (mostly what sessions and the last save have written) are rather read again.
constexpr std::uint64_t kWorthSaving = 8;
constexpr auto kForegroundEvery = milliseconds(50);
/// A session misses a block in tens of milliseconds; looking at each read of ours costs as much CPU
/// as reading.
constexpr auto kFollowEvery = milliseconds(10);
constexpr auto kSampleEvery = milliseconds(2000);
constexpr std::size_t kSamplesAtOnce = 4;
constexpr std::size_t kSamples = 64;
/// Times the median of certainly warm reads, before reads of what the map calls present speak
/// against it.
constexpr int kFirstTouchFactor = 4;
constexpr std::size_t kDoubtsAllowed = 3;  // of 64: warm reads behind a burst of writes
constexpr std::size_t kReferenceReads = 8;
constexpr std::size_t kFirstDrawn = 8;
/// Three of four reads of a volume that may be warm are quicker. 64 at once take 22 ms at gp3's
/// 3,000 a second; of first touches one in four is as quick.
constexpr auto kMayBeWarmBelow = milliseconds(25);
constexpr double kMayBeWarmShare = 0.75;
constexpr unsigned kRounds = 3;  // of asking again what is needed: sessions allocate meanwhile
/// Half of what most volumes take: from 8 on, the search cost a hot list a tenth of a second.
constexpr unsigned kStartDepth = 16;
constexpr unsigned kExtraCapacity = 8;  // a whole block's pieces and second reads beside the depth

std::uint64_t milliseconds_since(SteadyClock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(SteadyClock::now() - start).count());
}

microseconds median(const ReadPump::Latencies& latencies) {
  std::vector<microseconds> values;
  for (const auto& latency : latencies)
    if (latency) values.push_back(*latency);
  if (values.empty()) return microseconds{0};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One run: the state that Warmer::run needs from its first line to its last.
class Run {
 public:
  Run(WarmRequest& request, const Warmer::OnProgress& on_progress, std::stop_token stop)
      : request_(request), on_progress_(on_progress), stop_(std::move(stop)) {}

  Result<WarmProgress> run();

 private:
  Ok open();
  void take_listed();
  void load_map();
  Ok take_map();
  void take_read_before();
  void look_beside();
  bool may_be_warm() const;
  void prefer_files();
  void follow_session();
  bool is_wanted(Block block);
  Result<ReadPump::End> read(std::span<const Block> order, const ReadPump::Enough& enough = {});
  Result<ReadPump::End> read_hot();
  Result<ReadPump::End> read_superblock();
  Result<ReadPump::End> read_metadata();
  Result<std::optional<std::string>> read_content(ByteRange range, ReadPump::End& end);
  std::vector<Block> absent_of(std::span<const ByteRange> ranges) const;
  bool have_ended(std::span<const Block> blocks) const;
  Result<ReadPump::End> find_needed();
  void take_answer(NeededAnswer answer);
  Result<bool> is_warm_already();
  Result<ReadPump::End> read_needed();
  Result<ReadPump::End> read_everything();
  Ok finish(ReadPump::End end);

  void on_present(Block block, microseconds latency);
  void look_at_hot();
  std::vector<Block> on_tick();
  void report(bool now);
  void update_eta(std::uint64_t interval_ms);
  void start_saving();
  void save_now();
  void take_saved(bool wait);
  std::vector<Block> random_of(const BlockSet& set, std::size_t count);
  void note(std::string text);
  std::uint64_t partition_bytes() const;
  ByteRange on_device(ByteRange in_partition) const;
  std::vector<ByteRange> on_device(std::span<const ByteRange> in_partition) const;

  WarmRequest& request_;
  const Warmer::OnProgress& on_progress_;
  std::stop_token stop_;
  SteadyClock::time_point start_ = SteadyClock::now();

  std::optional<BlockDevice> device_;
  std::optional<VolumeFile> map_file_;
  MapIdentity identity_;
  // The order matters: the engine reads from the device, the pump through the engine.
  std::unique_ptr<ReadEngine> engine_;
  std::optional<DepthControl> control_;
  std::optional<ReadPump> pump_;

  BlockSet present_;
  BlockSet read_;     // by this run
  BlockSet claimed_;  // by the map, and not disproved
  BlockSet needed_;
  std::optional<BlockSet> listed_;  // by the volume's snapshot
  BlockSet unlisted_;               // costs nothing; none while there is no list
  std::optional<BlockSet> used_;    // beside a list: by the file system, where that can tell
  BlockSet hot_;
  BlockSet files_;            // where wanted files lie, as far as it is known
  BlockSet asked_;            // for the pump; what was given up leaves it again
  bool hot_started_ = false;  // all of the hot list
  bool filling_ = false;      // what is needed is known and being read
  bool needed_known_ = false;
  std::string superblock_;  // its first bytes, once they were read
  FsSummary summary_;
  std::vector<ByteRange> metadata_;       // on the device
  std::vector<ByteRange> unused_tables_;  // on the device
  std::vector<Block> tables_;             // read while the file system is asked what is free

  WarmProgress progress_;
  LatencyHistogram first_touch_;
  LatencyHistogram warm_reads_;
  std::mt19937_64 random_{std::random_device{}()};
  std::future<Ok> saving_;
  std::optional<FileFinder> finder_;
  std::optional<SessionTrace> session_;
  DemandFollow follow_;
  std::unordered_set<Block> missed_;  // by the session
  std::uint64_t unsaved_ = 0;         // blocks
  bool map_exists_ = false;           // and is believed
  double blocks_per_ms_ = 0;
  std::uint64_t reported_present_ = 0;
  SteadyClock::time_point last_report_{};
  SteadyClock::time_point last_save_ = SteadyClock::now();
  SteadyClock::time_point last_foreground_{};
  SteadyClock::time_point last_follow_{};
  SteadyClock::time_point last_sample_ = SteadyClock::now();
};

std::uint64_t Run::partition_bytes() const {
  const std::uint64_t after =
      device_->size_bytes() - std::min(device_->size_bytes(), request_.partition_offset_bytes);
  return request_.partition_size_bytes == 0 ? after
                                            : std::min(after, request_.partition_size_bytes);
}

ByteRange Run::on_device(ByteRange in_partition) const {
  return {request_.partition_offset_bytes + in_partition.offset, in_partition.length};
}

std::vector<ByteRange> Run::on_device(std::span<const ByteRange> in_partition) const {
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : in_partition) ranges.push_back(on_device(range));
  return ranges;
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
  TRY_ASSIGN(engine_, make_read_engine(device_->fd(), limits.ceiling + kExtraCapacity));
  if (request_.depth)
    control_.emplace(std::move(*request_.depth)).hand_over(limits);
  else
    control_.emplace(limits);
  PumpEvents events;
  events.present = [this](Block block, microseconds latency) { on_present(block, latency); };
  events.not_present = [this](std::span<const Block> blocks) {
    note("one touch does not bring a block in, so blocks are read whole");
    for (const Block block : blocks) {
      if (claimed_.contains(block) || !present_.contains(block)) continue;
      present_.erase(block);
      read_.erase(block);
      --progress_.blocks_read;
    }
    for (const BlockRead& before : std::exchange(request_.read_before, {})) {
      if (before.block >= present_.size() || !read_.contains(before.block)) continue;
      present_.erase(before.block);
      read_.erase(before.block);
      --progress_.blocks_read;
    }
  };
  events.given_up = [this](Block block) { asked_.erase(block); };
  events.sampled = [this](microseconds latency) { warm_reads_.record(latency); };
  events.tick = [this] { return on_tick(); };
  events.wanted = [this](Block block) { return is_wanted(block); };
  pump_.emplace(*engine_, *control_, device_->size_bytes(), std::move(events));
  const Block blocks = grid_blocks(device_->size_bytes());
  present_ = read_ = claimed_ = needed_ = unlisted_ = hot_ = files_ = asked_ = BlockSet(blocks);
  progress_.device_blocks = blocks;
  progress_.engine = engine_->name();
  progress_.state = WarmState::running;
  take_listed();
  return {};
}

/// What the snapshot does not hold counts as present: nobody has to wait for it.
void Run::take_listed() {
  if (listed_ || !request_.listed) return;
  listed_ = request_.listed(device_->size_bytes());
  if (!listed_) return;
  CHECK(listed_->size() == present_.size());
  unlisted_.insert_range({0, device_->size_bytes()});
  unlisted_ = unlisted_.difference(*listed_);
  present_.insert_all(unlisted_);
}

/// Whatever is wrong with the map, the volume is warmed all the same, only from the start.
void Run::load_map() {
  if (request_.mount_point.empty() || request_.map_path.empty()) return;
  identity_ = {request_.volume_id, device_->size_bytes()};
  auto file = VolumeFile::at(request_.mount_point, request_.map_path, "the warm map");
  if (!file) {
    note(file.error().message());
    return;
  }
  map_file_ = std::move(*file);
  auto bytes = map_file_->load(map_bytes(identity_.device_bytes));
  if (!bytes) {
    note(bytes.error().message());
    return;
  }
  if (!*bytes) return;
  auto present = decode_map(**bytes, identity_);
  if (!present) {
    note(present.error().message());
    return;
  }
  // What is on its way arrives as read, also where the map turns out not to be believed.
  const BlockSet under_way = asked_.difference(read_);
  claimed_ = present->difference(read_).difference(unlisted_).difference(under_way);
  present_.insert_all(present->difference(under_way));
  map_exists_ = true;
}

/// Different present blocks, by trial: listing all of them would take megabytes on a large disk. A
/// nearly empty set may give fewer.
std::vector<Block> Run::random_of(const BlockSet& set, std::size_t count) {
  constexpr std::size_t kTrials = 200;  // a block
  std::vector<Block> blocks;
  if (set.size() == 0) return blocks;
  std::uniform_int_distribution<Block> any(0, set.size() - 1);
  for (std::size_t trial = 0; trial < kTrials * count && blocks.size() < count; ++trial) {
    const Block block = any(random_);
    const bool wanted = set.contains(block) && !unlisted_.contains(block) &&
                        (!needed_known_ || needed_.contains(block));
    if (wanted && std::find(blocks.begin(), blocks.end(), block) == blocks.end())
      blocks.push_back(block);
  }
  return blocks;
}

/// A map may be older than a restored snapshot, or forged: a few dozen of its blocks are read
/// again, and compared with reads that are certainly warm because they repeat others.
Ok Run::take_map() {
  load_map();
  const std::vector<Block> blocks = random_of(claimed_, kSamples);
  if (blocks.empty()) return {};
  TRY_ASSIGN(const auto latencies, pump_->sample(blocks, stop_));
  const std::size_t again = std::min(blocks.size(), kReferenceReads);
  TRY_ASSIGN(const auto reference, pump_->sample(std::span(blocks).first(again), stop_));
  const microseconds limit =
      std::max<microseconds>(kFirstTouchFrom, median(reference) * kFirstTouchFactor);
  const auto doubts = static_cast<std::size_t>(
      std::count_if(latencies.begin(), latencies.end(),
                    [limit](const auto& latency) { return latency && *latency > limit; }));
  if (doubts <= std::min(kDoubtsAllowed, blocks.size() / 2)) return {};
  note("the warm map was not believed: " + std::to_string(doubts) + " of " +
       std::to_string(latencies.size()) + " sampled blocks were cold");
  present_ = read_;
  present_.insert_all(unlisted_);
  claimed_.clear();
  for (const Block block : blocks) present_.insert(block);  // the samples were their first touches
  warm_reads_ = {};
  map_exists_ = false;
  unsaved_ = kWorthSaving;
  return {};
}

void Run::on_present(Block block, microseconds latency) {
  if (!claimed_.contains(block)) {
    present_.insert(block);
    read_.insert(block);
    first_touch_.record(latency);
    ++progress_.blocks_read;
    ++unsaved_;
  }
  if (hot_started_ && !progress_.hot_ms && hot_.contains(block)) look_at_hot();
}

void Run::look_at_hot() {
  if (hot_.difference(present_).count() == 0) progress_.hot_ms = milliseconds_since(start_);
}

/// Nothing that was read so far speaks against it.
bool Run::may_be_warm() const {
  const auto limit = static_cast<std::uint64_t>(microseconds(kMayBeWarmBelow).count());
  return first_touch_.percentile_us(kMayBeWarmShare) < limit;
}

/// Lookups in the root and the session's trace.
void Run::look_beside() {
  if (request_.mount_point.empty()) return;
  if (!request_.files.empty()) finder_.emplace(request_.mount_point, std::move(request_.files));
  if (auto session = SessionTrace::start(request_.device_path, request_.mount_point,
                                         request_.partition_offset_bytes))
    session_.emplace(std::move(*session));
}

/// What somebody read before the mount, when there was no warmer yet.
void Run::take_read_before() {
  for (const BlockRead& before : request_.read_before)
    if (before.block < present_.size() && !present_.contains(before.block))
      on_present(before.block, before.latency);
}

/// Lists and files name blocks more than once, and some of them have come in meanwhile.
bool Run::is_wanted(Block block) {
  if (present_.contains(block) || asked_.contains(block)) return false;
  asked_.insert(block);
  return true;
}

/// With `enough`, what is slow of one list is still in flight while the next is read.
Result<ReadPump::End> Run::read(std::span<const Block> order, const ReadPump::Enough& enough) {
  return pump_->read(order, stop_, enough);
}

bool Run::have_ended(std::span<const Block> blocks) const {
  return std::ranges::all_of(
      blocks, [this](Block block) { return present_.contains(block) || !asked_.contains(block); });
}

/// Before all lists: files as they are found.
void Run::prefer_files() {
  if (!finder_) return;
  const bool done = finder_->is_done();
  for (const ByteRange& range : on_device(finder_->take())) {
    const auto blocks = blocks_of(range, files_.size());
    for (const Block block : blocks) files_.insert(block);
    pump_->prefer(blocks);
  }
  if (done) finder_.reset();  // it holds the root
}

/// What the session waits for comes by itself; what it will want next comes before all else.
void Run::follow_session() {
  if (!session_) return;
  for (const ByteRange& read : session_->take())
    for (const Block block : blocks_of(read, present_.size())) {
      if (present_.contains(block) || !missed_.insert(block).second) continue;
      pump_->prefer_to_all(follow_.missed(block, present_, needed_known_ ? needed_ : BlockSet()));
    }
}

std::vector<Block> Run::absent_of(std::span<const ByteRange> ranges) const {
  BlockSet blocks(present_.size());
  for (const ByteRange& range : ranges) blocks.insert_range(range);
  return plan_reads({&blocks, &present_, {}, ranges, {}});
}

/// Before all else: sessions are waiting for these, and to look for the map in a cold file system
/// takes some first touches, too.
Result<ReadPump::End> Run::read_hot() {
  for (const Block block : request_.hot)
    if (block < hot_.size()) hot_.insert(block);
  progress_.hot_blocks = hot_.count();
  if (progress_.hot_blocks == 0) return ReadPump::End::finished;
  const BlockSet none(present_.size());
  const auto end = read(plan_reads({&none, &present_, request_.hot, {}, {}}), [] { return true; });
  hot_started_ = true;
  look_at_hot();
  return end;
}

/// Nothing where the range cannot be read, or `end` says that reading has ended.
Result<std::optional<std::string>> Run::read_content(ByteRange range, ReadPump::End& end) {
  const std::vector<Block> blocks = absent_of(std::span(&range, 1));
  TRY_ASSIGN(end, read(blocks, [&] { return have_ended(blocks); }));
  if (end != ReadPump::End::finished) return std::nullopt;
  auto content = device_->read(range);
  if (content) return std::optional(std::move(*content));
  note(content.error().message());
  return std::nullopt;
}

/// Says where the file system ends and where its own metadata is.
Result<ReadPump::End> Run::read_superblock() {
  auto end = ReadPump::End::finished;
  const ByteRange first = on_device(ByteRange{0, kSuperblockBytes});
  if (!superblock_.empty() || !says_what_is_free(request_.filesystem) ||
      first.offset + first.length > device_->size_bytes())
    return end;
  TRY_ASSIGN(auto superblock, read_content(first, end));
  if (!superblock) return end;
  superblock_ = std::move(*superblock);
  summary_ = summarise_superblock(superblock_);
  metadata_.push_back(first);
  return end;
}

/// What GETFSMAP would read one after the other, read in parallel: superblock, group descriptors,
/// bitmaps. Leaves the ranges that plan_reads wants first and last.
Result<ReadPump::End> Run::read_metadata() {
  TRY_ASSIGN(auto end, read_superblock());
  if (end != ReadPump::End::finished || summary_.descriptors.length == 0) return end;
  const ByteRange table = on_device(summary_.descriptors);
  TRY_ASSIGN(const auto descriptors, read_content(table, end));
  if (!descriptors) return end;
  const FsMetadata metadata = ext_metadata(superblock_, *descriptors);
  metadata_.push_back(table);
  for (const auto& ranges : {metadata.inode_tables, metadata.bitmaps, summary_.journal})
    for (const ByteRange& range : ranges) metadata_.push_back(on_device(range));
  unused_tables_ = on_device(metadata.unused_tables);
  tables_ = absent_of(on_device(metadata.inode_tables));
  return read(absent_of(on_device(metadata.bitmaps)), [] { return true; });
}

/// What the snapshot holds, where somebody knows it; else what the file system does not call free.
/// It is asked again each time: sessions write while the warmer reads.
Result<ReadPump::End> Run::find_needed() {
  take_listed();
  auto asked = find_needed_beside({request_.mount_point,
                                   request_.filesystem,
                                   {device_->size_bytes(),
                                    {request_.partition_offset_bytes, partition_bytes()},
                                    summary_.size_bytes}});
  const std::vector<Block> tables = std::exchange(tables_, {});
  TRY_ASSIGN(const auto end, read(tables, [&asked] {
               return asked.wait_for(milliseconds(0)) != std::future_status::timeout;
             }));
  if (end != ReadPump::End::finished) return end;
  take_answer(asked.get());
  return end;
}

void Run::take_answer(NeededAnswer answer) {
  take_listed();  // it may have come while the file system was asked
  progress_.needed_source = listed_ ? "snapshot" : answer.source;
  used_.reset();
  if (!listed_) {
    needed_ = std::move(answer.blocks);
    if (!answer.note.empty()) note(answer.note);
  } else {
    needed_ = *listed_;
    if (answer.source == "fsmap") used_ = std::move(answer.blocks);
  }
  if (!needed_known_) progress_.resumed_blocks = claimed_.intersection(needed_).count();
  needed_known_ = true;
}

/// A volume without a map may be warm all the same: a copy of one that is, or filled by EBS. Then
/// all that was read so far came fast, and so does what is drawn now. Else the draws count for
/// nothing: the pump reads those blocks again, whole where a touch is not enough.
Result<bool> Run::is_warm_already() {
  if (map_exists_ || !may_be_warm()) return false;
  const std::vector<Block> blocks = random_of(needed_.difference(present_), kSamples);
  const std::vector<Block> certain = random_of(read_.intersection(needed_), kSamples);
  if (blocks.size() < kFirstDrawn || certain.empty()) return false;
  // A few first: of a cold volume whose metadata the mount has brought in, no more are drawn.
  const std::span all(blocks);
  for (const auto drawn : {all.first(kFirstDrawn), all.subspan(kFirstDrawn)}) {
    if (drawn.empty()) break;
    std::vector<Block> in_turn;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      in_turn.insert(in_turn.end(), {drawn[i], certain[i % certain.size()]});
    TRY_ASSIGN(const auto latencies, pump_->sample(in_turn, stop_));
    const std::vector<Draw> draws = draws_of(latencies);
    if (were_present(draws)) continue;
    warm_reads_ = {};
    return false;
  }
  note("the volume was warm already, by " + std::to_string(blocks.size()) + " blocks drawn");
  claimed_.insert_all(needed_.difference(read_));
  present_.insert_all(needed_);
  unsaved_ += kWorthSaving;
  return true;
}

Result<ReadPump::End> Run::read_needed() {
  for (unsigned round = 0; round < kRounds; ++round) {
    TRY_ASSIGN(const auto found, find_needed());
    if (found != ReadPump::End::finished) return found;
    if (!std::exchange(filling_, true)) {
      TRY_ASSIGN(const bool warm, is_warm_already());
      if (warm) break;
    }
    const std::uint64_t given_up = pump_->given_up();
    const std::vector<Block> order =
        plan_reads({&needed_, &present_, {}, metadata_, unused_tables_, used_ ? &*used_ : nullptr});
    if (order.empty()) break;
    TRY_ASSIGN(const auto end, read(order));
    if (end != ReadPump::End::finished) return end;
    if (pump_->given_up() != given_up || progress_.needed_source == "whole") break;
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
  if (first_touch_.count() >= kFirstDrawn && may_be_warm() &&
      says_what_is_free(request_.filesystem)) {
    if (!std::exchange(looked_for_map, true)) TRY(take_map());
    TRY_ASSIGN(auto end, read_superblock());
    if (end == ReadPump::End::finished && !map_exists_) {
      TRY_ASSIGN(end, find_needed());
    }
    if (end != ReadPump::End::finished) return end;
    TRY_ASSIGN(const bool warm, is_warm_already());
    if (warm) return end;
  }
  look_beside();
  TRY_ASSIGN(const auto hot_end, read_hot());
  if (hot_end != ReadPump::End::finished) return hot_end;
  if (!looked_for_map) TRY(take_map());
  if (says_what_is_free(request_.filesystem)) {
    TRY_ASSIGN(const auto end, read_metadata());
    if (end != ReadPump::End::finished) return end;
  }
  TRY_ASSIGN(const auto end, read_needed());
  finder_.reset();
  if (end != ReadPump::End::finished) return end;
  TRY(pump_->sample(random_of(present_, kSamples), stop_));
  return end;
}

std::vector<Block> Run::on_tick() {
  const auto now = SteadyClock::now();
  if (now - last_foreground_ >= kForegroundEvery) {
    last_foreground_ = now;
    const auto in_flight = device_->in_flight();
    control_->foreground(in_flight && *in_flight > engine_->in_flight());
  }
  prefer_files();
  if (now - last_follow_ >= kFollowEvery) {
    last_follow_ = now;
    follow_session();
  }
  take_saved(false);
  if (unsaved_ >= kWorthSaving && now - last_save_ >= kSaveEvery) start_saving();
  report(false);
  if (now - last_sample_ < kSampleEvery) return {};
  last_sample_ = now;
  return random_of(present_, kSamplesAtOnce);
}

void Run::update_eta(std::uint64_t interval_ms) {
  const std::uint64_t present = progress_.present_blocks;
  if (interval_ms > 0 && present >= reported_present_) {
    const double rate =
        static_cast<double>(present - reported_present_) / static_cast<double>(interval_ms);
    constexpr double kNewest = 0.3;
    blocks_per_ms_ = blocks_per_ms_ == 0 ? rate : (1 - kNewest) * blocks_per_ms_ + kNewest * rate;
  }
  reported_present_ = present;
  const std::uint64_t left = progress_.needed_blocks - present;
  progress_.eta_ms.reset();
  if (progress_.state == WarmState::done)
    progress_.eta_ms = 0;
  else if (progress_.state == WarmState::running && needed_known_ && blocks_per_ms_ > 0)
    progress_.eta_ms = static_cast<std::uint64_t>(static_cast<double>(left) / blocks_per_ms_);
}

void Run::report(bool now) {
  const auto since = SteadyClock::now() - last_report_;
  if (!now && since < kProgressEvery) return;
  const auto interval = std::chrono::duration_cast<milliseconds>(since).count();
  const bool had_report = last_report_ != SteadyClock::time_point{};
  last_report_ = SteadyClock::now();
  progress_.needed_blocks = needed_known_ ? needed_.count() : 0;
  progress_.file_blocks = files_.count();
  progress_.hot_present = hot_.intersection(present_).count();
  progress_.present_blocks = needed_known_ ? needed_.intersection(present_).count() : 0;
  progress_.present_device_blocks = present_.count();
  progress_.warmth = progress_.needed_blocks == 0
                         ? 0
                         : static_cast<double>(progress_.present_blocks) /
                               static_cast<double>(progress_.needed_blocks);
  progress_.elapsed_ms = milliseconds_since(start_);
  progress_.depth = control_->depth();
  progress_.errors = pump_->errors();
  progress_.bytes_read = pump_->bytes_read();
  progress_.touch_bytes = pump_->touch_bytes();
  progress_.first_touch = first_touch_.summary();
  progress_.warm_reads = warm_reads_.summary();
  update_eta(had_report ? static_cast<std::uint64_t>(interval) : 0);
  if (on_progress_) on_progress_(progress_);
}

/// On another thread: an fsync into a cold file system takes as long as dozens of reads.
void Run::start_saving() {
  if (!map_file_ || saving_.valid()) return;
  last_save_ = SteadyClock::now();
  unsaved_ = 0;
  map_exists_ = true;
  auto save = [file = *map_file_, bytes = encode_map(identity_, present_.difference(unlisted_))] {
    return file.save(bytes);
  };
  try {
    saving_ = std::async(std::launch::async, save);
  } catch (const std::system_error&) {  // no thread to be had: then it takes its time here
    std::promise<Ok> done;
    saving_ = done.get_future();
    done.set_value(save());
  }
}

void Run::take_saved(bool wait) {
  if (!saving_.valid()) return;
  if (!wait && saving_.wait_for(milliseconds(0)) != std::future_status::ready) return;
  if (auto saved = saving_.get(); !saved) {
    note("the warm map was not saved: " + saved.error().message());
    unsaved_ += kWorthSaving;
  }
}

void Run::save_now() {
  take_saved(true);
  if (unsaved_ == 0 || (map_exists_ && unsaved_ < kWorthSaving)) return;
  start_saving();
  take_saved(true);
}

Ok Run::finish(ReadPump::End end) {
  if (finder_) finder_->stop();  // or it would look files up while the map is saved
  switch (end) {
    case ReadPump::End::finished:
      progress_.state = WarmState::done;
      break;
    case ReadPump::End::stopped:
      progress_.state = WarmState::stopped;
      break;
    case ReadPump::End::device_lost:
      progress_.state = WarmState::failed;
      note(errno_error("the device answers errors only", pump_->last_error()).message());
      break;
  }
  if (stop_.stop_requested() && progress_.state == WarmState::done &&
      !needed_.difference(present_).members().empty())
    progress_.state = WarmState::stopped;
  save_now();
  report(true);
  return {};
}

Result<WarmProgress> Run::run() {
  TRY(open());
  report(true);
  auto end = read_everything();
  if (!end) {
    progress_.state = WarmState::failed;
    note(end.error().message());
    save_now();
    report(true);
    return progress_;
  }
  TRY(finish(*end));
  return progress_;
}

}  // namespace

Result<WarmProgress> Warmer::run(std::stop_token stop, const OnProgress& on_progress) {
  Run run(request_, on_progress, std::move(stop));
  return run.run();
}

}  // namespace warmroot::warm
