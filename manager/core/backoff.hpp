// How long to leave alone what was refused. Pure arithmetic: the jitter is a number of the caller.
#pragma once

#include "bootstrap/base/units.hpp"
#include "manager/core/model.hpp"

namespace warmroot::core {

/// min(cap, base * 2^(failures-1)) scaled by 0.5 to 1 with `jitter` in [0, 1]; zero without
/// failures. Never overflows.
Milliseconds backoff_delay(int failures, Milliseconds base, Milliseconds cap, double jitter);

/// The first wait after a refusal, and the longest. Source: SDKs start at 1 s for throttles; the
/// longest is what leaves a node served within two minutes after the cause has passed.
inline constexpr Milliseconds kBackoffBase{1000};
inline constexpr Milliseconds kBackoffCap{100'000};
/// For states that pass by themselves within seconds (IncorrectState on a fresh instance, a device
/// name taken).
inline constexpr Milliseconds kBackoffBrief{300};

/// For an instance that EC2 shows as running and does not take for running yet. Source: it follows
/// within seconds; each attempt costs a token that others wait for.
inline constexpr Milliseconds kBackoffPending{3000};

/// "18:33:38 UTC", the next full second. Notes name times of day and not the seconds left, so that
/// a note stays the same note from look to look.
std::string time_of_day(Instant at);

/// Code of a Failure that is ours and not EC2's: the first attempt had no clear answer, and the
/// call is planned anew although EC2 may still carry it out.
inline constexpr const char* kWithdrawn = "Withdrawn";

/// EC2's code for what is not in the state that the call needs, and will be soon.
inline constexpr const char* kIncorrectState = "IncorrectState";

/// When the thing that failed may be tried again; `key` spreads nodes that failed together.
Instant retry_at(const Failure& failure, const std::string& key);

}  // namespace warmroot::core
