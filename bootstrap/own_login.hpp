// Keys by which people get in by the volume's own sshd beside those that it knows itself, and one
// login that is tried before it has the port: an sshd that greets may still let nobody in
// (AllowUsers, PAM, files that others may write), and then nobody would get to the base either.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"

namespace warmroot::bootstrap {

/// As cloud-init does on a machine of the volume's own, but beside its files: at kLaunchKeys. An
/// empty key: nobody gets one. Errors: errno's.
Ok give_launch_key(const std::vector<User>& people, const std::string& key);
void remove_launch_keys();

struct OwnLogin {
  std::vector<User> people;
  std::string launch_key;  ///< that they have been given
  std::uint16_t port = 0;  ///< of loopback, where sshd listens
  std::string key_type;    ///< of OwnSshdFacts
};

/// Logs in with a key of the moment and the base's own ssh, by everything that a person's login
/// goes through, and does nothing there. Their launch keys are as before afterwards. Returns a
/// detail for the timeline, also where it could not be tried. Errors: refused when none of those
/// tried gets in, one sentence; retry_later when it took too long or was cancelled.
Result<std::string> try_own_login(const OwnLogin& login, const Cancelled& cancelled);

}  // namespace warmroot::bootstrap
