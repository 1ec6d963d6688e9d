// See the header.
#include "tests/fleet_sim/trace.hpp"

#include <cstdio>

namespace warmroot::fleet {

void Trace::add(Instant now, const std::string& text) {
  ++steps_;
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%9.3f  ",
                static_cast<double>((now - start_).count()) / 1000.0);
  std::string line = stamp + text;
  for (const char letter : line)
    hash_ = (hash_ ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  lines_.push_back(std::move(line));
  if (lines_.size() > kept_) lines_.pop_front();
}

}  // namespace warmroot::fleet
