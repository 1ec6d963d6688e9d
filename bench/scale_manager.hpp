// The manager under test, alone in its process: the real reconciler, ledger, client and codec, with
// the other process of the bench as its EC2 and its clock.
#pragma once

namespace warmroot::bench {

/// Serves one run over `fd`; returns the program's exit code.
int run_manager(int fd, int nodes, bool launches, double share, bool events);

}  // namespace warmroot::bench
