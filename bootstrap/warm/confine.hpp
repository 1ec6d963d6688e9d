// The system calls that a thread of the warmer may make once its disk and its ring are open: a
// seccomp filter of that thread alone. Called by the warmer's own threads; what they start inherits
// it. It bounds what a fault in the parsing of a volume's bytes can do to the machine; it is no
// sandbox, since the threads share their memory with the rest of the bootstrap.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::warm {

/// The filter for a thread of process `own`. Whatever is not on its list ends with EPERM, not with
/// the thread's death: it may hold a lock that the release needs, and warming that fails is a note.
std::vector<sock_filter> warmer_filter(pid_t own);

/// Confines the calling thread for good. Errors: what the kernel said; then nothing has changed but
/// that the thread gains no privileges by exec any more.
Ok confine_thread();

}  // namespace warmroot::warm
