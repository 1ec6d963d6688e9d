// `warmroot-sim relay PORT`: joins stdin and stdout to a loopback port. QEMU starts one for each
// connection that a guest makes to 169.254.169.254.
#pragma once

#include <cstdint>

#include "bootstrap/base/result.hpp"

namespace warmroot::sim {

/// Copies in both directions until the port closes, or the other side and then the port do. Errors:
/// retry_later when nothing listens there.
Ok relay(std::uint16_t port);

}  // namespace warmroot::sim
