// How often the services that give credentials are asked, and with what pause: as the SDKs'
// standard mode does. The instance's metadata service is none of them: its patience is set by the
// SDKs' own variables.
#pragma once

#include <utility>

#include "manager/aws/surroundings.hpp"

namespace warmroot::aws {

inline constexpr int kAttempts = 3;
inline constexpr Milliseconds kAttemptPause{200};

/// No answer, or one of a service that may be well again in a moment.
inline bool has_trouble(const Result<HttpReply>& reply) {
  return !reply || reply->status >= 500;
}

/// Calls `ask()` until `again(reply)` says no, kAttempts times at most. Returns the last reply.
template <typename Ask, typename Again>
Result<HttpReply> ask_repeatedly(const Surroundings& from, Ask ask, Again again) {
  for (int attempt = 1;; ++attempt) {
    Result<HttpReply> reply = ask();
    if (attempt == kAttempts || !again(std::as_const(reply))) return reply;
    if (from.sleep) from.sleep(kAttemptPause);
  }
}

}  // namespace warmroot::aws
