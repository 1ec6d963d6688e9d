// The volume's own sshd as a process of the base: started in the volume's root, found by what it
// listens on, asked for its greeting, ended.
#pragma once

#include <cstdint>
#include <vector>

#include "bootstrap/volume_sshd.hpp"

namespace warmroot::bootstrap {

/// A port of loopback, for both families where there are two. It is held without listening: nobody
/// else is given it, while sshd, which asks for SO_REUSEADDR as well, may listen there, also once
/// more after a reload.
struct HeldPort {
  std::uint16_t number = 0;
  UniqueFd v4, v6;  ///< v6 is empty on a machine without ::1
};
Result<HeldPort> hold_port();

/// "ended with 1", "was killed by signal 9": of a wait status.
std::string end_in_words(int status);

/// A program that runs beside this one, in a session of its own.
struct Beside {
  std::vector<std::string> words;
  std::vector<std::string> variables;  ///< beside PATH
  int root = -1;                       ///< a directory that is its root; -1: the base's
  int log = -1;                        ///< gets its output
  std::vector<std::string> unmounted;  ///< trees that it does not see, and nobody else misses
};
/// Starts it. It gets SIGTERM when the calling thread ends. Errors: errno's.
Result<pid_t> start_beside(Beside program);

/// The socket with which a process listens on a port of loopback; empty when it has none.
UniqueFd listener_of(pid_t process, IpFamily family, std::uint16_t port);

/// A process of the base's: those that it let in outlive it.
class OwnSshd : public VolumeSshd {
 public:
  OwnSshd() = default;
  ~OwnSshd() override { end(std::chrono::seconds(2)); }
  OwnSshd(const OwnSshd&) = delete;
  OwnSshd& operator=(const OwnSshd&) = delete;

  Ok check_possible(const RootDirectory&) const override { return {}; }
  Ok start(const RootDirectory& root, const OwnSshdWishes& wishes, int log) override;
  std::chrono::milliseconds start_limit() const override { return std::chrono::seconds(90); }
  std::chrono::milliseconds start_look() const override { return std::chrono::milliseconds(10); }
  std::string describe() const override;
  std::optional<std::string> how_it_ended() override;
  UniqueFd listener(IpFamily family) override;
  bool holds_sessions() const override { return false; }
  bool runs(pid_t process) const override { return process == pid_; }
  bool end(std::chrono::milliseconds limit) override;

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
