// What guests of a simulated fleet serve and have given back, and what the boot behind that does
// with it: as the bootstrap's leaving.cpp, reboot.cpp and device.hpp (GivenAway, ServedBefore) have
// it. It serves again what was served, without a word, and what was given back by the manager's
// word alone, as long as its disk is there.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tests/fleet_sim/guests.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

/// People have taken back what the manager was told, and nobody may have told it so, or its ledger
/// is an old copy: it acts on what it knows, and EC2 waits with a detach until the guest lets go.
/// It has to hear the guest first, or to wait for that.
bool Guests::has_taken_back(const Guest& guest, const std::string& volume_id) const {
  const auto* volume = world_.region.volume(volume_id);
  return guest.taken_back && guest.taken_back->volume_id == volume_id && volume && volume->link &&
         volume->link->generation == guest.taken_back->generation &&
         world_.may_act_on_release(guest.id);
}

bool Guests::gave_back(const std::string& instance_id, const std::string& volume_id) const {
  const auto found = guests_.find(instance_id);
  if (found == guests_.end()) return false;
  const Guest& guest = found->second;
  if (guest.over || has_taken_back(guest, volume_id)) return true;
  if (guest.mounted) return false;
  const auto is_meant = [&](const std::string& own) { return own.empty() || own == volume_id; };
  if (guest.step == GuestStep::released && is_meant(guest.volume_id)) return true;
  return guest.gave_back && is_meant(guest.gave_back->volume_id);
}

/// The volume that the boot before served is given back with the rest, also where its disk has not
/// come (bootstrap/leaving.cpp, volume_of).
unsigned Guests::attachment_given_back(const Guest& guest) const {
  if (!guest.volume_id.empty()) return guest.generation;
  const auto* volume = world_.region.volume(guest.served);
  const bool is_there = volume && volume->link && volume->link->instance_id == guest.id;
  return is_there ? volume->link->generation : 0;
}

/// The bootstrap writes the one file before it says that it has released, and removes the other at
/// its very end: no boot tells the difference, as the first outranks the second.
void Guests::keep_from_next_boot(Guest& guest) const {
  const std::string volume_id = guest.volume_id.empty() ? guest.served : guest.volume_id;
  if (!volume_id.empty()) guest.given_away = volume_id;
  if (!keeps_record) guest.served.clear();
}

/// As the bootstrap's served_before (reboot.cpp).
void Guests::recall_served(Guest& guest) const {
  const bool gave_it_away = bootstrap::may_be_same({guest.served, ""}, guest.held_from.volume());
  if (gave_it_away && !keeps_record) guest.served.clear();
  guest.served_before = bootstrap::ServedBefore({guest.served, ""});
}

/// As the bootstrap's keep_served_volume (daemon.cpp), which follows the first login.
void Guests::keep_served(Guest& guest) {
  const bool is_another_named = !guest.word.empty() && guest.word != guest.volume_id;
  guest.served = is_another_named ? std::string() : guest.volume_id;
}

void Guests::heed_given_away(Guest& guest, const std::vector<bootstrap::DiskFacts>& disks,
                             const std::vector<std::string>& launched) {
  if (guest.held_from.volume().is_none()) return;
  const auto word = guest.word.empty() ? std::nullopt : std::optional(guest.word);
  const auto since = world_.region.now() - guest.up_since;
  if (!guest.held_from.is_over(disks, launched, word, since)) return;
  const bool is_there = std::any_of(disks.begin(), disks.end(), [&](const auto& disk) {
    return disk.volume_id() == guest.given_away;
  });
  if (is_there) world_.coverage.add("guest", "serves what it gave away, by a word");
  guest.given_away.clear();
}

void Guests::tell_held_back(Guest& guest, bool held_back) {
  if (std::exchange(guest.held_back, held_back) || !held_back) return;
  world_.say("guest " + guest.id + " is held back from " + guest.given_away);
  world_.coverage.add("guest", "held back");
}

/// Where another volume is named, the one that is here is kept for no boot. The manager must not
/// name what it knows to be given back: it would be served, and taken away under its sessions. An
/// instance whose tags are away is not seen as one of a pool.
void Guests::hear_word(Guest& guest, const std::string& volume_id, bool refused) {
  const bool is_news = !volume_id.empty() && volume_id != guest.word;
  if (!volume_id.empty() || refused) guest.word = volume_id;
  guest.refused = refused;
  if (volume_id.empty()) return;
  if (is_news && !guest.volume_id.empty() && guest.volume_id != volume_id) guest.served.clear();
  const auto* volume = world_.region.volume(volume_id);
  const bool looks = guest.step == GuestStep::searching || guest.step == GuestStep::asking;
  if (!looks || !guest.gave_back || !volume || !volume->link ||
      volume->link->generation != guest.gave_back->generation)
    return;
  const bool wanted = guest.gave_back->wanted_again && guest.gave_back->volume_id == volume_id;
  if (guest.given_away != volume_id && !wanted) return;
  if (world_.counts_as_given_back(guest.id, volume_id))
    world_.invariants.violated(14, guest.id + " is told to serve " + volume_id +
                                       ", of which the manager knows that it gave it back");
}

void Guests::check_given_back(const Guest& guest) {
  const bool is_the_same =
      guest.gave_back && guest.generation != 0 && guest.gave_back->generation == guest.generation;
  if (is_the_same && !guest.by_word && !guest.gave_back->wanted_again)
    world_.invariants.violated(14, "a session opens on " + guest.volume_id + " on " + guest.id +
                                       ", which gave it back before it rebooted, without the "
                                       "manager's word");
}

void Guests::leave_unmounted(Guest& guest) {
  --leaving_unmounted;
  const auto wait = world_.reboot_draw.span(Milliseconds{0}, guest.due - world_.region.now());
  world_.later(wait, [this, id = guest.id, generation = guest.generation] {
    Guest* who = find(id);
    if (who && !who->over && who->step == GuestStep::checking && who->generation == generation)
      drain(*who);
  });
}

bool Guests::boots_behind_release() const {
  for (const auto& [id, guest] : guests_) {
    if (guest.over) continue;
    const bool will =
        guest.boot.orderly && (guest.asked || guest.step == GuestStep::draining || guest.gave_back);
    // Who serves by the manager's word is not ended for what it gave back, where it is heard.
    const bool waits = guest.up_again && !(guest.mounted && guest.by_word && !guest.mute);
    if (will || !guest.given_away.empty() || waits || is_refused(guest)) return true;
  }
  return false;
}

}  // namespace warmroot::fleet
