// The physical seam of the simulated region: what the region's bookkeeping asks of disks and
// machines. The real ones are a FUSE volume server and QEMU guests (ebs, machine); NoHardware
// stands in for them where only the API matters. Called by the region with its lock held: every
// call must return soon and must not call back into the region.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::sim {

/// What a machine needs to be started.
struct MachineSpec {
  std::string instance_id;
  std::string image_id;
  std::uint16_t imds_port = 0;  ///< loopback port of this instance's IMDS; 0 where there is none
  std::string root_volume_id;   ///< whose id its root disk carries as a serial
  std::string private_ip{};     ///< as its metadata and the region say
  std::string mac{};            ///< likewise; cloud-init finds the network card by it
};

/// What a volume's disk has done so far. Blocks are those of the first-touch grid.
struct VolumeCounters {
  std::uint64_t first_touches_total = 0;
  std::uint64_t first_touches_since_attach = 0;
  std::uint64_t present_blocks = 0;
  std::uint64_t fetched_bytes = 0;
};

enum class MachineState { off, booting, up };

class Hardware {
 public:
  virtual ~Hardware() = default;

  // ---- volumes ----

  /// Makes the disk of a volume; called when creating becomes available, and may take a second.
  /// `snapshot_id` may be empty. An error turns the volume's state into "error".
  virtual Ok create_volume(const std::string& volume_id, const std::string& snapshot_id,
                           std::uint64_t size_bytes) = 0;
  virtual void delete_volume(const std::string& volume_id) = 0;
  /// Makes the disk of a copy of another volume. An error turns the copy's state into "error".
  virtual Ok copy_volume(const std::string&, const std::string&, std::uint64_t) {
    return fail(ErrorKind::misconfigured, "copies of volumes are not modelled by this hardware");
  }
  /// Keeps what the volume holds now. An error turns the snapshot's state into "error".
  virtual Ok create_snapshot(const std::string&, const std::string&) {
    return fail(ErrorKind::misconfigured, "snapshots are not modelled by this hardware");
  }
  /// Which 512 KiB blocks of the snapshot hold data, ascending.
  virtual Result<std::vector<std::uint32_t>> snapshot_blocks(const std::string&, std::uint64_t) {
    return fail(ErrorKind::misconfigured, "blocks of snapshots are not modelled by this hardware");
  }
  virtual VolumeCounters volume_counters(const std::string& volume_id) = 0;
  /// Starts a new count of "since attach".
  virtual void volume_attached(const std::string& volume_id) = 0;

  // ---- machines ----

  /// Starts the machine and returns at once.
  virtual Ok power_on(const MachineSpec& spec) = 0;
  /// Asks the guest to end itself; returns at once.
  virtual void shut_down(const std::string& instance_id) = 0;
  /// Ends the machine now; its volumes count as unplugged. `power_cut` drops a seeded part of what
  /// its volumes had not flushed.
  virtual void power_off(const std::string& instance_id, bool power_cut) = 0;
  virtual MachineState machine_state(const std::string& instance_id) = 0;

  /// Hot-plugs the volume as an NVMe disk whose serial is the volume id without its dash.
  virtual Ok plug(const std::string& instance_id, const std::string& volume_id) = 0;
  /// Whether the guest still holds the disk (a file system of it is mounted).
  virtual bool mounted(const std::string& instance_id, const std::string& volume_id) = 0;
  virtual Ok unplug(const std::string& instance_id, const std::string& volume_id) = 0;
  /// The loopback port that leads to the guest's sshd; 0 where there is none.
  virtual int ssh_port(const std::string& instance_id) = 0;
  /// The file that the guest's serial console is written to; empty where there is none.
  virtual std::string console_log(const std::string&) { return {}; }
};

/// Disks and machines that are only names: everything succeeds at once. Tests set what a guest
/// would answer.
class NoHardware : public Hardware {
 public:
  Ok create_volume(const std::string& volume_id, const std::string&, std::uint64_t) override {
    if (failing_volumes.erase(volume_id) != 0 || fail_next_volume) {
      fail_next_volume = false;
      return fail(ErrorKind::broken, "the disk of " + volume_id + " could not be made");
    }
    volumes.insert(volume_id);
    return {};
  }
  void delete_volume(const std::string& volume_id) override { volumes.erase(volume_id); }
  Ok copy_volume(const std::string& volume_id, const std::string&, std::uint64_t size) override {
    return create_volume(volume_id, "", size);
  }
  Ok create_snapshot(const std::string&, const std::string&) override { return {}; }
  Result<std::vector<std::uint32_t>> snapshot_blocks(const std::string& snapshot_id,
                                                     std::uint64_t size_bytes) override {
    if (const auto known = blocks_of.find(snapshot_id); known != blocks_of.end())
      return known->second;
    std::vector<std::uint32_t> blocks((size_bytes / 4) >> 19);
    std::iota(blocks.begin(), blocks.end(), 0U);
    return blocks;
  }
  VolumeCounters volume_counters(const std::string&) override { return {}; }
  void volume_attached(const std::string&) override {}
  Ok power_on(const MachineSpec& spec) override {
    machines.insert(spec.instance_id);
    return {};
  }
  void shut_down(const std::string& instance_id) override {
    if (!ignores_shutdown) machines.erase(instance_id);
  }
  void power_off(const std::string& instance_id, bool) override {
    machines.erase(instance_id);
    std::erase_if(plugged, [&](const auto& plug) { return plug.first == instance_id; });
  }
  MachineState machine_state(const std::string& instance_id) override {
    return machines.contains(instance_id) ? MachineState::up : MachineState::off;
  }
  Ok plug(const std::string& instance_id, const std::string& volume_id) override {
    plugged.emplace(instance_id, volume_id);
    return {};
  }
  bool mounted(const std::string&, const std::string& volume_id) override {
    return mounted_volumes.contains(volume_id);
  }
  Ok unplug(const std::string& instance_id, const std::string& volume_id) override {
    plugged.erase({instance_id, volume_id});
    return {};
  }
  int ssh_port(const std::string&) override { return 0; }

  std::set<std::string> mounted_volumes;  ///< what guests say they still hold
  std::set<std::string> failing_volumes;  ///< whose disk cannot be made
  bool fail_next_volume = false;
  bool ignores_shutdown = false;  ///< guests that do not end when asked
  /// Of snapshots whose data is not their first quarter.
  std::map<std::string, std::vector<std::uint32_t>> blocks_of;
  std::set<std::string> volumes;
  std::set<std::string> machines;
  std::set<std::pair<std::string, std::string>> plugged;  ///< (instance, volume)
};

}  // namespace warmroot::sim
