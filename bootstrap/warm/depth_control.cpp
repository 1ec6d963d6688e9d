#include "bootstrap/warm/depth_control.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace warmroot::warm {
namespace {

/// What fills a pipe of 300 MiB/s behind 100 ms is 68, and kGain of it; a quarter more than 64,
/// which 64 fetches at once cannot use, is as far off as may be: their queue does not show in
/// latencies. No share of the tags alone (EBS' NVMe has up to 1,023): with 256 in the closed loop
/// of depth_control_test those 64 slots got 98 to 110, for which a session's misses wait a ninth
/// longer, and the first second of 68 ended at 110. What this costs is a pipe of 1,000 MiB/s behind
/// 100 ms, which 228 fill: it brings 340 MiB/s, for 960 with 256. Behind 36 ms 82 fill it, and 2 %
/// are lost.
constexpr unsigned kUnaskedCeiling = 80;
/// Of 128 the same; the session keeps the others.
constexpr double kShareOfTags = 0.625;
/// Of a hurry. Where it takes 64 or more to fill the pipe, a list that began with 32 waited for a
/// latency or two until that was found out.
constexpr unsigned kHurryStart = 48;
/// A window of a hurry: its answer is wanted sooner than a quieter one.
constexpr unsigned kHurrySamples = 32;
/// Doubling the depth doubles throughput as long as latency is the limit; a third of that is the
/// border between "still mostly latency" and noise of a window (11 %).
constexpr double kWorthwhileGrowth = 1.3;
/// In flight over the bandwidth-delay product. Latencies vary, so at exactly 1 the pipe runs dry
/// now and then (91 % in simulation); 1.1 reaches 97 to 99 %, 1.3 no more and queues a third of one
/// latency.
constexpr double kGain = 1.1;
/// Of what is about to be wanted: such reads are in the way of few but each other. In the closed
/// loop of depth_control_test a list of 165 blocks takes 0.39 s for 0.57 without a hurry (C), 0.18
/// for 0.21 (A), 0.84 for 0.91 (D), and the same in B; what no list has waits behind the queue
/// meanwhile, in a narrow pipe (D) for up to half a second.
constexpr double kHurryGain = 1.6;
constexpr double kDrainGain = 0.5;
/// Whether more in flight would bring more now than when it was searched for.
constexpr double kRaiseGain = 1.5;
constexpr double kWorthwhileRaise = 1.2;
/// Beside a session that misses: at kGain its misses wait a tenth longer than alone, at 0.95 hardly
/// (B 43 ms for 46, C 113 for 119, D 120 for 131, and 41, 114 and 114 alone), for 0 to 6 % of
/// throughput; at 0.9 it is 4 to 11 %. All by depth_foreground_test.
constexpr double kYieldingGain = 0.95;
/// A window whose mean is this much over the base latency had a queue. Below kGain on purpose:
/// steady windows must not teach their own queue to the base.
constexpr double kQueued = 1.2;
constexpr double kNoQueueBelow =
    1.05;  // of the product: only then may a steady window teach the base
/// The window's quick reads over its middle one: where all wait in one queue, none is quick.
/// Lognormal first touches without a queue have 0.5.
constexpr double kQueuedSpread = 0.8;
constexpr double kUnqueuedSpread = 0.56;
constexpr double kFullFrom = 0.85;        // of the best throughput
constexpr double kChangedBy = 1.45;       // four deviations of a window's mean: the law has changed
constexpr double kSlowestTrimmed = 0.03;  // stalls of seconds happen once in 1,000 to 1,000,000
/// Of the latency of the window's slower reads: below it a block was present. One of 10,000 first
/// touches is as quick.
constexpr double kPresentBelow = 0.1;
constexpr unsigned kPresentInARow = 1024;  // the volume is warm, which is another law
constexpr double kColdFrom = 10;           // times the base latency: it was that of present blocks
constexpr std::size_t kSearchSamples = 24;
/// Of a latency, for a window that an interruption ends: reads that are seen at once come in no
/// time.
constexpr double kShortestOfLatency = 0.25;
constexpr std::size_t kSteadySamples = 64;
constexpr auto kWindowTime = std::chrono::milliseconds(150);  // with enough samples for a search
constexpr double kBaseWeightLimit = 256;                      // samples; older ones fade
constexpr auto kDrainEvery = std::chrono::seconds(5);  // costs one small window: 1 % of throughput
constexpr auto kFirstLookAfter = std::chrono::milliseconds(400);
constexpr auto kSearchAtMostEvery = std::chrono::seconds(1);
constexpr double kFellBy = 0.7;       // of the best throughput: the device has changed
constexpr unsigned kFellWindows = 3;  // in a row
/// Of the best throughput; a full pipe's windows vary by a twentieth.
constexpr double kMoreThrough = 1.1;
constexpr unsigned kQueuedWindows = 2;
constexpr unsigned kFilledWindows = 3;
constexpr double kMoreSpread = 0.12;  // by trial: three windows in a row above it are rarely noise
constexpr double kDepthHysteresis = 0.1;

}  // namespace

