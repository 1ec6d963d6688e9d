// Reads a device or file at a fixed queue depth and says how long it took: the measuring half of
// the self-check against replay_closed_loop(). Called by ebs_test and by the benches before they
// trust the emulated volume.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::sim {

/// What one closed loop of reads took.
struct ProbeResult {
  std::chrono::nanoseconds elapsed{};               ///< first submission to last completion
  std::vector<std::chrono::nanoseconds> latencies;  ///< per offset, in the order given
};

/// Reads `length` bytes at each offset in order with O_DIRECT through io_uring, `depth` under way.
/// Requires: offsets and length are multiples of 4 KiB. Errors: of open, io_uring or any read (a
/// short one included).
Result<ProbeResult> probe_closed_loop(const std::filesystem::path& path,
                                      std::span<const std::uint64_t> offsets, std::uint64_t length,
                                      unsigned depth);

/// One line of the self-check's table.
struct SelfCheckPoint {
  unsigned depth = 0;
  double formula_blocks_s = 0;  ///< theoretical_blocks_per_second(): the long run's mean
  double replay_blocks_s =
      0;  ///< the pure model with the same seed: what a perfect server would show
  double measured_blocks_s = 0;

  double deviation() const { return measured_blocks_s / replay_blocks_s - 1; }
};

/// The table as text: depth, formula, replay, measured in MiB/s of hydration, and the deviation.
std::string self_check_table(std::span<const SelfCheckPoint> points, unsigned hydration_unit_kib);

}  // namespace warmroot::sim
