// How long a release may take and what each of its steps gets of that. Pure: release.cpp asks again
// before every step with the time that is left then, so that a step which took too long shortens
// the ones after it, and never the last one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bootstrap/base/release_wishes.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::bootstrap {

/// Why the volume has to be given back.
enum class ReleaseCause {
  spot_notice,  ///< EC2 takes the instance back
  shutdown,     ///< init asked us to end, and ends this machine
  reboot,       ///< the same, and the machine comes back: with the volume, unless somebody wants it
  wish,         ///< the manager's, with the answer to a report
  operator_,    ///< `down`, a signal by hand, or who stops our unit
  disk_gone,    ///< taken away by force: nothing can be saved
};

/// "spot-notice", "shutdown", "reboot", "manager-wish", "operator", "disk-gone": for reports and
/// hooks.
std::string_view to_string(ReleaseCause cause);

/// nullopt where the word is none of them.
std::optional<ReleaseCause> release_cause_from(std::string_view word);

/// init waits for us, and kills us after a while.
constexpr bool is_by_init(ReleaseCause cause) {
  return cause == ReleaseCause::shutdown || cause == ReleaseCause::reboot;
}

/// Kept for writing back and unmounting, whatever the steps before would like to have.
inline constexpr Milliseconds kKeptForSync{15'000};
/// Of these: what the volume's dirty memory may hold is what its bandwidth writes in this time.
inline constexpr Milliseconds kWriteBack{10'000};

/// How much time a release has. `notice_time` is EC2's word of a spot notice (ISO 8601), else
/// empty. One that cannot be read, or lies further ahead than a notice ever comes, counts as EC2's
/// documented two minutes; one that has passed as the least with which a release can succeed,
/// because the end may come at any moment. Wishes lengthen it only where nobody else sets an end.
Milliseconds time_for_release(ReleaseCause cause, std::string_view notice_time, Instant now,
                              ReleaseWishes wishes);

struct ReleaseBudget {
  Milliseconds warn{0};       ///< from the first warning until programs are told to end
  Milliseconds own_users{0};  ///< for the warmer to save its map; runs while people save
  Milliseconds hooks{0};      ///< all hooks together, before programs are told to end
  Milliseconds terminate{0};  ///< from SIGTERM to SIGKILL
  Milliseconds kill{0};       ///< for what was killed to be gone
  Milliseconds sync{0};
  Milliseconds unmount{0};
  Milliseconds servers{0};  ///< of unmount: NFS or FUSE of people's is not forced before
};

/// What each step may take when it begins with `left` before the end. As long as `left` is more
/// than kKeptForSync, no step before sync takes any of that, whatever the wishes are: they are cut.
ReleaseBudget plan_release(Milliseconds left, ReleaseWishes wishes);

/// True in the last 10 s that people have who were given more than 20: they are told once more.
bool is_reminder_due(Milliseconds given, Milliseconds left);

/// Bytes that a volume of so many MiB/s writes in kWriteBack.
std::uint64_t dirty_limit_bytes(unsigned write_mib_s);

}  // namespace warmroot::bootstrap
