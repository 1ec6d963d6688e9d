// What is left mounted: by a bootstrap that was killed, to be taken over or cleared, and by a
// bring-up that failed, to be undone. Called by whoever begins a daemon, by `down`, and by
// bring_up.
#pragma once

#include <optional>

#include "bootstrap/assignment.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

/// Unmounts what a bootstrap that was killed left mounted, and undoes what belongs to it, so that
/// the next one begins as the first did. Only where nobody is in the volume: their sessions go on.
/// Errors: refused, naming who is in it; VolumeUnmount::round's, within half a minute.
Ok clear_leftovers();

/// What a bootstrap that was killed left serving, or had not given back whole, to be taken over;
/// nullopt where there is nothing of that: then the rest is cleared. Errors: clear_leftovers'.
Result<std::optional<HeldRecord>> take_leftovers();

/// What is left of a bootstrap that was killed, for resume, or to be released; shown in the book.
Assignment taken_over(HeldVolume volume, StatusBook& book);

/// Points sessions at the base, ends whoever was let in, unmounts, undoes the entry: the way back
/// of a failed bring_up. Errors: the first part's; of unmounting as clear_leftovers'.
Ok undo_bring_up(Assignment& assignment);

}  // namespace warmroot::bootstrap
