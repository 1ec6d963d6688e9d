#include "bootstrap/warm/warm_draws.hpp"

#include <cstddef>

namespace warmroot::warm {
namespace {

/// A first touch takes tens of milliseconds longer than what waits beside it in the same queue.
constexpr int kFirstTouchFactor = 2;
/// In a longer queue the factor no longer tells a first touch of 36 ms.
constexpr std::chrono::milliseconds kLongestQueue{30};
constexpr std::size_t kDoubtsAllowed = 1;  // a stall of the device or of this machine

enum class Seen { present, absent, unclear };

Seen seen(const Draw& draw) {
  if (!draw.drawn) return Seen::unclear;
  if (*draw.drawn < kFirstTouchFrom) return Seen::present;
  if (!draw.beside) return Seen::absent;
  if (*draw.drawn >= kFirstTouchFactor * *draw.beside) return Seen::absent;
  return *draw.beside <= kLongestQueue ? Seen::present : Seen::unclear;
}

}  // namespace

std::vector<Draw> draws_of(std::span<const std::optional<std::chrono::microseconds>> in_turn) {
  std::vector<Draw> draws;
  for (std::size_t i = 0; i + 1 < in_turn.size(); i += 2)
    draws.push_back({in_turn[i], in_turn[i + 1]});
  return draws;
}

bool were_present(std::span<const Draw> draws) {
  std::size_t absent = 0;
  std::size_t unclear = 0;
  for (const Draw& draw : draws) {
    absent += seen(draw) == Seen::absent ? 1 : 0;
    unclear += seen(draw) == Seen::unclear ? 1 : 0;
  }
  return absent <= kDoubtsAllowed && 2 * unclear < draws.size();
}

}  // namespace warmroot::warm
