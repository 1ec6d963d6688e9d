// Which process is the daemon, and which one begins it anew: whoever has a lock on a file of
// root's, which no other process can pretend to have. Used by the daemon, and by the commands that
// look for it or signal it.
#pragma once

#include <sys/types.h>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot::bootstrap {

/// This process is the daemon for as long as these are open.
struct DaemonLock {
  UniqueFd lock;
  UniqueFd pid_file;  ///< locked, too: for people, who may not open the other one
};

/// Errors: refused when another daemon is running, of an older program too; errno's.
Result<DaemonLock> lock_daemon();

/// Pid of a living daemon; 0 for none.
pid_t running_daemon();

/// Signals the living daemon, never somebody who has its number by now. Returns its pid; 0 for
/// none. Errors: refused when the lock's holder is no bootstrap of root's; errno's.
Result<pid_t> signal_daemon(int number);

/// Whether one runs, also where it is of another PID namespace, as in the volume's container.
bool daemon_runs();

/// This process begins the daemon anew for as long as it is open. Errors: refused when another one
/// does; errno's.
Result<UniqueFd> lock_supervisor();
/// Whether there is a process that begins the daemon anew.
bool supervisor_runs();
/// Ends it, for good: whoever wants the daemon to stay away, or begins another, comes first. The
/// daemon itself stays. Succeeds when there is none. Errors: as signal_daemon.
Ok end_supervisor();

}  // namespace warmroot::bootstrap
