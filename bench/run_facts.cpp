#include "bench/run_facts.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace warmroot::bench {

Result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno("opening " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string first_line_of(const char* command) {
  std::string line;
  if (FILE* pipe = ::popen(command, "r"); pipe != nullptr) {
    char text[256];
    if (std::fgets(text, sizeof text, pipe) != nullptr) line = text;
    ::pclose(pipe);
  }
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace warmroot::bench
