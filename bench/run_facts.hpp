// What a benchmark's result says of the machine and the files that it was measured with. Called by
// the benches of the warmer.
#pragma once

#include <filesystem>
#include <string>

#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

/// Errors: the file's.
Result<std::string> read_text(const std::filesystem::path& path);

/// Of what the shell's command prints; empty where it prints nothing.
std::string first_line_of(const char* command);

/// Of the last minute; 0 where the kernel does not say.
double load_average();

}  // namespace warmroot::bench
