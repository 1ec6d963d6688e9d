#include "bootstrap/base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base/unique_fd.hpp"

namespace warmroot {
namespace {

/// The kernel refuses longer records.
constexpr std::size_t kKernelLineBytes = 900;

void append_value(std::string& line, std::string_view value) {
  const bool quote = value.empty() || value.find_first_of(" \t\"=") != std::string_view::npos;
  if (quote) line += '"';
  for (const char c : without_controls(std::string(value))) line += c == '"' ? '\'' : c;
  if (quote) line += '"';
}

void write_to_kernel(LogLevel level, const std::string& line) {
  const UniqueFd kernel(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  if (!kernel) return;
  // Priority of facility daemon (3): notice 5, warning 4.
  std::string record = level == LogLevel::warning ? "<28>warmroot: " : "<29>warmroot: ";
  record.append(line, 0, kKernelLineBytes);
  [[maybe_unused]] const auto written = ::write(kernel.get(), record.data(), record.size());
}

}  // namespace

std::string format_event(std::string_view text, LogFields fields) {
  std::string line(text);
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    append_value(line, value);
  }
  return line;
}

void log_event(LogLevel level, std::string_view text, LogFields fields) {
  const std::string line = format_event(text, fields);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  char time[40];
  std::snprintf(time, sizeof time, "%lld.%03ld ", static_cast<long long>(now.tv_sec),
                now.tv_nsec / 1000000);
  const std::string whole = time + line + '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, whole.data(), whole.size());
  if (level != LogLevel::info) write_to_kernel(level, line);
}

}  // namespace warmroot
