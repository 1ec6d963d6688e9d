// Time stands still while this process works: its CPU is measured, and moves no virtual clock.
#include "bench/scale_manager.hpp"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/scale_wire.hpp"
#include "bench/scale_world.hpp"
#include "manager/aws/ec2_client.hpp"
#include "manager/reconciler.hpp"

namespace warmroot::bench {

namespace {

/// What the world says with each answer.
struct Clock {
  Instant now = World::start();
  bool finished = false;
  std::vector<std::string> hints;
  std::map<std::string, core::NodeReport> reports;
  bool reported = false;  ///< since it was asked last

  void take(Frame& frame) {
    now = Instant{Milliseconds{frame.number()}};
    finished = frame.number() != 0;
    for (auto left = frame.number(); left > 0; --left) hints.push_back(frame.text());
    for (auto left = frame.number(); left > 0; --left) {
      std::istringstream words(frame.text());
      core::NodeReport report;
      std::string stage;
      words >> report.instance_id >> report.volume_id >> stage;
      report.stage = stage == "ready"      ? NodeStage::ready
                     : stage == "draining" ? NodeStage::draining
                                           : NodeStage::released;
      report.received = now;
      reports[report.instance_id] = report;
      reported = true;
    }
  }
};

class RemoteTransport : public aws::Transport {
 public:
  RemoteTransport(int fd, Clock& clock) : fd_(fd), clock_(clock) {}

  std::vector<Result<HttpReply>> post(std::span<const std::string> bodies) override {
    Frame request;
    request.put(kPost).put(static_cast<std::int64_t>(bodies.size()));
    for (const auto& body : bodies) request.put(body);
    send_frame(fd_, request);
    Frame news = receive_frame(fd_);
    clock_.take(news);
    std::vector<Result<HttpReply>> replies;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      HttpReply reply;
      reply.status = static_cast<int>(receive_frame(fd_).number());
      reply.headers = {{"content-type", "text/xml;charset=UTF-8"}};
      reply.body = receive_frame(fd_).take();
      replies.push_back(std::move(reply));
    }
    return replies;
  }

 private:
  int fd_;
  Clock& clock_;
};

core::Desired desired(const ManagerOptions& run) {
  core::Desired made{"bench", {}};
  for (int first = 0; first < run.nodes; first += kNodesOfPool) {
    core::PoolSpec pool;
    pool.name = "pool" + std::to_string(first / kNodesOfPool);
    pool.snapshot = "snap-01000000000000001";
    pool.zones = {"us-east-1a", "us-east-1b"};
    pool.nodes = pool.running = std::min(kNodesOfPool, run.nodes - first);
    pool.launch = core::LaunchSpec{};
    pool.launch->base_ami = "ami-02000000000000002";
    pool.launch->instance_types = {"g5.xlarge"};
    pool.launch->volume_with_launch = run.launches;
    made.pools.push_back(std::move(pool));
  }
  return made;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

void sleep_in(int fd, Clock& clock, Milliseconds time) {
  send_frame(fd, Frame().put(kSleep).put(time.count()));
  Frame news = receive_frame(fd);
  clock.take(news);
}

/// Until the tick is due. What events and reports tell on the way is passed on, and ends the wait
/// only when somebody waits for it.
void wait_as_the_daemon_does(int fd, Clock& clock, manager::Reconciler& reconciler,
                             Milliseconds next) {
  const Instant until = clock.now + next;
  while (!clock.finished && clock.now < until) {
    sleep_in(fd, clock, until - clock.now);
    const bool urgent = reconciler.look_at(std::exchange(clock.hints, {}));
    if (urgent || std::exchange(clock.reported, false)) {
      // Together with what else comes in the next moments.
      sleep_in(fd, clock, std::min(until - clock.now, reconciler.shortest_pause()));
      reconciler.look_at(std::exchange(clock.hints, {}));
      return;
    }
  }
}

}  // namespace

int run_manager(int fd, const ManagerOptions& run) {
  char folder[] = "/tmp/scale_bench.XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  Clock clock;
  auto ledger = manager::Ledger::open(std::string(folder) + "/ledger.sqlite",
                                      {"bench", "us-east-1"}, clock.now - std::chrono::hours{1});
  CHECK(ledger.has_value());
  RemoteTransport transport(fd, clock);
  unsigned draws = 0;
  aws::Ec2Client client(
      transport, [&](Milliseconds wait) { sleep_in(fd, clock, wait); },
      [&] { return static_cast<double>(draws++ * 7 % 10) / 10; });
  manager::ReconcilerOptions options;
  const Instant asked = World::start() + run.lead;
  options.desired = desired(run);
  if (run.lead > Milliseconds(0))
    for (auto& pool : options.desired.pools) pool.nodes = pool.running = 0;
  options.now = [&] { return clock.now; };
  options.user_data = [](const core::PoolSpec&) -> Result<std::string> {
    return std::string("#!/bin/sh\n") + std::string(8'000, '#');
  };
  options.reports = [&] { return clock.reports; };
  options.budget_share = run.share;
  options.observer.told = run.events;
  manager::Reconciler reconciler(client, *ledger, std::move(options));
  int ticks = 0;
  int failures = 0;
  const bool trace = std::getenv("SCALE_TRACE") != nullptr;
  while (clock.now < asked) {
    const auto report = reconciler.tick();
    if (!report) {
      ++failures;
      std::cerr << "tick failed: " << report.error().message() << "\n";
    }
    const auto next = report ? report->plan.next_look : Milliseconds(1000);
    if (clock.now < asked) sleep_in(fd, clock, std::min(next, asked - clock.now));
  }
  const double cpu_before = run.lead > Milliseconds(0) ? cpu_seconds() : 0;
  reconciler.set_desired(desired(run));
  while (!clock.finished) {
    const auto from = clock.now;
    const double cpu = trace ? cpu_seconds() : 0;
    const auto report = reconciler.tick();
    ++ticks;
    if (!report) {
      ++failures;
      std::cerr << "tick failed: " << report.error().message() << "\n";
    }
    const auto next = report ? report->plan.next_look : Milliseconds(1000);
    if (trace && report) {
      std::cerr << "tick " << ticks << " at " << (from - World::start()).count() << " took "
                << (clock.now - from).count() << " calls " << report->calls.size() << " next "
                << next.count() << " cpu " << (cpu_seconds() - cpu) * 1000 << " complete "
                << report->observed.complete << " notes " << report->plan.notes.size();
      if (!report->plan.notes.empty()) std::cerr << " " << report->plan.notes.front().text;
      std::cerr << "\n";
      for (const auto& call : report->calls)
        if (call.action != "AttachVolume")
          std::cerr << "  " << call.action << " " << call.resource << ": " << call.reason << "\n";
    }
    wait_as_the_daemon_does(fd, clock, reconciler, next);
  }
  std::ostringstream words;
  words << "{\"cpu_s\":" << cpu_seconds() - cpu_before << ",\"peak_mib\":" << peak_mib()
        << ",\"ticks\":" << ticks << ",\"failed_ticks\":" << failures << "}";
  send_frame(fd, Frame().put(kFinished).put(words.str()));
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace warmroot::bench
