#include "bootstrap/login_plan.hpp"

#include <map>

namespace warmroot::bootstrap {
namespace {

/// "sshd", and from OpenSSH 9.8 on "sshd-session" and "sshd-auth".
bool is_sshd(const LoginProcess& process) {
  return process.command == "sshd" || process.command == "sshd-session" ||
         process.command == "sshd-auth";
}

/// A shell, or an sshd that has become a person. The one that talks to who is not let in yet has a
/// directory without anything for its root.
bool is_session(const LoginProcess& child) {
  if (!is_sshd(child)) return true;
  return !child.is_roots && child.root != LoginProcess::Root::other;
}

}  // namespace

std::set<pid_t> logins_under_way(std::span<const LoginProcess> all) {
  std::map<pid_t, const LoginProcess*> sshds;
  std::set<pid_t> with_session;
  for (const LoginProcess& process : all) {
    if (is_sshd(process)) sshds[process.pid] = &process;
    if (is_session(process)) with_session.insert(process.parent);
  }
  std::set<pid_t> under_way;
  for (const auto& [pid, process] : sshds)
    if (process->is_roots && process->root == LoginProcess::Root::base &&
        sshds.contains(process->parent) && !with_session.contains(pid))
      under_way.insert(pid);
  return under_way;
}

}  // namespace warmroot::bootstrap
