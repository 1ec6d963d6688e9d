// A daemon whose end is noticed: run in a child of this process, which does nothing else and so has
// nothing to fail by. Where people are in the volume nobody else would give it back in time.
#pragma once

#include <sys/types.h>

#include <functional>

namespace warmroot::bootstrap {

inline constexpr pid_t kInit = 1;  ///< who ends us at shutdown

/// What a life returns that could not begin for a reason that may pass.
inline constexpr int kTryLater = 75;
/// The value of a SIGTERM (sigqueue) that is passed on from init, and else would be somebody
/// else's.
inline constexpr int kFromInit = 1;

/// Runs `life` in a child process, and again in another one when that one was killed (by a person,
/// for want of memory, by a fault of its own), as long as `goes_on` says right after its end that
/// something is left to do: at once a few times, then once a minute. Ends this process with what
/// `life` returned. SIGTERM and SIGINT are the child's, which begins with them blocked, and are
/// passed on where init has not sent them to it as well. One that is killed after such a signal, or
/// is missing when it comes, has one life more, which hears SIGTERM as its first. A child ends with
/// this process until it says otherwise (PR_SET_PDEATHSIG). Requires: a process of one thread.
[[noreturn]] void supervise(const std::function<int(bool again)>& life,
                            const std::function<bool()>& goes_on);

}  // namespace warmroot::bootstrap
