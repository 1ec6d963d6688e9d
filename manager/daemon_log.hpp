// The daemon's log on standard error, one event a line: time, level, a constant text, then
// key=value. The only file that includes spdlog is daemon_log.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroot::manager {

enum class LogLevel { debug, info, warning, error };

/// Shows debug events too, as SPDLOG_LEVEL=debug does.
void log_everything();

/// Values with spaces, quotes or control characters are quoted, so that an event stays one line.
using LogFields = std::vector<std::pair<std::string_view, std::string>>;

/// `text` is the same for all events of a kind. From any thread.
void log_event(LogLevel level, std::string_view text, const LogFields& fields = {});

/// "key=value key=\"two words\""
std::string log_fields_text(const LogFields& fields);

}  // namespace warmroot::manager
