// A port of loopback behind which the volume's sshd listens: held for it, found in the process that
// listens, asked for its greeting, left when nobody is at the door.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/port_steering.hpp"

namespace warmroot::bootstrap {

/// For both families where there are two. It is held without listening: nobody else is given it,
/// while sshd, which asks for SO_REUSEADDR as well, may listen there, also once more after a
/// reload.
struct HeldPort {
  std::uint16_t number = 0;
  UniqueFd v4, v6;  ///< v6 is empty on a machine without ::1
};
Result<HeldPort> hold_port();

/// The socket with which a process listens on a port of loopback; empty when it has none.
UniqueFd listener_of(pid_t process, IpFamily family, std::uint16_t port);

/// What an SSH server says first, "SSH-2.0-...", at this port of loopback. Errors: refused when it
/// says something else or ends, retry_later when the limit passed or it was cancelled.
Result<std::string> read_greeting(std::uint16_t port, std::chrono::milliseconds limit,
                                  const Cancelled& cancelled);

/// Waits until clients whose handshake the kernel has begun or done have been taken by whoever
/// listens: they would be refused if it went now. At most `limit`. `ports` are those they came to.
void let_handshakes_end(const std::vector<UniqueFd>& listeners,
                        const std::vector<std::uint16_t>& ports, std::chrono::milliseconds limit);

}  // namespace warmroot::bootstrap
