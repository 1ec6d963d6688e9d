#include "bootstrap/base/units.hpp"

#include <cstdio>

namespace warmroot {
namespace {

struct Civil {
  int year, month, day, hour, minute, second, millisecond;
};

Civil to_civil(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss<Milliseconds> time{instant - day};
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(time.hours().count()),
          static_cast<int>(time.minutes().count()),
          static_cast<int>(time.seconds().count()),
          static_cast<int>(time.subseconds().count())};
}

}  // namespace

std::string to_iso8601(Instant instant) {
  const Civil c = to_civil(instant);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", c.year, c.month, c.day, c.hour, c.minute,
                c.second, c.millisecond);
  return text;
}

std::string to_compact_iso8601(Instant instant) {
  const Civil c = to_civil(instant);
  char text[64];
  std::snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02dZ", c.year, c.month, c.day, c.hour, c.minute, c.second);
  return text;
}

std::optional<Instant> parse_iso8601(std::string_view text) {
  const std::string copy(text);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, consumed = 0;
  const bool dashed = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second,
                                  &consumed) == 6;
  if (!dashed && std::sscanf(copy.c_str(), "%4d%2d%2dT%2d%2d%2d%n", &year, &month, &day, &hour, &minute, &second,
                             &consumed) != 6)
    return std::nullopt;
  std::string_view rest = std::string_view(copy).substr(static_cast<std::size_t>(consumed));
  int milliseconds = 0;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    int scale = 100;
    while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
      milliseconds += (rest.front() - '0') * scale;
      scale /= 10;
      rest.remove_prefix(1);
    }
  }
  if (rest != "Z" && rest != "+00:00") return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return Instant{std::chrono::sys_days{date}} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         std::chrono::seconds{second} + Milliseconds{milliseconds};
}

}  // namespace warmroot
