// The volume's own sshd as a process of the base: started in the volume's root, found by what it
// listens on, asked for its greeting, ended. Knows nothing of who leads connections to it
// (sshd_entry).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/port_steering.hpp"

namespace warmroot::bootstrap {

/// A port of loopback, for both families where there are two. It is held without listening: nobody
/// else is given it, while sshd, which asks for SO_REUSEADDR as well, may listen there, also once
/// more after a reload.
struct HeldPort {
  std::uint16_t number = 0;
  UniqueFd v4, v6;  ///< v6 is empty on a machine without ::1
};
Result<HeldPort> hold_port();

class OwnSshd {
 public:
  OwnSshd() = default;
  ~OwnSshd() { end(); }
  OwnSshd(const OwnSshd&) = delete;
  OwnSshd& operator=(const OwnSshd&) = delete;

  /// Starts it in `root`; its log goes to `log`. It ends with the thread that called, as soon as
  /// the kernel can: sessions stay. Errors: errno's.
  Ok start(const RootDirectory& root, const OwnSshdWishes& wishes, int log);

  /// Its process; 0 when none was started.
  pid_t pid() const { return pid_; }
  /// How it ended, in words; nullopt while it runs.
  std::optional<std::string> how_it_ended();

  /// Its socket that listens on the port; empty while there is none.
  UniqueFd listener(IpFamily family) const;

  /// No new sessions and no listener; those that it let in stay. Within some two seconds.
  void end();

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  std::optional<std::string> ended_;
};

/// What an SSH server says first, "SSH-2.0-...", at this port of loopback. Errors: refused when it
/// says something else or ends, retry_later when the limit passed or it was cancelled.
Result<std::string> read_greeting(std::uint16_t port, std::chrono::milliseconds limit,
                                  const Cancelled& cancelled);

/// Waits until clients whose handshake the kernel has begun or done have been taken by whoever
/// listens: they would be refused if it went now. At most `limit`. `ports` are those they came to.
void let_handshakes_end(const std::vector<UniqueFd>& listeners,
                        const std::vector<std::uint16_t>& ports, std::chrono::milliseconds limit);

}  // namespace warmroot::bootstrap
