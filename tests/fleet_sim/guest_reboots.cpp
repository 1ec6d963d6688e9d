// How machines of a simulated fleet start anew: by an orderly reboot, as the bootstrap's
// leaving.cpp and reboot.cpp go through it, or by a reset, of which nobody is told.
#include <algorithm>
#include <tuple>
#include <utility>

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
  const bool leaves = guest.step == GuestStep::draining || guest.step == GuestStep::released;
  return guest.step == GuestStep::rebooting || guest.step == GuestStep::parting ||
         (leaves && guest.boot.orderly);
}

/// Until it is back with its disks, or the manager gives it up; people end those that EC2 calls
/// well.
Instant awaited_until(const Guest& guest) {
  const bool leaves = is_about_to_reboot(guest);
  const Instant down =
      leaves ? guest.due + guest.boot.rests.value_or(kLastReports) : guest.down_since;
  if (guest.boot.lasts) return down + *guest.boot.lasts + guest.boot.disks_late;
  if (!guest.boot.unreachable) return down;
  const Instant said = leaves ? down : guest.said_rebooting.value_or(Instant{});
  return said + kLateBy + core::kRebootPatience;
}

}  // namespace

bool Guests::is_up(const Guest& guest) {
  const GuestStep step = guest.step;
  return !guest.over &&
         (step == GuestStep::searching || step == GuestStep::asking ||
          step == GuestStep::checking || step == GuestStep::mounting || step == GuestStep::serving);
}

void Guests::reboot(Guest& guest, const Boot& boot) {
  guest.session = false;
  guest.boot = boot;
  guest.boot.orderly = true;
  enter(guest, GuestStep::rebooting, NodeStage::rebooting,
        world_.reboot_draw.span(milliseconds{500}, seconds{15}));
  world_.say("guest " + guest.id + " reboots");
}

void Guests::reboot_behind_release(Guest& guest, const Boot& boot) {
  guest.boot = boot;
  guest.boot.orderly = true;
  world_.say("guest " + guest.id + " is to reboot behind its release");
  if (guest.step == GuestStep::released)
    guest.due = world_.region.now() + boot.rests.value_or(kLastReports);
  else
    drain(guest);
}

/// A machine that reboots does so all the same, and its next boot may come before the detach. What
/// this boot was held back from is kept from that one, too (bootstrap/leaving.cpp,
/// keep_from_next_boot): people's `down` alone has it forgotten, and nobody here says that.
void Guests::release(Guest& guest, std::string_view reason) {
  guest.reason = reason;
  if (!guest.volume_id.empty() || !guest.gave_back)
    guest.gave_back = GivenBack{guest.volume_id, attachment_given_back(guest)};
  guest.held_back = false;
  Milliseconds lasts = Milliseconds::max();
  if (guest.boot.orderly)
    lasts = guest.boot.rests ? *guest.boot.rests
                             : world_.reboot_draw.span(milliseconds{500}, kLastReports);
  enter(guest, GuestStep::released, NodeStage::released, lasts);
  world_.say("guest " + guest.id + " released " + guest.volume_id +
             (guest.reason.empty() ? "" : ", " + guest.reason));
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

/// Behind a release nobody keeps the key either.
void Guests::go_down(Guest& guest) {
  if (guest.step == GuestStep::released) {
    keep_from_next_boot(guest);
    guest.boot.keeps_key = false;
  }
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
  if (!guest.given_away.empty()) world_.coverage.add("guest", "back behind a release");
  // Its metadata service says so still.
  if (std::exchange(guest.asked, false)) guest.notice_seen.reset();
  guest.sequence += kNumbersAhead;
  begin(guest);
  guest.disks_from = guest.up_since + guest.boot.disks_late;
  if (guest.disks_from > guest.up_since) world_.coverage.add("guest", "back, and its disks late");
  guest.boot = Boot{};
  world_.say("guest " + guest.id + " is back");
}

/// A bootstrap, which knows no more of the one before than the base's disk and the manager say.
void Guests::begin(Guest& guest) {
  guest.volume_id.clear();
  guest.word.clear();
  guest.reason.clear();
  guest.seen_at.reset();
  guest.generation = 0;
  guest.had_mounted = guest.held_back = guest.taken = guest.refused = guest.waits = false;
  guest.by_word = false;
  guest.held_from = bootstrap::GivenAway({guest.given_away, ""});
  recall_served(guest);
  guest.step = GuestStep::booting;
  guest.due = guest.up_since = world_.region.now();
}

/// It keeps its key, and forgets what was served and given back in this boot (commands.cpp, begin).
void Guests::up_again(Guest& guest) {
  guest.given_away.clear();
  guest.served.clear();
  guest.notice_seen.reset();  // its metadata service says so still
  guest.up_again = true;
  if (guest.gave_back) guest.gave_back->wanted_again = true;
  begin(guest);
  world_.coverage.add("guest", "up again");
  world_.say("guest " + guest.id + " is up again");
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
  for (const auto& [id, guest] : guests_) {
    if (guest.over) continue;
    const bool is_away = is_about_to_reboot(guest) || guest.step == GuestStep::down;
    const Instant until = is_away ? awaited_until(guest) : guest.disks_from;
    longest = std::max(longest, until - world_.region.now());
  }
  return longest;
}

}  // namespace warmroot::fleet
