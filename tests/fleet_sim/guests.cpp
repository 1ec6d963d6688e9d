// See the header.
#include "tests/fleet_sim/guests.hpp"

#include <algorithm>

#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// As bootstrap/report.cpp has them.
constexpr seconds kReportEvery{5};
constexpr seconds kReportOften{1};
const Instant kNever = Instant::max();
/// Until a volume that is mounted is warm.
constexpr std::chrono::duration<double> kWarm = minutes{1};

/// Nothing that it says gets out of its machine, which is about to reboot behind its release.
bool is_unheard(const Guest& guest) {
  if (!guest.boot.orderly) return false;
  return (guest.step == GuestStep::draining && !guest.boot.drain_heard) ||
         (guest.step == GuestStep::released && !guest.boot.release_heard);
}

}  // namespace

Guest* Guests::find(const std::string& instance_id) {
  const auto found = guests_.find(instance_id);
  return found == guests_.end() ? nullptr : &found->second;
}

Milliseconds Guests::longest_drain() const {
  Milliseconds longest{0};
  for (const auto& [id, guest] : guests_)
    if (!guest.over && guest.step == GuestStep::draining)
      longest = std::max(longest, guest.due - world_.region.now());
  return longest;
}

bool Guests::serves(const std::string& instance_id, const std::string& volume_id) const {
  const auto found = guests_.find(instance_id);
  return found != guests_.end() && !found->second.over && found->second.session &&
         found->second.volume_id == volume_id;
}

std::vector<std::string> Guests::failed() const {
  std::vector<std::string> ids;
  for (const auto& [id, guest] : guests_)
    if (!guest.over && guest.step == GuestStep::failed) ids.push_back(id);
  return ids;
}

bool Guests::leaves(const std::string& instance_id) const {
  const auto found = guests_.find(instance_id);
  if (found == guests_.end()) return false;
  const Guest& guest = found->second;
  return guest.over || guest.fails || guest.asked || guest.step == GuestStep::draining ||
         guest.step == GuestStep::released || (guest.gave_back && !guest.mounted) ||
         is_given_up(guest);
}

Instant Guests::next() const {
  Instant next = kNever;
  for (const auto& [id, guest] : guests_)
    if (!guest.over) next = std::min({next, guest.due, guest.report_due});
  return next;
}

void Guests::enter(Guest& guest, GuestStep step, NodeStage stage, Milliseconds lasts) {
  guest.step = step;
  guest.stage = stage;
  guest.due = lasts == Milliseconds::max() ? kNever : world_.region.now() + lasts;
  guest.report_due = std::min(guest.report_due, world_.region.now());
}

void Guests::meet_new_instances() {
  for (const auto& [id, instance] : world_.region.instances()) {
    if (instance.state != sim::GuestState::running || !instance.powered) continue;
    if (guests_.contains(id) || world_.invariants.foreign.contains(id)) continue;
    const auto pool = instance.tags.find("warmroot:pool");
    if (pool == instance.tags.end()) continue;
    Guest guest;
    guest.id = id;
    guest.due = world_.region.now() + draw_.span(seconds{3}, seconds{20});
    guest.report_due = kNever;
    guest.fails = all_fail;
    if (failing_bootstraps > 0) guest.fails = failing_bootstraps-- > 0;
    guests_.emplace(id, guest);
  }
}

void Guests::step() {
  meet_new_instances();
  for (auto& [id, guest] : guests_) {
    if (guest.over) continue;
    const auto* instance = world_.region.instance(id);
    if (!instance || !instance->powered || instance->state != sim::GuestState::running) {
      const bool clean = instance && instance->powered && !instance->impaired && draw_.percent(70);
      power_lost(guest, clean);
      continue;
    }
    step(guest, *instance);
  }
}

void Guests::tear(Guest& guest, bool clean) {
  if (guest.mounted) {
    world_.hardware.mounted_volumes.erase(guest.volume_id);
    if (!clean) unclean_.insert(guest.volume_id);
  }
  guest.mounted = guest.session = false;
}

void Guests::power_lost(Guest& guest, bool clean) {
  tear(guest, clean);
  guest.over = true;
  world_.trace.add(world_.region.now(), "guest " + guest.id + " is off");
}

void Guests::step(Guest& guest, const sim::InstanceRecord& instance) {
  const Instant now = world_.region.now();
  if (guest.step == GuestStep::down) {
    if (now < guest.due) return;
    come_back(guest);
  }
  watch_notice(guest, instance);
  watch_disk(guest);
  if (guest.due <= now) {
    switch (guest.step) {
      case GuestStep::booting:
        guest.report_due = now;
        enter(guest, GuestStep::searching, NodeStage::hello, milliseconds{0});
        break;
      case GuestStep::searching:
      case GuestStep::asking:
        search(guest);
        break;
      case GuestStep::checking:
        check(guest);
        break;
      case GuestStep::mounting:
        open_session(guest);
        break;
      case GuestStep::rebooting:
        unmount_for_reboot(guest);
        break;
      case GuestStep::parting:
        go_down(guest);
        break;
      case GuestStep::draining:
        finish_drain(guest);
        break;
      case GuestStep::released:
        // It has nothing left to do. One that drained because of its own operator stays up.
        if (guest.boot.orderly)
          go_down(guest);
        else
          guest.due = kNever;
        break;
      case GuestStep::serving:
      case GuestStep::down:
      case GuestStep::failed:
        guest.due = kNever;
        break;
    }
  }
  if (guest.report_due > now) return;
  report(guest);
  if (guest.step == GuestStep::asking) search(guest);  // the answer is what it waits for
  if (guest.step == GuestStep::asking && !guest.key.empty())
    guest.report_due = std::min(guest.report_due, now + kReportOften);
}

