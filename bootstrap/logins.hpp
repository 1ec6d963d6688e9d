// Logins of the base's sshd that are under way.
#pragma once

#include <chrono>

namespace warmroot::bootstrap {

/// For between "no key of the volume's counts any more" and "sessions land on the base". Waits
/// until each login that was under way has its session or has failed; what takes longer than
/// `limit`, and could as well be held by who logs in, is ended. Returns how many were ended.
unsigned let_logins_end(std::chrono::milliseconds limit);

}  // namespace warmroot::bootstrap
