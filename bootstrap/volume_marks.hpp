// What the bootstrap keeps of a lease on the volume itself: the marker, by which the next one knows
// how this one ended. At kVolumePoint; called by bring_up and by the release.
#pragma once

#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// The volume is this instance's from now on. Returns how the last lease has ended, for the
/// timeline. Errors: it cannot be written, or leads off the volume.
Result<std::string> mark_in_use(const std::string& instance_id);

/// Errors: the same.
Result<std::string> mark_clean(const std::string& instance_id);

}  // namespace warmroot::bootstrap
