// Whether blocks were present before they were read, judged by how long that took. A slow read may
// have waited for a first touch or only in a queue (gp3's 3,000 a second, which a session uses
// too), so that each is compared with a read of a block that is certainly present, under way at the
// same time. Called by claim_trial, which draws the blocks. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace warmroot::warm {

/// What a draw of some blocks took. Empty: it failed, or did not end in time.
struct Draw {
  std::optional<std::chrono::microseconds> drawn;   ///< of a block that may be absent
  std::optional<std::chrono::microseconds> beside;  ///< of one that is present, at the same time
};

/// Pairs up the latencies of drawn and present blocks that were read in turn.
std::vector<Draw> draws_of(std::span<const std::optional<std::chrono::microseconds>> in_turn);

/// What draws say of all blocks like these. Doubtful: one looks like a first touch. That may be a
/// stall of the device or of this machine; where 3 % are absent, 64 draws meet one in 28 cases of
/// 100, and none in 14. Absent: more do, or of too many it cannot be told.
enum class Drawn { present, doubtful, absent };
Drawn judge_draws(std::span<const Draw> draws);

/// Whether at least half of the reads have ended in time.
bool have_answered(std::span<const std::optional<std::chrono::microseconds>> sampled);

/// How many blocks that a map calls present were cold when they were read again, where those are
/// more than a true map has; else nothing. `reference` repeats some of the reads: those are
/// certainly warm.
std::optional<std::size_t> cold_of_map(
    std::span<const std::optional<std::chrono::microseconds>> sampled,
    std::span<const std::optional<std::chrono::microseconds>> reference);

/// From here on a read may be a first touch: warm EBS reads take single-digit milliseconds.
inline constexpr std::chrono::milliseconds kFirstTouchFrom{10};

}  // namespace warmroot::warm
