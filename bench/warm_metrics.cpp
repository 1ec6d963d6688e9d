#include "bench/warm_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>
#include <unordered_set>

namespace warmroot::bench {
namespace {

using sim::ByteRange;
using sim::DeviceRequest;

constexpr SimTime kNever = SimTime::max();

double seconds(SimTime time) {
  return std::chrono::duration<double>(time).count();
}

/// Calls `with(block)` for each block that the range meets.
template <typename With>
void for_blocks(const VolumeFacts& volume, ByteRange range, With with) {
  if (range.length == 0) return;
  const std::uint64_t last = (range.offset + range.length - 1) / volume.unit_bytes;
  for (std::uint64_t block = range.offset / volume.unit_bytes;
       block <= last && block < volume.costly.size(); ++block)
    with(block);
}

bool is_sessions(const RunLog& log, const DeviceRequest& request, DeviceRequest::Kind kind) {
  return request.opener == log.session_opener && request.kind == kind && request.at >= log.start &&
         request.at <= log.session_end;
}

bool is_session_read(const RunLog& log, const DeviceRequest& request) {
  return is_sessions(log, request, DeviceRequest::Kind::read);
}

/// A write of the whole block needs nothing of the snapshot's.
bool covers(const VolumeFacts& volume, ByteRange range, std::uint64_t block) {
  const std::uint64_t end = std::min((block + 1) * volume.unit_bytes, volume.size_bytes);
  return range.offset <= block * volume.unit_bytes && range.offset + range.length >= end;
}

/// When each block became present by somebody's touch or by a write of all of it, and which opener
/// that was.
struct Presence {
  std::vector<SimTime> at;
  std::vector<SimTime> asked;
  std::vector<unsigned> by;
};

Presence presence(const RunLog& log, const VolumeFacts& volume) {
  Presence presence{std::vector<SimTime>(volume.costly.size(), kNever),
                    std::vector<SimTime>(volume.costly.size(), kNever),
                    std::vector<unsigned>(volume.costly.size(), 0)};
  std::size_t touch = 0;
  for (const DeviceRequest& request : log.requests) {
    for (unsigned i = 0; i < request.first_touches && touch < log.touches.size(); ++i, ++touch) {
      const sim::FirstTouch& made = log.touches[touch];
      presence.at[made.block] = made.present_at;
      presence.asked[made.block] = made.requested_at;
      presence.by[made.block] = request.opener;
    }
    if (request.kind != DeviceRequest::Kind::write || log.all_present) continue;
    for_blocks(volume, request.range, [&](std::uint64_t block) {
      if (!volume.costly[block] || !covers(volume, request.range, block)) return;
      presence.at[block] = std::min(presence.at[block], request.due);
      if (presence.asked[block] != kNever) return;
      presence.asked[block] = request.at;
      presence.by[block] = request.opener;
    });
  }
  return presence;
}

/// Session time of the first use of each block that it reads, in the order of the reads: a write to
/// a part of it may have been earlier. Blocks that it wrote whole before are its own.
std::vector<std::pair<std::uint64_t, SimTime>> first_uses(const RunLog& log,
                                                          const VolumeFacts& volume) {
  std::vector<std::pair<std::uint64_t, SimTime>> uses;
  std::unordered_set<std::uint64_t> seen;
  std::unordered_map<std::uint64_t, SimTime> written;
  for (const DeviceRequest& request : log.requests) {
    const bool writes = is_sessions(log, request, DeviceRequest::Kind::write);
    if (!writes && !is_session_read(log, request)) continue;
    for_blocks(volume, request.range, [&](std::uint64_t block) {
      if (!volume.costly[block] || seen.contains(block)) return;
      const bool whole = writes && covers(volume, request.range, block);
      if (writes && !whole) {
        written.emplace(block, request.at);
        return;
      }
      seen.insert(block);
      const auto before = written.find(block);
      if (!whole) uses.emplace_back(block, before == written.end() ? request.at : before->second);
    });
  }
  return uses;
}

/// Reads and writes count as waited for where a block that they need was absent or under way; the
/// volume says so of reads, and of writes the blocks' own times do.
bool waited(const DeviceRequest& request, const VolumeFacts& volume, const Presence& presence) {
  if (request.kind == DeviceRequest::Kind::read) return request.waited;
  bool waited = false;
  for_blocks(volume, request.range, [&](std::uint64_t block) {
    waited |= presence.asked[block] <= request.at && presence.at[block] > request.at &&
              !covers(volume, request.range, block);
  });
  return waited;
}

Stalls stalls(const RunLog& log, const VolumeFacts& volume, const Presence& presence,
              DeviceRequest::Kind kind, SimTime warm_latency) {
  std::vector<double> waits_ms;
  for (const DeviceRequest& request : log.requests)
    if (is_sessions(log, request, kind) && waited(request, volume, presence))
      waits_ms.push_back(std::max(0.0, seconds(request.due - request.at - warm_latency) * 1e3));
  Stalls stalls;
  stalls.count = waits_ms.size();
  for (const double wait : waits_ms) stalls.sum_s += wait / 1e3;
  stalls.p50_ms = percentile(waits_ms, 0.5);
  stalls.p99_ms = percentile(waits_ms, 0.99);
  stalls.max_ms = percentile(waits_ms, 1);
  return stalls;
}

/// When `share` of the needed blocks was present; nothing if it was not before the log's end.
std::optional<double> warm_at(const RunLog& log, const std::vector<SimTime>& sorted, double share) {
  if (sorted.empty() || log.all_present) return 0;
  const auto rank =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()))) - 1;
  if (sorted[rank] > log.end) return {};
  return std::max(0.0, seconds(sorted[rank] - log.start));
}

