// How a guest of a simulated fleet comes to its disk: the looks of the bootstrap's bring_up.cpp
// (find_disk, wait_for_word), with the bootstrap's own choice (device.hpp) and the manager's last
// answer. Xen's disks, which have no serial, are not modelled.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fleet_sim/guests.hpp"
#include "tests/fleet_sim/world.hpp"

namespace warmroot::fleet {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// How long the only candidate waits for the manager's word (bootstrap/daemon_sessions.cpp).
constexpr seconds kConfirmationLimit{10};

std::string without_dev(std::string_view device) {
  if (device.starts_with("/dev/")) device.remove_prefix(5);
  return std::string(device);
}

/// As sysfs and the vendor area of NVMe show it.
bootstrap::DiskFacts disk_of(const sim::VolumeRecord& volume) {
  constexpr std::string_view kBefore = "vol-";
  bootstrap::DiskFacts disk;
  disk.name = "nvme1n1";
  disk.serial = "vol" + volume.id.substr(kBefore.size());
  disk.model = "Amazon Elastic Block Store";
  disk.mapped_name = without_dev(volume.link->device);
  disk.size_bytes = 1;  // whichever it is, it can be read
  return disk;
}

}  // namespace

/// A detach that is under way leaves the disk there until it is done.
bool Guests::may_see(const Guest& guest, const sim::VolumeRecord& volume) const {
  if (volume.root || !volume.link || volume.link->instance_id != guest.id || !volume.link->plugged)
    return false;
  const bool is_late = volume.link->attach_time <= guest.up_since;
  if (is_late && world_.region.now() < guest.disks_from) return false;
  const bool is_known = guest.gave_back || volume.id == guest.served_before.volume().volume_id;
  return volume.link->state == sim::LinkState::attached || is_known;
}

/// What the bootstrap's choice is told of. A planted one takes whatever there is, and asks
/// nobody.
const sim::VolumeRecord* Guests::choose_disk(Guest& guest) {
  const auto* instance = world_.region.instance(guest.id);
  if (!instance) return nullptr;
  std::vector<bootstrap::DiskFacts> disks;
  for (const auto& id : instance->disks) {
    const auto* volume = world_.region.volume(id);
    if (!volume || !may_see(guest, *volume)) continue;
    if (forgets_given_away) return volume;
    disks.push_back(disk_of(*volume));
  }
  guest.waits = !disks.empty();
  std::vector<std::string> launched;
  launched.reserve(instance->launch_mapping.size());
  for (const auto& [name, device] : instance->launch_mapping)
    launched.push_back(without_dev(device));
  const auto word = guest.word.empty() ? std::nullopt : std::optional(guest.word);
  heed_given_away(guest, disks, launched);
  const auto since_up = world_.region.now() - guest.up_since;
  if (guest.served_before.is_over(disks, word, since_up)) guest.served.clear();
  const auto choice = bootstrap::choose_disk(disks, launched, word, guest.held_from.volume(),
                                             guest.served_before.volume());
  tell_held_back(guest, choice.held_back);
  const auto id = choice.disk ? choice.disk->volume_id() : std::nullopt;
  return id ? world_.region.volume(*id) : nullptr;
}

/// Uevents wake it, and the manager's answers; the model looks once a second.
void Guests::search(Guest& guest) {
  const Instant now = world_.region.now();
  guest.due = now + seconds{1};
  const bool refused = guest.refused && !forgets_given_away;
  if (refused) guest.refused_at = now;
  const auto* disk = choose_disk(guest);
  if (!disk) return lose_sight(guest);
  const bool is_new = guest.volume_id != disk->id || guest.generation != disk->link->generation;
  guest.volume_id = disk->id;
  guest.generation = disk->link->generation;
  if (guest.fails) {
    guest.taken = true;
    return enter(guest, GuestStep::failed, NodeStage::failed, Milliseconds::max());
  }
  if (is_new)
    guest.check_lasts =
        draw_.span(milliseconds{200}, unclean_.contains(disk->id) ? seconds{20} : seconds{2});
  if (!guest.seen_at) {
    guest.seen_at = now;
    guest.refused = false;  // what was said before is not about this disk: its report asks anew
    enter(guest, GuestStep::asking, NodeStage::disk_seen, seconds{1});
  }
  guest.waits = refused;
  if (refused)
    world_.coverage.add("guest", "told that it gets none");
  else if (may_take(guest))
    take(guest);
}

/// The disk that it has seen is gone, or not the one that is meant: nobody is told of it as of its
/// own, and the next one is asked about anew.
void Guests::lose_sight(Guest& guest) {
  guest.volume_id.clear();
  guest.generation = 0;
  guest.seen_at.reset();
}

/// By the manager's word, or where none has come in time, from when a disk was seen or a refusal
/// stood last.
bool Guests::may_take(const Guest& guest) const {
  if (forgets_given_away || !guest.word.empty()) return true;
  return world_.region.now() - std::max(*guest.seen_at, guest.refused_at) >= kConfirmationLimit;
}

void Guests::take(Guest& guest) {
  guest.taken = true;
  guest.waits = false;
  guest.by_word = guest.word == guest.volume_id;
  const bool by_record = guest.volume_id == guest.served_before.volume().volume_id;
  if (!guest.by_word)
    world_.coverage.add("guest", by_record ? "takes what it served, without a word"
                                           : "takes a disk without a word");
  const bool again = guest.gave_back && guest.gave_back->generation == guest.generation;
  if (again && guest.gave_back->wanted_again) {
    guest.taken_back = guest.gave_back;
    if (guest.by_word) world_.coverage.add("guest", "takes back what it gave, by a word");
  }
  guest.step = GuestStep::checking;
  guest.due = world_.region.now() + guest.check_lasts;
  if (leaving_unmounted > 0) leave_unmounted(guest);
}

}  // namespace warmroot::fleet
