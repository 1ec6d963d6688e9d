// warmroot, the manager: reads the command line and runs the command. Everything else is in cli.cpp
// and below.
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "manager/cli.hpp"

namespace {

using namespace warmroot::manager;

/// An answer that is lost is no success: `warmroot node list > /full/disk/file`.
int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("warmroot: standard output cannot be written\n", stderr);
  return status == kSuccessStatus ? kUnmetStatus : status;
}

int run(const Options& options) {
  try {
    return run_command(options);
  } catch (const std::system_error& error) {  // fmt's, of a stream that takes no more
    if (std::ferror(stdout) == 0) std::fprintf(stderr, "warmroot: %s\n", error.what());
    return kUnmetStatus;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ParsedCommandLine parsed = parse_command_line(
      std::vector<std::string>(argv + 1, argv + argc), defaults_of_this_process());
  if (parsed.options) return finish(run(*parsed.options));
  std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
  return finish(parsed.exit_status);
}
