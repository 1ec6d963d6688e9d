// `warmroot ami import`: a person watches, so what is waited for is shown each second.
#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "manager/ami_import.hpp"
#include "manager/cli.hpp"
#include "manager/cli_context.hpp"
#include "manager/cli_progress.hpp"
#include "manager/daemon_signals.hpp"

namespace warmroot::manager {
namespace {

/// Between two looks; a stop is noticed within a slice.
constexpr Milliseconds kImportLook{1'000};
constexpr Milliseconds kImportSlice{100};

/// What the command line leaves out comes from the pool: the subnet of its first zone.
Result<core::ImportWish> wish_of(const Options& options, const Config& config) {
  if (!options.pool.empty()) TRY(find_pool(config, options.pool));
  core::ImportWish wish;
  wish.deployment = config.desired.deployment;
  wish.ami = options.ami;
  wish.instance_type = options.instance_type;
  wish.subnet = options.subnet;
  for (const core::PoolSpec& pool : config.desired.pools) {
    if (!options.pool.empty() && pool.name != options.pool) continue;
    if (!wish.subnet.empty() || !pool.launch) continue;
    for (const std::string& zone : pool.zones)
      if (const auto subnet = pool.launch->subnets.find(zone);
          wish.subnet.empty() && subnet != pool.launch->subnets.end())
        wish.subnet = subnet->second;
  }
  return wish;
}

void wait(const std::stop_token& stop) {
  for (Milliseconds slept{0}; slept < kImportLook && !stop.stop_requested(); slept += kImportSlice)
    std::this_thread::sleep_for(kImportSlice);
}

int finish(const core::ImportStep& step, Progress& progress) {
  if (step.stage == core::ImportStep::Stage::done) {
    progress.say(step.text);
    fmt::print("{}\n", step.snapshot_id);
    std::fflush(stdout);
    return kSuccessStatus;
  }
  fmt::print(stderr, "warmroot: {}\n", step.text);
  return step.stage == core::ImportStep::Stage::refused ? kBadInputStatus : kUnmetStatus;
}

/// Nothing was changed only while there is no instance.
int tell_refusal(const Error& error, const AmiImport& importing) {
  const int status = tell_error(error);
  if (importing.left_behind().empty()) return status;
  fmt::print(
      stderr,
      "warmroot: instance {} of the import is there and paid for: run the same command again "
      "once that is put right, or terminate it\n",
      importing.left_behind());
  return kUnmetStatus;
}

Result<int> import_ami(const Options& options) {
  const SignalWatch signals;  // before the first thread: the signals are blocked in all
  const auto stop = signals.stop_token();
  TRY_ASSIGN(const Config config, load_spec(options.spec));
  TRY_ASSIGN(const core::ImportWish wish, wish_of(options, config));
  TRY_ASSIGN(auto connection, aws::connect_ec2(aws_choices(options, config)));
  AmiImport importing(*connection.ec2, wish, wall_clock());
  Progress progress;
  progress.waiting_for("EC2 to answer");
  TRY_ASSIGN(const core::ImportStep first, importing.look_ahead(wall_clock()));
  if (!goes_on(first.stage)) return finish(first, progress);
  if (first.stage == core::ImportStep::Stage::launching) {
    TRY_ASSIGN(const std::string terms, importing.terms());
    progress.say(fmt::format("importing {}: {}", wish.ami, terms));
  } else {
    progress.say(fmt::format("importing {}: going on where an earlier run was", wish.ami));
  }
  while (true) {
    const auto step = importing.step(wall_clock());
    if (!step) return tell_refusal(step.error(), importing);
    if (!goes_on(step->stage)) return finish(*step, progress);
    progress.say("waiting for " + step->text);
    progress.waiting_for(step->text);
    wait(stop);
    if (stop.stop_requested()) {
      progress.say("interrupted; run the same command again to go on");
      return kInterruptedStatus;
    }
  }
}

}  // namespace

int run_import(const Options& options) {
  const Result<int> status = import_ami(options);
  return status ? *status : tell_error(status.error());
}

}  // namespace warmroot::manager
