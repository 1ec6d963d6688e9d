// What a pool's spec may wish of every release for its people and hooks: told by the ticket, kept
// by the bootstrap's release_plan, waited for by the manager. One list for both programs.
#pragma once

#include <algorithm>

#include "bootstrap/base/units.hpp"

namespace warmroot {

/// Not negative. The defaults are what the 25 s from a notice to a free volume leave: 5 for people,
/// 7 to end programs, 10 to write back. Hooks are asked for, and may take longer.
struct ReleaseWishes {
  Milliseconds grace{5'000};   ///< from the first warning until programs are told to end
  Milliseconds hooks{30'000};  ///< all hooks together; their time begins with the people's
  friend bool operator==(const ReleaseWishes&, const ReleaseWishes&) = default;
};

/// Either is at most so many seconds. A spot notice gives 120 s, and what comes after people and
/// hooks has to have its time.
inline constexpr unsigned kMostReleaseWishS = 90;

/// How much longer than usual a release may take where neither EC2 nor init sets it an end.
constexpr Milliseconds extra_release_time(const ReleaseWishes& wishes) {
  constexpr ReleaseWishes kUsual{};
  const Milliseconds longer = std::max(wishes.grace, wishes.hooks);
  return std::max(Milliseconds{0}, longer - std::max(kUsual.grace, kUsual.hooks));
}

}  // namespace warmroot
