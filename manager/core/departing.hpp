// Whether an instance is on its way out: by its state, its own word, EC2's warning or its status
// checks. What was heard once is recorded. Used by the census; by the rollout for who reboots.
#pragma once

#include <optional>
#include <string>

#include "manager/core/draft.hpp"

namespace warmroot::core {

/// What the instance said about leaving is kept: reports are lost with the process, and one that
/// failed to drain is not fit to serve either.
std::optional<Departure> departure_of(Draft& draft, const std::string& id);

/// EC2's warning, if it is one to act upon: of an interruption, or a hint where the spec asks for
/// that. It may stand for many looks. nullptr: none.
const Warning* warning_of(Draft& draft, const std::string& id);

/// When a node should be back that says that its machine reboots; nullopt: it says another thing.
/// One that is back says so, with its first report, where that is heard.
std::optional<Instant> back_by(const Draft& draft, const std::string& id);

/// `down` and then `up` were run on it before its volume was detached: it says so, or that it has
/// mounted the volume since, and EC2 shows it there. Nothing but its own word had it leave.
bool is_there_again(Draft& draft, const std::string& id);

/// The same, and no call of before can take the volume from it any more. Once looks agree, its
/// departure is over.
bool comes_back(Draft& draft, const std::string& id);

/// Why an instance serves nobody any more; empty when it may.
std::string why_departing(Draft& draft, const aws::Instance& instance);

}  // namespace warmroot::core
