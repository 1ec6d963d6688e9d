// What becomes of a recorded call that EC2 has given no clear answer to, and how long what was sent
// may be carried out yet. The reconciler asks at each tick before anything new is planned, the
// judge of answers and the rules count with the time. Pure.
#pragma once

#include <set>
#include <string>

#include "manager/core/model.hpp"

namespace warmroot::core {

/// No request is carried out later than this after it was sent. An assumption: EC2 documents no
/// bound; its own clients give up after 60 s for connection and answer together.
inline constexpr Milliseconds kCarriedOutWithin{30'000};

/// A plan older than this was made for another world: the process was frozen, or EC2 took minutes
/// to answer. An attach of that age is not sent again.
inline constexpr Milliseconds kPlanExpires{60'000};

/// What nothing was heard of at `silent` may come about yet.
bool may_yet_be_carried_out(Instant silent, Instant now);

enum class Unanswered {
  again,      ///< sent again now, byte for byte
  rests,      ///< not now: it stays open, and counts against what it names
  withdrawn,  ///< not any more: it is planned anew from what EC2 shows
};

/// What is looked at beside the call.
struct UnansweredFacts {
  const Desired& desired;
  const std::set<std::string>& paused_pools;
  const SharedMap<aws::Volume>& volumes;      ///< at the last complete look; empty before the first
  const SharedMap<aws::Instance>& instances;  ///< the same
};

/// One with a client token (CreateVolume, RunInstances, CreateFleet, CopyVolumes) is sent again
/// until the answer is definite: its token makes that harmless as long as EC2 knows it, and nothing
/// else tells what it made; only a launch for a pool that wants none any more is not: if EC2 made
/// instances of it after all, their tags show them, and they fare like the others of their pool.
/// One without, whose effect a listing shows (DetachVolume, TerminateInstances, tags, attributes),
/// is right only in the world that it was planned for. AttachVolume is EC2's lock and may be
/// executed late, so it is sent again and counts against both the volume and the instance, until it
/// is a minute old and its time is over, or EC2 shows the volume elsewhere; not while EC2 shows
/// another volume on the instance, a second manager's doing or people's.
Unanswered becomes_of(const Intent& intent, const UnansweredFacts& facts, Instant now);

}  // namespace warmroot::core
