// A lazily initialised device and the loop that reads it by depth control, under virtual time:
// lognormal first touches and a fetch bandwidth shared by all, as in warming.md section 7.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/long_batches.hpp"

namespace warmroot::warm {

inline constexpr double kSigma = 0.51;
inline constexpr double kBlockMib = 0.5;

struct Law {
  double median_ms = 36;
  double bandwidth_mib_s = 300;  // 0: no cap
  bool additive = false;         // the fetch starts after the queue, instead of beside it
  double tail_probability = 0;   // of one more second on average
  double present = 0;            // share of blocks that are there already
  unsigned slots = 0;            // fetches at once; 0: no cap
};

/// A device that serves first touches first come, first served, and a loop that keeps as many in
/// flight as the control says; beside it a session that may miss one block after the other, and
/// what another loop had in flight before.
class Loop {
 public:
  Loop(Law law, DepthLimits limits, unsigned seed) : law_(law), control_(limits), random_(seed) {}

  /// Until then, or until nothing is in flight and nothing left.
  void run_until(double seconds) {
    for (;;) {
      while (left_ > 0 && own_in_flight() < control_.depth()) submit(false);
      if (own_in_flight() < control_.depth()) control_.interrupted();
      if (in_flight_.empty()) return;
      const Read read = in_flight_.top();
      if (read.done > seconds) return;
      in_flight_.pop();
      now_ = read.done;
      if (read.of_session) {
        session_reads_ = false;
        session_latencies_s_.push_back(read.done - read.start);
        if (session_misses_) submit(true);
        continue;
      }
      ++completed_;
      if (read.reader != reader_) {
        --others_;
        continue;
      }
      if (control_.waits_for_others()) control_.others_in_flight(others_);
      control_.completed(microseconds(now_), microseconds(read.done - read.start));
    }
  }
  /// As the pump does while nobody waits: in a rest of the control's, reads are seen together.
  void run_in_batches_until(double seconds) {
    constexpr double kTimeS = std::chrono::duration<double>(LongBatches::kTime).count();
    while (now_ < seconds) {
      while (own_in_flight() < control_.depth() + batch_.beyond) submit(false);
      most_in_flight_ = std::max(most_in_flight_, own_in_flight());
      const bool rests = long_batches_.is_on();
      const unsigned wanted = rests ? batch_.reads : 1;
      const double until = now_ + kTimeS;
      std::vector<double> begun;
      while (begun.size() < wanted && !in_flight_.empty() &&
             (!rests || in_flight_.top().done <= until)) {
        const Read read = in_flight_.top();
        in_flight_.pop();
        now_ = read.done;
        begun.push_back(read.start);
        if (!rests) control_.completed(microseconds(now_), microseconds(read.done - read.start));
      }
      if (begun.size() < wanted) now_ = until;
      std::vector<LongBatches::Time> came;
      for (const double start : begun) came.push_back(microseconds(now_ - start));
      completed_ += came.size();
      ++wakes_;
      batch_ = long_batches_.next({microseconds(now_), true, control_.may_rest(),
                                   control_.throughput_per_s(), control_.depth(), control_.room(),
                                   came});
      if (rests && !long_batches_.is_on())
        control_.rested(static_cast<unsigned>(own_in_flight()), long_batches_.saw_queue());
    }
  }
  std::uint64_t wakes() const { return wakes_; }
  std::size_t most_in_flight() const { return most_in_flight_; }
  void change(Law law) { law_ = law; }
  /// No more than so many from now on.
  void read_only(std::uint64_t blocks) { left_ = blocks; }
  std::uint64_t left() const { return left_; }
  std::size_t own_in_flight() const {
    return in_flight_.size() - others_ - (session_reads_ ? 1 : 0);
  }
  /// Another one reads on: what is in flight is told as others' alone.
  void hand_over(DepthLimits limits) {
    others_ = static_cast<unsigned>(own_in_flight());
    ++reader_;
    control_.hand_over(limits, others_);
  }
  /// From now on a session reads cold blocks at depth 1, or does not any more.
  void session_misses(bool misses) {
    session_misses_ = misses;
    if (misses && !session_reads_) submit(true);
  }
  const std::vector<double>& session_latencies_s() const { return session_latencies_s_; }
  DepthControl& control() { return control_; }
  std::uint64_t completed() const { return completed_; }

 private:
  struct Read {
    double done, start;
    bool of_session;
    unsigned reader;
    bool operator<(const Read& other) const { return done > other.done; }
  };

  static std::chrono::microseconds microseconds(double seconds) {
    return std::chrono::microseconds(std::llround(seconds * 1e6));
  }

  void submit(bool of_session) {
    session_reads_ = session_reads_ || of_session;
    if (!of_session) --left_;
    if (law_.present > 0 && uniform_(random_) < law_.present) {
      in_flight_.push({now_ + 0.0008, now_, of_session, reader_});
      return;
    }
    double latency = law_.median_ms / 1e3 * std::exp(kSigma * normal_(random_));
    if (uniform_(random_) < law_.tail_probability) latency -= std::log(1 - uniform_(random_));
    double begun = now_;
    if (law_.slots > 0) {
      while (busy_slots_.size() >= law_.slots) {
        begun = std::max(begun, busy_slots_.top());
        busy_slots_.pop();
      }
      busy_slots_.push(begun + latency);
    }
    double granted = begun;
    if (law_.bandwidth_mib_s > 0) {
      next_free_ = std::max(next_free_, now_) + kBlockMib / law_.bandwidth_mib_s;
      granted = next_free_;
    }
    in_flight_.push({law_.additive ? granted + latency : std::max(begun + latency, granted), now_,
                     of_session, reader_});
  }

  Law law_;
  DepthControl control_;
  LongBatches long_batches_;
  LongBatches::Batch batch_;
  std::uint64_t wakes_ = 0;
  std::size_t most_in_flight_ = 0;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  std::priority_queue<Read> in_flight_;
  std::priority_queue<double, std::vector<double>, std::greater<>> busy_slots_;  // until when
  double now_ = 0, next_free_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t left_ = UINT64_MAX;
  unsigned reader_ = 0;
  unsigned others_ = 0;  // in flight of the reader before
  bool session_misses_ = false;
  bool session_reads_ = false;  // one is in flight
  std::vector<double> session_latencies_s_;
};

}  // namespace warmroot::warm
