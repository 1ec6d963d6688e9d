// Logins under way at each sshd whose sessions the session link leads: the base's, in whatever
// network it is.
#pragma once

#include <chrono>

namespace warmroot::bootstrap {

/// For between "no key of the volume's counts any more" and "sessions land on the base". Waits
/// until each login that was under way has its session or has failed; what takes longer than
/// `limit`, and could as well be held by who logs in, is ended. Returns how many were ended.
unsigned let_logins_end(std::chrono::milliseconds limit);

}  // namespace warmroot::bootstrap
