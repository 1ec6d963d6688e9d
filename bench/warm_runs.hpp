// The runs of a warm benchmark in their order, each with a device log of its own, and what the logs
// say, as tables and as JSON. Called by warm_bench.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/base/result.hpp"

namespace warmroot::bench {

struct WarmOptions {
  std::string profile = "bench/profiles/b.toml";
  std::string image = "ext4";
  std::string images = "build/bench";
  std::string contenders = "all";
  std::vector<std::string> workloads = {"bench/workloads/python-gxx.sh",
                                        "bench/workloads/perl-git.sh"};
  std::uint64_t seed = 1;
  unsigned repetitions = 7;
  unsigned limit_s = 60;
  bool reader = false;
  std::string rarely{};       // contenders
  unsigned rarely_every = 3;  // repetitions
  std::string change_to{};    // profile
  double change_after_s = 2;
  std::string json;
  std::string logs;
};

/// Makes the runs below the temporary directory, with progress on stderr; prints the tables and
/// writes the raw results and device logs, where they are asked for. Once `stop` is true it ends,
/// and still says what it has. Requires root and mounts of this process's own. Errors: an option
/// that is none, a profile, image or script that is not there, a volume that is off its theory, a
/// run that fails.
Ok run_warm_bench(WarmOptions options, const std::atomic<bool>& stop);

}  // namespace warmroot::bench
