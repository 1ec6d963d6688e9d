// Which parameters each action knows. Taken from EC2's API model (version 2016-11-15). Used by the
// Query front to refuse what EC2 would refuse, and to say openly what EC2 knows but this region
// does not model.
#pragma once

#include <string>

#include "tests/sim/query_actions.hpp"

namespace warmroot::sim {

/// One action: its code, required parameters, and throttle bucket (EC2's sizes and refill rates).
struct ActionEntry {
  std::string_view name;
  Action run;
  std::string_view required;    ///< separated by spaces; "X.1" asks for a list
  std::string_view known;       ///< patterns in which N stands for a list index
  std::string_view unmodelled;  ///< prefixes that EC2 knows and this region refuses openly
  double bucket;
  double refill_per_s;
  /// EC2's second bucket for some actions: its tokens are the instances touched. 0: none.
  double resources = 0;
  double resource_refill_per_s = 0;
  /// A listing that has a smaller bucket (50, refill 10) when it is neither filtered nor paged.
  bool has_plain_bucket = false;

  bool mutates() const { return !name.starts_with("Describe") && !name.starts_with("Get"); }
};

/// nullptr when this region has no such action.
const ActionEntry* find_action(std::string_view name);

/// Errors: UnknownParameter, UnsupportedOperation (known to EC2, not modelled here),
/// MissingParameter.
Answer<void> check_parameters(const ActionEntry& action, const Form& form);

}  // namespace warmroot::sim
