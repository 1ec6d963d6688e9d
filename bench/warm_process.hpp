// A child process in a session of its own, ahead of others at the processor: its end, its CPU time,
// its peak memory. It dies with us, and its group with the object. Called by warm_rig.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

struct Command {
  std::vector<std::string> words;  ///< the first is a path
  std::string root;                ///< chroot; empty: none
  std::string output;              ///< file for both outputs; empty: /dev/null
};

struct Usage {
  int status = 0;  ///< as of wait(2)
  double cpu_s = 0;
  double peak_mib = 0;  ///< largest VmHWM of the process itself seen, every 20 ms
};

class Process {
 public:
  /// Errors: fork's; a command that cannot be executed ends with status 127.
  static Result<Process> start(const Command& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  /// SIGUSR1, which it was born with blocked.
  void notify() const;

  /// Its usage once it has ended.
  std::optional<Usage> poll();
  /// SIGTERM, SIGKILL two seconds later, for the whole group; returns when it has ended.
  Usage stop();

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;
  double peak_mib_ = 0;
  std::optional<Usage> ended_;
};

}  // namespace warmroot::bench
