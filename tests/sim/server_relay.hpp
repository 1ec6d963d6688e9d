// `warmroot-sim relay PORT [--from ADDRESS]`: joins stdin and stdout to a loopback port. QEMU
// starts one for each connection that a guest makes to 169.254.169.254 or to the manager.
#pragma once

#include <cstdint>
#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::sim {

/// Copies in both directions until the port closes, or the other side and then the port do. `from`
/// is the loopback address (127.x.y.z) that the connection comes from; empty: any. Errors:
/// retry_later when nothing listens there; misconfigured for another `from`.
Ok relay(std::uint16_t port, const std::string& from);

}  // namespace warmroot::sim
