#include "bootstrap/process_stat.hpp"

#include <cstdio>
#include <string>

namespace warmroot::bootstrap {
namespace {

/// Majors of pseudo-terminals (Documentation/admin-guide/devices.txt), 256 each.
constexpr unsigned kFirstPtsMajor = 136, kLastPtsMajor = 143;

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const std::size_t end = text.rfind(')');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string rest(text.substr(end + 1));
  ProcessStat stat;
  int parent = 0, group = 0, session = 0;
  unsigned terminal = 0;
  unsigned long long started = 0;
  if (std::sscanf(rest.c_str(),
                  " %c %d %d %d %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                  &stat.state, &parent, &group, &session, &terminal, &started) < 5)
    return std::nullopt;
  stat.parent = parent;
  stat.session = session;
  stat.started_ticks = started;
  const unsigned major = (terminal >> 8) & 0xfff;
  const unsigned minor = (terminal & 0xff) | ((terminal >> 12) & 0xfff00);
  if (major >= kFirstPtsMajor && major <= kLastPtsMajor)
    stat.terminal = (major - kFirstPtsMajor) * 256 + minor;
  return stat;
}

}  // namespace warmroot::bootstrap