void measure_contender(const RunLog& log, const VolumeFacts& volume, const Presence& presence,
                       std::span<const std::uint64_t> hot, RunMetrics& metrics) {
  std::uint64_t requests = 0, bytes = 0, blocks = 0;
  for (const DeviceRequest& request : log.requests)
    if (request.opener == log.contender_opener) {
      ++requests;
      bytes += request.range.length;
      blocks += request.first_touches;
    }
  auto uses = first_uses(log, volume);
  if (!hot.empty()) {
    const std::unordered_set<std::uint64_t> own(hot.begin(), hot.end());
    std::erase_if(uses, [&](const auto& use) { return !own.contains(use.first); });
  }
  std::uint64_t present = 0, asked = 0;
  std::unordered_set<std::uint64_t> used;
  for (const auto& [block, at] : uses) {
    used.insert(block);
    present += presence.at[block] <= at || presence.asked[block] == kNever;
    asked += (presence.by[block] == log.contender_opener && presence.asked[block] < at) ||
             presence.asked[block] == kNever;
  }
  std::uint64_t early = 0, good = 0;
  for (std::uint64_t block = 0; block < presence.by.size(); ++block)
    if (presence.by[block] == log.contender_opener && presence.asked[block] <= log.session_end) {
      ++early;
      good += used.contains(block);
    }
  metrics.contender_requests = requests;
  metrics.contender_bytes = bytes;
  metrics.contender_blocks = blocks;
  if (!uses.empty()) {
    metrics.coverage = static_cast<double>(present) / static_cast<double>(uses.size());
    metrics.recall = static_cast<double>(asked) / static_cast<double>(uses.size());
  }
  if (early > 0) metrics.precision = static_cast<double>(good) / static_cast<double>(early);
}

/// When each of `blocks` is present if all are asked for at time zero, in this order.
std::unordered_map<std::uint64_t, SimTime> arrivals(std::span<const std::uint64_t> blocks,
                                                    const VolumeFacts& volume,
                                                    const sim::VolumeProfile& profile,
                                                    std::uint64_t seed) {
  constexpr std::uint64_t kTouchBytes = 4096;
  sim::VolumeModel model(profile, seed, volume.size_bytes, volume.data, SimTime{});
  std::unordered_map<std::uint64_t, SimTime> arrivals;
  for (const std::uint64_t block : blocks) {
    const std::uint64_t offset = block * volume.unit_bytes;
    const std::uint64_t length = std::min(kTouchBytes, volume.size_bytes - offset);
    arrivals[block] = model.read(SimTime{}, {offset, length}).due;
  }
  return arrivals;
}

}  // namespace

