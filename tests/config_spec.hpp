// A small spec, and what is said of one, for tests of the spec's reading.
#pragma once

#include <string>

#include "manager/config.hpp"

namespace warmroot::manager {

inline Result<std::string> no_files(const std::string& path) {
  return fail(ErrorKind::gone, path + ": No such file or directory", "ENOENT");
}

/// The smallest spec without a mistake; 5 lines.
inline const std::string kMinimal = R"(deployment = "research"
[[pool]]
name = "imagenet"
ami = "ami-0123456789abcdef0"
zones = ["us-east-1a"]
nodes = 2
)";

inline const std::string kLaunch = R"([pool.launch]
base_ami = "ami-0fedcba9876543210"
instance_types = ["g5.12xlarge"]
)";

inline std::string listed(const ParsedSpec& parsed) {
  std::string list;
  for (const Mistake& m : parsed.mistakes)
    list += std::to_string(m.line) + ":" + std::to_string(m.column) + ": " + m.text + "\n";
  return list;
}

}  // namespace warmroot::manager
