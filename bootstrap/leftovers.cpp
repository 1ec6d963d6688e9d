#include "bootstrap/leftovers.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/base/log.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/held_record.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/host_keys.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/preflight_io.hpp"
#include "bootstrap/unmount.hpp"
#include "bootstrap/volume_root.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;

/// For programs that a killed bootstrap had started.
constexpr milliseconds kLeftoverLimit{2000};
/// systemd in it gives its services so long to end by themselves that this cuts some short.
constexpr milliseconds kContainerLimit{std::chrono::seconds(20)};
constexpr milliseconds kLeftoverLook{20};
/// For those to end whom a server that was forced has let go.
constexpr milliseconds kForcedLimit{1000};

bool is_mounted(const HeldVolume& volume) {
  return mounted_root(volume.root_device) == volume.root_device;
}

/// Who uses the volume and does not end within a moment by itself.
std::vector<Holder> lasting_holders() {
  const auto device = mounted_root();
  if (!device) return {};
  const std::int64_t deadline = boottime_ms() + kLeftoverLimit.count();
  auto who = holders_of(*device);
  while (!who.empty() && boottime_ms() < deadline) {
    std::this_thread::sleep_for(kLeftoverLook);
    who = holders_of(*device);
  }
  return who;
}

/// What a greeting of sshd's or a probe login has left ends within a moment; people who were let in
/// before the bring-up failed do not.
void end_whoever_is_in(const HeldVolume& volume) {
  if (lasting_holders().empty() || !is_mounted(volume)) return;
  std::ignore = search_holders(volume.root_device, {}, {SIGHUP, SIGTERM, SIGCONT});
  if (!lasting_holders().empty()) std::ignore = kill_holders(volume.root_device, {});
}

/// A process that has just been killed closes its files when nobody can see them any more; one that
/// waits for a server does once that is forced. `devices`: of the disk's partitions but the root.
Ok unmount_when_closed(VolumeUnmount& unmounting, const std::vector<dev_t>& devices) {
  const UnmountRound order = round_from_now(kVolumePoint, devices);
  const std::int64_t deadline = order.force_ms + kForcedLimit.count();
  const auto may_pass = [](const Error& error) {
    return error.code == "EBUSY" || error.kind == ErrorKind::retry_later;
  };
  Ok unmounted = unmounting.round(order);
  while (!unmounted && may_pass(unmounted.error()) && boottime_ms() < deadline) {
    std::this_thread::sleep_for(kLeftoverLook);
    unmounted = unmounting.round(order);
  }
  if (const std::string how = unmounting.remarks({}); unmounted && !how.empty())
    log_event(LogLevel::warning, "the volume is unmounted", {{"how", how}});
  return unmounted;
}

/// Sessions are led into it, or somebody is in it whom no link has led there.
bool is_used(const HeldVolume& volume) {
  return is_mounted(volume) &&
         (link_text(kSessionRoot) == kVolumePoint || !lasting_holders().empty());
}

/// What runs in a container is told to end when the process that started it has ended, and nobody
/// can get into it any more: a root that another system boots on is not booted on again.
void wait_for_container(std::int64_t deadline) {
  const auto device = mounted_root();
  if (!device) return;
  while (!holders_of(*device).empty() && boottime_ms() < deadline)
    std::this_thread::sleep_for(kLeftoverLook);
  std::ignore = search_holders(*device, {}, {SIGKILL});
}

}  // namespace

Ok clear_leftovers() {
  // A probe login of the one that was killed may not have ended yet.
  if (const auto who = lasting_holders(); !who.empty())
    return fail(ErrorKind::refused, "an earlier warmroot-bootstrap left the volume mounted, and " +
                                        holders_text(who) +
                                        " uses it; run `warmroot-bootstrap down` first");
  const auto entry = chroot_entry();  // the only one that outlives its process
  std::ignore = show_message_of_the_day({});
  TRY(entry->close());
  const auto held = held_record();
  VolumeUnmount unmounting;
  TRY(unmount_when_closed(unmounting, held ? held->volume.other_devices : std::vector<dev_t>{}));
  forget_held_record();
  std::ignore = DirtyBound().remove();  // of all disks; the device's ends with its mount
  if (const Ok removed = entry->undo(); !removed)
    log_event(LogLevel::warning, "accounts of an earlier volume are still there",
              {{"why", removed.error().message()}});
  return {};
}

Result<std::optional<HeldRecord>> take_leftovers() {
  auto held = held_record();
  if (held && held->volume.served_by == EntryKind::nspawn && is_mounted(held->volume)) {
    // Nobody hears of a notice meanwhile.
    const std::int64_t usual = boottime_ms() + kContainerLimit.count();
    wait_for_container(held->leaving ? std::min(usual, held->leaving->deadline_ms) : usual);
  }
  if (held && (held->leaving || is_used(held->volume))) return held;
  TRY(clear_leftovers());
  return std::optional<HeldRecord>();
}

Assignment taken_over(HeldVolume volume, StatusBook& book) {
  Assignment assignment;
  static_cast<HeldVolume&>(assignment) = std::move(volume);
  assignment.mounted = is_mounted(assignment);
  book.update([&](Status& status) {
    if (assignment.mounted) status.stage = Stage::mounted;
    status.instance_id = assignment.instance_id;
    status.device = assignment.disk_node;
    if (!assignment.volume_id.empty()) status.volume_id = assignment.volume_id;
    status.filesystem = assignment.partition.content;
    status.root = assignment.root_choice;
    status.volume_os = assignment.volume_os;
  });
  assignment.host_keys = ::access(kNodeKeys, F_OK) == 0;
  // Also for a release before it is set anew: the one that is gone has set it.
  if (auto bound = DirtyBound::find(assignment.disk.name, assignment.partition.content))
    assignment.dirty_bound = std::move(*bound);
  return assignment;
}

Ok undo_bring_up(Assignment& assignment) {
  std::ignore = show_message_of_the_day({});
  // Each part is undone whatever happens to the others.
  Ok first = assignment.entry->close();
  const auto note = [&first](Ok done) {
    if (first && !done) first = std::move(done);
  };
  if (auto ended = assignment.entry->end(kEndLimit); !ended) note(fail(std::move(ended).error()));
  if (assignment.mounted) {
    end_whoever_is_in(assignment);
    Ok unmounted = unmount_when_closed(*assignment.unmounting, assignment.other_devices);
    assignment.mounted = !unmounted;
    if (unmounted) forget_held_record();
    note(std::move(unmounted));
    note(assignment.dirty_bound.remove());
  }
  note(assignment.entry->undo());
  if (assignment.host_keys) note(show_base_host_keys());
  return first;
}

}  // namespace warmroot::bootstrap
