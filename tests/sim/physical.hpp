// The region's real hardware: lazily initialised volumes over FUSE (ebs) and QEMU guests (machine).
// Made by main.cpp, called by the region with its lock held, so one call at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tests/sim/ebs.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/machine.hpp"

namespace warmroot::sim {

struct PhysicalOptions {
  std::string directory;                         ///< run-time files: volumes, machines
  std::map<std::string, std::string> snapshots;  ///< snapshot id to image file
  std::map<std::string, std::string>
      images;  ///< AMI id to the disk image that its machines boot from
  std::string kernel;
  std::string relay_program;
  std::uint16_t manager_port = 0;  ///< see MachineOptions
  VolumeProfile profile;
  std::uint64_t seed = 1;
};

class PhysicalHardware : public Hardware {
 public:
  /// Mounts the volume server and finds out how guests can run. Errors: refused without root or
  /// FUSE, gone without QEMU or a kernel.
  static Result<std::unique_ptr<PhysicalHardware>> start(PhysicalOptions options);
  /// Ends all machines, then the volume server: the other order would leave guests with dead disks.
  ~PhysicalHardware() override;

  const std::string& accelerator() const { return machine_options_.accelerator; }

  Ok create_volume(const std::string& volume_id, const std::string& snapshot_id,
                   std::uint64_t size_bytes) override;
  void delete_volume(const std::string& volume_id) override;
  /// Of a root disk whose machine is off; of other volumes it is not modelled.
  Ok create_snapshot(const std::string& snapshot_id, const std::string& volume_id) override;
  Result<std::vector<std::uint32_t>> snapshot_blocks(const std::string& snapshot_id,
                                                     std::uint64_t size_bytes) override;
  VolumeCounters volume_counters(const std::string& volume_id) override;
  void volume_attached(const std::string& volume_id) override;
  Ok power_on(const MachineSpec& spec) override;
  void shut_down(const std::string& instance_id) override;
  void power_off(const std::string& instance_id, bool power_cut) override;
  MachineState machine_state(const std::string& instance_id) override;
  Ok plug(const std::string& instance_id, const std::string& volume_id) override;
  bool mounted(const std::string& instance_id, const std::string& volume_id) override;
  Ok unplug(const std::string& instance_id, const std::string& volume_id) override;
  int ssh_port(const std::string& instance_id) override;
  std::string console_log(const std::string& instance_id) override;

 private:
  explicit PhysicalHardware(PhysicalOptions options);
  Result<Machine*> machine(const std::string& instance_id);
  Result<std::string> root_disk(const MachineSpec& spec);

  PhysicalOptions options_;
  MachineOptions machine_options_;
  EbsServer ebs_;
  std::map<std::string, std::string> root_disks_;  ///< by volume: overlays of the AMI's image
  std::map<std::string, std::unique_ptr<Machine>> machines_;
};

}  // namespace warmroot::sim
