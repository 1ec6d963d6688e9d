// Which of sshd's processes look after somebody whose session has not begun yet. sshd reads
// people's keys first, lets PAM take its time, and goes into the directory that the session link
// leads to at last: whoever was let in by a key of the volume's must not find the base there. Pure.
#pragma once

#include <sys/types.h>

#include <set>
#include <span>
#include <string>

namespace warmroot::bootstrap {

struct LoginProcess {
  enum class Root { base, volume, other };
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;    ///< its leader
  std::string command;  ///< as /proc/PID/comm has it
  bool is_roots = false;
  Root root = Root::base;
  bool is_old = false;  ///< who is not let in by then is sent away: LoginGraceTime
};

/// The processes of `all` that look after one connection each, without a session behind it: nobody
/// has come in yet, or they are about to.
std::set<pid_t> logins_under_way(std::span<const LoginProcess> all);

}  // namespace warmroot::bootstrap
