// How long the manager thinks and how much the warmer's measuring costs, without EC2 and without
// disks: the planner on a settled fleet and on an empty one, the codec on a page of instances, one
// latency recorded. Asserts nothing; run it as bench/README.md says.
#include <benchmark/benchmark.h>

#include <string>

#include "bootstrap/warm/latency_histogram.hpp"
#include "manager/aws/ec2_codec.hpp"
#include "tests/planner_world.hpp"

using namespace warmroot;

namespace {

/// A fleet in which every node has its volume attached to its running instance: the tick that a
/// daemon makes all day.
core::World settled_fleet(int nodes) {
  core::World world(nodes, nodes);
  for (int node = 0; node < nodes; ++node) {
    const std::string number = std::to_string(node);
    world.volume("vol-" + number, node);
    world.instance("i-" + number);
    world.attach("vol-" + number, "i-" + number);
  }
  return world;
}

void plan_settled(benchmark::State& state) {
  const core::World world = settled_fleet(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(world.plan());
  state.counters["nodes"] = static_cast<double>(state.range(0));
  state.counters["actions"] = static_cast<double>(world.plan().actions.size());
}

void plan_empty(benchmark::State& state) {
  const core::World world(static_cast<int>(state.range(0)), static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(world.plan());
  state.counters["nodes"] = static_cast<double>(state.range(0));
  state.counters["actions"] = static_cast<double>(world.plan().actions.size());
}

/// A DescribeInstances answer with the members that we read and a few that we do not.
HttpReply instances_page(int count) {
  HttpReply reply;
  reply.status = 200;
  reply.headers["content-type"] = "text/xml;charset=UTF-8";
  reply.body =
      "<DescribeInstancesResponse "
      "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><reservationSet>";
  for (int i = 0; i < count; ++i)
    reply.body +=
        "<item><reservationId>r-" + std::to_string(i) +
        "</reservationId><instancesSet><item><instanceId>i-" + std::to_string(i) +
        "</instanceId><imageId>ami-1</imageId><instanceState><code>16</code><name>running</name></"
        "instanceState>"
        "<instanceType>g5.12xlarge</instanceType><launchTime>2026-01-02T03:04:05.000Z</"
        "launchTime><placement>"
        "<availabilityZone>us-east-1a</availabilityZone></placement><monitoring><state>disabled</"
        "state></monitoring>"
        "<privateIpAddress>10.0.0.1</privateIpAddress><rootDeviceName>/dev/xvda</"
        "rootDeviceName><tagSet><item>"
        "<key>warmroot:pool</key><value>p</value></item></tagSet></item></instancesSet></item>";
  reply.body += "</reservationSet></DescribeInstancesResponse>";
  return reply;
}

void decode_instances(benchmark::State& state) {
  const HttpReply reply = instances_page(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(aws::decode_instances(reply));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(reply.body.size()));
}

void record_latency(benchmark::State& state) {
  warm::LatencyHistogram histogram;
  std::int64_t latency_us = 300;
  for (auto _ : state) {
    histogram.record(std::chrono::microseconds{latency_us});
    latency_us = (latency_us * 31) % 90'001;
  }
  benchmark::DoNotOptimize(histogram.percentile_us(0.5));
}

BENCHMARK(plan_settled)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_empty)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(decode_instances)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(record_latency);

}  // namespace

BENCHMARK_MAIN();
