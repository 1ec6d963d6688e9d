// What a run's device log says: how long the session waited and why, when the volume was warm, what
// the contender's reads were good for; and the bounds that no contender can beat. Pure. Called by
// warm_bench; the log is the simulated device's, never the tools' own words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim/ebs.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::bench {

using sim::SimTime;

/// One run on one fresh volume, as the device saw it.
struct RunLog {
  std::vector<sim::DeviceRequest> requests;
  std::vector<sim::FirstTouch> touches;  ///< in the order of the requests that made them
  unsigned session_opener = 0;           ///< of the device that the root is mounted from
  unsigned contender_opener = 0;         ///< of the device that the contender reads; 0: the same
  SimTime start{};                       ///< of contender and search: a disk is there
  SimTime found{};    ///< the root's partition is known, and mount(2) or mount(8) begins
  SimTime mounted{};  ///< mount(2) has ended
  SimTime session_end{};
  SimTime end{};             ///< of the log
  bool all_present = false;  ///< nothing was absent
};

/// Blocks of the volume, in hydration units.
struct VolumeFacts {
  std::uint64_t unit_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::vector<sim::ByteRange> data;  ///< what the snapshot holds
  std::vector<bool> costly;          ///< per block: holds such data
  std::vector<bool> needed;          ///< per block: costly, and not wholly free in the file system
};

/// Facts of an image with `data`, of whose bytes the file system calls `free` free.
VolumeFacts volume_facts(std::uint64_t size_bytes, std::uint64_t unit_bytes,
                         std::vector<sim::ByteRange> data, std::span<const sim::ByteRange> free);

/// Costly blocks that the session read from start to end, in the order of first use.
std::vector<std::uint64_t> session_blocks(const RunLog& log, const VolumeFacts& volume);

struct Stalls {
  std::uint64_t count = 0;  ///< requests of the session that met an absent block or one under way
  double sum_s = 0;         ///< above the warm latency; they overlap, so it may exceed the session
  double p50_ms = 0, p99_ms = 0, max_ms = 0;
};

/// Times in seconds since the start. Nothing where the log ends before, or where session and
/// contender share a device and cannot be told apart.
struct RunMetrics {
  double mounted_s = 0;  ///< the search for the root and mount(2)
  double mount_s = 0;    ///< mount(2) alone
  double session_s = 0;
  std::optional<Stalls> stalls;        ///< of reads
  std::optional<Stalls> write_stalls;  ///< of writes to a part of a block; who syncs waits for them
  std::optional<double> needed_50_s, needed_90_s, needed_99_s, needed_100_s;
  std::optional<double> hot_s;      ///< all blocks of `hot` present
  std::optional<double> coverage;   ///< of the session's blocks: present already at their first use
  std::optional<double> recall;     ///< of them: asked for by the contender before the session
  std::optional<double> precision;  ///< of what the contender asked for first, in the session's
                                    ///< time: used by it
  std::optional<std::uint64_t> contender_requests, contender_bytes, contender_blocks;
  std::uint64_t session_blocks = 0;
  std::uint64_t session_requests = 0;
};

/// `hot`: the blocks of this session on a volume where nothing was absent; coverage, recall and
/// precision are about these, so that what a warmer looks up through the session's mount is not
/// counted among them. Empty: all that came through that mount.
RunMetrics measure(const RunLog& log, const VolumeFacts& volume, std::span<const std::uint64_t> hot,
                   SimTime warm_latency);

/// The least a session can take whose blocks are all asked for at the start in the order of first
/// use: block k is there when the model says (k * unit / bandwidth, or its own latency, whichever
/// is later), and the session goes on as it did in `local`, the run where nothing was absent. Every
/// read counts as one that the session waits for; reading ahead may therefore beat it a little.
/// Writes are as quick as in `local`, though one to a part of an absent block waits for it: where
/// files will be put nobody knows beforehand.
double replay_bound_s(const RunLog& local, const VolumeFacts& volume,
                      const sim::VolumeProfile& profile, std::uint64_t seed);

/// When the last of `blocks` is present if all are asked for at once.
double fetch_bound_s(std::span<const std::uint64_t> blocks, const VolumeFacts& volume,
                     const sim::VolumeProfile& profile, std::uint64_t seed);

/// The same of the law without tails, whatever this seed has of them: what expected_tail_s() is to
/// be added to. Where a late block holds one of few slots, fetch_bound_s() has tails in it already.
double untailed_bound_s(std::span<const std::uint64_t> blocks, const VolumeFacts& volume,
                        sim::VolumeProfile profile, std::uint64_t seed);

/// How much later than without tails the last of many blocks is there, on average, if they are
/// asked for as fast as they can be brought in, in any order: a late one of the last second stalls
/// the end. Nothing to do with whoever reads.
double expected_tail_s(const sim::VolumeProfile& profile);

/// How many reads in flight just fill the fetch pipe: bandwidth x mean latency without tails, in
/// blocks, or the slots where there are fewer; nothing without either limit.
std::optional<double> pipe_depth(sim::VolumeProfile profile);

/// The needed blocks in ascending order.
std::vector<std::uint64_t> needed_list(const VolumeFacts& volume);

/// What ListSnapshotBlocks says of it: blocks of 512 KiB that hold data, ascending.
std::vector<std::uint64_t> held_blocks(const VolumeFacts& volume);

/// Latencies in milliseconds of the cold reads of one opener: those that met an absent block or one
/// under way.
std::vector<double> cold_latencies_ms(std::span<const sim::DeviceRequest> requests,
                                      unsigned opener);

/// The value below or at which a share `p` of the values lies (nearest rank); 0 of none.
double percentile(std::vector<double> values, double p);
double median(std::vector<double> values);
/// 95 % interval of the median by 2,000 seeded resamples; both ends the value itself where there is
/// one only.
std::pair<double, double> median_interval(std::span<const double> values, std::uint64_t seed);

}  // namespace warmroot::bench
