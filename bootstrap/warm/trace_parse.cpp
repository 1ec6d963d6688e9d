// The lines of trace_pipe. Pure; see block_trace.hpp.
#include <charconv>
#include <optional>

#include "bootstrap/base/sector.hpp"
#include "bootstrap/warm/block_trace.hpp"

namespace warmroot::warm {
namespace {

using What = TracedAllocation::What;

/// The last words before the number are an event's own.
struct Pattern {
  std::string_view event, before_number;
  What what;
};
constexpr std::string_view kReadLine = " block_bio_queue: ";
constexpr Pattern kAllocationLines[] = {{" ext4_allocate_inode: dev ", " ino ", What::inode},
                                        {" ext4_allocate_blocks: dev ", " block ", What::blocks}};

template <typename Number>
bool take_number(std::string_view& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

/// The thread of "  name-1234    [000] ....."; names may hold anything, dashes too.
bool thread_of(std::string_view head, pid_t& thread) {
  const auto cpu = head.rfind(" [");
  if (cpu == std::string_view::npos) return false;
  head = head.substr(0, cpu);
  while (head.ends_with(' ')) head.remove_suffix(1);
  // With the option record-tgid a column "(1234)" stands behind; our instance has it off.
  const auto dash = head.rfind('-');
  if (dash == std::string_view::npos) return false;
  auto digits = head.substr(dash + 1);
  return take_number(digits, thread) && digits.empty();
}

/// "254,0 RA 12654392 + 32 [sh]"
std::optional<TracedRead> read_of(std::string_view line) {
  const auto at = line.find(kReadLine);
  if (at == std::string_view::npos) return std::nullopt;
  TracedRead read;
  if (!thread_of(line.substr(0, at), read.thread)) return std::nullopt;
  auto rest = line.substr(at + kReadLine.size());
  std::uint64_t sector = 0;
  std::uint64_t sectors = 0;
  if (!take_number(rest, read.major) || !take_text(rest, ",") || !take_number(rest, read.minor) ||
      !take_text(rest, " "))
    return std::nullopt;
  const auto flags = rest.substr(0, rest.find(' '));
  rest.remove_prefix(flags.size());
  // A leading F is a flush before the request; the operation follows it.
  if (!flags.starts_with('R')) return std::nullopt;
  read.ahead = flags.find('A', 1) != std::string_view::npos;
  if (!take_text(rest, " ") || !take_number(rest, sector) || !take_text(rest, " + ") ||
      !take_number(rest, sectors) || !rest.starts_with(" [") || sectors == 0)
    return std::nullopt;
  read.device = {sector * kSector, sectors * kSector};
  return read;
}

/// "254,0 ino 131 dir 2 mode 040755", "254,0 ino 131 flags HINT_DATA len 1 block 34567 lblk 0
/// [...]"
std::optional<TracedAllocation> allocation_of(std::string_view line) {
  for (const Pattern& pattern : kAllocationLines) {
    const auto at = line.find(pattern.event);
    if (at == std::string_view::npos) continue;
    TracedAllocation allocation{pattern.what};
    if (!thread_of(line.substr(0, at), allocation.thread)) return std::nullopt;
    auto rest = line.substr(at + pattern.event.size());
    const auto number = rest.find(pattern.before_number);
    if (number == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(number + pattern.before_number.size());
    if (!take_number(rest, allocation.number) || !rest.starts_with(' ')) return std::nullopt;
    if (allocation.number == 0) return std::nullopt;  // there was no room
    return allocation;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TracedEvent> parse_trace(std::string& text) {
  std::vector<TracedEvent> events;
  std::string_view rest = text;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const auto line = rest.substr(0, end);
    if (const auto read = read_of(line))
      events.push_back(*read);
    else if (const auto allocation = allocation_of(line))
      events.push_back(*allocation);
    rest.remove_prefix(end + 1);
  }
  text.erase(0, text.size() - rest.size());
  return events;
}

}  // namespace warmroot::warm
