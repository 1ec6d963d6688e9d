// How many instances a pool may ask for now: max_instances, max_price_hour, and the breaker that
// opens when launches keep coming to nothing. Used by launching alone.
#pragma once

#include <optional>
#include <string>

#include "manager/core/draft.hpp"
#include "manager/core/offers.hpp"

namespace warmroot::core {

/// Launches of a pool that came to nothing, in a row, before its breaker opens: one may be bad
/// luck, two a bad host.
inline constexpr int kBreakerOpensAfter = 3;
/// The first wait of an open breaker and the longest. An instance is billed for a minute at least;
/// a bootstrap that is being repaired takes longer than the first.
inline constexpr Milliseconds kBreakerBase{300'000};
inline constexpr Milliseconds kBreakerCap{7'200'000};

/// When an open breaker lets one launch through; nullopt: it is closed.
std::optional<Instant> breaker_probe_at(const std::string& pool,
                                        const std::map<std::string, LaunchStreak>& streaks);

/// What the pool's instances cost an hour, those that are coming included; absent when the price of
/// one is not known.
std::optional<MicroUsd> hourly_cost(const Draft& draft, const PoolDraft& pool);

/// Fills Plan::cost_hour.
void tell_costs(Draft& draft);

class LaunchRoom {
 public:
  LaunchRoom(Draft& draft, const PoolDraft& pool);

  /// Whether the limit of the price has room for one at this price.
  bool affords(const std::optional<MicroUsd>& price) const {
    return !limit_ || (cost_ && price && *price <= *limit_ - *cost_);
  }
  /// Takes room for as many of `wanted` instances as there is, at this price each.
  int take(int wanted, const std::optional<MicroUsd>& price);
  /// Notes what stood in the way of takes, once a pool.
  void note_shortage();

 private:
  int most_by_price(int wanted, const std::optional<MicroUsd>& price);

  Draft& draft_;
  const PoolDraft& pool_;
  std::optional<int> count_left_;
  std::string count_reason_;
  NoteKind count_kind_ = NoteKind::launch_limit;
  std::optional<MicroUsd> limit_;  ///< max_price_hour
  std::optional<MicroUsd> cost_;
  std::string shortage_;
  NoteKind kind_ = NoteKind::launch_limit;
};

}  // namespace warmroot::core
