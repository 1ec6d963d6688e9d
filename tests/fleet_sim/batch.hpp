// Many seeds, on several threads; what they found and covered.
#pragma once

#include <optional>

#include "tests/fleet_sim/coverage.hpp"
#include "tests/fleet_sim/options.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

struct BatchResult {
  std::uint64_t runs = 0;
  std::uint64_t ticks = 0;
  double cpu_s = 0;
  double wall_s = 0;
  Milliseconds longest_settle{0};
  std::optional<RunResult> violation;  ///< of the smallest seed that has one
  std::uint64_t violations = 0;
  bool interrupted = false;            ///< somebody ended it before the last seed
  std::vector<std::string> described;  ///< one line each
  Coverage coverage;
};

/// Of the sources that this was built from: "abc1234", with "-dirty" behind it.
const char* revision();

RunResult run_seed(std::uint64_t seed, const Options& options);

/// Runs all seeds of the options; stops soon after its `most_violations`.
BatchResult run_batch(const Options& options);

/// "violation seed=7 fault=killed step=812 rev=abc1234 (5) two volumes for p-0; again: ...".
std::string describe_violation(const RunResult& result, const Options& options);

}  // namespace warmroot::fleet
