// A machine of the simulated region: one QEMU guest (q35, NVMe disks on hot-plug ports, user-mode
// network in which 169.254.169.254 leads to its own IMDS) that boots a Debian cloud kernel. Started
// and asked by physical.cpp. The guest is where mounts, sshd and power cuts happen; nothing of the
// developer's own machine is touched.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bootstrap/base/result.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/qmp.hpp"

namespace warmroot::sim {

struct MachineOptions {
  std::string directory;  ///< run-time files of all machines; made when absent
  std::string kernel;     ///< bzImage
  std::string
      relay_program;  ///< this program: `relay PORT` joins stdin and stdout to a loopback port
  /// The loopback port that guests reach at 169.254.0.4:8470, from their own private addresses
  /// where those are loopback's; 0: none.
  std::uint16_t manager_port = 0;
  std::string accelerator = "tcg";
  int memory_mib = 768;
};

/// "kvm" if a trial boot of `kernel` shows its first line in time, else "tcg". A device node alone
/// proves nothing: KVM that aborts or hangs after the BIOS has been seen.
std::string find_accelerator(const std::string& kernel);

/// The same for an instance at each of its starts, another for every other; begins with "ec2".
std::string smbios_uuid(const MachineSpec& spec);

class Machine {
 public:
  /// Starts a guest whose root is the qcow2 image `root_disk`. Returns when QEMU's monitor answers,
  /// long before the guest is up.
  static Result<std::unique_ptr<Machine>> start(const MachineOptions& options,
                                                const MachineSpec& spec,
                                                const std::string& root_disk);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// off once QEMU has ended, up once the guest's agent has spoken.
  MachineState state();

  /// Hot-plugs the file, or what is served by NBD at that Unix socket, as an NVMe disk, serial =
  /// volume id without its dash.
  Ok plug(const std::string& volume_id, const std::string& path);
  /// Asks the guest to give the disk up and waits for it, bounded.
  Ok unplug(const std::string& volume_id);
  /// Asks the guest whether any process still sees the disk mounted; a guest that does not answer
  /// holds it.
  bool holds(const std::string& volume_id);

  void request_shutdown();
  /// Ends QEMU now and waits until it is gone, so that nobody has the volume's file open any more.
  void kill();

  int ssh_port() const { return ssh_port_; }
  const std::string& console_log() const { return console_log_; }
  bool plugged(const std::string& volume_id) const { return slots_.contains(volume_id); }
  std::map<std::string, int> volumes() const { return slots_; }

 private:
  Machine() = default;
  /// An emulated guest answers later than it is asked again: one question at a time, each with a
  /// number, or the answers would fall behind the questions for good.
  struct Question {
    std::string volume_id;
    std::string number;
  };

  pid_t pid_ = -1;
  int ssh_port_ = 0;
  std::string console_log_;
  Qmp qmp_;
  LineSocket agent_;
  bool agent_up_ = false;
  std::optional<Question> open_question_;
  unsigned questions_ = 0;
  std::map<std::string, int> slots_;  ///< volume id to hot-plug port
};

}  // namespace warmroot::sim
