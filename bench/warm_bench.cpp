// warm_bench: our warmer against what people use today, on a modelled cold volume, natively. Reads
// the options and gives the runs (warm_runs.hpp) mounts of their own. Called by bench/run.sh, which
// makes the root disks first; needs root, FUSE and loop devices.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/warm_runs.hpp"
#include "bench/warm_worker.hpp"
#include "bootstrap/base/result.hpp"

namespace warmroot::bench {
namespace {

std::atomic<bool> stop_asked = false;

/// Mounts of this process are nobody else's, and go with it.
Ok own_mounts() {
  if (::geteuid() != 0) return fail(ErrorKind::unauthorised, "warm_bench has to run as root");
  if (::unshare(CLONE_NEWNS) != 0) return fail_errno("a mount namespace of our own");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_errno("making mounts private");
  return {};
}

int answer(const Ok& result) {
  if (result) return 0;
  std::fprintf(stderr, "warm_bench: %s\n", result.error().message().c_str());
  return 1;
}

}  // namespace
}  // namespace warmroot::bench

int main(int argc, char** argv) {
  using namespace warmroot;
  using namespace warmroot::bench;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--warm")
    return answer(run_warmer(std::span(words).subspan(1)));
  if (!words.empty() && words[0] == "--touch")
    return answer(run_touch(std::span(words).subspan(1)));
  CLI::App app{"Our warmer against what people use today, on a modelled cold volume."};
  WarmOptions options;
  app.add_option("--profile", options.profile, "Law of the volume (TOML)")->capture_default_str();
  app.add_option("--seed", options.seed, "Of latencies and order")->capture_default_str();
  app.add_option("--image", options.image, "ext4, xfs or aged")->capture_default_str();
  app.add_option("--images", options.images, "Where the root disks are")->capture_default_str();
  app.add_option("--contenders", options.contenders, "Names with commas, or all")
      ->capture_default_str();
  app.add_option("--workloads", options.workloads, "Session scripts")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "Each with a seed of its own")
      ->check(CLI::Range(1, 999))
      ->capture_default_str();
  app.add_option("--limit", options.limit_s, "Seconds from the start that a contender gets")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--rarely", options.rarely,
                 "Of the contenders, those that run in few repetitions");
  app.add_option("--rarely-every", options.rarely_every, "Repetitions between two of theirs")
      ->check(CLI::Range(1, 999))
      ->capture_default_str();
  app.add_option("--change-to", options.change_to, "Profile whose law the volume has later");
  app.add_option("--change-after", options.change_after_s, "Seconds until then")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app.add_flag("--reader", options.reader, "Also run an unrelated cold reader beside each");
  app.add_option("--json", options.json, "Raw results to this file");
  app.add_option("--logs", options.logs, "Each run's device log into this directory")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  for (const int end : {SIGINT, SIGTERM, SIGHUP}) ::signal(end, [](int) { stop_asked = true; });
  ::signal(SIGPIPE, SIG_IGN);
  if (const Ok own = own_mounts(); !own) return answer(own);
  return answer(run_warm_bench(std::move(options), stop_asked));
}
