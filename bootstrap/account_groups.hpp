// Groups of the volume whose names are not to be the base's: the system's (below 1000), and those
// that are worth something there. A session's credentials have the numbers that the base's files
// give its name; so people get such a number under a name of ours, by which no rule of the base
// goes, if it means nothing on the base or devices alone. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/accounts.hpp"

namespace warmroot::bootstrap {

/// Groups that devices have, whose numbers are the base's in a session, and that are worth no more.
bool is_device_group(std::string_view name);

/// Lines for the base's group file: "warmroot-g998:x:998:ada". The number is the volume's, where
/// nobody has it on the base; of a group of devices the base's, too, where it is no other group's
/// on the volume. `edit` has its session_users and what it adds of groups by their names.
std::vector<std::string> groups_by_number(const AccountFiles& base, const AccountFiles& volume,
                                          const AccountEdit& edit);

}  // namespace warmroot::bootstrap
