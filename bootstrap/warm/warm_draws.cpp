#include "bootstrap/warm/warm_draws.hpp"

#include <algorithm>

namespace warmroot::warm {
namespace {

/// A first touch takes tens of milliseconds longer than what waits beside it in the same queue.
constexpr int kFirstTouchFactor = 2;
/// In a longer queue the factor no longer tells a first touch of 36 ms.
constexpr std::chrono::milliseconds kLongestQueue{30};

/// Times the median of certainly warm reads, before reads of what the map calls present speak
/// against it.
constexpr int kMapFirstTouchFactor = 4;
constexpr std::size_t kMapDoubtsAllowed = 3;  // of 64: warm reads behind a burst of writes

enum class Seen { present, absent, unclear };

Seen seen(const Draw& draw) {
  if (!draw.drawn) return Seen::unclear;
  if (*draw.drawn < kFirstTouchFrom) return Seen::present;
  if (!draw.beside) return Seen::absent;
  if (*draw.drawn >= kFirstTouchFactor * *draw.beside) return Seen::absent;
  return *draw.beside <= kLongestQueue ? Seen::present : Seen::unclear;
}

std::chrono::microseconds median(
    std::span<const std::optional<std::chrono::microseconds>> latencies) {
  std::vector<std::chrono::microseconds> values;
  for (const auto& latency : latencies)
    if (latency) values.push_back(*latency);
  if (values.empty()) return std::chrono::microseconds{0};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<Draw> draws_of(std::span<const std::optional<std::chrono::microseconds>> in_turn) {
  std::vector<Draw> draws;
  for (std::size_t i = 0; i + 1 < in_turn.size(); i += 2)
    draws.push_back({in_turn[i], in_turn[i + 1]});
  return draws;
}

Drawn judge_draws(std::span<const Draw> draws) {
  std::size_t absent = 0;
  std::size_t unclear = 0;
  for (const Draw& draw : draws) {
    absent += seen(draw) == Seen::absent ? 1 : 0;
    unclear += seen(draw) == Seen::unclear ? 1 : 0;
  }
  if (absent > 1 || 2 * unclear >= draws.size()) return Drawn::absent;
  return absent == 1 ? Drawn::doubtful : Drawn::present;
}

bool have_answered(std::span<const std::optional<std::chrono::microseconds>> sampled) {
  const auto answered = std::count_if(sampled.begin(), sampled.end(),
                                      [](const auto& one) { return one.has_value(); });
  return 2 * static_cast<std::size_t>(answered) >= sampled.size();
}

std::optional<std::size_t> cold_of_map(
    std::span<const std::optional<std::chrono::microseconds>> sampled,
    std::span<const std::optional<std::chrono::microseconds>> reference) {
  const auto limit = std::max<std::chrono::microseconds>(kFirstTouchFrom,
                                                         median(reference) * kMapFirstTouchFactor);
  const auto doubts = static_cast<std::size_t>(
      std::count_if(sampled.begin(), sampled.end(),
                    [limit](const auto& latency) { return latency && *latency > limit; }));
  if (doubts <= std::min(kMapDoubtsAllowed, sampled.size() / 2)) return std::nullopt;
  return doubts;
}

}  // namespace warmroot::warm
