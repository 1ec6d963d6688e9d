// Instances of the simulated region after their launch: stopping, starting, ending, and what a
// machine that ends by itself means. Volumes are given back only when their instance is terminated,
// as on EC2; a stopped instance keeps them.
#include <algorithm>

#include "tests/sim/region.hpp"
#include "tests/sim/region_rules.hpp"

namespace warmroot::sim {

// ---- ending ----

Answer<void> Region::check_ids(const std::vector<std::string>& ids) const {
  std::vector<std::string> unknown;
  for (const auto& id : ids)
    if (!instances_.contains(id)) unknown.push_back(id);
  if (!unknown.empty()) return instance_not_found(unknown);
  return {};
}

Answer<std::vector<StateChange>> Region::terminate_instances(const std::vector<std::string>& ids) {
  if (auto checked = check_ids(ids); !checked) return tl::unexpected(checked.error());
  // A protected instance saves those of its own zone; the call fails, and yet the other zones'
  // instances are gone (API reference, TerminateInstances).
  std::set<std::string> saved_zones;
  std::string protected_id;
  for (const auto& id : ids) {
    const InstanceRecord& guest = instances_.at(id);
    if (!guest.api_termination_disabled || guest.state == GuestState::terminated) continue;
    saved_zones.insert(guest.zone);
    if (protected_id.empty()) protected_id = id;
  }
  std::vector<StateChange> changes;
  for (const auto& id : ids) {
    InstanceRecord& guest = instances_.at(id);
    if (saved_zones.contains(guest.zone)) continue;
    const GuestState before = guest.state;
    begin_shutdown(guest, "Client.UserInitiatedShutdown",
                   "Client.UserInitiatedShutdown: User initiated shutdown");
    changes.push_back({id, before, guest.state});
  }
  if (!protected_id.empty())
    return refuse("OperationNotPermitted",
                  "The instance '" + protected_id +
                      "' may not be terminated. Modify its 'disableApiTermination' instance "
                      "attribute and try again.");
  return changes;
}

void Region::begin_shutdown(InstanceRecord& guest, const std::string& reason,
                            const std::string& message) {
  if (guest.state == GuestState::shutting_down || guest.state == GuestState::terminated) return;
  set_state(guest, GuestState::shutting_down);
  guest.reason_code = reason;
  guest.reason_message = message;
  guest.shutdown_time = now_;
  guest.shutdown_until = now_ + drawn(times_.shutting_down);
  note("shutting down instance=" + guest.id + " reason=" + reason);
  if (guest.powered) hardware_.shut_down(guest.id);
  look_at_shutdown(guest);
}

void Region::look_at_shutdown(const InstanceRecord& guest) {
  const auto look = [this, id = guest.id] {
    if (const auto found = instances_.find(id); found != instances_.end())
      poll_shutdown(found->second);
  };
  at(guest.shutdown_until, look);
  at(now_ + std::max(times_.shutting_down, times_.shutting_down_max), look);
}

void Region::poll_shutdown(InstanceRecord& guest) {
  if (guest.state != GuestState::shutting_down && guest.state != GuestState::stopping) return;
  if (now_ < guest.shutdown_until) return;
  const bool off = !guest.powered || hardware_.machine_state(guest.id) == MachineState::off;
  const bool patience_over =
      now_ >= *guest.shutdown_time + std::max(times_.shutting_down, times_.shutting_down_max);
  if (!off && !patience_over) return;
  if (guest.powered) hardware_.power_off(guest.id, false);
  guest.powered = false;
  if (guest.state == GuestState::stopping)
    finish_stop(guest);
  else
    finish_terminate(guest);
}

void Region::finish_terminate(InstanceRecord& guest) {
  set_state(guest, GuestState::terminated);
  guest.terminated_time = now_;
  give_address_back(guest);
  occupy(guest, false);
  awake_.erase(guest.id);
  if (guest.imds_port != 0 && close_imds) close_imds(guest.id);
  guest.imds_port = 0;
  std::vector<std::string> doomed;
  const std::set<std::string> disks = guest.disks;
  for (const auto& id : disks) {
    VolumeRecord& disk = volumes_.at(id);
    if (disk.link->delete_on_termination)
      doomed.push_back(id);
    else
      release(disk);
  }
  for (const auto& id : doomed) erase_volume(id);
  note("terminated instance=" + guest.id);
  at(now_ + times_.terminated_visible, [this, id = guest.id] { instances_.erase(id); });
}

void Region::poll_machine(InstanceRecord& guest) {
  if (!guest.powered || hardware_.machine_state(guest.id) != MachineState::off) return;
  note("machine ended by itself instance=" + guest.id);
  hardware_.power_off(guest.id, false);
  guest.powered = false;
  if (guest.terminate_on_shutdown) {
    begin_shutdown(guest, "Client.InstanceInitiatedShutdown",
                   "Client.InstanceInitiatedShutdown: Instance initiated shutdown");
    return;
  }
  begin_stop(guest, "Client.InstanceInitiatedShutdown",
             "Client.InstanceInitiatedShutdown: Instance initiated shutdown");
}

// ---- stopping and starting ----

void Region::begin_stop(InstanceRecord& guest, const std::string& reason,
                        const std::string& message) {
  set_state(guest, GuestState::stopping);
  guest.reason_code = reason;
  guest.reason_message = message;
  guest.shutdown_time = now_;
  guest.shutdown_until = now_ + drawn(times_.shutting_down);
  note("stopping instance=" + guest.id + " reason=" + reason);
  if (guest.powered) hardware_.shut_down(guest.id);
  look_at_shutdown(guest);
}

void Region::finish_stop(InstanceRecord& guest) {
  set_state(guest, GuestState::stopped);
  guest.impaired = guest.unreachable = false;  // it will come back on another host
  occupy(guest, false);
  awake_.erase(guest.id);
  // A stopped instance keeps its attachments; only the hardware is gone.
  for (const auto& id : guest.disks) volumes_.at(id).link->plugged = false;
  note("stopped instance=" + guest.id);
}

Answer<void> Region::check_stop(const InstanceRecord& guest) const {
  if (guest.spot())
    return refuse(
        "UnsupportedOperation",
        "You can't stop the Spot Instance '" + guest.id +
            "' because it is associated with a one-time Spot Instance request. You can "
            "only stop Spot Instances associated with persistent Spot Instance requests.");
  if (guest.state == GuestState::pending || guest.state == GuestState::shutting_down ||
      guest.state == GuestState::terminated)
    return refuse(
        "IncorrectInstanceState",
        "This instance '" + guest.id + "' is not in a state from which it can be stopped.");
  if (guest.api_stop_disabled)
    return refuse("OperationNotPermitted",
                  "The instance '" + guest.id +
                      "' may not be stopped. Modify its 'disableApiStop' instance attribute and "
                      "try again.");
  return {};
}

Answer<std::vector<StateChange>> Region::stop_instances(const std::vector<std::string>& ids) {
  if (auto checked = check_ids(ids); !checked) return tl::unexpected(checked.error());
  for (const auto& id : ids)
    if (auto checked = check_stop(instances_.at(id)); !checked)
      return tl::unexpected(checked.error());
  std::vector<StateChange> changes;
  for (const auto& id : ids) {
    InstanceRecord& guest = instances_.at(id);
    const GuestState before = guest.state;
    if (before == GuestState::running)
      begin_stop(guest, "Client.UserInitiatedShutdown",
                 "Client.UserInitiatedShutdown: User initiated shutdown");
    changes.push_back({id, before, guest.state});
  }
  return changes;
}

Answer<void> Region::check_start(const InstanceRecord& guest) const {
  if (guest.state == GuestState::pending || guest.state == GuestState::running) return {};
  if (guest.state != GuestState::stopped)
    return refuse(
        "IncorrectInstanceState",
        "The instance '" + guest.id + "' is not in a state from which it can be started.");
  RunInstancesArgs again;
  again.type = guest.type;
  if (auto checked = capacity_for(again, guest.zone); !checked)
    return tl::unexpected(checked.error());
  return {};
}

Answer<std::vector<StateChange>> Region::start_instances(const std::vector<std::string>& ids) {
  if (auto checked = check_ids(ids); !checked) return tl::unexpected(checked.error());
  for (const auto& id : ids)
    if (auto checked = check_start(instances_.at(id)); !checked)
      return tl::unexpected(checked.error());
  std::vector<StateChange> changes;
  for (const auto& id : ids) {
    InstanceRecord& guest = instances_.at(id);
    const GuestState before = guest.state;
    if (before == GuestState::stopped) {
      set_state(guest, GuestState::pending);
      guest.reason_code.clear();
      guest.reason_message.clear();
      guest.start_time = now_;
      occupy(guest, true);
      awake_.insert(id);
      // The metadata service shows at each start what was attached then.
      std::erase_if(guest.launch_mapping,
                    [](const auto& entry) { return entry.first.starts_with("ebs"); });
      int number = 0;
      for (const auto& disk : guest.disks)
        if (disk != guest.root_volume_id)
          guest.launch_mapping["ebs" + std::to_string(++number)] =
              *device_label(volumes_.at(disk).link->device);
      note("start instance=" + id);
      schedule_boot(guest);
    }
    changes.push_back({id, before, guest.state});
  }
  return changes;
}

// ---- attributes ----

Answer<void> Region::keep_disk(const std::string& instance_id, const std::string& device,
                               const std::string& volume_id, bool delete_on_termination) {
  const auto found = instances_.find(instance_id);
  if (found == instances_.end()) return instance_not_found({instance_id});
  for (const auto& id : found->second.disks) {
    VolumeRecord& disk = volumes_.at(id);
    if (device_label(disk.link->device) != device_label(device)) continue;
    if (!volume_id.empty() && volume_id != id) continue;
    disk.link->delete_on_termination = delete_on_termination;
    return {};
  }
  return refuse("InvalidInstanceAttributeValue", "No device is currently mapped at " + device);
}

InstanceRecord* Region::changeable(const std::string& instance_id) {
  const auto found = instances_.find(instance_id);
  return found == instances_.end() ? nullptr : &found->second;
}

}  // namespace warmroot::sim
