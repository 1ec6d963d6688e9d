// See the header.
#include "tests/fleet_sim/catalogue.hpp"

#include <algorithm>

namespace warmroot::fleet {

const std::vector<const FaultEntry*>& all_faults() {
  static const std::vector<const FaultEntry*> faults = [] {
    std::vector<const FaultEntry*> all;
    for (const auto* group : {&answer_faults(), &machine_faults(), &people_faults(),
                              &order_faults(), &own_faults(), &reboot_faults()})
      for (const auto& entry : *group) all.push_back(&entry);
    return all;
  }();
  return faults;
}

std::vector<const FaultEntry*> chosen_faults(const std::vector<std::string>& names) {
  if (names.empty()) return all_faults();
  std::vector<const FaultEntry*> chosen;
  for (const auto* fault : all_faults())
    if (std::find(names.begin(), names.end(), fault->name) != names.end()) chosen.push_back(fault);
  return chosen;
}

}  // namespace warmroot::fleet
