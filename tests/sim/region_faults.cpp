// What goes wrong with the simulated region itself rather than with one call: worlds that readers
// see too late, zones that go bad, machines that end between two calls.
#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

// ---- worlds of before ----

Region::View::View(Region& region, const World* world, const Catalog* catalog,
                   Milliseconds visibility)
    : region_(region) {
  region_.shown_ = world;
  region_.shown_catalog_ = catalog;
  region_.shown_visibility_ = visibility;
}

Region::View::~View() {
  region_.shown_ = nullptr;
  region_.shown_catalog_ = nullptr;
  region_.shown_visibility_ = Milliseconds{0};
}

void Region::keep_history(Milliseconds span) {
  history_span_ = span;
  if (span <= Milliseconds{0}) return history_.clear();
  if (history_.empty()) history_.push_back({now_, volumes_, instances_});
}

/// Sets the time, and keeps the world as it was if anything had changed since the last one kept.
void Region::move_time(Instant to) {
  if (to <= now_) return;
  if (changed_ && history_span_ > Milliseconds{0}) {
    // Worlds are dated by the first instant at which they no longer change.
    if (!history_.empty() && history_.back().time == now_) history_.pop_back();
    history_.push_back({now_, volumes_, instances_});
    while (history_.size() > 1 && history_[1].time + history_span_ <= now_) history_.pop_front();
  }
  changed_ = false;
  now_ = to;
}

Region::View Region::look_back(Milliseconds age, Milliseconds visibility) {
  const World* shown = nullptr;  // the present
  if (age > Milliseconds{0} && !history_.empty()) {
    const Instant then = now_ - age;
    shown = &history_.front();
    for (const auto& world : history_)
      if (world.time <= then) shown = &world;
    // Nothing has changed since: the present, where records may still be looked up by others.
    if (shown == &history_.back() && !changed_) shown = nullptr;
  }
  return {*this, shown, nullptr, visibility};
}

Region::View Region::look_as_stranger() {
  static const World kNothing;
  static thread_local Catalog foreign;
  foreign = Catalog{};
  foreign.region = catalog_.region;
  foreign.account_id = "999988887777";
  foreign.zones = catalog_.zones;
  for (const auto& image : catalog_.images)
    if (image.owner_id != catalog_.account_id) foreign.images.push_back(image);
  return {*this, &kNothing, &foreign, Milliseconds{0}};
}

// ---- what the knobs ask for ----

bool Region::strikes(int& left, const std::string& fault) {
  if (left <= 0) return false;
  --left;
  count(fault);
  return true;
}

bool Region::key_revoked(const VolumeRecord& disk) const {
  return disk.encrypted &&
         (knobs.revoked_keys.contains("*") || knobs.revoked_keys.contains(disk.kms_key));
}

void Region::doom(VolumeRecord& disk) {
  disk.vanishes = key_revoked(disk) || strikes(knobs.vanishing_creates, "vanishing_creates");
  disk.doomed = disk.vanishes || strikes(knobs.failing_creates, "failing_creates");
}

void Region::doom(InstanceRecord& guest) {
  guest.never_runs = strikes(knobs.pending_for_ever, "pending_for_ever");
  if (!guest.never_runs && strikes(knobs.failing_launches, "failing_launches"))
    guest.launch_failure = knobs.launch_failure;
}

void Region::fail_launch(InstanceRecord& guest) {
  if (guest.powered) hardware_.power_off(guest.id, true);
  guest.powered = false;
  begin_shutdown(guest, guest.launch_failure, guest.launch_failure + ": Instance launch failed");
  finish_terminate(guest);
}

// ---- machines ----

Answer<void> Region::end_now(const std::string& instance_id) {
  if (auto cut = impair(instance_id); !cut) return cut;
  InstanceRecord& guest = instances_.at(instance_id);
  begin_shutdown(guest,
                 guest.spot() ? "Server.SpotInstanceTermination" : "Client.UserInitiatedShutdown",
                 "ended at once");
  finish_terminate(guest);
  return {};
}

Answer<void> Region::recommend_rebalance(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  if (!found->second.spot())
    return refuse("UnsupportedOperation", "Instance '" + instance_id + "' is not a spot instance");
  note("rebalance recommended instance=" + instance_id);
  found->second.rebalance_at = now();
  tell(InstanceEvent::Kind::rebalance, found->second);
  return {};
}

Answer<void> Region::set_reachable(const std::string& instance_id, bool reachable) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  found->second.unreachable = !reachable;
  note((reachable ? "reachable instance=" : "unreachable instance=") + instance_id);
  return {};
}

Answer<void> Region::stop(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  InstanceRecord& guest = found->second;
  if (guest.state != GuestState::running)
    return refuse("IncorrectInstanceState",
                  "The instance '" + instance_id + "' is not in a state from which it can stop");
  begin_stop(guest, "Client.UserInitiatedShutdown",
             "Client.UserInitiatedShutdown: User initiated shutdown");
  return {};
}

Answer<void> Region::power_itself_off(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  if (found->second.state != GuestState::running || !found->second.powered)
    return refuse("IncorrectInstanceState", "The instance '" + instance_id + "' does not run");
  hardware_.shut_down(instance_id);  // poll_machine() sees the machine end
  return {};
}

Answer<void> Region::impair_volume(const std::string& volume_id) {
  const auto found = volumes_.find(volume_id);
  if (found == volumes_.end()) return volume_not_found({volume_id});
  found->second.impaired = true;
  note("impaired volume=" + volume_id);
  return {};
}

// ---- zones ----

Answer<void> Region::impair_zone(const std::string& name, bool bad) {
  if (zone(name) == nullptr)
    return refuse("InvalidZone.NotFound", "The zone '" + name + "' does not exist.");
  if (bad)
    bad_zones_.insert(name);
  else
    bad_zones_.erase(name);
  for (auto& known : catalog_.zones)
    if (known.name == name) known.state = bad ? "impaired" : "available";
  note((bad ? "zone impaired " : "zone available ") + name);
  return {};
}

}  // namespace warmroot::sim
