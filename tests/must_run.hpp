// Whether a test that cannot run here may be skipped.
#pragma once

#include <cstdlib>
#include <string>

namespace warmroot {

/// True under WARMROOT_MUST_RUN=1, as in CI: what cannot run is a failure.
inline bool must_run() {
  const char* value = std::getenv("WARMROOT_MUST_RUN");
  return value != nullptr && std::string(value) == "1";
}

}  // namespace warmroot