void Guests::check(Guest& guest) {
  if (beyond_repair > 0 && unclean_.contains(guest.volume_id)) {
    --beyond_repair;
    world_.say("guest " + guest.id + " cannot repair " + guest.volume_id);
    world_.coverage.add("guest", "beyond repair");
    return release(guest, kUncleanBeyondRepair);
  }
  if (!skips_check) {
    guest.checked = guest.generation;
    unclean_.erase(guest.volume_id);
  }
  world_.hardware.mounted_volumes.insert(guest.volume_id);
  world_.invariants.left_unmounted.erase(guest.volume_id);
  guest.mounted = guest.had_mounted = true;
  guest.mounted_at = world_.region.now();
  enter(guest, GuestStep::mounting, NodeStage::mounted, milliseconds{300});
}

void Guests::open_session(Guest& guest) {
  if (unclean_.contains(guest.volume_id))
    world_.invariants.violated(9, "a session opens on " + guest.volume_id + " on " + guest.id +
                                      ", which ended uncleanly and was not checked");
  for (const auto& [id, other] : guests_)
    if (id != guest.id && other.mounted && other.volume_id == guest.volume_id)
      world_.invariants.violated(9, guest.volume_id + " is mounted on " + id + " and " + guest.id);
  check_given_back(guest);
  guest.gave_back.reset();
  guest.session = true;
  keep_served(guest);
  world_.invariants.used.insert(guest.volume_id);
  enter(guest, GuestStep::serving, NodeStage::ready, Milliseconds::max());
  world_.trace.add(world_.region.now(), "session on " + guest.id + " in " + guest.volume_id);
}

/// The disk is pulled out under it: sessions go back to the base.
void Guests::watch_disk(Guest& guest) {
  if (!guest.taken || guest.step == GuestStep::released) return;
  const auto* volume = world_.region.volume(guest.volume_id);
  if (volume && volume->link && volume->link->instance_id == guest.id &&
      volume->link->generation == guest.generation && volume->link->plugged)
    return;
  tear(guest, false);
  world_.trace.add(world_.region.now(), "guest " + guest.id + " lost its disk");
  if (gives_lost_disk_up) {
    world_.coverage.add("guest", "gives a lost disk up");
    return release(guest, kDiskGone);
  }
  const bool drains = guest.step == GuestStep::draining;
  guest.volume_id.clear();
  guest.word.clear();
  guest.seen_at.reset();
  guest.generation = 0;
  guest.had_mounted = guest.taken = false;
  if (drains)
    release(guest, {});
  else
    enter(guest, GuestStep::searching, NodeStage::hello, seconds{1});
}

void Guests::drain(Guest& guest) {
  if (guest.over || guest.step == GuestStep::draining || guest.step == GuestStep::released ||
      guest.step == GuestStep::down)
    return;
  if (guest.step == GuestStep::rebooting || guest.step == GuestStep::parting) {
    // It unmounts already, or has done so.
    guest.asked = true;
    world_.coverage.add("guest", "asked for its volume at a reboot");
    if (guest.step == GuestStep::parting) finish_drain(guest);
    return;
  }
  guest.session = false;
  Milliseconds lasts = draw_.span(milliseconds{500}, seconds{15});
  if (hanging > 0) {
    --hanging;
    lasts = draw_.span(minutes{1}, minutes{5});
  }
  enter(guest, GuestStep::draining, NodeStage::draining, lasts);
  world_.trace.add(world_.region.now(), "guest " + guest.id + " drains");
}

void Guests::finish_drain(Guest& guest) {
  if (guest.mounted) world_.hardware.mounted_volumes.erase(guest.volume_id);
  guest.mounted = false;
  if (!guest.had_mounted) world_.coverage.add("guest", "released, never mounted");
  release(guest, guest.had_mounted ? std::string_view{} : kNeverMounted);
}

void Guests::watch_notice(Guest& guest, const sim::InstanceRecord& instance) {
  if (!instance.interrupted_at) return;
  if (!guest.notice_seen) {
    guest.notice_seen = *instance.interrupted_at + seconds{1};
    if (notices_missing > 0) {
      --notices_missing;
      guest.notice_seen = kNever;
    } else if (notices_late > 0) {
      --notices_late;
      guest.notice_seen = *instance.interrupted_at + draw_.span(seconds{60}, seconds{119});
    }
  }
  if (world_.region.now() >= *guest.notice_seen) {
    guest.notice_seen = kNever;
    drain(guest);
  } else if (*guest.notice_seen != kNever) {
    guest.due = std::min(guest.due, *guest.notice_seen);
  }
}

/// One report, and what the answer wishes. What was not taken is sent again; the last word is
/// repeated until the instance ends (bootstrap/leaving.cpp, stay_until_init_waits).
void Guests::report(Guest& guest) {
  guest.report_due = world_.region.now() + kReportEvery;
  if (is_unheard(guest)) return;
  core::NodeReport report;
  report.instance_id = guest.id;
  report.volume_id = guest.volume_id;
  report.stage = guest.stage;
  report.message = guest.stage == NodeStage::failed ? "the probe login failed" : "";
  if (guest.stage == NodeStage::released) report.reason = guest.reason;
  if (guest.mounted)
    report.warmth = std::min(
        1.0, std::chrono::duration<double>(world_.region.now() - guest.mounted_at) / kWarm);
  const auto* instance = world_.region.instance(guest.id);
  report.rebalance = instance != nullptr && instance->rebalance_at.has_value();
  const auto answer = world_.deliver(guest, report);
  if (guest.stage == NodeStage::rebooting)
    guest.said_rebooting = world_.region.now();
  else if (answer.taken)
    guest.said_rebooting.reset();
  if (answer.drain) drain(guest);
}

}  // namespace warmroot::fleet