DepthLimits depth_limits(unsigned max_depth, std::optional<unsigned> device_tags) {
  DepthLimits limits;
  limits.ceiling = max_depth != 0 ? max_depth : kUnaskedCeiling;
  if (device_tags) {
    const auto share = static_cast<unsigned>(kShareOfTags * *device_tags);
    limits.ceiling = std::min(limits.ceiling, std::max(1U, share));
  }
  limits.floor = std::min(limits.floor, limits.ceiling);
  limits.start = std::min(limits.start, limits.ceiling);
  return limits;
}

/// The first to come back are the quick ones of the first round, which says nothing of throughput.
DepthControl::DepthControl(DepthLimits limits)
    : limits_(limits), depth_(limits.start), settling_(limits.start) {}

unsigned DepthControl::depth() const {
  unsigned wanted = depth_;
  if (foreground_ && !hurry_ && phase_ == Phase::steady) {
    const double pipe = kYieldingGain * best_throughput_ * base_us_ / 1e6;
    wanted = static_cast<unsigned>(std::lround(pipe));
  }
  wanted = std::min(wanted, limits_.ceiling - std::min(limits_.ceiling, elsewhere_));
  return std::clamp(wanted, limits_.floor, depth_);
}

unsigned DepthControl::found() const {
  if (base_is_guess_ || phase_ == Phase::search || (phase_ == Phase::steady && !hurry_))
    return depth();
  const auto wanted = static_cast<unsigned>(std::ceil(kGain * pipe()));
  return std::clamp(wanted, limits_.floor, limits_.ceiling);
}

double DepthControl::gain() const {
  return hurry_ ? kHurryGain : kGain;
}

void DepthControl::hurry(bool on) {
  if (on && !hurry_) {
    hurry_from_ = Time(-1);
    if (phase_ == Phase::search && depth_ < std::min(kHurryStart, limits_.ceiling)) {
      set_depth(kHurryStart);
      settling_ = depth_ / 2;
    }
  }
  hurry_ = on;
  take_owed_look();
}

void DepthControl::search_from(unsigned depth) {
  limits_.start = std::clamp(depth, limits_.floor, limits_.ceiling);
  search_again();
}

/// The first window in which reads wait for each other shows more than the pipe has: what was on
/// its way without a queue comes back in it, too (a fifth, by the closed loop of D). What came
/// since then does not.
void DepthControl::heed_full_pipe() {
  const Time from = std::exchange(full_from_, Time(-1));
  if (from < Time(0) || full_reads_ < kSearchSamples || latest_ <= from) return;
  recent_throughput_.fill(0);
  remember_throughput(full_reads_ * 1e6 / static_cast<double>((latest_ - from).count()));
}

