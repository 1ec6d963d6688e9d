#include "manager/daemon_log.hpp"

#include <fmt/format.h>
#include <spdlog/cfg/env.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>

namespace warmroot::manager {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = spdlog::stderr_logger_mt("warmroot");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  spdlog::cfg::load_env_levels();  // SPDLOG_LEVEL
  return logger;
}

const std::shared_ptr<spdlog::logger>& the_logger() {
  static const std::shared_ptr<spdlog::logger> logger = make_logger();
  return logger;
}

spdlog::level::level_enum severity_of(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::info;
}

bool is_plain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return c > 0x20 && c != 0x7f && c != '"' && c != '=';
  });
}

std::string in_quotes(std::string_view value) {
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
                        is_plain(value) ? value : in_quotes(value));
  return text;
}

void log_everything() {
  the_logger()->set_level(spdlog::level::trace);
}

void log_event(LogLevel level, std::string_view text, const LogFields& fields) {
  const auto severity = severity_of(level);
  if (!the_logger()->should_log(severity)) return;
  const std::string tail = log_fields_text(fields);
  the_logger()->log(severity, "{}{}{}", text, tail.empty() ? "" : " ", tail);
}

}  // namespace warmroot::manager
