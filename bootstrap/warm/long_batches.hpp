// When the pump may be woken for many reads at once, and for how many: to be woken costs more of
// the processor than a read. Only while nobody waits for what comes back, and between two looks of
// the depth control, since how long such a read took is not known well enough for that. Called by
// the pump. Pure: time is an argument.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

namespace warmroot::warm {

class LongBatches {
 public:
  using Time = std::chrono::microseconds;  ///< since any fixed instant

  /// How long a batch is waited for: what a session misses is followed so much later.
  static constexpr std::chrono::milliseconds kTime{25};
  /// Of the depth, one part in so many seen to have ended together leaves little of the pipe empty.
  static constexpr unsigned kDepthPerBatch = 8;

  /// What is known right before more is started.
  struct Moment {
    Time now{0};
    bool quiet = false;            ///< nobody waits for what is being read
    bool may_rest = false;         ///< DepthControl's word
    double per_s = 0;              ///< reads that come back a second, as DepthControl knows it
    unsigned depth = 0;            ///< what it asks for
    unsigned room = 0;             ///< what may be in flight beyond that
    std::span<const Time> came{};  ///< of each read since the moment before, until it was seen
  };
  struct Batch {
    unsigned reads = 0;   ///< to wait for; 0: no long batch
    unsigned beyond = 0;  ///< to keep in flight above the depth, so that the pipe does not run dry
  };

  /// The batch to wait for next. Batches end when one of the two conditions does, after kLongest,
  /// and where the device seems to have another law: another rate than the known one comes back, or
  /// reads that look otherwise than the first of these batches. That is to be measured.
  Batch next(const Moment& moment);
  bool is_on() const { return since_ >= Time(0); }
  /// Why the last ones have ended: reads wait for each other that did not before.
  bool saw_queue() const { return saw_queue_; }

  static constexpr std::chrono::seconds kLongest{10};

 private:
  /// Of some tenths of a second. All are seen late, and as late as each other.
  struct Look {
    double per_s = 0;
    double median_us = 0;
    double alike = 0;  ///< quick reads over slow ones: a tenth of them is quicker, and slower
  };

  void begin(Time now);
  bool is_over(const Moment& moment);
  bool is_another_law(const Look& look, double known_per_s);
  Look take_look(Time now);

  Time since_{-1};
  Time looked_from_{0};
  std::vector<double> latencies_us_;  // since then
  std::optional<Look> first_;
  bool saw_queue_ = false;
};

}  // namespace warmroot::warm
