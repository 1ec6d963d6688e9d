// How the stock ssh reaches a node: arguments for it, and Host blocks for its configuration. Pure.
// The host key is looked up under the node's name (HostKeyAlias), which outlives every address.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::manager {

struct SshTarget {
  std::string node;
  std::string address;  ///< an IP address
  std::string user;     ///< empty: ssh decides
  int rescue_port = 0;  ///< where the base is reached; 0: it is not
};

/// Succeeds when nothing of the target can be read as anything but what it is, by ssh or by a
/// shell. Names come from tags, which others can write, and addresses from EC2. Errors:
/// misconfigured, naming what is wrong.
Ok check_ssh_target(const SshTarget& target);

/// "ssh" and what follows; `command` (may be empty) is what ssh sends to the session. Requires:
/// check_ssh_target.
std::vector<std::string> ssh_arguments(const SshTarget& target,
                                       const std::vector<std::string>& command);

/// A Host block of the node's name, and NODE-rescue where there is a rescue port. Requires:
/// check_ssh_target.
std::string ssh_host_blocks(const SshTarget& target);

}  // namespace warmroot::manager
