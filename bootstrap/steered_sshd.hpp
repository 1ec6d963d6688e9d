// An sshd that gets the connections to the base's ports by steering, while the base's own goes on
// listening there: the volume's, as a process of the base in the volume's root (sshd_process) or
// started by the volume's own init in a container (volume_container); or a second one of the base's
// (sshd_process). SshdDoor starts it, steers to its socket and looks after it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/own_sshd_plan.hpp"
#include "bootstrap/port_steering.hpp"

namespace warmroot::bootstrap {

class SteeredSshd {
 public:
  virtual ~SteeredSshd() = default;

  /// In a sentence: "the volume's own sshd".
  virtual std::string name() const = 0;
  /// Whether the base and the volume have what it takes. Errors: refused, one sentence.
  virtual Ok check_possible(const RootDirectory& root) const = 0;
  /// Starts it; `root` is the volume's, mounted at kVolumePoint, or any to one of the base's, to
  /// which it is nothing; its log goes to `log`. What it
  /// runs is told to end when the thread that called ends. Errors: errno's.
  virtual Ok start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) = 0;
  /// How long it may take until it listens.
  virtual std::chrono::milliseconds start_limit() const = 0;

  /// How often it is worth a look whether it does: what a look costs.
  virtual std::chrono::milliseconds start_look() const = 0;

  /// For `status`: "sshd: the volume's own (process 12)".
  virtual std::string describe() const = 0;
  /// How it ended, a sentence; nullopt while it runs.
  virtual std::optional<std::string> how_it_ended() = 0;
  /// It ended because somebody in the volume wants it to begin anew, as a machine that is rebooted.
  virtual bool wants_restart() const = 0;
  /// Its socket that listens on the port; empty while there is none.
  virtual UniqueFd listener(IpFamily family) = 0;

  /// Whether sessions end with it.
  virtual bool holds_sessions() const = 0;
  /// Whether a process on the volume is its own, and no session's.
  virtual bool runs(pid_t process) const = 0;
  /// No new sessions and no listener; what has not ended when the limit has passed is killed.
  /// False when nothing ran.
  virtual bool end(std::chrono::milliseconds limit) = 0;
};

}  // namespace warmroot::bootstrap
