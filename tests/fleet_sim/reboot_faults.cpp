// Machines that start anew, by a reboot or without a word, also behind a release; disks that people
// take away under their guests, and guests that go before they have mounted theirs. All chance here
// is World::reboot_draw's, or, of those that came later, World::boot_draw's.
#include <tuple>
#include <utility>

#include "tests/fleet_sim/catalogue.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// EC2 checks an instance so often: a boot that is over sooner may go unseen.
constexpr minutes kCheckedEvery{1};

/// Most machines are back within minutes, and some never.
Boot some_boot(Draw& draw) {
  Boot boot;
  boot.keeps_key = draw.percent(90);
  boot.in_time = draw.percent(90);
  if (draw.percent(85))
    boot.lasts =
        draw.percent(85) ? draw.span(seconds{20}, minutes{3}) : draw.span(minutes{3}, minutes{9});
  boot.unreachable = draw.percent(60) && (!boot.lasts || *boot.lasts > kCheckedEvery);
  return boot;
}

/// One that serves or is on its way there; `mounted`: and has its volume.
Guest* some_guest(World& world, Draw& draw, bool mounted) {
  const auto* instance = world.some_instance(draw, [&](const sim::InstanceRecord& each) {
    const Guest* guest = world.guests.find(each.id);
    return guest && Guests::is_up(*guest) && (guest->mounted || !mounted);
  });
  return instance ? world.guests.find(instance->id) : nullptr;
}

/// EC2 or the operator wants the volume: mostly while the guest unmounts, or else while it is down
/// or back.
void want_volume(World& world, const std::string& id) {
  const bool soon = world.reboot_draw.percent(60);
  const bool by_ec2 = world.reboot_draw.percent(50);
  const auto wait = soon ? world.reboot_draw.span(Milliseconds{0}, seconds{8})
                         : world.reboot_draw.span(seconds{8}, minutes{3});
  world.later(wait, [&world, id, by_ec2] {
    if (world.lifted) return;
    if (by_ec2)
      std::ignore = world.region.interrupt(id);
    else if (world.place_order(core::OrderKind::release, id))
      world.warned.insert(id);
  });
}

bool reboots(World& world) {
  Guest* guest = some_guest(world, world.reboot_draw, false);
  if (!guest) return false;
  world.guests.reboot(*guest, some_boot(world.reboot_draw));
  if (world.reboot_draw.percent(30)) want_volume(world, guest->id);
  return true;
}

/// People or EC2 reboot a machine that has given its volume back, or a drain and a reboot were
/// asked for at once. Where all is well EC2 has detached the volume before the next boot: half of
/// these releases are heard by nobody, and some of the others are answered late.
Boot boot_behind_release(Draw& draw) {
  Boot boot;
  boot.rests =
      draw.percent(60) ? draw.span(Milliseconds{0}, seconds{5}) : draw.span(seconds{5}, minutes{1});
  boot.lasts =
      draw.percent(60) ? draw.span(seconds{3}, seconds{20}) : draw.span(seconds{20}, minutes{3});
  boot.unreachable = *boot.lasts > kCheckedEvery && draw.percent(60);
  boot.release_heard = draw.percent(50);
  boot.drain_heard = boot.release_heard || draw.percent(50);
  return boot;
}

/// A volume that is given back stays attached, or is not seen to be: EC2 throttles the manager.
void keep_manager_waiting(World& world, Draw& draw) {
  sim::Fault fault{draw.percent(50) ? "DetachVolume" : "Describe*", sim::FaultKind::throttled};
  fault.count = sim::Fault::kAlways;
  fault.until = world.region.now() + draw.span(seconds{20}, minutes{2});
  world.front.inject(std::move(fault));
}

/// One that has given its volume back, or can.
Guest* some_that_releases(World& world, Draw& draw) {
  const auto* instance = world.some_instance(draw, [&](const sim::InstanceRecord& each) {
    const Guest* guest = world.guests.find(each.id);
    if (!guest || guest->over) return false;
    const bool released = guest->step == GuestStep::released && !guest->boot.orderly;
    const bool serves = Guests::is_up(*guest) && guest->mounted;
    return !guest->volume_id.empty() && (released || serves);
  });
  return instance ? world.guests.find(instance->id) : nullptr;
}

