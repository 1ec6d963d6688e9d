// The processes that proc shows.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "bootstrap/files.hpp"
#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {

/// Of a process's directory in proc, or of one of its threads'.
std::optional<ProcessStat> stat_in(const std::string& process);

/// Where proc shows what a process holds. One whose first thread has ended shows it by the others
/// alone; until the last has, it is there.
std::string place_of(pid_t pid);

/// All but this one and pid 1. False when it was cut short.
bool each_process(const Cancelled& over, const std::function<void(pid_t)>& show);

}  // namespace warmroot::bootstrap
