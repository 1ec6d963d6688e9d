// See the header.
#include "tests/fleet_sim/trace.hpp"

namespace warmroot::fleet {

namespace {

/// Seconds, as printf's "%9.3f  " writes them; each line is hashed and most are never printed.
std::string stamp_of(Milliseconds time) {
  const auto count = time.count();
  const auto whole = std::to_string(count / 1000);
  const auto part = std::to_string(1000 + count % 1000);
  std::string stamp(whole.size() < 5 ? 5 - whole.size() : 0, ' ');
  stamp.append(whole).append(".").append(part, 1).append("  ");
  return stamp;
}

}  // namespace

void Trace::add(Instant now, const std::string& text) {
  ++steps_;
  std::string line = stamp_of(now - start_) + text;
  for (const char letter : line)
    hash_ = (hash_ ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  lines_.push_back(std::move(line));
  if (lines_.size() > kept_) lines_.pop_front();
}

}  // namespace warmroot::fleet