bool DepthControl::take_owed_look() {
  if (hurry_ || phase_ != Phase::steady || !std::exchange(owes_look_, false)) return false;
  heed_full_pipe();
  begin_drain(kDrainGain * pipe(), saw_queue_);
  return true;
}

void DepthControl::rested(unsigned in_flight, bool saw_queue) {
  calm_windows_ = 0;
  window_open_ = false;
  if (saw_queue && phase_ == Phase::steady && !hurry_)
    begin_drain(kDrainGain * std::min<double>(depth_, pipe()), true);
  settling_ = std::max(settling_, in_flight);
}

void DepthControl::hand_over(DepthLimits limits, unsigned under_way) {
  limits_ = limits;
  depth_ = std::clamp(depth_, limits.floor, limits.ceiling);
  settling_ = depth_ - std::min(depth_, under_way);  // as many as begin in an empty pipe
  window_open_ = false;
  calm_windows_ = 0;
  foreground_ = false;
  hurry_ = false;
  elsewhere_ = under_way;
  last_others_ = UINT32_MAX;
}

std::chrono::microseconds DepthControl::base_latency() const {
  return std::chrono::microseconds(std::llround(base_us_));
}

bool DepthControl::window_is_full(Time now) const {
  // As many as are in flight take one latency; over a shorter time completions come in bunches.
  const unsigned in_flight = hurry_ ? std::min(depth_, kHurrySamples) : depth_;
  const auto least = std::max<std::size_t>(kSearchSamples, in_flight);
  const bool is_long = phase_ == Phase::steady || phase_ == Phase::raise;
  if (latencies_us_.size() < least) return false;
  return !is_long || latencies_us_.size() >= kSteadySamples || now - window_start_ >= kWindowTime;
}

void DepthControl::completed(Time now, std::chrono::microseconds latency) {
  if (elsewhere_ > 0) --elsewhere_;
  if (hurry_ && hurry_from_ < Time(0)) hurry_from_ = now;
  if (hurry_ && now - hurry_from_ >= kHurry) hurry(false);
  if (static_cast<double>(latency.count()) < kPresentBelow * base_us_) {
    if (++present_in_a_row_ > kPresentInARow) search_again();
    return;
  }
  present_in_a_row_ = 0;
  latest_ = now;
  if (full_from_ >= Time(0)) ++full_reads_;
  // What the reader before has in flight is in no window, and fills the pipe until it is back.
  if (elsewhere_ > 0) return;
  if (settling_ > 0) {
    --settling_;
    return;
  }
  if (!window_open_) {
    window_open_ = true;
    window_start_ = now;
    latencies_us_.clear();
    return;
  }
  latencies_us_.push_back(static_cast<double>(latency.count()));
  if (window_is_full(now)) close_window(now);
}

/// In the search what came until now is a window, where it is no mere bunch; the next one begins
/// behind a round into an empty pipe.
void DepthControl::interrupted() {
  if (phase_ == Phase::search) {
    const bool is_long = latencies_us_.size() >= kSearchSamples &&
                         static_cast<double>((latest_ - window_start_).count()) >=
                             kShortestOfLatency * latencies_us_[0];
    if (window_open_ && is_long) close_window(latest_);
    settling_ = std::max(settling_, depth_);
  }
  window_open_ = false;
  calm_windows_ = 0;
  heed_full_pipe();
}

DepthControl::Window DepthControl::measure_window(Time now) {
  Window window;
  const double seconds =
      std::max<double>(static_cast<double>((now - window_start_).count()), 1) / 1e6;
  std::sort(latencies_us_.begin(), latencies_us_.end());
  // The first window knows no base latency yet to tell present blocks by.
  const double slower = latencies_us_[latencies_us_.size() * 3 / 4];
  latencies_us_.erase(
      latencies_us_.begin(),
      std::lower_bound(latencies_us_.begin(), latencies_us_.end(), kPresentBelow * slower));
  window.samples = latencies_us_.size();
  if (window.samples == 0) return window;
  window.throughput = static_cast<double>(window.samples) / seconds;
  const auto trimmed =
      static_cast<std::size_t>(std::ceil(kSlowestTrimmed * static_cast<double>(window.samples)));
  const std::size_t kept = std::max<std::size_t>(window.samples - trimmed, 1);
  window.spread = latencies_us_[window.samples / 10] / latencies_us_[window.samples / 2];
  window.mean_us = std::accumulate(latencies_us_.begin(),
                                   latencies_us_.begin() + static_cast<std::ptrdiff_t>(kept), 0.0) /
                   static_cast<double>(kept);
  return window;
}

