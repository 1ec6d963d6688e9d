#include "bootstrap/release_plan.hpp"

#include <algorithm>

#include "bootstrap/base/node_stage.hpp"

namespace warmroot::bootstrap {
namespace {

/// A spot notice comes two minutes before the end (best effort). With what the wishes add the
/// manager waits for 30 s longer (drain_patience in manager/core), and `down` for 60 or more.
constexpr Milliseconds kUsual{120'000};
/// systemd kills what has not ended 90 s (DefaultTimeoutStopSec) after it was told to.
constexpr Milliseconds kShutdown{80'000};
constexpr Milliseconds kTerminate{5'000}, kKill{2'000};
constexpr Milliseconds kMostOwn{2'000}, kLeastOwn{1'000};
/// Before programs are told to end; whoever has no more than twice that has just been warned.
constexpr Milliseconds kReminder{10'000}, kLongGrace{20'000};
/// Of kKeptForSync; what sync has written needs no unmounting any more.
constexpr Milliseconds kLeastUnmount{3'000}, kMostUnmount{30'000};
/// Of unmounting, a third: whoever was killed may still write to a server that answers.
constexpr Milliseconds kMostServers{5'000};
/// Ending programs, writing back, unmounting: nobody can be warned.
constexpr Milliseconds kLeast = kKill + kKeptForSync + Milliseconds{3'000};

Milliseconds at_most(Milliseconds left, Milliseconds wished) {
  return std::clamp(left, Milliseconds{0}, wished);
}

}  // namespace

std::string_view to_string(ReleaseCause cause) {
  switch (cause) {
    case ReleaseCause::spot_notice:
      return "spot-notice";
    case ReleaseCause::shutdown:
      return "shutdown";
    case ReleaseCause::reboot:
      return "reboot";
    case ReleaseCause::wish:
      return "manager-wish";
    case ReleaseCause::operator_:
      return "operator";
    case ReleaseCause::disk_gone:
      return kDiskGone;
  }
  return "operator";
}

std::optional<ReleaseCause> release_cause_from(std::string_view word) {
  for (const auto cause : {ReleaseCause::spot_notice, ReleaseCause::shutdown, ReleaseCause::reboot,
                           ReleaseCause::wish, ReleaseCause::operator_, ReleaseCause::disk_gone})
    if (word == to_string(cause)) return cause;
  return std::nullopt;
}

Milliseconds time_for_release(ReleaseCause cause, std::string_view notice_time, Instant now,
                              ReleaseWishes wishes) {
  if (is_by_init(cause)) return kShutdown;
  if (cause == ReleaseCause::disk_gone) return kLeast;
  if (cause != ReleaseCause::spot_notice) return kUsual + extra_release_time(wishes);
  const auto end = parse_iso8601(notice_time);
  return end ? std::clamp(*end - now, kLeast, kUsual) : kUsual;
}

ReleaseBudget plan_release(Milliseconds left, ReleaseWishes wishes) {
  const Milliseconds spare = left - kKeptForSync;
  ReleaseBudget budget;
  budget.kill = at_most(spare, kKill);
  budget.terminate = at_most(spare - kKill, kTerminate);
  const Milliseconds before = spare - kKill - kTerminate;
  budget.warn = at_most(before, wishes.grace);
  budget.hooks = at_most(before, wishes.hooks);
  budget.own_users = at_most(spare, std::clamp(budget.warn / 2, kLeastOwn, kMostOwn));
  budget.sync = std::max(left, kKeptForSync) - kLeastUnmount;
  budget.unmount = std::clamp(left, kLeastUnmount, kMostUnmount);
  budget.servers = std::min(budget.unmount / 3, kMostServers);
  return budget;
}

bool is_reminder_due(Milliseconds given, Milliseconds left) {
  return given > kLongGrace && left > Milliseconds{0} && left <= kReminder;
}

std::uint64_t dirty_limit_bytes(unsigned write_mib_s) {
  return write_mib_s * kMiB * static_cast<std::uint64_t>(kWriteBack.count()) / 1000;
}

}  // namespace warmroot::bootstrap
