// What was written to a simulated volume and when it was flushed, with the bytes, in the order in
// which the device got it; and what a power cut at any point of that leaves. Filled by EbsVolume,
// replayed by tests/power_log_test.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <span>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "tests/sim/volume_model.hpp"

namespace warmroot::sim {

/// A write, or a flush where `bytes` is empty.
struct LoggedWrite {
  SimTime arrived{};
  SimTime answered{};
  std::uint64_t offset = 0;
  std::vector<char> bytes;
  bool is_flush() const { return bytes.empty(); }
};

/// Thread-safe.
class WriteLog {
 public:
  void append(LoggedWrite entry);
  /// Entries so far. Whoever was told that something is on the medium is told the truth by every
  /// prefix that is at least this long.
  std::size_t size() const;
  std::vector<LoggedWrite> take();

 private:
  mutable std::mutex mutex_;
  std::vector<LoggedWrite> entries_;
};

/// Walks through a log from its begin. What a flush found answered when it arrived is on the medium
/// from then on; all else may be lost, page by page. Pure.
class PowerCutReplay {
 public:
  /// `log` outlives the replay.
  explicit PowerCutReplay(std::span<const LoggedWrite> log) : log_(log) {}

  /// Goes on to the first `entries` of the log. Returns what came onto the medium by that, in
  /// order. Requires: not less than before.
  std::vector<const LoggedWrite*> advance(std::size_t entries);

  struct Page {
    std::uint64_t offset = 0;
    std::span<const char> bytes;
  };
  /// Of the writes that no flush has covered, the pages (of 4 KiB, aligned) that a cut here leaves:
  /// each with the probability that `random` drew for this cut, which is 0, 1/2 or 1. In order.
  std::vector<Page> survivors(std::mt19937_64& random) const;

 private:
  std::span<const LoggedWrite> log_;
  std::size_t at_ = 0;
  std::deque<const LoggedWrite*> pending_;
};

}  // namespace warmroot::sim
