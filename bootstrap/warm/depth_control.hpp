// How many reads to keep in flight: the bandwidth-delay product of cold fetches, found while
// reading. Too few leave the fetch pipe empty; more than fill it only queue, and a session's own
// miss waits behind them (twice too deep cost a session 2.3 s of 5.5 in trials, all queue tags cost
// it everything). Fed by the pump. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace warmroot::warm {

struct DepthLimits {
  unsigned floor = 4;
  unsigned start = 8;
  unsigned ceiling = 80;
};

/// Ceiling: the operator's, or 80 where that is 0, but never more than five eighths of the device's
/// tags, of which nullopt means that they are not known: the session needs the rest. Floor and
/// start never exceed the ceiling.
DepthLimits depth_limits(unsigned max_depth, std::optional<unsigned> device_tags);

/// Phases: *search* doubles the depth while that brings 1.3 times the throughput; *steady* keeps
/// gain x throughput x base latency in flight (Little's law; base latency is the mean of windows
/// without a queue); *drain* halves the depth after a search and every 5 s, and again for as long
/// as that costs no throughput, to see the base latency without a queue; *raise* goes above it for
/// one window, every 5 s and behind a search or a hurry that saw no queue, to see whether more
/// would bring more. A change of the device's law shows in steady windows: quicker reads than the
/// base latency, or slower ones without a queue, are the new latency; more throughput than ever is
/// looked into by a raise, a queue that was not there before by a drain, and a lasting fall of
/// throughput by a new search. A windowed mean without its slowest samples stands where TCP's
/// relatives use a minimum: latencies are lognormal, Little's law is about means, and where absent
/// and present blocks mix the median means nothing. Reads of present blocks are known by being far
/// quicker than the rest and left out: they pass the fetch pipe by, and would teach a throughput
/// that it has not.
class DepthControl {
 public:
  using Time = std::chrono::microseconds;  ///< since any fixed instant

  explicit DepthControl(DepthLimits limits);

  /// One read came back at `now` after `latency`. Calls come in the order of `now`.
  void completed(Time now, std::chrono::microseconds latency);

  /// Less than depth() is in flight, for want of something to read: what is measured from now on
  /// until it is again says nothing of the device.
  void interrupted();

  /// How many I/Os of others are in flight on the device. More than the reader before may have left
  /// are a session's; while there are such, no more than fills the pipe without a queue is asked
  /// for, and looks above that are rare; the search (well under a second) and a hurry are not
  /// slowed down. One count may lack reads of this reader that the device has not got yet: of two
  /// the larger is believed.
  void others_in_flight(unsigned count) {
    foreground_ = count > elsewhere_;
    elsewhere_ = std::min(elsewhere_, std::max(count, std::exchange(last_others_, count)));
  }

  /// Whether what is read now is what a session is about to want, in its order: then more than
  /// fills the pipe is asked for, beside a session too, since the last of a list waits for its own
  /// latency as well, more at once where the search has not come that far, and no look below is
  /// begun. Ends with hand_over, and by itself kHurry after its first read, so that the depth is
  /// known within a second.
  void hurry(bool on);
  static constexpr std::chrono::milliseconds kHurry{400};
  /// Whether there is more to be had is looked into beside a session, too, at most so often.
  static constexpr std::chrono::seconds kRaiseBesideEvery{30};

  /// Goes on with what it knows, for another reader of the same device within these limits. What
  /// the one before has `under_way` still is in none of its windows, and takes its room below the
  /// ceiling until as many have come back, or the device is seen to have fewer of others'.
  void hand_over(DepthLimits limits, unsigned under_way = 0);
  /// Some of those may be in flight still: worth a look at the device more often.
  bool waits_for_others() const { return elsewhere_ > 0; }

