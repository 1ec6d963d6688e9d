// Makes the root's file system fill a disk that is larger than what was on it: the partition
// (partition_grow plans it), then the mounted file system, by the kernel's own calls. Called by
// bring_up once sessions are open, where the ticket asks for it.
#pragma once

#include <string>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {

/// Says in words what was done, which may be nothing. Errors: refused, one sentence, when the
/// partition is not the last or the kernel does not grow this file system; then, or after a cut at
/// any moment, the root is what it was or larger, and the next call goes on.
Result<std::string> grow_root(const Assignment& assignment, const StopRequest& stop);

}  // namespace warmroot::bootstrap
