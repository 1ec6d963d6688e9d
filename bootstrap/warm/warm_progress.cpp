#include "bootstrap/warm/warm_progress.hpp"

namespace warmroot::warm {

std::string_view to_string(WarmState state) {
  switch (state) {
    case WarmState::waiting:
      return "waiting";
    case WarmState::running:
      return "running";
    case WarmState::done:
      return "done";
    case WarmState::stopped:
      return "stopped";
    case WarmState::failed:
      return "failed";
  }
  return "failed";
}

}  // namespace warmroot::warm
