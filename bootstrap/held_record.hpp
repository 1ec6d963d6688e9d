// The record of the volume that is mounted (held_volume), in a file of root's below /run: there
// from before anybody is let in until the unmount. It is for the process that goes on where this
// one is killed; a reboot takes it away with the mount.
#pragma once

#include <optional>

#include "bootstrap/base/result.hpp"
#include "bootstrap/held_volume.hpp"

namespace warmroot::bootstrap {

Ok keep_held_record(const HeldRecord& record);
/// nullopt where there is none, or none that can be read: that is in the log then.
std::optional<HeldRecord> held_record();
void forget_held_record();

}  // namespace warmroot::bootstrap
