// Arithmetic of the lazily initialised volume: seeded latencies, FIFO buckets, block states. See
// the header for the model's contract; no clock and no random source in here.
#include "tests/sim/volume_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::sim {
namespace {

constexpr SimTime kAbsent = SimTime::max();
/// EBS counts an SSD I/O in units up to 256 KiB (EC2 guide, I/O characteristics).
constexpr std::uint64_t kGuestIoUnit = 256 * kKiB;
/// How far the guest may run ahead of its caps. Unknown at AWS; short, so that a tenth of a second
/// already shows the cap, and longer than a timer's error.
constexpr SimTime kGuestBurst = std::chrono::milliseconds(10);

SimTime from_ms(double milliseconds) {
  return SimTime(static_cast<SimTime::rep>(milliseconds * 1e6));
}

/// Time that `bytes` take at `mib_s`; zero where there is no limit.
SimTime transfer_time(std::uint64_t bytes, double mib_s) {
  if (mib_s <= 0) return SimTime{};
  return from_ms(static_cast<double>(bytes) / (mib_s * static_cast<double>(kMiB)) * 1e3);
}

/// splitmix64: the n-th output for a seed, which makes draws addressable by block.
std::uint64_t mix(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Uniform in (0, 1): never 0, so that its logarithm exists.
double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

}  // namespace

double mean_latency_ms(const VolumeProfile& profile) {
  const double body =
      profile.latency_median_ms * std::exp(profile.latency_sigma * profile.latency_sigma / 2);
  return body + profile.tail_probability * profile.tail_mean_ms +
         profile.stall_probability * profile.stall_ms;
}

double theoretical_blocks_per_second(const VolumeProfile& profile, unsigned depth) {
  const unsigned in_flight =
      profile.fetch_slots == 0 ? depth : std::min(depth, profile.fetch_slots);
  const double by_latency = in_flight * 1e3 / mean_latency_ms(profile);
  if (profile.fetch_bandwidth_mib_s <= 0) return by_latency;
  return std::min(by_latency, profile.fetch_bandwidth_mib_s * 1024.0 / profile.hydration_unit_kib);
}

SimTime RateLimiter::reserve(SimTime now, SimTime cost, SimTime burst) {
  const SimTime start = std::max(now, busy_until_ - burst);
  busy_until_ = std::max(now, busy_until_) + cost;
  return start;
}

VolumeModel::VolumeModel(const VolumeProfile& profile, std::uint64_t seed, std::uint64_t size_bytes,
                         std::span<const ByteRange> data, SimTime created_at)
    : profile_(profile),
      seed_(seed),
      size_(size_bytes),
      unit_(profile.hydration_unit_kib * kKiB),
      background_at_(created_at) {
  CHECK(unit_ > 0);
  present_at_.assign((size_ + unit_ - 1) / unit_, created_at);
  for (const ByteRange& range : data) {
    if (range.length == 0 || range.offset >= size_) continue;
    const std::uint64_t last = std::min(range.offset + range.length, size_) - 1;
    for (std::uint64_t block = range.offset / unit_; block <= last / unit_; ++block)
      present_at_[block] = kAbsent;
  }
  costly_ = static_cast<std::uint64_t>(std::ranges::count(present_at_, kAbsent));
}

SimTime VolumeModel::block_latency(std::uint64_t block) const {
  const std::uint64_t stream = mix(seed_, block);
  const double radius = std::sqrt(-2 * std::log(uniform(mix(stream, 0))));
  const double normal = radius * std::cos(2 * std::numbers::pi * uniform(mix(stream, 1)));
  double latency_ms = profile_.latency_median_ms * std::exp(profile_.latency_sigma * normal);
  if (uniform(mix(stream, 2)) < profile_.tail_probability)
    latency_ms -= profile_.tail_mean_ms * std::log(uniform(mix(stream, 3)));
  if (uniform(mix(stream, 4)) < profile_.stall_probability) latency_ms += profile_.stall_ms;
  return from_ms(latency_ms);
}

SimTime VolumeModel::admit(SimTime now, std::uint64_t length, std::uint64_t hydrated_bytes) {
  SimTime admitted = now;
  if (profile_.guest_iops > 0) {
    const auto units = std::max<std::uint64_t>(1, (length + kGuestIoUnit - 1) / kGuestIoUnit);
    const SimTime cost = from_ms(static_cast<double>(units) * 1e3 / profile_.guest_iops);
    admitted = iops_.reserve(now, cost, kGuestBurst);
  }
  const std::uint64_t bytes = length + (profile_.charge_hydration ? hydrated_bytes : 0);
  const SimTime cost = transfer_time(bytes, profile_.guest_bandwidth_mib_s);
  return std::max(admitted, bandwidth_.reserve(now, cost, kGuestBurst));
}

SimTime VolumeModel::fetch(SimTime now, std::uint64_t block) {
  SimTime start = now;
  if (profile_.fetch_slots > 0) {
    while (!slots_.empty() && slots_.top() <= now) slots_.pop();
    while (slots_.size() >= profile_.fetch_slots) {
      start = std::max(start, slots_.top());
      slots_.pop();
    }
  }
  // Latency and transfer overlap between blocks, and a lone block pays its latency only: L already
  // is the time of a whole block. So the bucket delays nobody until it is the bottleneck, then it
  // alone sets the pace.
  const SimTime cost = transfer_time(unit_, profile_.fetch_bandwidth_mib_s);
  const SimTime sent = fetch_bandwidth_.reserve(start, cost, SimTime{}) + cost;
  const SimTime done = std::max(start + block_latency(block), sent);
  if (profile_.fetch_slots > 0) slots_.push(done);
  fetched_bytes_ += std::min(unit_, size_ - block * unit_);
  return done;
}

SimTime VolumeModel::touch(SimTime now, SimTime admitted, std::uint64_t block,
                           Completion& completion) {
  if (present_at_[block] == kAbsent) {
    present_at_[block] = fetch(admitted, block);
    ++first_touches_;
    completion.first_touches.push_back({block, now, present_at_[block]});
  }
  return present_at_[block];
}

bool VolumeModel::covered(ByteRange range, std::uint64_t block) const {
  return range.offset <= block * unit_ &&
         range.offset + range.length >= std::min((block + 1) * unit_, size_);
}

std::uint64_t VolumeModel::absent_bytes(ByteRange range, bool writing) const {
  std::uint64_t bytes = 0;
  const std::uint64_t last = (range.offset + range.length - 1) / unit_;
  for (std::uint64_t block = range.offset / unit_; block <= last; ++block)
    if (present_at_[block] == kAbsent && !(writing && covered(range, block))) bytes += unit_;
  return bytes;
}

Completion VolumeModel::read(SimTime now, ByteRange range) {
  run_background(now);
  Completion completion;
  completion.due = now;
  if (range.length == 0) return completion;
  CHECK(range.offset + range.length <= size_);
  const SimTime admitted = admit(now, range.length, absent_bytes(range, false));
  completion.due = admitted + from_ms(profile_.warm_latency_ms);
  const std::uint64_t last = (range.offset + range.length - 1) / unit_;
  for (std::uint64_t block = range.offset / unit_; block <= last; ++block)
    completion.due = std::max(completion.due, touch(now, admitted, block, completion));
  return completion;
}

Completion VolumeModel::write(SimTime now, ByteRange range) {
  run_background(now);
  Completion completion;
  completion.due = now;
  if (range.length == 0) return completion;
  CHECK(range.offset + range.length <= size_);
  const SimTime admitted = admit(now, range.length, absent_bytes(range, true));
  completion.due = admitted + from_ms(profile_.warm_latency_ms);
  const std::uint64_t last = (range.offset + range.length - 1) / unit_;
  for (std::uint64_t block = range.offset / unit_; block <= last; ++block) {
    if (covered(range, block))
      present_at_[block] = std::min(present_at_[block], completion.due);
    else
      completion.due = std::max(completion.due, touch(now, admitted, block, completion));
  }
  return completion;
}

SimTime VolumeModel::flush(SimTime now) const {
  return now + from_ms(profile_.warm_latency_ms);
}

void VolumeModel::run_background(SimTime now) {
  const SimTime cost = transfer_time(unit_, profile_.background_mib_s);
  if (cost == SimTime{}) {
    background_at_ = now;
    return;
  }
  while (background_at_ + cost <= now) {
    while (background_next_ < present_at_.size() && present_at_[background_next_] != kAbsent)
      ++background_next_;
    if (background_next_ == present_at_.size()) return;
    background_at_ += cost;
    present_at_[background_next_] = background_at_;
    fetched_bytes_ += std::min(unit_, size_ - background_next_ * unit_);
  }
}

void VolumeModel::mark_all_present(SimTime now) {
  for (SimTime& at : present_at_) at = std::min(at, now);
}

void VolumeModel::set_profile(SimTime now, const VolumeProfile& profile) {
  run_background(now);
  const unsigned unit_kib = profile_.hydration_unit_kib;
  profile_ = profile;
  profile_.hydration_unit_kib = unit_kib;
}

bool VolumeModel::is_present(SimTime now, ByteRange range) {
  run_background(now);
  if (range.length == 0) return true;
  const std::uint64_t last = std::min(range.offset + range.length, size_) - 1;
  for (std::uint64_t block = range.offset / unit_; block <= last / unit_; ++block)
    if (present_at_[block] > now) return false;
  return true;
}

VolumeTotals VolumeModel::totals(SimTime now) {
  run_background(now);
  VolumeTotals totals;
  totals.blocks = present_at_.size();
  totals.costly_blocks = costly_;
  totals.present_blocks = static_cast<std::uint64_t>(
      std::ranges::count_if(present_at_, [now](SimTime at) { return at <= now; }));
  totals.first_touches = first_touches_;
  totals.fetched_bytes = fetched_bytes_;
  return totals;
}

SimTime replay_closed_loop(VolumeModel& model, std::span<const std::uint64_t> offsets,
                           std::uint64_t length, unsigned depth) {
  CHECK(depth > 0);
  std::priority_queue<SimTime, std::vector<SimTime>, std::greater<>> in_flight;
  SimTime last{};
  for (const std::uint64_t offset : offsets) {
    SimTime now{};
    if (in_flight.size() == depth) {
      now = in_flight.top();
      in_flight.pop();
    }
    const SimTime due = model.read(now, {offset, length}).due;
    in_flight.push(due);
    last = std::max(last, due);
  }
  return last;
}

}  // namespace warmroot::sim
