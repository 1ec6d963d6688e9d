// warmroot, the manager: reads the command line and runs the command. Everything else is in cli.cpp
// and below.
#include <cstdio>
#include <string>
#include <vector>

#include "manager/cli.hpp"

int main(int argc, char** argv) {
  using namespace warmroot::manager;
  const ParsedCommandLine parsed = parse_command_line(
      std::vector<std::string>(argv + 1, argv + argc), defaults_of_this_process());
  if (parsed.options) return run_command(*parsed.options);
  std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
  return parsed.exit_status;
}
