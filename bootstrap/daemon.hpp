// The background process of `up`. Joins the parts: bring_up, warming, the reporter, the notice
// watcher, release. commands.cpp starts it, and finds it by its lock.
#pragma once

#include <optional>

#include "bootstrap/base/result.hpp"
#include "bootstrap/held_volume.hpp"
#include "bootstrap/sshd_config.hpp"
#include "bootstrap/status.hpp"
#include "bootstrap/ticket.hpp"

namespace warmroot::bootstrap {

/// Said when sshd has been started without our configuration, and no second one lets people in.
inline constexpr char kLateSentence[] =
    "sshd was running before the bootstrap: sessions stay on the base until it is restarted";

/// Becomes the daemon: runs until the volume was released, or unmounted for a reboot, then ends the
/// process (0 when it was). `sshd` is an error where sshd could not be configured: that is reported
/// then, and no volume is mounted. `held`: what a daemon that was killed left is served on, or
/// given back, where that had begun. Requires: the caller has the daemon's lock. Does not return.
[[noreturn]] void run_daemon(const Ticket& ticket, StatusBook& book, const Result<SshdFacts>& sshd,
                             std::optional<HeldRecord> held);

}  // namespace warmroot::bootstrap