void DepthControl::close_window(Time now) {
  const Window window = measure_window(now);
  if (phase_ != Phase::steady) calm_windows_ = 0;
  window_open_ = true;
  window_start_ = now;
  latencies_us_.clear();
  // A few first touches show that the base latency was that of present blocks; of less than that
  // more are needed.
  const bool was_present = base_us_ > 0 && window.mean_us > kColdFrom * base_us_;
  if (was_present && window.samples >= kSearchSamples / 4) return search_again();
  if (window.samples < kSearchSamples / 2) return;
  saw_queue_ = saw_queue_ || window.spread > kQueuedSpread;
  switch (phase_) {
    case Phase::search: {
      // A list may have ended before its first window, with as many in flight as a hurry begins
      // with: there is no less to compare that with.
      const bool of_hurry = hurry_ || (previous_throughput_ == 0 && depth_ >= kHurryStart);
      after_search_window(window);
      // Twice as much only where nothing waits: what follows has to come out of that queue first.
      const bool waits = window.spread > kUnqueuedSpread;
      if (of_hurry && waits) phase_ = Phase::steady;
      if (phase_ == Phase::search) {
        set_depth(2.0 * depth_);
      } else if (base_seen_below_ && depth_ >= limits_.ceiling && window.spread < kQueuedSpread) {
        last_look_ = now - kDrainEvery + kFirstLookAfter;
        owes_look_ = false;
        settled_spread_ = window.spread;
        set_depth(gain() * pipe());
      } else if (hurry_) {
        owes_look_ = true;
        last_look_ = now;
        full_from_ = waits ? now : Time(-1);
        full_reads_ = 0;
        set_depth(gain() * pipe());
      } else {
        begin_drain(kDrainGain * pipe(), saw_queue_);
      }
      break;
    }
    case Phase::steady:
      after_steady_window(window, now);
      break;
    case Phase::drain:
      after_drain_window(window, now);
      break;
    case Phase::raise:
      after_raise_window(window, now);
      break;
  }
}

void DepthControl::forget_base() {
  settled_spread_.reset();
  base_weight_ = 0;
  base_seen_below_ = false;
  base_is_guess_ = false;
}

/// Weighted mean of the windows without a queue; never more than `weight_limit` samples of past.
void DepthControl::pool_base(const Window& window, double weight_limit) {
  const double past = std::min(base_weight_, weight_limit);
  const auto samples = static_cast<double>(window.samples);
  base_us_ = (base_us_ * past + window.mean_us * samples) / (past + samples);
  base_weight_ = past + samples;
  if (phase_ != Phase::steady || weight_limit == 0) looked_us_ = base_us_;
  base_seen_below_ = base_seen_below_ || depth_ < limits_.ceiling;
}

void DepthControl::remember_throughput(double throughput) {
  recent_throughput_[recent_at_++ % recent_throughput_.size()] = throughput;
  // The second best: one window may catch a bunch of completions that waited for each other.
  auto sorted = recent_throughput_;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  best_throughput_ = sorted[1] > 0 ? sorted[1] : sorted[0];
}

