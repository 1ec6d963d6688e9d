#include "tests/sim/physical.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/sim/ebs_disk.hpp"

namespace warmroot::sim {

PhysicalHardware::PhysicalHardware(PhysicalOptions options)
    : options_(std::move(options)),
      machine_options_{options_.directory + "/machines", options_.kernel, options_.relay_program,
                       options_.manager_port},
      ebs_({.mount_dir = options_.directory + "/volumes",
            .backing_dir = options_.directory + "/backing",
            .profile = options_.profile,
            .seed = options_.seed}) {}

Result<std::unique_ptr<PhysicalHardware>> PhysicalHardware::start(PhysicalOptions options) {
  if (::access(options.kernel.c_str(), R_OK) != 0)
    return fail(ErrorKind::gone,
                "there is no guest kernel at '" + options.kernel +
                    "': make it with sh tests/sim/images.sh and name it with --kernel");
  for (const std::string program : {"qemu-system-x86_64", "qemu-img"})
    if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0)
      return fail(ErrorKind::misconfigured,
                  program + " is not installed, and guests need it: run sh tests/deps.sh");
  std::unique_ptr<PhysicalHardware> hardware(new PhysicalHardware(std::move(options)));
  TRY(hardware->ebs_.start());
  hardware->machine_options_.accelerator = find_accelerator(hardware->options_.kernel);
  return hardware;
}

PhysicalHardware::~PhysicalHardware() {
  machines_.clear();
  ebs_.stop();
  std::error_code ignored;
  for (const auto& [volume_id, path] : root_disks_) std::filesystem::remove(path, ignored);
}

Ok PhysicalHardware::create_volume(const std::string& volume_id, const std::string& snapshot_id,
                                   std::uint64_t size_bytes) {
  std::string image;
  if (!snapshot_id.empty()) {
    const auto found = options_.snapshots.find(snapshot_id);
    if (found == options_.snapshots.end())
      return fail(ErrorKind::gone, snapshot_id + " has no image file");
    image = found->second;
  }
  return ebs_.create_volume(volume_id, image, size_bytes);
}

void PhysicalHardware::delete_volume(const std::string& volume_id) {
  const auto root = root_disks_.extract(volume_id);
  if (root.empty()) return ebs_.delete_volume(volume_id);
  std::error_code ignored;
  std::filesystem::remove(root.mapped(), ignored);
}

Ok PhysicalHardware::create_snapshot(const std::string& snapshot_id, const std::string& volume_id) {
  const auto root = root_disks_.find(volume_id);
  if (root == root_disks_.end()) return Hardware::create_snapshot(snapshot_id, volume_id);
  const std::string directory = options_.directory + "/snapshots";
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string image = directory + "/" + snapshot_id + ".img";
  // Refuses a disk that a machine has open.
  if (std::system(("qemu-img convert -q -O raw '" + root->second + "' '" + image + "'").c_str()))
    return fail(ErrorKind::broken, "qemu-img could not read " + root->second);
  options_.snapshots[snapshot_id] = image;
  return {};
}

Result<std::vector<std::uint32_t>> PhysicalHardware::snapshot_blocks(const std::string& snapshot_id,
                                                                     std::uint64_t size_bytes) {
  constexpr std::uint64_t kBlockBytes = 512 * kKiB;
  const auto found = options_.snapshots.find(snapshot_id);
  if (found == options_.snapshots.end())
    return fail(ErrorKind::gone, snapshot_id + " has no image file");
  TRY_ASSIGN(const auto ranges, data_of_image(found->second));
  std::vector<std::uint32_t> blocks;
  for (const ByteRange& range : ranges)
    for (std::uint64_t at = range.offset / kBlockBytes;
         at * kBlockBytes < std::min(range.offset + range.length, size_bytes); ++at)
      if (blocks.empty() || blocks.back() < at) blocks.push_back(static_cast<std::uint32_t>(at));
  return blocks;
}

VolumeCounters PhysicalHardware::volume_counters(const std::string& volume_id) {
  const EbsCounters counters = ebs_.counters(volume_id);
  return {counters.first_touches_total, counters.first_touches_since_attach,
          counters.present_blocks, counters.fetched_bytes};
}

void PhysicalHardware::volume_attached(const std::string& volume_id) {
  ebs_.mark_attached(volume_id);
}

Result<Machine*> PhysicalHardware::machine(const std::string& instance_id) {
  const auto found = machines_.find(instance_id);
  if (found == machines_.end()) return fail(ErrorKind::gone, instance_id + " has no machine");
  return found->second.get();
}

/// What a stopped instance had written is there when it starts again.
Result<std::string> PhysicalHardware::root_disk(const MachineSpec& spec) {
  if (const auto known = root_disks_.find(spec.root_volume_id); known != root_disks_.end())
    return known->second;
  const auto image = options_.images.find(spec.image_id);
  if (image == options_.images.end())
    return fail(ErrorKind::gone, spec.image_id + " has no disk image to boot from");
  std::error_code ignored;
  std::filesystem::create_directories(machine_options_.directory, ignored);
  const std::string path = machine_options_.directory + "/" + spec.instance_id + ".qcow2";
  const std::string make =
      "qemu-img create -q -f qcow2 -F raw -b '" + image->second + "' '" + path + "'";
  if (std::system(make.c_str()) != 0)
    return fail(ErrorKind::broken, "qemu-img could not make an overlay of " + image->second);
  root_disks_[spec.root_volume_id] = path;
  return path;
}

Ok PhysicalHardware::power_on(const MachineSpec& spec) {
  TRY_ASSIGN(const std::string disk, root_disk(spec));
  TRY_ASSIGN(machines_[spec.instance_id], Machine::start(machine_options_, spec, disk));
  return {};
}

void PhysicalHardware::shut_down(const std::string& instance_id) {
  if (auto found = machine(instance_id)) (*found)->request_shutdown();
}

void PhysicalHardware::power_off(const std::string& instance_id, bool power_cut) {
  auto found = machine(instance_id);
  if (!found) return;
  const auto volumes = (*found)->volumes();
  machines_.erase(instance_id);
  if (!power_cut) return;
  for (const auto& [volume_id, slot] : volumes) ebs_.power_cut(volume_id);
}

MachineState PhysicalHardware::machine_state(const std::string& instance_id) {
  auto found = machine(instance_id);
  return found ? (*found)->state() : MachineState::off;
}

Ok PhysicalHardware::plug(const std::string& instance_id, const std::string& volume_id) {
  TRY_ASSIGN(Machine * found, machine(instance_id));
  return found->plug(volume_id, ebs_.path(volume_id).string());
}

bool PhysicalHardware::mounted(const std::string& instance_id, const std::string& volume_id) {
  auto found = machine(instance_id);
  return found && (*found)->plugged(volume_id) && (*found)->holds(volume_id);
}

Ok PhysicalHardware::unplug(const std::string& instance_id, const std::string& volume_id) {
  auto found = machine(instance_id);
  if (!found || !(*found)->plugged(volume_id)) return {};
  if ((*found)->state() == MachineState::off) return {};
  return (*found)->unplug(volume_id);
}

int PhysicalHardware::ssh_port(const std::string& instance_id) {
  auto found = machine(instance_id);
  return found ? (*found)->ssh_port() : 0;
}

std::string PhysicalHardware::console_log(const std::string& instance_id) {
  auto found = machine(instance_id);
  return found ? (*found)->console_log() : "";
}

}  // namespace warmroot::sim