  /// Whether the latest windows asked for nothing: what comes back may be left untold for a while,
  /// as where it is seen to have ended too late to tell how long it took. Never beside a session,
  /// in a hurry, or while the reader before has something in flight. Looks wait for a rest's end.
  bool may_rest() const {
    return phase_ == Phase::steady && calm_windows_ >= kCalmWindows && !foreground_ && !hurry_ &&
           elsewhere_ == 0;
  }
  /// From now on reads are told again; so many are in flight, of which nothing is to be learnt.
  /// `saw_queue`: in the rest they were seen to wait for each other, unlike at its begin; then a
  /// look below is due at once.
  void rested(unsigned in_flight, bool saw_queue = false);
  /// So many more than depth() may be in flight during a rest; the session needs the other tags.
  unsigned room() const {
    return limits_.ceiling - std::min(limits_.ceiling, depth() + elsewhere_);
  }

  /// The search begins anew with so many, as far as the limits allow: what is in flight is too much
  /// for what is wanted next, and nothing is known yet.
  void search_from(unsigned depth);

  /// How many reads should be in flight now; floor <= depth <= ceiling.
  unsigned depth() const;

  /// The same without the looks below and above it, once there was one below: what it has found.
  /// For people.
  unsigned found() const;

  /// Reads a second and their latency without a queue, as far as known; for logs and tests.
  double throughput_per_s() const { return best_throughput_; }
  std::chrono::microseconds base_latency() const;

 private:
  enum class Phase { search, steady, drain, raise };
  static constexpr unsigned kCalmWindows = 2;
  struct Window {
    double throughput = 0;  // completions a second
    double mean_us = 0;     // trimmed
    double spread = 0;      // quick reads over the middle one
    std::size_t samples = 0;
  };

  void close_window(Time now);
  Window measure_window(Time now);
  void after_search_window(const Window& window);
  void after_steady_window(const Window& window, Time now);
  bool heed_new_latency(const Window& window, Time now);
  bool heed_queue(const Window& window, Time now);
  void begin_drain(double depth, bool pipe_was_full);
  void after_drain_window(const Window& window, Time now);
  void begin_raise(double depth, double throughput_before);
  void after_raise_window(const Window& window, Time now);
  void search_again();
  void pool_base(const Window& window, double weight_limit);
  void forget_base();
  void remember_throughput(double throughput);
  double pipe() const { return best_throughput_ * base_us_ / 1e6; }
  void set_depth(double depth);
  bool window_is_full(Time now) const;
  double gain() const;
  bool take_owed_look();
  void heed_full_pipe();

  DepthLimits limits_;
  Phase phase_ = Phase::search;
  bool foreground_ = false;
  bool hurry_ = false;
  unsigned elsewhere_ = 0;             // in flight of the reader before
  unsigned last_others_ = UINT32_MAX;  // as the last count was
  bool owes_look_ = false;             // below, since a hurry
  Time hurry_from_{-1};                // its first read's end
  Time full_from_{-1};                 // reads wait since then, of a hurry
  unsigned full_reads_ = 0;            // that came back since
  unsigned depth_;
  unsigned settling_ = 0;  // completions still to ignore since the depth changed
  Time window_start_{0};
  Time latest_{0};
  bool window_open_ = false;
  std::vector<double> latencies_us_;
  double base_us_ = 0;
  double base_weight_ = 0;
  double looked_us_ = 0;            // the base, when it was last looked at
  bool base_is_guess_ = false;      // of a search that saw a queue: at most so much
  bool base_seen_below_ = false;    // the ceiling: at it, a queue may be in every window
  double previous_throughput_ = 0;  // of the window before, in the search
  double best_throughput_ = 0;
  std::array<double, 4> recent_throughput_{};
  std::size_t recent_at_ = 0;
  unsigned poor_windows_ = 0;  // in a row, as those below
  unsigned queued_windows_ = 0;
  unsigned filled_windows_ = 0;           // queued, unlike after the last look
  unsigned calm_windows_ = 0;             // after which nothing had to be done
  std::optional<double> settled_spread_;  // of the first window after the last look
  Time next_queue_look_{0};
  bool saw_queue_ = false;      // since the search began: the pipe has been full
  bool pipe_was_full_ = false;  // before the drain
  double base_before_us_ = 0;   // the same
  double before_raise_ = 0;     // throughput
  unsigned present_in_a_row_ = 0;
  Time last_look_{0};
  Time last_raise_{-kRaiseBesideEvery};
};

}  // namespace warmroot::warm
