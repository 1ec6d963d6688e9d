// The way out: no new sessions, warn the people, run the operator's hooks, end what holds the root,
// mark clean, sync, unmount (never lazily), prove that the device is free. Each step is timed into
// the status book, and takes no more than release_plan gives it.
#pragma once

#include <functional>
#include <string>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/release_wishes.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

struct ReleaseInput {
  std::string pool;
  std::string instance_id;
  std::string reason;    ///< why, as to_string(ReleaseCause): for the hooks
  std::string sentence;  ///< why, for the people in the sessions
  /// When the machine may be taken away, by boottime_ms(); may come nearer while it is asked.
  std::function<std::int64_t()> deadline_ms;
  /// Stops everything of ours that uses the volume (the warmer saves its map); false when it has
  /// not ended within the limit.
  std::function<bool(Milliseconds limit)> stop_own_users;
  /// New sessions are refused meanwhile: what a copy to the node leaves on the base would go with
  /// the machine.
  bool turn_away = true;
  /// And afterwards, until somebody calls let_onto_base.
  bool machine_goes = false;
  ReleaseWishes wishes{};  ///< the ticket's
};

/// A banner says why new sessions are refused or land on the base, as they do after a failure in
/// any case: somebody may have to look why. After success nothing in any mount namespace holds the
/// device. Only unmounting and proving that decide; what else fails is recorded. Hooks are run once
/// a mount, however often this is tried. Where somebody else has unmounted the volume, no process
/// is looked for and no hook is run: they would be the base's. Errors: refused, naming who still
/// holds the volume; it stays mounted then and may be tried again.
Ok release(const ReleaseInput& input, Assignment& assignment, StatusBook& book);

/// New sessions land on the base, behind a banner with this sentence, or without one where it
/// cannot be written, which is the error then.
Ok let_onto_base(const std::string& pool, const std::string& sentence);

}  // namespace warmroot::bootstrap
