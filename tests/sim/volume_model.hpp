// When a request to a lazily initialised volume is answered: the model of reference/warming.md
// section 7. Pure: time is an argument, randomness a hash of (seed, block), so the same volume
// meets every reader with the same latencies. Called by EbsServer, which turns the answers into
// real waiting, and by the self-check, which replays a closed loop.
//
// A block is absent, fetching or present. The first request to an absent block starts its fetch and
// everybody who wants the block meanwhile shares its completion. Nothing needs an event queue:
// slots, fetch bandwidth and guest caps are all FIFO, so the completion is known when the request
// arrives. Of the volume's bytes the model knows nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

namespace warmroot::sim {

/// Time since an epoch that the caller chooses; never before an earlier call's.
using SimTime = std::chrono::nanoseconds;

/// The law of a volume. Names and defaults: reference/warming.md section 7 (profile B). 0 means no
/// limit for the bandwidths, IOPS and slots, and "none" for probabilities and background.
struct VolumeProfile {
  double latency_median_ms = 36;   ///< first touch, LogNormal
  double latency_sigma = 0.51;     ///< of the same: p99.9 is 175 ms
  double tail_probability = 1e-3;  ///< of a block that waits longer by Exp(tail_mean_ms)
  double tail_mean_ms = 1000;
  double stall_probability = 1e-6;  ///< of a block that waits longer by stall_ms
  double stall_ms = 60'000;
  double fetch_bandwidth_mib_s = 300;  ///< FIFO, burst of one block
  unsigned fetch_slots = 0;            ///< blocks being fetched at once
  unsigned hydration_unit_kib =
      512;  ///< what one first touch makes present; fixed when the volume is made
  double background_mib_s = 0;  ///< sequential filler with a pipe of its own, from creation on
  double guest_iops = 3000;     ///< gp3; one I/O is at most 256 KiB
  double guest_bandwidth_mib_s = 125;  ///< gp3
  bool charge_hydration = false;       ///< fetched bytes count against the guest's bandwidth too
  double warm_latency_ms = 0.8;        ///< present block, write of whole blocks, flush
};

/// Mean first-touch latency of the profile in milliseconds: LogNormal and tails together.
double mean_latency_ms(const VolumeProfile& profile);

/// Hydration in blocks a second that `depth` cold reads of distinct blocks can reach in the long
/// run: min(depth, slots) / E[latency], capped by the fetch bandwidth. Guest caps are not looked
/// at.
double theoretical_blocks_per_second(const VolumeProfile& profile, unsigned depth);

/// A byte range of a volume.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// One block's way from absent to present because somebody asked for it.
struct FirstTouch {
  std::uint64_t block = 0;  ///< index in hydration units
  SimTime requested_at{};
  SimTime present_at{};
};

/// When a request is answered, and which blocks it was the first to touch.
struct Completion {
  SimTime due{};
  std::vector<FirstTouch> first_touches;
};

/// Sums over a volume's life; survive detach and attach.
struct VolumeTotals {
  std::uint64_t blocks = 0;          ///< of the whole volume, in hydration units
  std::uint64_t costly_blocks = 0;   ///< those in the snapshot: absent at creation
  std::uint64_t present_blocks = 0;  ///< of `blocks`; never-written ones are present from the start
  std::uint64_t first_touches = 0;
  std::uint64_t fetched_bytes = 0;  ///< by first touches and background filler, whole blocks
};

/// FIFO token bucket in the form of a theoretical arrival time: exact, and no refill timer.
class RateLimiter {
 public:
  /// Reserves `cost` of bucket time; returns when the reservation starts (>= now) if up to `burst`
  /// may be owed.
  SimTime reserve(SimTime now, SimTime cost, SimTime burst);

 private:
  SimTime busy_until_{};
};

class VolumeModel {
 public:
  /// `data` are the ranges written before the snapshot, at any granularity; a block that none of
  /// them meets is present.
  VolumeModel(const VolumeProfile& profile, std::uint64_t seed, std::uint64_t size_bytes,
              std::span<const ByteRange> data, SimTime created_at);

  /// Requires: the range lies inside the volume.
  Completion read(SimTime now, ByteRange range);
  /// Blocks that the range covers wholly become present without a fetch; the others are paid for as
  /// in a read.
  Completion write(SimTime now, ByteRange range);
  /// A flush costs the warm latency.
  SimTime flush(SimTime now) const;

  /// FSR, or a volume that somebody has read through: nothing is absent any more, and no touch is
  /// counted.
  void mark_all_present(SimTime now);
  /// Another law from now on; fetches under way keep their completion. The hydration unit does not
  /// change.
  void set_profile(SimTime now, const VolumeProfile& profile);
  /// The seeded latency of a block under the present profile, whatever its state.
  SimTime block_latency(std::uint64_t block) const;
  /// Nothing that the range meets is absent or under way.
  bool is_present(SimTime now, ByteRange range);
  VolumeTotals totals(SimTime now);
  std::uint64_t unit_bytes() const { return unit_; }

 private:
  SimTime admit(SimTime now, std::uint64_t length, std::uint64_t hydrated_bytes);
  SimTime fetch(SimTime now, std::uint64_t block);
  SimTime touch(SimTime now, SimTime admitted, std::uint64_t block, Completion& completion);
  std::uint64_t absent_bytes(ByteRange range, bool writing) const;
  bool covered(ByteRange range, std::uint64_t block) const;
  void run_background(SimTime now);

  VolumeProfile profile_;
  std::uint64_t seed_;
  std::uint64_t size_;
  std::uint64_t unit_;
  std::vector<SimTime> present_at_;  // per block; kAbsent while nobody asked
  RateLimiter iops_, bandwidth_, fetch_bandwidth_;
  std::priority_queue<SimTime, std::vector<SimTime>, std::greater<>>
      slots_;  // ends of running fetches
  std::uint64_t background_next_ = 0;
  SimTime background_at_{};
  std::uint64_t costly_ = 0;
  std::uint64_t first_touches_ = 0;
  std::uint64_t fetched_bytes_ = 0;
};

/// Replays a reader that keeps `depth` requests of `length` bytes under way over `offsets`, in
/// order, from time zero. Returns the time of the last completion: what a perfect server and an
/// instant reader would measure.
SimTime replay_closed_loop(VolumeModel& model, std::span<const std::uint64_t> offsets,
                           std::uint64_t length, unsigned depth);

}  // namespace warmroot::sim
