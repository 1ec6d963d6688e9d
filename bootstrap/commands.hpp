// The program's commands but `record`, as main.cpp calls them. `up` does in the foreground, in well
// under a second, what has to be done before sshd starts; everything else happens in the daemon.
#pragma once

#include <chrono>
#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

enum class UpMode {
  usual,       ///< in a unit of its own where init is systemd
  in_unit,     ///< the same, inside that unit
  foreground,  ///< returns only after the volume was released
};
/// Returns once sshd may start. Errors: the ticket, a second daemon, or sshd's configuration;
/// sessions stay on the base then.
Ok up(const std::string& ticket_path, UpMode mode);

/// Asks the running daemon to release the volume and waits for it, printing its steps to standard
/// output. Where the daemon is gone and left the volume mounted, releases it itself.
Ok down();

/// Shows how far warming is until it has ended: a bar on a terminal, else a line every ten seconds.
/// Errors: nothing runs, or warming failed.
Ok watch_warming();

/// Until new sessions land in the volume; says so. For what has to come after that: sshd at a boot,
/// an operator's part of user-data. Errors: retry_later when the limit has passed; refused when
/// they will not as things are (it failed, it is given back, sshd ran before us); gone when nothing
/// runs.
Ok wait_for_sessions(std::chrono::seconds limit);

/// Prints the status document (`json`) or a readable form of it.
Ok print_status(bool json);

}  // namespace warmroot::bootstrap
