// Which sshd is listening: one that ran before its configuration was written has not read it, and a
// second `up` has to know that one again. Called by `up`, and by who waits for it.
#pragma once

#include "bootstrap/base/result.hpp"

namespace warmroot::bootstrap {

/// Whether an sshd of the base runs: root's, in this network namespace. One of a container lets
/// nobody onto the base.
bool sshd_is_running();

/// Whether the base's sshd runs without what install_sshd_config writes: it ran before the first
/// `up` of this boot that wrote all of that, and has neither been restarted nor reloaded since. To
/// be asked before install_sshd_config, by every `up`; afterwards it tells whether that still is
/// so. Remembered below kRunDirectory are its
/// listening sockets, or the processes where it has none (yet), which a reload does not change:
/// then it is late until it is restarted. Errors: errno's, of remembering.
Result<bool> sshd_is_late();

}  // namespace warmroot::bootstrap
