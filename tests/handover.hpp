// A whole bootstrap with a volume, to see what a release does: the fixture of handover_test,
// hooks_test and dirty_memory_test.
#pragma once

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {

/// Hooks of the tree: $h is their folder, and `hook NAME WORDS` writes one.
inline constexpr char kHooks[] = R"(
    h=$t/etc/warmroot/hooks.d; mkdir -p $h; mkdir -p $t/var/lib; mkfifo $t/never
    hook() { printf '#!/bin/sh\n%s\n' "$2" >"$h/$1"; chmod 755 "$h/$1"; }
)";

class Handover : public BootWhole {
 protected:
  /// Mounts a volume with these hooks, as bring_up does.
  void bring_up_with(const std::string& hooks) {
    make_volume(kHooks + hooks);
    dress_as_disk();
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
  }
  std::vector<TimedStep> steps_with(const std::string& prefix) const {
    std::vector<TimedStep> found;
    for (const auto& step : book_.snapshot().steps)
      if (step.name.rfind(prefix, 0) == 0) found.push_back(step);
    return found;
  }
  /// One "name: outcome: detail" a hook.
  std::vector<std::string> hook_lines() const {
    std::vector<std::string> lines;
    for (const auto& step : steps_with("hook"))
      lines.push_back(step.name + ": " + std::string(to_string(step.outcome)) + ": " + step.detail);
    return lines;
  }
  std::string on_volume(const std::string& path) {
    if (mounts_at(kVolumePoint).empty()) mount_volume();
    return read_file(inside(path), 65536).value_or("absent");
  }
};

/// A child that runs `work` and then waits to be killed, at the latest by our own end: a test that
/// has failed would leave it to whoever waits for our output. Ready once this returns.
template <typename Work>
pid_t child_that(Work work) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool done = work();
    [[maybe_unused]] const auto put = ::write(ready[1], done ? "y" : "n", 1);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ::close(ready[0]);
  return child;
}

inline void end(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace warmroot::bootstrap
