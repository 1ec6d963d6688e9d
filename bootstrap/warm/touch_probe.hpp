// Does one 4 KiB read bring its whole 512 KiB block in? AWS says so of snapshots, nobody of
// volumes; so the pump reads the other half of some cold blocks right after their touch, all
// through a run, and this decides. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace warmroot::warm {

class TouchProbe {
 public:
  using Latency = std::chrono::microseconds;

  /// Whether to try a block whose touch took `first`: only what was cold can tell. Densely at
  /// first, every 64th later: a block's other half may never have been written, which is no proof
  /// for the others.
  bool wants(Latency first);

  /// Whether a second read took about as long as the first.
  static bool is_slow(Latency first, Latency second) { return second * kFastFraction >= first; }

  /// One try. `control` is the latency of a page that is certainly present, read beside the second
  /// to tell a block's missing half from a queue that slows every read; nullopt where it was not.
  void tried(Latency first, Latency second, std::optional<Latency> control);

  /// Whether touches have turned out not to suffice. Never false again.
  bool read_whole() const { return read_whole_; }

 private:
  static constexpr int kFastFraction = 4;    // "fast" is under a quarter of the first read
  static constexpr unsigned kSlowTries = 4;  // of the last 16: stalls are one in 1,000

  unsigned tries_ = 0;
  unsigned since_try_ = 0;
  std::uint16_t last_tries_ = 0;  // one bit each, set where slow
  bool read_whole_ = false;
};

}  // namespace warmroot::warm
