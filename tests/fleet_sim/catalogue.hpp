// Everything that can go wrong in a simulated run, one row a fault. A new fault is a row and its
// function; it needs nothing else.
#pragma once

#include <string>
#include <vector>

namespace warmroot::fleet {

class World;

/// What a world must have for a fault to strike anything: drawn now and then, and always there
/// where the fault is chosen alone.
enum class Needs { nothing, events, group };

struct FaultEntry {
  const char* name;
  const char* group;  ///< answers, machines, volumes, events, people or us
  /// Makes it happen once, now or for a spell of minutes. False: there was nothing to strike.
  bool (*strike)(World& world);
  Needs needs = Needs::nothing;
  /// Drawn, and drawing, by World::reboot_draw: what the others do does not depend on it until it
  /// strikes.
  bool apart = false;
  /// Apart, and by World::boot_draw: nor do those depend on it that are drawn by the other one.
  bool further = false;
};

const std::vector<FaultEntry>& answer_faults();
const std::vector<FaultEntry>& machine_faults();  ///< machines, volumes and events
const std::vector<FaultEntry>& people_faults();
const std::vector<FaultEntry>& order_faults();  ///< wishes, orders and the queue
const std::vector<FaultEntry>& own_faults();
const std::vector<FaultEntry>& reboot_faults();  ///< apart

/// All of them, in their order.
const std::vector<const FaultEntry*>& all_faults();
/// Those named, or all for an empty list. Names were checked by parse_options.
std::vector<const FaultEntry*> chosen_faults(const std::vector<std::string>& names);

}  // namespace warmroot::fleet
