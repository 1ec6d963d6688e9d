// The command line of fleet_sim.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::fleet {

struct Options {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 1;
  int nodes = 5;
  int minutes = 10;
  std::vector<std::string> faults;  ///< empty: all
  int jobs = 1;
  bool json = false;
  bool coverage = false;              ///< the counts as a Markdown table
  std::uint64_t most_violations = 1;  ///< stops soon after so many
  bool print_trace = false;           ///< of every seed, whole
  std::string ledgers;                ///< a directory for them; empty: in memory
  int planted = 0;                    ///< number of a planted bug; 0: none
  std::size_t trace_lines = 80;
};

/// Errors: misconfigured, with the usage.
Result<Options> parse_options(int argc, char** argv);

}  // namespace warmroot::fleet
