// Reads a list of blocks through an engine: keeps as many in flight as depth control says, retries
// what fails, tries out how much of a block has to be read, samples warm blocks in between. Called
// by the warmer, which owns the lists, the map and the clockwork of progress and saving.
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/warm/block_set.hpp"
#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/long_batches.hpp"
#include "bootstrap/warm/rate_cap.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/touch_probe.hpp"

namespace warmroot::warm {

/// What the pump tells and asks its owner. All on the thread that called the pump.
struct PumpEvents {
  /// A block is present now; `latency` is that of its (slowest) read, or more: see sees_late().
  std::function<void(Block, std::chrono::microseconds latency)> present;
  /// One or more blocks turned out not to be present after all (the touch did not suffice); the
  /// pump reads them again, and before them what this returns: blocks that others have touched.
  std::function<std::vector<Block>(std::span<const Block>)> not_present;
  /// A block's last attempt has failed; a list may name it again.
  std::function<void(Block)> given_up;
  /// After a failed read: false where the device does not reach to that block any more, which is
  /// then given up at once. Empty: it always does.
  std::function<bool(Block)> exists;
  /// Whether the device is gone as a whole, after a failed read and whenever the owner asks. Empty:
  /// it never is.
  std::function<bool()> has_gone;
  /// A sampled re-read has ended.
  std::function<void(std::chrono::microseconds latency)> sampled;
  /// Every few milliseconds, or LongBatches::kTime: saving, progress. May offer blocks to re-read
  /// by the way.
  std::function<std::vector<Block>()> tick;
  /// Right before a block of a list, or a preferred one, is read: false where that has become
  /// needless. Empty: all are.
  std::function<bool(Block)> wanted;
};

class ReadPump {
 public:
  enum class End { finished, stopped, device_lost };
  /// Of an engine, beside the depth: a whole block's pieces and second reads.
  static constexpr unsigned kExtraCapacity = 8;

  /// The engine's capacity is the most that is ever in flight. Requires room for one whole block (4
  /// pieces). Reads are seen to have ended up to ReadEngine::kBatchTime late, and those of a list
  /// that nobody waits for up to LongBatches::kTime, unless it `sees_each` at once, which costs
  /// more of the processor.
  ReadPump(ReadEngine& engine, DepthControl& control, std::uint64_t device_bytes, PumpEvents events,
           RateCap cap = RateCap(0), std::chrono::milliseconds drain_time = kDrainTime,
           bool sees_each = false)
      : engine_(engine),
        cap_(cap),
        control_(control),
        device_bytes_(device_bytes),
        events_(std::move(events)),
        drain_time_(drain_time),
        sees_each_(sees_each) {
    flights_.resize(engine.capacity());
    for (std::size_t i = flights_.size(); i > 0; --i) free_flights_.push_back(i - 1);
  }

  /// Whether a list has ended, once nothing is left to be started: what is in flight or has to be
  /// tried again goes on in the next call. Empty: when everything has ended.
  using Enough = std::function<bool()>;

  /// Reads the blocks in order. Finished: each was read, or given up after kAttempts, as far as
  /// `enough` wants it. Stopped: no read was started after the request, and those in flight were
  /// given the drain time. Device lost: it has gone, or answers nothing but errors; see
  /// last_error(). Errors: the engine's own.
  Result<End> read(std::span<const Block> blocks, const std::stop_token& stop,
                   const Enough& enough = {});

  /// These are read before what is left of the list, those of a lower rank first, of one rank
  /// behind those preferred earlier; beyond kMostPreferred they are left to the lists. Requires
  /// blocks of the device. For the owner's callbacks, and between calls.
  void prefer(std::span<const Block> blocks, std::uint32_t rank = 0) {
    if (blocks.empty()) return;  // a file that is there already is no wish
    last_wish_ = SteadyClock::now();
    for (const Block block : blocks)
      if (ranked_.size() < kMostPreferred) ranked_.push({rank, next_turn_++, block});
  }
  /// Before all ranks, and before those preferred to all earlier; beyond kMostPreferred the last
  /// are left to the lists. Requires the same.
  void prefer_to_all(std::span<const Block> blocks) {
    last_wish_ = SteadyClock::now();
    preferred_.insert(preferred_.begin(), blocks.begin(), blocks.end());
    preferred_.resize(std::min(preferred_.size(), kMostPreferred));
  }
  static constexpr std::size_t kMostPreferred = 65'536;
  bool has_preferred() const { return !preferred_.empty() || !ranked_.empty(); }

  /// Somebody has seen that touches do not bring blocks in: all are read whole. Before any is read.
  void read_whole() { whole_blocks_ = true; }

  /// Starts what comes next, as far as the depth allows, without waiting for the end of the owner's
  /// tick, from which it is called. Errors: the engine's own.
  Ok start_now(const std::stop_token& stop) {
    TRY(fill(stop));
    return engine_.flush();
  }

  /// What each read of a sample took; nothing where it failed or has not ended.
  using Latencies = std::vector<std::optional<std::chrono::microseconds>>;
  /// Reads one 4 KiB piece of each block in their order, a few at a time, for a second at most.
  /// Reads under way go on meanwhile. Ends early when stopped.
  Result<Latencies> sample(std::span<const Block> blocks, const std::stop_token& stop);

