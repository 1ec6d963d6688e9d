// The manager under test, alone in its process: the real reconciler, ledger, client and codec, with
// the other process of the bench as its EC2 and its clock.
#pragma once

#include "bootstrap/base/units.hpp"

namespace warmroot::bench {

struct ManagerOptions {
  int nodes = 16;
  bool launches = true;  ///< launches may make volumes
  double share = 1.0;
  bool events = false;
  Milliseconds lead{0};  ///< how long it has run, for pools of no nodes, before its spec asks
};

/// Serves one run over `fd`; returns the program's exit code.
int run_manager(int fd, const ManagerOptions& run);

}  // namespace warmroot::bench
