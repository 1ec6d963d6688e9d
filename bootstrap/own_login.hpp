// Keys by which people get in by the volume's own sshd beside those that it knows itself, and a
// login that is tried before it has the port: an sshd that greets may still let nobody in
// (AllowUsers, PAM, /etc/nologin), and then nobody would get to the base either.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/accounts.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/own_sshd_plan.hpp"

namespace warmroot::bootstrap {

/// As cloud-init does on a machine of the volume's own, but beside its files: at kLaunchKeys. An
/// empty key: nobody gets one. Errors: errno's.
Ok give_launch_key(const std::vector<User>& people, const std::string& key);
/// All of them, and what a trial that was killed has left.
void remove_login_keys();

struct OwnLogin {
  std::vector<User> people;
  std::string launch_key;  ///< that they have been given
  OwnSshdWishes wishes;    ///< by which sshd runs
  int root_fd = -1;        ///< the volume's root directory
};

/// Logs in on loopback as one of the people after the other until somebody gets in, with a key of
/// the moment and the base's own ssh, for a session that runs `true`, or what sshd_config and start
/// files of the volume run at a login. Their own keys, and who may write to their homes, it does
/// not see. Their launch keys are as before afterwards. Requires: a thread that lives as long as
/// this process. Returns a detail for the timeline, also where nothing is known. Errors: refused
/// when every one of the people is sure to be turned away, one sentence; retry_later when it was
/// cancelled; errno's.
Result<std::string> try_own_login(const OwnLogin& login, const Cancelled& cancelled);

}  // namespace warmroot::bootstrap
