#include "bootstrap/login_plan.hpp"

#include <map>

namespace warmroot::bootstrap {
namespace {

/// "sshd", and from OpenSSH 9.8 on "sshd-session" and "sshd-auth".
bool is_sshd(const LoginProcess& process) {
  return process.command == "sshd" || process.command == "sshd-session" ||
         process.command == "sshd-auth";
}

/// A shell, which leads a session of its own, unlike what PAM or an AuthorizedKeysCommand starts,
/// or an sshd that has become a person or is in the volume. The one that talks to who is not let in
/// yet has a directory without anything for its root.
bool is_session(const LoginProcess& child) {
  if (!is_sshd(child)) return child.session == child.pid;
  return child.root == LoginProcess::Root::volume ||
         (!child.is_roots && child.root != LoginProcess::Root::other);
}

}  // namespace

std::set<pid_t> logins_under_way(std::span<const LoginProcess> all) {
  std::map<pid_t, const LoginProcess*> sshds;
  for (const LoginProcess& process : all)
    if (is_sshd(process)) sshds[process.pid] = &process;
  // From OpenSSH 9.8 on there are two of root's above a shell of root's.
  std::set<pid_t> with_session;
  for (const LoginProcess& process : all) {
    if (!is_session(process)) continue;
    for (auto at = sshds.find(process.parent);
         at != sshds.end() && with_session.insert(at->first).second;)
      at = sshds.find(at->second->parent);
  }
  std::set<pid_t> under_way;
  for (const auto& [pid, process] : sshds)
    if (process->is_roots && process->root == LoginProcess::Root::base && !process->is_old &&
        sshds.contains(process->parent) && !with_session.contains(pid) && !is_session(*process))
      under_way.insert(pid);
  return under_way;
}

}  // namespace warmroot::bootstrap
