// The world around the manager under test: the simulated region behind EC2's own throttles, calls
// that take their time, faults drawn from the seed, guests that drain when they are told to go. One
// world is one run of one case; it keeps the clock and serves the manager's process through a
// socket until that has nothing left to do.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bench/scale_bound.hpp"
#include "bench/scale_wire.hpp"
#include "tests/sim/query.hpp"
#include "tests/sim/region.hpp"

namespace warmroot::bench {

/// Where there are more nodes, there are more pools.
inline constexpr int kNodesOfPool = 1000;

enum class CaseKind { running, launch, storm, faults };

struct CaseOptions {
  CaseKind kind = CaseKind::running;
  int nodes = 16;
  double share = 1.0;
  std::uint64_t seed = 1;
  double jitter = 0.6;
  bool events = false;   ///< changes are told to the manager, as its event queue and reports do
  Milliseconds lead{0};  ///< the manager runs so long before its spec asks, which begins the run
};

std::string_view to_string(CaseKind kind);

/// Numbers that are the same with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  /// Log-normal: half of the draws are below `median`.
  double lognormal(double median, double sigma);

 private:
  std::mt19937_64 random_;
};

/// How long calls take: a median by action, log-normal around it, and time that grows with the
/// answer. Half of it passes before EC2 executes the call.
Milliseconds latency_of(std::string_view action, Dice& dice);
inline constexpr double kMsPerKilobyte = 0.085;  ///< 0.5 ms an instance of 6 KB

/// Times of the region: EC2's usual ones, each drawn from [1 - jitter, 1 + jitter] of its value.
sim::RegionTimes bench_times(double jitter);

/// What a run showed.
struct Sight {
  std::vector<NodeWaits> waits;
  int served = 0;        ///< nodes whose volume is attached to an instance of their own
  int served_twice = 0;  ///< instances with more than one pool volume
  double done_s = 0;     ///< until the last attachment was complete
  double first_attach_s = 0;
  double last_attach_s = 0;
  int attach_calls = 0;
  int mutating_calls = 0;
  int describing_calls = 0;
  int throttled_calls = 0;
  std::map<std::string, int> calls;
  double released_share = 0;   ///< storm: volumes free two minutes after the notice
  double unmounted_share = 0;  ///< storm: unmounted by then
  double bytes_per_instance = 0;
  bool finished = false;  ///< false: the time limit came first
};

class World {
 public:
  explicit World(const CaseOptions& options);

  /// Answers the manager on `fd` until it says that it is finished; returns its last words.
  std::string serve(int fd);
  Sight sight() const;
  static Instant start();

 private:
  struct Call {
    const std::string* body = nullptr;
    Milliseconds up{0};
    Milliseconds down{0};
  };

  void set_up();
  void start_storm(Instant at);
  void drain(const std::string& instance_id);
  void advance(Instant to);
  void at(Instant when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  void answer_post(Frame& frame, int fd);
  void post_together(std::vector<const std::string*> bodies, std::vector<sim::QueryReply>& replies);
  sim::QueryReply execute(const std::string& body, Milliseconds up);
  std::optional<sim::ApiError> fault_of(const std::string& action, const std::string& body);
  void heed(const std::string& event);
  void count_launched(const std::string& instance);
  void hint(const std::string& id);
  void put_news(Frame& frame);
  bool finished() const;
  double seconds(Instant at) const;

  CaseOptions options_;
  Dice dice_;
  Dice faults_;
  sim::NoHardware hardware_;
  sim::Region region_;
  sim::QueryFront front_;
  std::multimap<Instant, std::function<void()>> events_;
  Instant began_;
  Instant limit_;
  Milliseconds current_up_{0};

  std::map<std::string, NodeWaits> by_volume_;
  std::map<std::string, NodeWaits> by_instance_;
  std::map<std::string, Instant> since_;  ///< when a resource entered its waiting state
  std::set<std::string> pool_volumes_;
  std::set<std::string> attached_;                ///< pool volumes that are
  std::set<std::string> running_;                 ///< instances that came up
  std::map<std::string, std::string> came_with_;  ///< volumes of launches, by instance
  int attached_before_ = 0;
  std::optional<Instant> first_attach_;
  Instant last_attach_{};
  Instant done_{};
  std::map<std::string, int> calls_;
  int throttled_ = 0;
  std::size_t instance_bytes_ = 0;
  std::size_t instances_shown_ = 0;
  std::map<std::string, Instant> not_running_until_;

  std::deque<std::string> hints_;
  std::deque<std::string> reports_;  ///< instance, volume, stage
  std::optional<Instant> storm_at_;
  std::set<std::string> struck_;     ///< volumes whose instance got its notice
  std::set<std::string> unmounted_;  ///< of those, in time
  std::set<std::string> freed_;      ///< of those, in time
};

}  // namespace warmroot::bench