void DepthControl::after_search_window(const Window& window) {
  const bool queued = window.spread > kQueuedSpread;
  if (base_weight_ == 0) {
    pool_base(window, kBaseWeightLimit);
    base_is_guess_ = window.spread > kUnqueuedSpread;
    if (queued) looked_us_ = base_us_ /= kGain;  // at least; the depth stays until a look at it
  } else if (!queued && window.mean_us < kQueued * base_us_) {
    base_is_guess_ = base_is_guess_ && window.spread > kUnqueuedSpread;
    pool_base(window, kBaseWeightLimit);
  }
  const bool grew = window.throughput > kWorthwhileGrowth * previous_throughput_;
  if (grew) recent_throughput_.fill(0);  // of half the depth
  remember_throughput(window.throughput);
  previous_throughput_ = window.throughput;
  if (!grew || queued || depth_ >= limits_.ceiling) phase_ = Phase::steady;
}

void DepthControl::after_steady_window(const Window& window, Time now) {
  poor_windows_ = window.throughput < kFellBy * best_throughput_ ? poor_windows_ + 1 : 0;
  if (heed_new_latency(window, now)) return;
  const bool queued = window.spread > kQueuedSpread;
  const bool as_before = depth_ <= kNoQueueBelow * pipe() && window.mean_us < kQueued * looked_us_;
  // A pipe that is not full has no queue, so that whatever its reads took is the latency; but what
  // a session takes of it makes it look so.
  const bool not_full = !foreground_ && window.throughput < kFullFrom * best_throughput_ &&
                        !queued && window.mean_us < kChangedBy * looked_us_;
  if (as_before || not_full) pool_base(window, kBaseWeightLimit / 4);
  // While yielding, and wherever nothing waits, throughput is what we ask for, not what there is:
  // it may only teach more, or a lasting fall.
  const bool asked_little = foreground_ || window.spread < kUnqueuedSpread;
  if (!asked_little || window.throughput > best_throughput_) remember_throughput(window.throughput);
  if (take_owed_look() || (!hurry_ && heed_queue(window, now))) return;
  const auto since_look = now - last_look_;
  if (poor_windows_ >= kFellWindows && since_look >= kSearchAtMostEvery) return search_again();
  if (since_look >= kDrainEvery && !hurry_) return begin_drain(kDrainGain * pipe(), false);
  set_depth(gain() * pipe());
  const bool is_new = settling_ > 0 || base_is_guess_ || poor_windows_ > 0 || filled_windows_ > 0 ||
                      (queued_windows_ > 0 && now >= next_queue_look_);
  const bool look_is_near = since_look >= kDrainEvery - kFirstLookAfter;
  calm_windows_ = is_new || look_is_near ? 0U : calm_windows_ + 1;
}

/// True when the window shows another latency or a wider pipe than was known.
bool DepthControl::heed_new_latency(const Window& window, Time now) {
  const bool queued = window.spread > kQueuedSpread;
  // No read is quicker than the latency without a queue.
  if (window.mean_us * kChangedBy < base_us_) {
    forget_base();
    pool_base(window, 0);
    recent_throughput_.fill(0);
    remember_throughput(window.throughput);
    next_queue_look_ = now;
    begin_raise(kRaiseGain * depth_, window.throughput);
    return true;
  }
  // A session takes its share, and a hurry makes its own queue, of which the same could be said.
  if (foreground_ || hurry_) return false;
  // More comes through than ever before: there may be yet more.
  if (depth_ < limits_.ceiling && !queued && window.throughput > kMoreThrough * best_throughput_) {
    begin_raise(kRaiseGain * depth_, window.throughput);
    return true;
  }
  // Slower, and nothing waits. How much comes through at the depth that this asks for is seen then.
  if (!queued && poor_windows_ > 0 && window.mean_us > kChangedBy * base_us_) {
    forget_base();
    pool_base(window, 0);
    next_queue_look_ = now;
    begin_raise(kGain * pipe(), window.throughput);
    return true;
  }
  return false;
}