VolumeFacts volume_facts(std::uint64_t size_bytes, std::uint64_t unit_bytes,
                         std::vector<ByteRange> data, std::span<const ByteRange> free) {
  VolumeFacts volume;
  volume.unit_bytes = unit_bytes;
  volume.size_bytes = size_bytes;
  volume.costly.assign((size_bytes + unit_bytes - 1) / unit_bytes, false);
  for (const ByteRange& range : data)
    for_blocks(volume, range, [&](std::uint64_t block) { volume.costly[block] = true; });
  volume.data = std::move(data);
  std::vector<std::uint64_t> free_bytes(volume.costly.size(), 0);
  for (const ByteRange& range : free)
    for_blocks(volume, range, [&](std::uint64_t block) {
      const std::uint64_t from = std::max(range.offset, block * unit_bytes);
      const std::uint64_t to = std::min(range.offset + range.length, (block + 1) * unit_bytes);
      free_bytes[block] += to - from;
    });
  volume.needed = volume.costly;
  for (std::size_t block = 0; block < free_bytes.size(); ++block)
    if (free_bytes[block] >= std::min(unit_bytes, size_bytes - block * unit_bytes))
      volume.needed[block] = false;
  return volume;
}

std::vector<std::uint64_t> session_blocks(const RunLog& log, const VolumeFacts& volume) {
  std::vector<std::uint64_t> blocks;
  for (const auto& [block, at] : first_uses(log, volume)) blocks.push_back(block);
  return blocks;
}

std::vector<std::uint64_t> needed_list(const VolumeFacts& volume) {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < volume.needed.size(); ++block)
    if (volume.needed[block]) blocks.push_back(block);
  return blocks;
}

std::vector<std::uint64_t> held_blocks(const VolumeFacts& volume) {
  constexpr std::uint64_t kSnapshotBlock = 512 * 1024;
  std::vector<std::uint64_t> blocks;
  for (const ByteRange& range : volume.data) {
    if (range.length == 0) continue;
    const std::uint64_t last = (range.offset + range.length - 1) / kSnapshotBlock;
    for (std::uint64_t block = range.offset / kSnapshotBlock; block <= last; ++block)
      if (blocks.empty() || blocks.back() < block) blocks.push_back(block);
  }
  return blocks;
}

RunMetrics measure(const RunLog& log, const VolumeFacts& volume, std::span<const std::uint64_t> hot,
                   SimTime warm_latency) {
  RunMetrics metrics;
  metrics.mounted_s = seconds(log.mounted - log.start);
  metrics.mount_s = seconds(log.mounted - log.found);
  metrics.session_s = seconds(log.session_end - log.start);
  metrics.session_requests = static_cast<std::uint64_t>(std::ranges::count_if(
      log.requests, [&](const DeviceRequest& request) { return is_session_read(log, request); }));
  const Presence presence = bench::presence(log, volume);
  if (log.contender_opener != 0) {
    metrics.session_blocks = first_uses(log, volume).size();
    metrics.stalls = stalls(log, volume, presence, DeviceRequest::Kind::read, warm_latency);
    metrics.write_stalls = stalls(log, volume, presence, DeviceRequest::Kind::write, warm_latency);
    measure_contender(log, volume, presence, hot, metrics);
  }
  std::vector<SimTime> needed;
  for (const std::uint64_t block : needed_list(volume)) needed.push_back(presence.at[block]);
  std::ranges::sort(needed);
  metrics.needed_50_s = warm_at(log, needed, 0.5);
  metrics.needed_90_s = warm_at(log, needed, 0.9);
  metrics.needed_99_s = warm_at(log, needed, 0.99);
  metrics.needed_100_s = warm_at(log, needed, 1);
  std::vector<SimTime> hot_at;
  for (const std::uint64_t block : hot) hot_at.push_back(presence.at[block]);
  std::ranges::sort(hot_at);
  metrics.hot_s = warm_at(log, hot_at, 1);
  return metrics;
}

