#include "manager/daemon_log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>

namespace warmroot::manager {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = spdlog::stderr_logger_mt("warmroot");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::info);
  return logger;
}

bool is_plain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return c > 0x20 && c != 0x7f && c != '"' && c != '=';
  });
}

std::string quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace

std::string log_fields_text(const LogFields& fields) {
  std::string text;
  for (const auto& [key, value] : fields)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key,
                        is_plain(value) ? value : quoted(value));
  return text;
}

void log_event(LogLevel level, std::string_view text, const LogFields& fields) {
  static const std::shared_ptr<spdlog::logger> logger = make_logger();
  const auto severity = level == LogLevel::error     ? spdlog::level::err
                        : level == LogLevel::warning ? spdlog::level::warn
                                                     : spdlog::level::info;
  const std::string tail = log_fields_text(fields);
  logger->log(severity, "{}{}{}", text, tail.empty() ? "" : " ", tail);
}

}  // namespace warmroot::manager