  /// How long the oldest read in flight has been there; 0: none is.
  std::chrono::milliseconds longest_in_flight() const;
  std::uint64_t errors() const { return errors_; }
  std::uint64_t given_up() const { return given_up_; }
  /// By the owner's word, which is asked for now, not by errors alone.
  bool has_gone() { return gone_ = gone_ || (events_.has_gone && events_.has_gone()); }
  std::uint64_t bytes_read() const { return bytes_read_; }
  int last_error() const { return last_error_; }
  /// Of what is told present just now: it was begun while reads are seen in long batches, up to
  /// LongBatches::kTime late, so that the latency measures nothing but a stall. Of what was begun
  /// before or afterwards everything is told exactly, be it quick or slow.
  bool sees_late() const { return sees_late_; }
  /// 4096, or 512 KiB once a touch turned out not to bring its block in.
  std::uint32_t touch_bytes() const { return whole_blocks_ ? kGridBytes : kTouchBytes; }

  /// What reads in flight get after a stop request; a stalled one (up to a minute) is left behind.
  static constexpr std::chrono::milliseconds kDrainTime{150};
  /// Reads of one block before it is given up.
  static constexpr unsigned kAttempts = 3;

 private:
  using SteadyClock = std::chrono::steady_clock;
  enum class Kind { touch, piece, second, control, sample, drawn };
  struct Flight {
    Kind kind = Kind::touch;
    Block block = 0;
    std::size_t drawn = 0;            // which of a sample, counted through all of them
    SteadyClock::time_point since{};  // when it was submitted; none once it has ended
    bool of_rest = false;             // was begun while reads are seen in long batches
  };
  /// Whether one block's touch brought the whole of it in.
  struct Try {
    std::chrono::microseconds first{0};  // of the touch
    std::optional<std::chrono::microseconds> second, control;
    unsigned left = 0;
  };
  struct Whole {
    unsigned left = 0;
    int error = 0;
    std::chrono::microseconds slowest{0};
    bool late = false;
  };
  struct Ranked {
    std::uint32_t rank = 0;
    std::uint32_t turn = 0;
    Block block = 0;
    auto operator<=>(const Ranked&) const = default;
  };
  struct Retry {
    Block block = 0;
    SteadyClock::time_point due;
  };

  std::uint64_t block_bytes(Block block) const;
  Ok fill(const std::stop_token& stop);
  std::optional<Block> next_block();
  std::optional<Block> next_preferred();
  std::optional<Block> next_listed();
  void start_block(Block block);
  bool start(const Flight& flight, std::uint64_t within, std::uint32_t length);
  Ok submit_started();
  Ok wait(std::vector<ReadResult>& results);
  bool is_quiet() const;
  bool has_exact_in_flight() const;
  void choose_batch(std::chrono::microseconds now, std::span<const std::chrono::microseconds> came,
                    bool only_fills);
  void ended(const ReadResult& result);
  void block_ended(Block block, int error, std::chrono::microseconds latency);
  void failed(Block block, int error);
  void try_touch(Block block, std::chrono::microseconds first);
  void try_ended(const Flight& flight, const ReadResult& result);
  void learn();
  bool is_failing() const;
  bool is_lost() const;
  bool is_started() const;
  bool is_done() const;
  Ok drain();

  ReadEngine& engine_;
  RateCap cap_;
  DepthControl& control_;
  std::uint64_t device_bytes_;
  PumpEvents events_;
  std::chrono::milliseconds drain_time_;
  bool sees_each_;
  LongBatches long_batches_;
  LongBatches::Batch batch_;
  bool waited_long_ = false;  // the last wait was for a long batch
  bool sees_late_ = false;
  SteadyClock::time_point last_wish_{};
  TouchProbe probe_;

  std::span<const Block> blocks_;
  std::size_t next_ = 0;
  std::deque<Block> preferred_;                                              // to all
  std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>> ranked_;  // the first on top
  std::uint32_t next_turn_ = 0;
  std::deque<Block> again_;  // touched blocks that have to be read whole
  std::deque<Retry> retries_;
  std::deque<Block> samples_;
  std::unordered_map<Block, Whole> wholes_;
  std::unordered_map<Block, unsigned> attempts_;
  std::vector<Block> touched_;  // not read whole
  std::vector<Flight> flights_;
  std::vector<std::size_t> free_flights_;
  std::vector<ReadRequest> started_;
  bool whole_blocks_ = false;
  bool gone_ = false;
  unsigned probes_in_flight_ = 0;
  unsigned samples_in_flight_ = 0;
  std::optional<Block> came_;  // the latest that was read
  std::map<Block, Try> tries_;
  std::size_t drawn_ = 0;  // by all samples
  std::uint64_t errors_ = 0;
  std::uint64_t given_up_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t errors_in_a_row_ = 0;
  SteadyClock::time_point first_error_;
  SteadyClock::time_point latest_error_;
  int last_error_ = 0;
};

}  // namespace warmroot::warm
