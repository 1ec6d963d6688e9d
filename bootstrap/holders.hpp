// Who holds the volume's file system: processes with their root, working directory, program or an
// open file on it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace warmroot::bootstrap {

struct Holder {
  pid_t pid = 0;
  std::string command;
  bool stuck = false;  ///< waits in the kernel, mostly for a disk: no signal ends it before that
};

/// Every process that holds something on `device`, which is mounted at kVolumePoint, or in what is
/// mounted inside it; in any mount namespace. This process and pid 1 are left out. Asks no file
/// system but proc about the processes of this mount namespace.
std::vector<Holder> holders_of(dev_t device);

/// Processes whose mount namespace still has `device` mounted; this process's own namespace is left
/// out.
std::vector<Holder> namespaces_holding(dev_t device);

/// "bash (812), cp (840, waits in the kernel) and 3 more"; empty for nobody.
std::string holders_text(const std::vector<Holder>& holders);

void signal_all(const std::vector<Holder>& holders, int signal_number);

/// Writes to the terminals of these processes' sessions, once to each, in a container to the
/// container's. One that is full or gone, or does not answer, keeps nobody waiting for longer than
/// a second. Returns how many took it.
std::size_t warn_terminals(const std::vector<Holder>& holders, const std::string& message);

}  // namespace warmroot::bootstrap
