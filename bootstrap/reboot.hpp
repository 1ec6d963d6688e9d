// An orderly reboot: whether init is about to do it, and the key of this instance's reports, which
// outlives it in a file of the base's disk. Used by the daemon at its beginning and at its end.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// Whether systemd has a job to reboot this machine (has_reboot_job). Asked for five seconds at
/// most; false where it does not answer, and where init is another.
bool init_reboots();

/// Whose a key is: another instance (one that was made from this one's image), and a manager that
/// has not given it, know nothing of it.
struct KeyOwner {
  std::string instance_id, deployment, manager_url;
};

/// Keeps what kKeyFile is to hold after the reboot; in place, over a power cut too, once it
/// returns.
Ok keep_key_over_reboot(const KeyOwner& owner, const std::string& key_file);
/// Makes kKeyFile of what the boot before has kept, where that is this owner's. Nothing is kept
/// afterwards, whosever it was. What hinders it is a line in the log: the manager is asked for a
/// new key then.
void take_key_after_reboot(const KeyOwner& owner);
void forget_key_over_reboot();

}  // namespace warmroot::bootstrap
