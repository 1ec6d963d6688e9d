// How machines of a simulated fleet start anew: by an orderly reboot, as the bootstrap's
// leaving.cpp and reboot.cpp go through it, or by a reset, of which nobody is told.
#include <algorithm>
#include <tuple>

#include "manager/core/draft.hpp"
#include "tests/fleet_sim/guests.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// For its last report a machine that reboots waits so long (bootstrap/leaving.cpp).
constexpr seconds kLastReports{5};
/// Numbers that the bootstrap of the next boot leaves out (bootstrap/report.cpp).
constexpr std::uint64_t kNumbersAhead = 1000;
/// A report that is on its way for long arrives within so long (World::deliver).
constexpr seconds kLateBy{30};

bool is_about_to_reboot(const Guest& guest) {
  return guest.step == GuestStep::rebooting || guest.step == GuestStep::parting;
}

/// Until it is back, or the manager gives it up; people end those that EC2 calls well.
Instant awaited_until(const Guest& guest) {
  const bool leaves = is_about_to_reboot(guest);
  const Instant down = leaves ? guest.due + kLastReports : guest.down_since;
  if (guest.boot.lasts) return down + *guest.boot.lasts;
  if (!guest.boot.unreachable) return down;
  const Instant said = leaves ? down : guest.said_rebooting.value_or(Instant{});
  return said + kLateBy + core::kRebootPatience;
}

}  // namespace

bool Guests::is_up(const Guest& guest) {
  const GuestStep step = guest.step;
  return !guest.over && (step == GuestStep::searching || step == GuestStep::checking ||
                         step == GuestStep::mounting || step == GuestStep::serving);
}

void Guests::reboot(Guest& guest, const Boot& boot) {
  guest.session = false;
  guest.boot = boot;
  guest.boot.orderly = true;
  enter(guest, GuestStep::rebooting, NodeStage::rebooting,
        world_.reboot_draw.span(milliseconds{500}, seconds{15}));
  world_.say("guest " + guest.id + " reboots");
}

void Guests::reset(Guest& guest, const Boot& boot) {
  tear(guest, false);
  guest.boot = boot;
  guest.boot.orderly = guest.boot.keeps_key = false;
  world_.say("guest " + guest.id + " is reset");
  go_down(guest);
}

/// Whoever has asked for the volume meanwhile gets it. Init kills who does not unmount in time,
/// before anything more is said.
void Guests::unmount_for_reboot(Guest& guest) {
  if (guest.asked) return finish_drain(guest);
  tear(guest, guest.boot.in_time);
  if (!guest.boot.in_time) return go_down(guest);
  enter(guest, GuestStep::parting, NodeStage::rebooting,
        world_.reboot_draw.span(milliseconds{500}, kLastReports));
}

void Guests::go_down(Guest& guest) {
  guest.step = GuestStep::down;
  guest.down_since = world_.region.now();
  guest.due = guest.boot.lasts ? guest.down_since + *guest.boot.lasts : Instant::max();
  guest.report_due = Instant::max();
  if (guest.boot.unreachable) std::ignore = world_.region.set_reachable(guest.id, false);
  if (!guest.boot.lasts)
    world_.coverage.add("guest", guest.boot.unreachable ? "never back" : "never back, and well");
  world_.say("guest " + guest.id + " is down");
}

void Guests::come_back(Guest& guest) {
  if (guest.boot.unreachable) std::ignore = world_.region.set_reachable(guest.id, true);
  if (!guest.boot.keeps_key) guest.key.clear();
  world_.coverage.add("guest", guest.boot.orderly ? "back after a reboot" : "back after a reset");
  guest.sequence += kNumbersAhead;
  guest.volume_id.clear();
  guest.generation = 0;
  guest.step = GuestStep::booting;
  guest.due = world_.region.now();
  guest.boot = Boot{};
  world_.say("guest " + guest.id + " is back");
}

bool Guests::is_lost(const Guest& guest) {
  return !guest.over && guest.step == GuestStep::down && !guest.boot.lasts;
}

bool Guests::is_given_up(const Guest& guest) const {
  const bool dead = guest.step == GuestStep::down && guest.boot.unreachable &&
                    world_.region.now() - guest.down_since >= core::kImpairedAfter;
  return dead || is_lost(guest);
}

std::vector<std::string> Guests::missing() const {
  std::vector<std::string> ids;
  for (const auto& [id, guest] : guests_)
    if (is_lost(guest) && !guest.boot.unreachable) ids.push_back(id);
  return ids;
}

Milliseconds Guests::longest_absence() const {
  Milliseconds longest{0};
  for (const auto& [id, guest] : guests_)
    if (!guest.over && (is_about_to_reboot(guest) || guest.step == GuestStep::down))
      longest = std::max(longest, awaited_until(guest) - world_.region.now());
  return longest;
}

}  // namespace warmroot::fleet