/// True when reads wait for each other that did not, so that less has to be in flight.
bool DepthControl::heed_queue(const Window& window, Time now) {
  const bool queued = window.spread > kQueuedSpread;
  const bool poor = poor_windows_ >= (foreground_ ? kFellWindows : 1);
  queued_windows_ = queued ? queued_windows_ + 1 : 0;
  if (!settled_spread_ && !foreground_) settled_spread_ = window.spread;
  const bool filled = queued && window.spread > settled_spread_.value_or(1) + kMoreSpread;
  filled_windows_ = filled ? filled_windows_ + 1 : 0;
  const bool look = now >= next_queue_look_ && queued_windows_ >= (poor ? 1 : kQueuedWindows);
  if (!look && filled_windows_ < kFilledWindows) return false;
  if (poor) {
    recent_throughput_.fill(0);
    remember_throughput(window.throughput);
  }
  begin_drain(kDrainGain * std::min<double>(depth_, pipe()), true);
  return true;
}

void DepthControl::search_again() {
  phase_ = Phase::search;
  saw_queue_ = false;
  forget_base();
  base_us_ = 0;
  present_in_a_row_ = 0;
  full_from_ = Time(-1);
  previous_throughput_ = 0;
  poor_windows_ = 0;
  recent_throughput_.fill(0);
  window_open_ = false;
  set_depth(limits_.start);
}

void DepthControl::begin_drain(double depth, bool pipe_was_full) {
  phase_ = Phase::drain;
  owes_look_ = false;
  pipe_was_full_ = pipe_was_full;
  base_before_us_ = base_us_;
  queued_windows_ = 0;
  filled_windows_ = 0;
  settled_spread_.reset();
  set_depth(depth);
}

void DepthControl::after_drain_window(const Window& window, Time now) {
  const double ratio = window.mean_us / base_us_;
  if (ratio > kChangedBy || ratio < 1 / kChangedBy) forget_base();
  pool_base(window, static_cast<double>(window.samples));
  base_is_guess_ = false;
  poor_windows_ = 0;
  // As much comes through as before, and it still waits: half was too much, too.
  const bool queued = window.spread > kQueuedSpread;
  if (queued && window.throughput > kFullFrom * best_throughput_ && depth_ > limits_.floor)
    return set_depth(kDrainGain * depth_);
  last_look_ = now;
  // Steady reads wait a little; where that was all, it is no reason to look for a while.
  const bool was_less = base_us_ * kQueued < base_before_us_;
  next_queue_look_ = was_less ? now : now + kDrainEvery;
  const bool may_raise = !foreground_ || now - last_raise_ >= kRaiseBesideEvery;
  if (!pipe_was_full_ && may_raise) return begin_raise(kRaiseGain * pipe(), best_throughput_);
  phase_ = Phase::steady;
  set_depth(gain() * pipe());
}

void DepthControl::begin_raise(double depth, double throughput_before) {
  phase_ = Phase::raise;
  before_raise_ = throughput_before;
  set_depth(depth);
}

void DepthControl::after_raise_window(const Window& window, Time now) {
  last_look_ = last_raise_ = now;
  const bool grew = window.throughput > kWorthwhileRaise * before_raise_;
  const bool fell = !foreground_ && window.throughput < kFellBy * best_throughput_;
  if (grew || fell) recent_throughput_.fill(0);
  remember_throughput(window.throughput);
  previous_throughput_ = window.throughput;
  phase_ = grew && depth_ < limits_.ceiling ? Phase::search : Phase::steady;
  set_depth(phase_ == Phase::search ? 2.0 * depth_ : gain() * pipe());
}

void DepthControl::set_depth(double depth) {
  const double bounded = std::clamp(std::ceil(depth), static_cast<double>(limits_.floor),
                                    static_cast<double>(limits_.ceiling));
  const auto wanted = static_cast<unsigned>(bounded);
  const double change = std::abs(bounded - depth_) / depth_;
  if (phase_ == Phase::steady && change <= kDepthHysteresis) return;
  if (wanted == depth_) return;
  settling_ = std::max(wanted, depth_);
  window_open_ = false;
  depth_ = wanted;
}

}  // namespace warmroot::warm
