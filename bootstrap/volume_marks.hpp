// What the bootstrap keeps of a lease on the volume itself: the marker, by which the next one knows
// how this one ended, and what was proved meanwhile. At kVolumePoint; called by bring_up and by the
// release.
#pragma once

#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "bootstrap/login_proof.hpp"

namespace warmroot::bootstrap {

/// What the last lease has proved, where it counts. For before mark_in_use.
std::optional<LoginProof> earlier_proof(const std::string& volume_id);

/// The volume is this instance's from now on, and what was proved counts for nobody any more.
/// Returns how the last lease has ended, for the timeline. Errors: one of the two could not be
/// written.
Result<std::string> mark_in_use(const std::string& instance_id);

/// For the next lease, once this one has ended clean. Errors: it cannot be written.
Ok keep_proof(const LoginProof& proof);

/// Errors: it cannot be written, or leads off the volume.
Result<std::string> mark_clean(const std::string& instance_id);

/// Of a volume that stays mounted: this lease has not ended. What it has proved stays, and counts
/// once it is marked clean again. Errors: as mark_clean.
Result<std::string> take_clean_mark_back(const std::string& instance_id);

}  // namespace warmroot::bootstrap
