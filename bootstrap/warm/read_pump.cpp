#include "bootstrap/warm/read_pump.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <tuple>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/warm/first_touches.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Short enough that a stop request is seen and foreground I/O is noticed in time.
constexpr auto kLongestWait = milliseconds(20);
constexpr auto kRetryAfter = milliseconds(1000);  // an attempt; EBS stalls and resets take seconds
/// So many failures in a row are the device's, not a block's: one read a second until it answers
/// again, of another block than those.
constexpr std::uint64_t kDeviceFails = 8;
constexpr auto kProbeFailingEvery = milliseconds(1000);
constexpr auto kLostAfter = milliseconds(10'000);  // an NVMe controller reset takes 8 s
/// A sample of a volume that is being looked at must not wait for a stalled read.
constexpr auto kSampleTime = milliseconds(1000);
constexpr unsigned kSamplesInFlight = 4;
/// A session that has just missed something is about to miss more.
constexpr auto kQuietAfter = milliseconds(1000);  // the last wish
constexpr unsigned kProbesInFlight = 4;           // reads; each try is two

std::uint64_t mixed(
    std::uint64_t value) {  // splitmix64's finaliser: which page of a block to sample
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

microseconds since_epoch() {
  return std::chrono::duration_cast<microseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

std::uint64_t ReadPump::block_bytes(Block block) const {
  return std::min(kGridBytes, device_bytes_ - std::uint64_t{block} * kGridBytes);
}

bool ReadPump::is_failing() const {
  return errors_in_a_row_ >= kDeviceFails;
}

bool ReadPump::is_lost() const {
  if (gone_ || last_error_ == ENODEV || last_error_ == ENXIO || last_error_ == EBADF) return true;
  return is_failing() && SteadyClock::now() - first_error_ >= kLostAfter;
}

bool ReadPump::is_started() const {
  return next_ == blocks_.size() && !has_preferred() && again_.empty();
}

bool ReadPump::is_done() const {
  return is_started() && retries_.empty() && samples_.empty() && engine_.in_flight() == 0;
}

/// Retries that are due come before new blocks, so that one bad block cannot hide until the end;
/// but what has failed tells nothing of a device that fails.
std::optional<Block> ReadPump::next_block() {
  const bool waits = is_failing() && !is_started();
  if (!waits && !retries_.empty() && retries_.front().due <= SteadyClock::now()) {
    const Block block = retries_.front().block;
    retries_.pop_front();
    return block;
  }
  if (!again_.empty()) {
    const Block block = again_.front();
    again_.pop_front();
    return block;
  }
  for (auto block = next_listed(); block; block = next_listed())
    if (!events_.wanted || events_.wanted(*block)) return block;
  return std::nullopt;
}

std::optional<Block> ReadPump::next_preferred() {
  if (!preferred_.empty()) {
    const Block block = preferred_.front();
    preferred_.pop_front();
    return block;
  }
  if (ranked_.empty()) return std::nullopt;
  const Block block = ranked_.top().block;
  ranked_.pop();
  return block;
}

/// Of a device that fails a list's last is as good a probe as any, and not beside what has failed.
std::optional<Block> ReadPump::next_listed() {
  if (is_failing() && next_ < blocks_.size()) {
    const Block block = blocks_.back();
    blocks_ = blocks_.first(blocks_.size() - 1);
    return block;
  }
  if (const auto block = next_preferred()) return block;
  if (next_ < blocks_.size()) return blocks_[next_++];
  return std::nullopt;
}

bool ReadPump::start(const Flight& flight, std::uint64_t within, std::uint32_t length) {
  const Block block = flight.block;
  // A device may end within a block and within a page; direct reads want whole sectors.
  const std::uint64_t left = block_bytes(block) - std::min(block_bytes(block), within);
  length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, left / kSector * kSector));
  if (length == 0) return false;
  const std::size_t tag = free_flights_.back();
  free_flights_.pop_back();
  flights_[tag] = flight;
  started_.push_back({tag, std::uint64_t{block} * kGridBytes + within, length});
  bytes_read_ += length;
  return true;
}

void ReadPump::start_block(Block block) {
  if (!whole_blocks_) {
    if (!start({Kind::touch, block}, 0, kTouchBytes)) block_ended(block, 0, {});
    return;
  }
  Whole whole;
  for (std::uint64_t within = 0; within < block_bytes(block); within += kPieceBytes)
    whole.left += start({Kind::piece, block}, within, kPieceBytes) ? 1 : 0;
  if (whole.left == 0)
    block_ended(block, 0, {});
  else
    wholes_[block] = whole;
}

Ok ReadPump::submit_started() {
  if (started_.empty()) return {};
  const auto now = SteadyClock::now();
  for (const ReadRequest& request : started_) {
    Flight& flight = flights_[request.tag];
    flight.since = now;
    flight.of_rest = long_batches_.is_on();
  }
  auto submitted = engine_.submit(started_);
  started_.clear();
  return submitted;
}

Ok ReadPump::fill(const std::stop_token& stop) {
  if (stop.stop_requested()) return {};
  const bool failing = is_failing();
  if (failing && SteadyClock::now() - latest_error_ < kProbeFailingEvery) return {};
  const bool is_asked = samples_in_flight_ > 0 || !samples_.empty();
  if (failing && came_ && !is_asked) samples_.push_back(*came_);
  const unsigned pieces = whole_blocks_ ? kGridBytes / kPieceBytes : 1;
  const unsigned wanted = control_.depth() + batch_.beyond;
  const unsigned depth = failing ? 1 : std::min(wanted, engine_.capacity());
  const auto now = since_epoch();
  unsigned in_flight = engine_.in_flight();
  while (!samples_.empty() && in_flight < depth) {
    const Block block = samples_.front();
    samples_.pop_front();
    const std::uint64_t pages = std::max<std::uint64_t>(block_bytes(block) / kTouchBytes, 1);
    const std::uint64_t page = mixed(block + next_) % pages;
    if (!start({Kind::sample, block}, page * kTouchBytes, kTouchBytes)) continue;
    ++in_flight;
    ++samples_in_flight_;
  }
  // A whole block may exceed the depth by its last pieces, never the engine's room.
  while (in_flight < depth && (free_flights_.size() >= pieces)) {
    const bool at_end = is_started() && retries_.empty();
    if (!at_end && !cap_.take(now, kGridBytes)) break;
    const auto block = at_end ? std::nullopt : next_block();
    if (!block) {
      control_.interrupted();
      break;
    }
    const std::size_t before = started_.size();
    start_block(*block);
    in_flight += static_cast<unsigned>(started_.size() - before);
  }
  return submit_started();
}

void ReadPump::ended(const ReadResult& result) {
  const Flight flight = flights_[result.tag];
  flights_[result.tag].since = {};
  free_flights_.push_back(result.tag);
  sees_late_ = waited_long_ || flight.of_rest;
  if (result.error == 0) {
    errors_in_a_row_ = 0;
  } else {
    latest_error_ = SteadyClock::now();
    if (errors_in_a_row_ == 0) first_error_ = latest_error_;
    ++errors_;
    ++errors_in_a_row_;
    last_error_ = result.error;
    std::ignore = has_gone();
  }
  switch (flight.kind) {
    case Kind::touch: {
      const bool tell = result.error == 0 && !whole_blocks_ && !waited_long_ &&
                        probes_in_flight_ + 2 <= kProbesInFlight &&
                        block_bytes(flight.block) == kGridBytes && probe_.wants(result.latency);
      if (tell) try_touch(flight.block, result.latency);
      if (whole_blocks_) {  // started before it was known that a touch does not suffice
        again_.push_back(flight.block);
        break;
      }
      block_ended(flight.block, result.error, result.latency);
      break;
    }
    case Kind::piece: {
      Whole& whole = wholes_[flight.block];
      if (result.error != 0) whole.error = result.error;
      whole.slowest = std::max(whole.slowest, result.latency);
      whole.late = whole.late || sees_late_;
      if (--whole.left > 0) break;
      const Whole all = whole;
      wholes_.erase(flight.block);
      sees_late_ = all.late;
      block_ended(flight.block, all.error, all.slowest);
      break;
    }
    case Kind::second:
    case Kind::control:
      try_ended(flight, result);
      break;
    case Kind::sample:
      --samples_in_flight_;
      [[fallthrough]];
    case Kind::drawn:
      if (result.error == 0 && events_.sampled) events_.sampled(result.latency);
      break;
  }
}

/// The block's other half, and beside it the page that is certainly present by now: what slows both
/// is a queue.
void ReadPump::try_touch(Block block, microseconds first) {
  Try one{first, {}, {}, 0};
  if (free_flights_.empty() || !start({Kind::second, block}, kGridBytes / 2, kTouchBytes)) return;
  ++one.left;
  if (!free_flights_.empty() && start({Kind::control, block}, 0, kTouchBytes)) ++one.left;
  probes_in_flight_ += one.left;
  tries_[block] = one;
}

void ReadPump::try_ended(const Flight& flight, const ReadResult& result) {
  --probes_in_flight_;
  Try& one = tries_[flight.block];
  if (result.error == 0) (flight.kind == Kind::control ? one.control : one.second) = result.latency;
  if (--one.left > 0) return;
  const Try all = one;
  tries_.erase(flight.block);
  if (!all.second) return;
  probe_.tried(all.first, *all.second, all.control);
  learn();
}

/// Once it is known that touches do not suffice, what was only touched so far is not present.
void ReadPump::learn() {
  if (!probe_.read_whole() || whole_blocks_) return;
  whole_blocks_ = true;
  if (events_.not_present) {
    const std::vector<Block> before = events_.not_present(touched_);
    again_.insert(again_.end(), before.begin(), before.end());
  }
  again_.insert(again_.end(), touched_.begin(), touched_.end());
  touched_.clear();
  touched_.shrink_to_fit();
}

void ReadPump::block_ended(Block block, int error, microseconds latency) {
  if (error != 0) {
    failed(block, error);
    return;
  }
  attempts_.erase(block);
  came_ = block;
  if (!whole_blocks_) touched_.push_back(block);
  if (events_.present) events_.present(block, latency);
}

void ReadPump::failed(Block block, int error) {
  const unsigned attempts = ++attempts_[block];
  const bool gone = events_.exists && !events_.exists(block);
  if (attempts >= kAttempts || error == ENODEV || error == ENXIO || gone) {
    if (gone) errors_in_a_row_ = 0;  // the rest of the device may answer
    ++given_up_;
    attempts_.erase(block);
    if (events_.given_up) events_.given_up(block);
    return;
  }
  retries_.push_back({block, SteadyClock::now() + kRetryAfter * attempts});
}

/// Waits for reads in flight, but not for stalled ones.
Ok ReadPump::drain() {
  const auto until = SteadyClock::now() + drain_time_;
  std::vector<ReadResult> results;
  while (engine_.in_flight() > 0 && SteadyClock::now() < until) {
    results.clear();
    TRY(engine_.wait(milliseconds(10), results));
    for (const ReadResult& result : results) ended(result);
    started_.clear();  // second reads that ended() would like
  }
  return {};
}

Result<ReadPump::End> ReadPump::read(std::span<const Block> blocks, const std::stop_token& stop,
                                     const Enough& enough) {
  blocks_ = blocks;
  next_ = 0;
  choose_batch(since_epoch(), {}, false);
  std::vector<ReadResult> results;
  std::vector<microseconds> came;
  for (;;) {
    if (stop.stop_requested() || is_lost()) {
      TRY(drain());
      return is_lost() ? End::device_lost : End::stopped;
    }
    TRY(fill(stop));
    if (!enough && is_done()) return End::finished;
    if (enough && is_started() && enough()) {
      TRY(engine_.flush());  // the owner goes on with something else, and these with it
      return End::finished;
    }
    results.clear();
    TRY(wait(results));
    const auto now = since_epoch();
    came.clear();
    for (const ReadResult& result : results) {
      const Kind kind = flights_[result.tag].kind;
      if (kind == Kind::touch || kind == Kind::piece) {
        came.push_back(result.latency);
        if (!long_batches_.is_on()) control_.completed(now, result.latency);
      }
      ended(result);
    }
    waited_long_ = false;
    TRY(submit_started());
    if (events_.tick)
      for (const Block block : events_.tick()) samples_.push_back(block);
    choose_batch(now, came, !enough);
  }
}

/// One that takes longer than FirstTouches::kExactFrom is exact however it is seen.
bool ReadPump::has_exact_in_flight() const {
  const auto oldest = SteadyClock::now() - FirstTouches::kExactFrom;
  return std::any_of(flights_.begin(), flights_.end(), [oldest](const Flight& flight) {
    return flight.since > oldest && !flight.of_rest;
  });
}

/// What a sample or a try of a touch takes is told by its latency, and so is what was begun before:
/// the slower half of what is in flight then would be missing among first touches. No long batch
/// meanwhile.
Ok ReadPump::wait(std::vector<ReadResult>& results) {
  if (engine_.in_flight() == 0) {
    std::this_thread::sleep_for(kLongestWait);  // only what is not due yet is left
    return {};
  }
  waited_long_ = batch_.reads > 0 && samples_in_flight_ == 0 && probes_in_flight_ == 0 &&
                 !has_exact_in_flight();
  if (waited_long_)
    return engine_.wait(LongBatches::kTime, results, batch_.reads, LongBatches::kTime);
  const unsigned batch =
      sees_each_ ? 1 : std::max(1U, control_.depth() / LongBatches::kDepthPerBatch);
  return engine_.wait(kLongestWait, results, batch);
}

/// Nothing is left of what sessions want, and nothing has failed.
bool ReadPump::is_quiet() const {
  return !sees_each_ && !has_preferred() && again_.empty() && retries_.empty() &&
         errors_in_a_row_ == 0 && SteadyClock::now() - last_wish_ >= kQuietAfter;
}

/// Somebody waits for a list of which not all is waited for: it is no mere fill.
void ReadPump::choose_batch(microseconds now, std::span<const microseconds> came, bool only_fills) {
  const bool was_on = long_batches_.is_on();
  batch_ =
      long_batches_.next({now, only_fills && is_quiet(), control_.may_rest(),
                          control_.throughput_per_s(), control_.depth(), control_.room(), came});
  if (was_on && !long_batches_.is_on())
    control_.rested(engine_.in_flight(), long_batches_.saw_queue());
}

milliseconds ReadPump::longest_in_flight() const {
  const auto now = SteadyClock::now();
  auto oldest = now;
  for (const Flight& flight : flights_)
    if (flight.since != SteadyClock::time_point{}) oldest = std::min(oldest, flight.since);
  return std::chrono::duration_cast<milliseconds>(now - oldest);
}

Result<ReadPump::Latencies> ReadPump::sample(std::span<const Block> blocks,
                                             const std::stop_token& stop) {
  Latencies latencies(blocks.size());
  const std::size_t before = drawn_;  // what an earlier call left behind may end only now
  std::vector<ReadResult> results;
  std::size_t next = 0;
  unsigned in_flight = 0;
  const auto until = SteadyClock::now() + kSampleTime;
  while (!stop.stop_requested() && !is_lost() && SteadyClock::now() < until) {
    while (next < blocks.size() && in_flight < kSamplesInFlight && !free_flights_.empty()) {
      const Flight flight{Kind::drawn, blocks[next], before + next};
      const std::uint64_t pages =
          std::max<std::uint64_t>(block_bytes(flight.block) / kTouchBytes, 1);
      const std::uint64_t page = mixed(flight.block) % pages;
      ++next;
      in_flight += start(flight, page * kTouchBytes, kTouchBytes) ? 1 : 0;
    }
    TRY(submit_started());
    if (in_flight == 0 && next == blocks.size()) break;
    results.clear();
    TRY(engine_.wait(kLongestWait, results));
    for (const ReadResult& result : results) {
      const Flight flight = flights_[result.tag];
      ended(result);
      if (flight.kind != Kind::drawn || flight.drawn < before) continue;
      --in_flight;
      if (result.error == 0) latencies[flight.drawn - before] = result.latency;
    }
    if (events_.tick) events_.tick();
  }
  drawn_ += blocks.size();
  if (stop.stop_requested()) TRY(drain());
  return latencies;
}

}  // namespace warmroot::warm
