// OpenSSH makes a session's agent socket in the base's /tmp/ssh-XXXX before it enters the volume,
// so that it would be dead inside. The base's /tmp is bound at run/base-tmp in the volume; this
// thread keeps links from the volume's /tmp/ssh-* to it. The volume keeps its own /tmp. (From
// OpenSSH 10.1 sockets are in ~/.ssh/agent, on the base.)
#pragma once

#include <stop_token>
#include <string>

namespace warmroot::bootstrap {

/// Links what is there, follows what comes and goes, and takes its links away at the end. Opens the
/// volume for the moment of each change only, so that it never stands in the way of unmounting.
/// However many there are, it links some thousand at most and ends within a second of being asked.
void mirror_agent_sockets(const std::string& base_tmp, const std::string& point,
                          std::stop_token stop);

}  // namespace warmroot::bootstrap
