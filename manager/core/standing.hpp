// The end of planning: the rows that operators see, whether the world is stable, and when to look
// again.
#pragma once

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// Fills Plan::nodes, volumes, stable and next_look from the finished draft.
void describe_result(Draft& draft);

/// The nodes as EC2 and the ledger show them. Called before any rule has projected an action into
/// the draft, which it leaves as it was.
std::vector<NodeRow> rows_before_actions(Draft& draft);

/// True when the node has all that the spec asks for: its volume, and when wanted a running
/// instance that holds it.
bool node_settled(Draft& draft, const NodeDraft& node);

/// Cadence of looks. Source: an attach takes 1 to 4 s, so a quarter of a second costs little;
/// nothing changes by itself in an idle world but interruptions, which nodes report earlier.
inline constexpr Milliseconds kLookSoonest{250};
inline constexpr Milliseconds kLookWaiting{1'000};
inline constexpr Milliseconds kLookLongWait{5'000};
inline constexpr Milliseconds kLookIdle{30'000};
/// The same while EC2's events are heard. Status checks and volumes have none, so it stays short.
inline constexpr Milliseconds kLookIdleWithEvents{60'000};

/// Sub-second while something young is awaited, growing with `age`, the time since anything last
/// changed.
Milliseconds look_interval(bool awaiting, Milliseconds age, bool events_live = false);

}  // namespace warmroot::core
