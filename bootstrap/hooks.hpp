// The operator's hooks in the volume: programs of /etc/warmroot/hooks.d that a release runs while
// people still have time to save. Run inside the volume by chroot, as root. Called by release,
// which keeps the time and the timeline.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/status.hpp"

namespace warmroot::bootstrap {

/// Inside the volume, relative to its root.
inline constexpr char kHooksFolder[] = "etc/warmroot/hooks.d";

struct HookFile {
  std::string name;
  std::string unfit;  ///< why it is not run; empty: it is
};

/// Names of the folder in byte order; none where there is no folder. Hidden files and backups
/// ("x~") are left out, what is not fit says why: no regular file (a link neither), not executable,
/// not root's, or one that others can write. Errors: refused when the folder, or one on the way to
/// it, is a link or could be written by others.
Result<std::vector<HookFile>> find_hooks(const RootDirectory& root);

struct HookOrder {
  std::string reason;  ///< WARMROOT_REASON: "spot-notice", ...
  std::string pool, instance_id, volume_id;
  /// When all of them have to have ended, by boottime_ms(); may come nearer while they run.
  std::shared_ptr<const std::atomic<std::int64_t>> deadline_ms;
};

/// Runs them one after the other, each for at most two thirds of what is left. Who takes longer
/// gets SIGTERM, then SIGKILL; whatever a hook leaves behind is killed, also what it has detached.
/// Output goes to the log, bounded. One step of the timeline each, start_ms by boottime_ms().
std::vector<TimedStep> run_hooks(const RootDirectory& root, const std::vector<HookFile>& hooks,
                                 const HookOrder& order);

/// Those of the volume that is mounted at kVolumePoint and has this st_dev, once a mount: kHooksRun
/// says that they were. Errors: gone when it is not mounted any more; find_hooks'; errno's, where
/// that cannot be written.
Result<std::vector<TimedStep>> hooks_of_volume(const HookOrder& order, dev_t device);

}  // namespace warmroot::bootstrap