bool reboots_behind_release(World& world) {
  Draw& draw = world.reboot_draw;
  Guest* guest = some_that_releases(world, draw);
  if (!guest) return false;
  world.guests.reboot_behind_release(*guest, boot_behind_release(draw));
  if (draw.percent(40)) keep_manager_waiting(world, draw);
  return true;
}

/// As soon as its volume is given back, unless nobody there can repair it. One that reboots behind
/// that needs nobody for it.
void up_when_released(World& world, const std::string& id) {
  Guest* guest = world.guests.find(id);
  if (world.lifted || !guest || guest->over || guest->boot.orderly) return;
  const bool released = guest->step == GuestStep::released;
  if (released && guest->reason != kUncleanBeyondRepair) world.guests.up_again(*guest);
  if (guest->step == GuestStep::draining)
    world.later(seconds{1}, [&world, id] { up_when_released(world, id); });
}

/// People run `down` on a machine, where nobody has before, and then `up`: mostly while its volume
/// is still attached.
bool ups_again(World& world) {
  Draw& draw = world.boot_draw;
  Guest* guest = some_that_releases(world, draw);
  if (!guest) return false;
  world.warned.insert(guest->id);
  if (guest->step != GuestStep::released) world.guests.drain(*guest);
  const auto wait = draw.percent(60) ? draw.span(Milliseconds{0}, seconds{15})
                                     : draw.span(seconds{15}, minutes{2});
  world.later(wait, [&world, id = guest->id] { up_when_released(world, id); });
  if (draw.percent(40)) keep_manager_waiting(world, draw);
  return true;
}

/// A machine starts anew, mostly behind a release, and its kernel finds its disks only after a
/// while: at the latest just before the bootstrap takes them for gone.
bool late_disks(World& world) {
  Draw& draw = world.boot_draw;
  const auto late = draw.span(seconds{1}, bootstrap::kLatestDisk - seconds{5});
  const bool behind_release = draw.percent(60);
  Guest* guest = behind_release ? some_that_releases(world, draw) : some_guest(world, draw, true);
  if (!guest) return false;
  Boot boot = behind_release ? boot_behind_release(draw) : some_boot(draw);
  boot.disks_late = late;
  if (behind_release)
    world.guests.reboot_behind_release(*guest, boot);
  else if (draw.percent(50))
    world.guests.reboot(*guest, boot);
  else
    world.guests.reset(*guest, boot);
  if (behind_release && draw.percent(40)) keep_manager_waiting(world, draw);
  return true;
}

/// Whoever comes up next has to go before it has mounted its volume.
bool leaves_unmounted(World& world) {
  world.guests.leaving_unmounted += world.reboot_draw.between(1, 3);
  if (const auto* instance = world.some_instance(world.reboot_draw, {}))
    std::ignore = world.region.crash(instance->id);
  return true;
}

bool resets(World& world) {
  Guest* guest = some_guest(world, world.reboot_draw, false);
  if (!guest) return false;
  world.guests.reset(*guest, some_boot(world.reboot_draw));
  return true;
}

bool disk_gone(World& world) {
  const Guest* guest = some_guest(world, world.reboot_draw, true);
  if (!guest) return false;
  world.say("people take " + guest->volume_id + " away from " + guest->id);
  return world.region.detach_volume(guest->volume_id, guest->id, "", true).has_value();
}

}  // namespace

const std::vector<FaultEntry>& reboot_faults() {
  static const std::vector<FaultEntry> faults = {
      {"reboots", "machines", reboots, Needs::nothing, true},
      {"resets", "machines", resets, Needs::nothing, true},
      {"disk_gone", "people", disk_gone, Needs::nothing, true},
      {"reboots_behind_release", "machines", reboots_behind_release, Needs::nothing, true},
      {"leaves_unmounted", "machines", leaves_unmounted, Needs::nothing, true},
      {"late_disks", "machines", late_disks, Needs::nothing, true, true},
      {"ups_again", "people", ups_again, Needs::nothing, true, true},
  };
  return faults;
}

}  // namespace warmroot::fleet
