// Bugs planted in a manager, to show that the simulation finds them: liars between its parts, never
// a hook in the product. Number 0 plants nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

struct PlantedBug {
  int number;
  const char* name;
};
const std::vector<PlantedBug>& planted_bugs();

/// The bootstrap mounts without looking whether the volume is clean.
inline constexpr int kUncheckedMount = 12;
/// The door for reports does not look at signatures.
inline constexpr int kBelievesAnybody = 15;
/// What a node could not repair is forgotten as soon as it was heard.
inline constexpr int kForgetsDamage = 17;

/// The boot behind a release serves whatever disk it finds.
inline constexpr int kForgetsGivenAway = 19;
/// A bootstrap goes on having served, in its record, what it has given back.
inline constexpr int kKeepsRecord = 23;

/// Puts the bug's liars into the process that is about to start.
void plant(int bug, World& world, Host& host, ProcessSetup& setup);
/// The spec that the reconciler is told.
core::Desired planted_desired(int bug, const core::Desired& desired);
/// EC2 as the reconciler sees it.
std::unique_ptr<aws::Ec2> planted_ec2(int bug, std::unique_ptr<aws::Ec2> truth);
/// What the reconciler is told of reports.
std::map<std::string, core::NodeReport> planted_reports(
    int bug, const std::map<std::string, core::NodeReport>& board);
/// What the door for reports is told of instances.
std::map<std::string, manager::KnownInstance> planted_known(
    int bug, std::map<std::string, manager::KnownInstance> known);
/// Lies told to the ledger between ticks.
void planted_after_tick(int bug, World& world, Host& host);

}  // namespace warmroot::fleet
