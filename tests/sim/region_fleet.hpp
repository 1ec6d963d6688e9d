// Launch templates and instant fleets of the simulated region: what is kept of them, and in which
// order a fleet tries its pools. Plain data and a pure function; the actions are query_templates
// and query_fleet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/region_model.hpp"

namespace warmroot::sim {

struct TemplateVersion {
  int number = 1;
  std::string description;
  Instant create_time;
  std::map<std::string, std::string> data;  ///< RunInstances' parameters, as the form names them
};

struct TemplateRecord {
  std::string id;  ///< lt-...
  std::string name;
  Instant create_time;
  int default_version = 1;
  std::vector<TemplateVersion> versions;  ///< ascending; never empty
  Tags tags;
};

/// What one override of a fleet launched, or why it did not.
struct FleetPart {
  std::string template_id, version;
  std::map<std::string, std::string> override_members;  ///< as the request gave them
  std::string type, zone, subnet_id;
  bool spot = true;
  std::vector<std::string> ids;
  std::string error_code, error_message;  ///< empty: it launched what was asked
};

struct FleetRecord {
  std::string id;
  Instant create_time;
  std::vector<FleetPart> parts;
  Tags tags;
};

/// A (type, zone) as an allocation strategy sees it.
struct FleetPool {
  std::size_t index = 0;  ///< of its override
  int price = 0;          ///< hundred-thousandths of a dollar an hour
  int room = 0;           ///< instances that fit now
  double priority = 0;    ///< lower is better; those without one come last
};

/// The pools in the order in which the strategy takes them, for `wanted` instances. An unknown
/// strategy is lowest-price, EC2's default for instant fleets. "diversified" keeps the order given,
/// as its pools share evenly.
std::vector<FleetPool> fleet_order(const std::string& strategy, std::vector<FleetPool> pools,
                                   int wanted);

}  // namespace warmroot::sim
