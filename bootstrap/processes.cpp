#include "bootstrap/processes.hpp"

#include <unistd.h>

#include <cstdlib>

namespace warmroot::bootstrap {

std::optional<ProcessStat> stat_in(const std::string& process) {
  return parse_process_stat(read_attribute(process + "/stat"));
}

std::string place_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  if (!link_text(process + "/root").empty()) return process;
  for (const auto& thread : list_directory(process + "/task")) {
    const std::string path = process + "/task/" + thread;
    const auto stat = stat_in(path);
    if (stat && stat->state != 'Z' && stat->state != 'X') return path;
  }
  return process;
}

bool each_process(const Cancelled& over, const std::function<void(pid_t)>& show) {
  return each_name("/proc", [&](const char* name) {
    if (over && over()) return false;
    char* end = nullptr;
    const long pid = std::strtol(name, &end, 10);
    if (pid > 1 && *end == '\0' && pid != ::getpid()) show(static_cast<pid_t>(pid));
    return true;
  });
}

}  // namespace warmroot::bootstrap
