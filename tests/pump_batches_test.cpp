// The pump's long batches, on a device in real time whose reads vary as first touches do.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/warm/depth_control.hpp"
#include "bootstrap/warm/read_engine.hpp"
#include "bootstrap/warm/read_pump.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr unsigned kCeiling = 64;

/// 1,000 first touches a second, of 20 ms.
class SlowDisk : public ReadEngine {
 public:
  unsigned long_waits = 0;
  unsigned rests = 0;  // rows of long waits
  bool last_was_long = false;
  std::map<Block, Clock::time_point> begun;
  unsigned most_in_flight = 0;

  std::string_view name() const override { return "slow"; }
  unsigned capacity() const override { return kCeiling + ReadPump::kExtraCapacity; }
  unsigned in_flight() const override { return static_cast<unsigned>(pending_.size()); }
  Ok submit(std::span<const ReadRequest> requests) override {
    const auto now = Clock::now();
    for (const ReadRequest& request : requests) {
      auto ends = now + microseconds(300);
      if (touched_.insert(request.offset / kGridBytes).second) {
        next_free_ = std::max(next_free_, now) + milliseconds(1);
        const double took_us = 20'000 * std::exp(0.5 * normal_(random_));
        ends = std::max(next_free_, now + microseconds(std::llround(took_us)));
      }
      begun.emplace(static_cast<Block>(request.offset / kGridBytes), now);
      pending_.emplace(ends, Pending{request.tag, now});
    }
    most_in_flight = std::max(most_in_flight, in_flight());
    return {};
  }
  using ReadEngine::wait;
  Ok wait(milliseconds timeout, std::vector<ReadResult>& results, unsigned batch,
          milliseconds batch_time) override {
    if (batch_time > kBatchTime && !last_was_long) ++rests;
    last_was_long = batch_time > kBatchTime;
    long_waits += last_was_long ? 1 : 0;
    if (pending_.empty()) return {};
    const auto start = Clock::now();
    const auto last = std::next(pending_.begin(), std::min(batch, in_flight()) - 1)->first;
    std::this_thread::sleep_until(std::min(last, start + (batch > 1 ? batch_time : timeout)));
    std::this_thread::sleep_until(std::min(pending_.begin()->first, start + timeout));
    const auto now = Clock::now();
    while (!pending_.empty() && pending_.begin()->first <= now) {
      const Pending& read = pending_.begin()->second;
      results.push_back({read.tag, 0, std::chrono::duration_cast<microseconds>(now - read.start)});
      pending_.erase(pending_.begin());
    }
    return {};
  }

 private:
  struct Pending {
    std::uint64_t tag;
    Clock::time_point start;
  };
  std::multimap<Clock::time_point, Pending> pending_;
  std::set<std::uint64_t> touched_;
  Clock::time_point next_free_{};
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
};

TEST(PumpBatches, a_fill_is_seen_in_long_ones_until_a_session_misses_a_block) {
  constexpr Block kBlocks = 30'000;
  constexpr auto kAfter = milliseconds(900);
  SlowDisk disk;
  DepthControl control(depth_limits(kCeiling, std::nullopt));
  ReadPump* pump = nullptr;
  std::stop_source stop;
  unsigned untold = 0, late = 0;
  std::multimap<Clock::time_point, bool> told_exactly;  // by when it was begun
  unsigned before = 0;
  Clock::time_point missed{};
  const auto start = Clock::now();
  PumpEvents events;
  events.present = [&](Block block, microseconds) {
    if (disk.last_was_long && !pump->sees_late()) ++untold;
    late += pump->sees_late() ? 1 : 0;
    told_exactly.emplace(disk.begun.at(block), !pump->sees_late());
  };
  events.tick = [&] {
    const auto now = Clock::now();
    if (missed == Clock::time_point{} && disk.long_waits >= 4) {
      before = disk.long_waits;
      missed = now;
      pump->prefer_to_all({});
    }
    const bool seen = missed != Clock::time_point{} && now - missed >= kAfter;
    if (seen || now - start >= std::chrono::seconds(20)) stop.request_stop();
    return std::vector<Block>{};
  };
  ReadPump reader(disk, control, std::uint64_t{kBlocks} * kGridBytes, std::move(events));
  pump = &reader;
  std::vector<Block> blocks;
  for (Block block = 0; block < kBlocks; ++block) blocks.push_back(block);
  ASSERT_EQ(reader.read(blocks, stop.get_token()), ReadPump::End::stopped);
  EXPECT_GE(before, 4U);
  EXPECT_EQ(disk.long_waits, before) << "within a second of a miss there is none";
  EXPECT_GT(late, 0U);
  EXPECT_EQ(untold, 0U);
  // Of those in flight when a rest began the quick ones alone were told: first touches of 100 ms
  // looked like 87.
  unsigned changes = 0;
  bool exactly = true;
  for (const auto& [when, exact] : told_exactly)
    changes += std::exchange(exactly, exact) != exact ? 1 : 0;
  EXPECT_LE(changes, 2 * disk.rests);
  EXPECT_LE(disk.most_in_flight, kCeiling + 4U) << "and four reads that try touches";
}

TEST(PumpBatches, a_list_that_somebody_waits_for_is_never_seen_in_long_ones) {
  constexpr Block kBlocks = 4'000;
  SlowDisk disk;
  DepthControl control(depth_limits(kCeiling, std::nullopt));
  PumpEvents events;
  ReadPump reader(disk, control, std::uint64_t{kBlocks} * kGridBytes, std::move(events));
  std::vector<Block> blocks;
  for (Block block = 0; block < kBlocks; ++block) blocks.push_back(block);
  ASSERT_EQ(reader.read(blocks, {}, [] { return true; }), ReadPump::End::finished);
  EXPECT_EQ(disk.long_waits, 0U);
}

}  // namespace
}  // namespace warmroot::warm
