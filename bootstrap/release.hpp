// The way out: no new sessions, warn the people, end what holds the root, mark clean, sync, unmount
// (never lazily), prove that the device is free. Each step is timed into the status book.
#pragma once

#include <functional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

struct ReleaseInput {
  std::string pool;
  std::string instance_id;
  std::string sentence;  ///< why, for the people in the sessions
  /// Stops everything of ours that uses the volume (the warmer saves its map) ; false when it
  /// has not ended within its time limit.
  std::function<bool()> stop_own_users;
};

/// After success nothing in any mount namespace holds the device. Only unmounting and proving that
/// decide; what else fails is recorded. Bounded in time: about two minutes at most. Errors:
/// refused, naming who still holds the volume; it stays mounted then and may be tried again.
Ok release(const ReleaseInput& input, Assignment& assignment, StatusBook& book);

}  // namespace warmroot::bootstrap
