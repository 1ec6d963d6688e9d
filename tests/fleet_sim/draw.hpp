// All chance of a simulated run, from one seed. No distribution of the standard library: their
// values may differ between libraries. Of the arguments of one call at most one is drawn: which of
// two comes first is the compiler's choice, and a seed would be another run with another compiler.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "bootstrap/base/units.hpp"

namespace warmroot::fleet {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  /// A number in [0, limit); 0 for a limit of 0.
  int below(int limit) {
    return limit <= 0 ? 0 : static_cast<int>(random_() % static_cast<std::uint64_t>(limit));
  }
  /// A number in [first, last].
  int between(int first, int last) { return first + below(last - first + 1); }
  bool percent(int share) { return below(100) < share; }
  Milliseconds span(Milliseconds least, Milliseconds most) {
    const auto width = static_cast<std::uint64_t>((most - least).count() + 1);
    return least + Milliseconds(static_cast<std::int64_t>(random_() % width));
  }
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::uint64_t bits() { return random_(); }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace warmroot::fleet
