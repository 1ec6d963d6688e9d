// Bugs planted in a manager, to show that the simulation finds them: liars between its parts, never
// a hook in the product. Number 0 plants nothing.
#pragma once

#include <map>
#include <string>

#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

struct PlantedBug {
  int number;
  const char* name;
  const char* invariants;  ///< those that may find it: "(1)(5)"
  const char* faults;      ///< under which it shows; empty: all
};
const std::vector<PlantedBug>& planted_bugs();

/// Puts the bug's liars into the process that is about to start.
void plant(int bug, World& world, Host& host, ProcessSetup& setup);
/// What the reconciler is told of reports.
std::map<std::string, core::NodeReport> planted_reports(
    int bug, const std::map<std::string, core::NodeReport>& board);
/// Lies told to the ledger between ticks.
void planted_after_tick(int bug, World& world, Host& host);

}  // namespace warmroot::fleet
