// One process as /proc/PID/stat has it. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace warmroot::bootstrap {

struct ProcessStat {
  char state = '?';  ///< 'D': waits in the kernel, hears no signal
  pid_t parent = 0;
  pid_t session = 0;
  std::optional<unsigned> terminal;  ///< N of its controlling terminal /dev/pts/N
  std::uint64_t started_ticks = 0;   ///< after the boot, sysconf(_SC_CLK_TCK) a second
};

/// Source: proc(5), fields 3, 4, 6, 7 and 22. The command in field 2 may hold blanks and
/// parentheses. nullopt when the text is none.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

}  // namespace warmroot::bootstrap
