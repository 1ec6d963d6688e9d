// Looks for what preflight judges, and shows people what it says.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/in_root.hpp"
#include "bootstrap/preflight.hpp"

namespace warmroot::bootstrap {

/// Looks at the base below `sys_root` and `proc_root`, and at the volume, of which it reads no more
/// than directories and some KiB of the C library. What cannot be read is left out, and what only
/// the entry knows.
PreflightFacts preflight_facts(const std::string& sys_root, const std::string& proc_root,
                               const RootDirectory& root);

/// What the base's PAM shows at each login with a terminal; nothing to say takes it away.
Ok show_message_of_the_day(const std::vector<Remark>& remarks);

/// The same for a volume whose own sshd, and PAM, let people in: in its /run, which goes with the
/// mount.
Ok show_message_in_volume(const RootDirectory& root, const std::vector<Remark>& remarks);

}  // namespace warmroot::bootstrap
