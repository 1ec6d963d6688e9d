#include "bootstrap/warm/map_saves.hpp"

namespace warmroot::warm {
namespace {

/// ext4 commits every 5 s by itself, where the session writes.
constexpr auto kSaveEvery = std::chrono::seconds(5);
/// What a kill may cost, before the first save as between two: the blocks of so long are read
/// again. They are warm by then: 9,000 of a pipe of 300 MiB/s take 3 s at gp3's 3,000 a second.
constexpr auto kSaveAtLeastEvery = std::chrono::seconds(15);
/// A session's misses follow each other in tens of milliseconds, with its processor's time between.
constexpr auto kAtRest = std::chrono::seconds(1);

}  // namespace

bool is_time_to_save(std::chrono::nanoseconds since_last,
                     std::optional<std::chrono::nanoseconds> rest) {
  if (since_last >= kSaveAtLeastEvery) return true;
  return since_last >= kSaveEvery && rest && *rest >= kAtRest;
}

}  // namespace warmroot::warm
