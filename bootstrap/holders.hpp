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
};

/// Every process that holds something on `device`, which is mounted at kVolumePoint, or in what is
/// mounted inside it; in any mount namespace. This process and pid 1 are left out. Asks no file
/// system but proc about the processes of this mount namespace.
std::vector<Holder> holders_of(dev_t device);

/// Processes whose mount namespace still has `device` mounted; this process's own namespace is left
/// out.
std::vector<Holder> namespaces_holding(dev_t device);

/// "bash (812), python3 (840) and 3 more"; empty for nobody.
std::string holders_text(const std::vector<Holder>& holders);

void signal_all(const std::vector<Holder>& holders, int signal_number);

/// Writes to every pseudo-terminal, like wall(1).
void warn_terminals(const std::string& message);

}  // namespace warmroot::bootstrap
