// See the header.
#include "tests/fleet_sim/batch.hpp"

#include <time.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/fleet_sim/revision.hpp"

namespace warmroot::fleet {

namespace {

/// An hour's run that is interrupted still says what it found.
volatile std::sig_atomic_t stop_asked = 0;

void ask_to_stop(int) {
  stop_asked = 1;
}

double clock_s(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ",") + word;
  return text.empty() ? "all" : text;
}

}  // namespace

const char* revision() {
  return WARMROOT_REVISION;
}

RunResult run_seed(std::uint64_t seed, const Options& options) {
  World world(seed, options);
  return world.run();
}

BatchResult run_batch(const Options& options) {
  BatchResult batch;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{0};
  ::setenv("SPDLOG_LEVEL", "off", 0);  // what admission logs, of every seed
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);
  const double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  const double wall = clock_s(CLOCK_MONOTONIC);
  const auto work = [&] {
    while (true) {
      const auto index = next++;
      if (index >= options.seeds || stop_asked != 0) return;
      auto result = run_seed(options.first_seed + index, options);
      const std::lock_guard lock(mutex);
      ++batch.runs;
      batch.ticks += result.ticks;
      batch.coverage.merge(result.coverage);
      batch.longest_settle = std::max(batch.longest_settle, result.settled_in);
      if (result.violation.empty()) continue;
      if (++batch.violations >= options.most_violations) next = options.seeds;
      batch.described.push_back(describe_violation(result, options));
      std::fprintf(stderr, "%s\n", batch.described.back().c_str());  // at once; the report is later
      if (!batch.violation || result.seed < batch.violation->seed)
        batch.violation = std::move(result);
    }
  };
  std::vector<std::thread> threads;
  for (int job = 1; job < options.jobs; ++job) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
  batch.interrupted = stop_asked != 0 && batch.runs < options.seeds && batch.violations == 0;
  batch.cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  batch.wall_s = clock_s(CLOCK_MONOTONIC) - wall;
  return batch;
}

std::string describe_violation(const RunResult& result, const Options& options) {
  return "violation seed=" + std::to_string(result.seed) +
         " fault=" + (result.fault.empty() ? "none" : result.fault) +
         " step=" + std::to_string(result.step) + " rev=" WARMROOT_REVISION " " + result.violation +
         "; again: fleet_sim --first-seed " + std::to_string(result.seed) + " --seeds 1 --nodes " +
         std::to_string(options.nodes) + " --minutes " + std::to_string(options.minutes) +
         " --faults " + joined(options.faults) +
         (options.planted == 0 ? "" : " --planted " + std::to_string(options.planted));
}

}  // namespace warmroot::fleet
