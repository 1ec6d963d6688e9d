// The bootstrap's log: a few lines instead of spdlog, which would cost the static binary 400 KiB.
// One event a line, constant text first, then key=value. What people look for on a machine's
// console goes to the kernel log as well.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace warmroot {

/// `notice` is a stage of the machine's life and reaches the console too; `warning` likewise.
enum class LogLevel { info, notice, warning };

using LogFields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Writes one line to standard error: "12.345 text key=value". Values with blanks are quoted,
/// control characters replaced. Never fails, may be called from several threads.
void log_event(LogLevel level, std::string_view text, LogFields fields = {});

/// The line without its time, as log_event composes it.
std::string format_event(std::string_view text, LogFields fields);

}  // namespace warmroot
