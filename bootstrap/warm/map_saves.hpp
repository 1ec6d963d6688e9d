// When the warm map is saved while blocks still come in. Its fsync commits the journal of the
// session's file system, which on a cold volume waits for first touches, and what the session
// writes waits with it. Asked by map_keeper. Pure: times are arguments.
#pragma once

#include <chrono>
#include <optional>

namespace warmroot::warm {

/// Whether to save `since_last` after the last save was begun, or after the run was: from 5 s on as
/// soon as no session has missed a block for a second, and after 15 s in any case. `rest` is how
/// long none has; nothing: that is not known.
bool is_time_to_save(std::chrono::nanoseconds since_last,
                     std::optional<std::chrono::nanoseconds> rest);

}  // namespace warmroot::warm
