// Which threads are ours, so that their reads are told from a session's. Used by whoever looks at a
// trace: the recorder and session_trace.
#pragma once

#include <sys/types.h>

#include <set>

namespace warmroot::warm {

/// The calling thread reads the disk for warming; it is known as ours after its end too, whenever
/// somebody asks. Called as a thread's first deed.
void enlist_own_thread();

/// The threads of this process: those that enlisted, and all others that were asked for while they
/// ran. A number that the kernel gives anew, after millions of others, is taken for ours still.
class OwnThreads {
 public:
  bool contains(pid_t thread);

 private:
  std::set<pid_t> known_;
};

}  // namespace warmroot::warm
