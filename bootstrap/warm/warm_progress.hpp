// What the warmer tells the rest of the world: the `warm` object of the status document. Filled by
// the warmer, read by `up`; warm_progress_json.hpp turns it into JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bootstrap/warm/latency_histogram.hpp"

namespace warmroot::warm {

enum class WarmState {
  waiting,  ///< not started
  running,
  done,  ///< every needed block is present, or was given up after its retries (see errors, warmth)
  stopped,  ///< asked to stop; the map is saved then, and the next run resumes
  failed,   ///< the device went away or answers errors only; `note` says which
};

/// The state as one word, for logs and JSON.
std::string_view to_string(WarmState state);

struct WarmProgress {
  WarmState state = WarmState::waiting;
  std::uint64_t needed_blocks = 0;   ///< grid blocks that the volume's snapshot holds, or else that
                                     ///< hold anything in use; 0 until known
  std::uint64_t device_blocks = 0;   ///< grid blocks of the whole device, the other denominator
  std::uint64_t present_blocks = 0;  ///< needed blocks known to be on the volume
  std::uint64_t present_device_blocks = 0;  ///< blocks of the whole device that are, with those
                                            ///< that a list says are not in the snapshot
  std::uint64_t blocks_read = 0;            ///< blocks this run brought in
  std::uint64_t bytes_read = 0;  ///< bytes this run asked the device for, samples included
  double warmth = 0;             ///< present / needed, 0..1
  std::uint64_t elapsed_ms = 0;
  std::optional<std::uint64_t> eta_ms;
  std::string engine;                ///< "io_uring" or "pread"; empty before the probe
  unsigned depth = 0;                ///< reads kept in flight, but for short looks below and above
  std::uint64_t errors = 0;          ///< failed reads, retries included
  std::uint64_t resumed_blocks = 0;  ///< needed blocks that an earlier run's map vouched for
  std::uint64_t hot_blocks = 0;      ///< blocks of the hot list; 0: there is none
  std::uint64_t hot_present = 0;
  std::optional<std::uint64_t> hot_ms;  ///< when all of them were present; unset
                                        ///< again while some that came late are missing
  std::uint64_t file_blocks = 0;        ///< blocks of files that were wanted by name, as found
  std::string needed_source;            ///< "snapshot", "fsmap" or "whole"; empty until known
  unsigned touch_bytes =
      0;  ///< read per 512 KiB block: 4096, or 524288 where a touch is not enough
  /// Reads of blocks that no map vouched for: all that were seen to end in time, and of those seen
  /// up to 25 ms late, in a long batch, the ones of a second and more. So each stall is here, at
  /// most a fortieth too long, and they have more than their share.
  LatencySummary first_touch;
  LatencySummary warm_reads;  ///< sampled re-reads of present blocks
  std::string note;           ///< one sentence where something was not as expected, else empty

  /// Present blocks of the whole device, 0..1: what is free in the file system may still be in the
  /// snapshot and costs its first writer.
  double device_warmth() const {
    return device_blocks == 0
               ? 0
               : static_cast<double>(present_device_blocks) / static_cast<double>(device_blocks);
  }
};

}  // namespace warmroot::warm
