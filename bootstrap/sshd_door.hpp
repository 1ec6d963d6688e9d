// The base's ports, led to a steered sshd that listens on a port of loopback. The base's sshd goes
// on listening, and has its ports back as soon as the steering or the other socket is gone: closed
// here, by a dead sshd or by a dead bootstrap, the kernel sees to it alike. Used by the entries.
//
// Why loopback: who gets a connection is not decided by the address that a socket is bound to once
// a program steers, so that the other sshd needs no address at which it could be reached from
// outside beside the port.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/loopback_port.hpp"
#include "bootstrap/port_steering.hpp"
#include "bootstrap/restart_limit.hpp"
#include "bootstrap/steered_sshd.hpp"

namespace warmroot::bootstrap {

/// check, runs and describe may be called by another thread than the rest, and so may start and
/// open once it was closed.
class SshdDoor {
 public:
  /// `log` is the file to which its sshd writes.
  SshdDoor(std::vector<std::uint16_t> ports, std::unique_ptr<SteeredSshd> sshd, std::string log);
  ~SshdDoor() { close(); }
  SshdDoor(const SshdDoor&) = delete;
  SshdDoor& operator=(const SshdDoor&) = delete;

  /// Gets what it takes. Nobody is led anywhere by it. Errors: misconfigured or refused, why this
  /// base cannot.
  Ok prepare(const RootDirectory& root);
  /// The port of loopback, known once it is prepared.
  std::uint16_t port() const { return port_.number; }
  bool v6() const { return static_cast<bool>(port_.v6); }

  /// Starts sshd, unless it has been, and waits until it has greeted a client; still nobody is led
  /// to it. Returns the greeting. Requires: a thread that lives as long as this process. Errors:
  /// why not, one sentence.
  Result<std::string> start(const RootDirectory& root, const OwnSshdWishes& wishes,
                            const Cancelled& cancelled);
  /// New connections go to it from now on. Errors: refused once it was ended, retry_later where it
  /// is cancelled: who closes it has to have it cancelled before.
  Ok open(const Cancelled& cancelled = {});

  /// Whether they do, or would, where it was closed; put right where that is possible. Cheap.
  /// Errors: why not, one sentence.
  Ok check();
  /// The base has the ports for a while; since a start that was not the first, where begun_anew.
  bool is_away() const { return not_listening_since_ms_ != 0; }
  bool begun_anew() const { return begun_anew_; }

  /// The base has the ports from now on.
  void close();
  /// Ends sshd. Clients in the middle of a handshake are waited for. False when nothing ran.
  bool end(std::chrono::milliseconds limit);

  const SteeredSshd& sshd() const { return *sshd_; }
  bool runs(pid_t process) const;
  /// "sshd: the volume's own (process 12), which has the base's port 22".
  std::string describe() const;

 private:
  Ok check_process();
  Ok check_greeting();
  Ok begin_anew(const std::string& how_it_ended);
  Ok wait_until_it_listens(const Cancelled& cancelled);
  bool wanted(IpFamily family) const { return family == IpFamily::v4 || wishes_.v6; }
  bool all_steered() const;
  Result<bool> steer();
  std::string last_words() const;
  void bound_log() const;

  const std::vector<std::uint16_t> ports_;
  const std::unique_ptr<SteeredSshd> sshd_;
  const std::string log_path_;
  mutable std::mutex mutex_;
  HeldPort port_;
  OwnSshdWishes wishes_;
  UniqueFd log_;
  std::optional<PortSteering> steering_;
  bool started_ = false;
  std::atomic<bool> closed_ = false;  ///< since it was open
  // check's alone
  std::int64_t not_listening_since_ms_ = 0;  ///< 0: it listens
  std::chrono::milliseconds patience_;       ///< how long it need not
  bool begun_anew_ = false;                  ///< and has not listened since
  RestartLimit restarts_;
  std::int64_t next_greeting_ms_ = 0;
  int ungreeted_ = 0;                    ///< times in a row
  std::int64_t ungreeted_since_ms_ = 0;  ///< since when no greeting came; 0: the last one did
};

}  // namespace warmroot::bootstrap