double replay_bound_s(const RunLog& local, const VolumeFacts& volume,
                      const sim::VolumeProfile& profile, std::uint64_t seed) {
  const auto there = arrivals(session_blocks(local, volume), volume, profile, seed);
  SimTime late{};
  for (const DeviceRequest& request : local.requests) {
    if (!is_session_read(local, request)) continue;
    const SimTime done = request.due - local.start + late;
    SimTime present{};
    for_blocks(volume, request.range, [&](std::uint64_t block) {
      if (const auto found = there.find(block); found != there.end())
        present = std::max(present, found->second);
    });
    late += std::max(SimTime{}, present - done);
  }
  return seconds(local.session_end - local.start + late);
}

double fetch_bound_s(std::span<const std::uint64_t> blocks, const VolumeFacts& volume,
                     const sim::VolumeProfile& profile, std::uint64_t seed) {
  SimTime last{};
  for (const auto& [block, at] : arrivals(blocks, volume, profile, seed)) last = std::max(last, at);
  return seconds(last);
}

double untailed_bound_s(std::span<const std::uint64_t> blocks, const VolumeFacts& volume,
                        sim::VolumeProfile profile, std::uint64_t seed) {
  profile.tail_probability = 0;
  return fetch_bound_s(blocks, volume, profile, seed);
}

/// Late blocks end as points of a Poisson process do whose rate x before the end is
/// rate * mean * exp(-x / mean); the expected value of the latest is the integral of its survival.
double expected_tail_s(const sim::VolumeProfile& profile) {
  const double mean_s = profile.tail_mean_ms / 1e3;
  const double rate =
      profile.tail_probability *
      sim::theoretical_blocks_per_second(
          profile, static_cast<unsigned>(std::lround(pipe_depth(profile).value_or(64))));
  if (mean_s <= 0 || rate <= 0) return 0;
  constexpr double kStep = 1e-3, kLongest = 12;  // of the mean
  double sum = 0;
  for (double x = kStep / 2; x < kLongest; x += kStep)
    sum += (1 - std::exp(-rate * mean_s * std::exp(-x))) * kStep * mean_s;
  return sum;
}

std::optional<double> pipe_depth(sim::VolumeProfile profile) {
  profile.tail_probability = profile.stall_probability = 0;
  std::optional<double> depth;
  if (profile.fetch_bandwidth_mib_s > 0)
    depth = profile.fetch_bandwidth_mib_s * 1024 / profile.hydration_unit_kib *
            sim::mean_latency_ms(profile) / 1e3;
  if (profile.fetch_slots > 0)
    depth = std::min<double>(depth.value_or(profile.fetch_slots), profile.fetch_slots);
  return depth;
}

std::vector<double> cold_latencies_ms(std::span<const DeviceRequest> requests, unsigned opener) {
  std::vector<double> latencies;
  for (const DeviceRequest& request : requests)
    if (request.opener == opener && request.waited)
      latencies.push_back(seconds(request.due - request.at) * 1e3);
  return latencies;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = std::ceil(p * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::pair<double, double> median_interval(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) return {0, 0};
  constexpr int kResamples = 2000;
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::size_t> any(0, values.size() - 1);
  std::vector<double> medians;
  for (int i = 0; i < kResamples; ++i) {
    std::vector<double> sample;
    for (std::size_t k = 0; k < values.size(); ++k) sample.push_back(values[any(random)]);
    medians.push_back(median(std::move(sample)));
  }
  return {percentile(medians, 0.025), percentile(medians, 0.975)};
}

}  // namespace warmroot::bench
