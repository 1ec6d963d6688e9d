// The pump on an engine that fails as devices do.
#include "bootstrap/warm/read_pump.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/read_engine.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// A device of whose blocks some fail, by a script; a block is brought in by `reach` bytes of
/// reading.
class ScriptedEngine : public ReadEngine {
 public:
  std::function<int(std::uint64_t offset)> error = [](std::uint64_t) { return 0; };
  std::uint64_t reach = kGridBytes;
  milliseconds cold{8};
  std::set<Block> held;                // come back once they are let go
  std::vector<std::uint64_t> offsets;  // of reads that succeeded
  unsigned most_in_flight = 0;

  std::string_view name() const override { return "scripted"; }
  unsigned capacity() const override { return 24; }
  unsigned in_flight() const override { return static_cast<unsigned>(flights_.size()); }

  Ok submit(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      const bool warm = warm_.contains(request.offset / reach);
      const auto latency = warm ? microseconds(300) : microseconds(cold);
      const int failure = error(request.offset);
      if (failure == 0) {
        warm_.insert(request.offset / reach);
        offsets.push_back(request.offset);
      }
      flights_.push_back({{request.tag, failure, latency},
                          Clock::now() + latency,
                          static_cast<Block>(request.offset / kGridBytes)});
    }
    most_in_flight = std::max(most_in_flight, in_flight());
    return {};
  }
  using ReadEngine::wait;
  Ok wait(milliseconds timeout, std::vector<ReadResult>& results, unsigned, milliseconds) override {
    const auto until = Clock::now() + timeout;
    while (results.empty() && Clock::now() < until) {
      std::erase_if(flights_, [&](const Flight& flight) {
        if (flight.done > Clock::now() || held.contains(flight.block)) return false;
        results.push_back(flight.result);
        return true;
      });
      if (results.empty()) std::this_thread::sleep_for(microseconds(200));
    }
    return {};
  }
  void stall() {
    for (Flight& flight : flights_) flight.done = Clock::now() + std::chrono::hours(1);
  }

 private:
  struct Flight {
    ReadResult result;
    Clock::time_point done;
    Block block = 0;
  };
  std::vector<Flight> flights_;
  std::set<std::uint64_t> warm_;
};

class Pump : public testing::Test {
 protected:
  static constexpr std::uint64_t kDevice = 200 * kGridBytes + 8192;

  std::vector<Block> first_blocks(Block count) {
    std::vector<Block> blocks;
    for (Block block = 0; block < count; ++block) blocks.push_back(block);
    return blocks;
  }

  ReadPump pump() {
    PumpEvents events;
    events.present = [this](Block block, microseconds) { present_.insert(block); };
    events.not_present = [this](std::span<const Block> blocks) {
      for (const Block block : blocks) present_.erase(block);
      return before_;
    };
    events.tick = [this] {
      ++ticks_;
      if (on_tick_) on_tick_();
      return std::vector<Block>{};
    };
    return ReadPump(engine_, control_, kDevice, std::move(events), RateCap(mib_s_ * kMiB));
  }

  ScriptedEngine engine_;
  DepthControl control_{depth_limits(16, std::nullopt)};
  std::set<Block> present_;
  std::vector<Block> before_;  // that others have touched
  std::function<void()> on_tick_;
  std::uint64_t mib_s_ = 0;
  unsigned ticks_ = 0;
};

TEST_F(Pump, reads_each_block_with_one_touch_where_that_suffices) {
  ReadPump reader = pump();
  const auto blocks = first_blocks(201);  // the last has two pages
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  EXPECT_EQ(present_.size(), 201U);
  EXPECT_EQ(reader.touch_bytes(), kTouchBytes);
  EXPECT_LE(engine_.offsets.size(), 201U + 56U) << "a few second reads to learn it, no more";
  EXPECT_LE(engine_.most_in_flight, 16U + 4U);
  EXPECT_EQ(reader.bytes_read(), engine_.offsets.size() * kTouchBytes);
}

TEST_F(Pump, brings_in_no_more_a_second_than_the_operator_allows) {
  mib_s_ = 20;
  engine_.reach = 64 * 1024;  // blocks are read whole, and count the same
  ReadPump reader = pump();
  const auto blocks = first_blocks(20);
  const auto start = Clock::now();
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  EXPECT_EQ(present_.size(), 20U);
  EXPECT_GE(Clock::now() - start, milliseconds(400));  // 10 MiB, 40 ms held, and one block
}

TEST_F(Pump, preferred_blocks_come_before_the_list_and_needless_ones_not_at_all) {
  control_ = DepthControl(depth_limits(1, std::nullopt));
  std::vector<Block> order;
  std::set<Block> asked;
  ReadPump* reader = nullptr;
  PumpEvents events;
  events.present = [&](Block block, microseconds) {
    order.push_back(block);
    if (order.size() != 2) return;
    reader->prefer(std::vector<Block>{3, 91}, 2);
    reader->prefer(std::vector<Block>{90}, 1);
    reader->prefer(std::vector<Block>{80}, 2);
    reader->prefer_to_all(std::vector<Block>{70, 71});
  };
  events.wanted = [&](Block block) { return block != 91 && asked.insert(block).second; };
  ReadPump one(engine_, control_, kDevice, std::move(events));
  reader = &one;
  const auto blocks = first_blocks(6);
  ASSERT_EQ(one.read(blocks, {}), ReadPump::End::finished);
  // The next of the list may be on its way already when the second comes back.
  std::erase(order, 2U);
  EXPECT_EQ(order, (std::vector<Block>{0, 1, 70, 71, 90, 3, 80, 4, 5}));
}

/// A disk under virtual time, whose guest has a session beside us: 8 MiB every quarter of a second,
/// at what gp3 gives. Touches suffice on it: first ones take 36 ms.
class BusyDisk : public ReadEngine {
 public:
  std::string_view name() const override { return "busy"; }
  unsigned capacity() const override { return 64; }
  unsigned in_flight() const override { return static_cast<unsigned>(pending_.size()); }
  Ok submit(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      for (; next_burst_ <= now_; next_burst_ += microseconds(250'000))
        free_from_ = std::max(free_from_, next_burst_) + microseconds(64'000);
      const bool is_first = touched_.insert(request.offset / kGridBytes).second;
      const auto ends = std::max(now_, free_from_) + microseconds(is_first ? 36'000 : 500);
      pending_.emplace(ends, ReadResult{request.tag, 0, ends - now_});
    }
    return {};
  }
  Ok wait(milliseconds, std::vector<ReadResult>& results, unsigned, milliseconds) override {
    if (pending_.empty()) return {};
    const auto first = pending_.begin();
    now_ = std::max(now_, first->first);
    results.push_back(first->second);
    pending_.erase(first);
    return {};
  }

 private:
  microseconds now_{0}, free_from_{0}, next_burst_{0};
  std::set<std::uint64_t> touched_;
  std::multimap<microseconds, ReadResult> pending_;
};

/// The second read waited in the session's queue, and its repetition found that empty: within
/// seconds the warmer read everything again, 128 times as much, beside the session.
TEST_F(Pump, a_session_that_reads_in_bursts_is_no_proof_that_touches_do_not_suffice) {
  BusyDisk disk;
  bool doubted = false;
  PumpEvents events;
  events.not_present = [&](std::span<const Block>) {
    doubted = true;
    return std::vector<Block>{};
  };
  constexpr Block kBlocks = 20'000;
  ReadPump reader(disk, control_, std::uint64_t{kBlocks} * kGridBytes, std::move(events));
  ASSERT_EQ(reader.read(first_blocks(kBlocks), {}), ReadPump::End::finished);
  EXPECT_FALSE(doubted);
  EXPECT_EQ(reader.touch_bytes(), kTouchBytes);
}

TEST_F(Pump, reads_blocks_whole_where_a_touch_brings_less) {
  engine_.reach = 64 * 1024;
  ReadPump reader = pump();
  const auto blocks = first_blocks(201);
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  EXPECT_EQ(present_.size(), 201U);
  EXPECT_EQ(reader.touch_bytes(), kGridBytes);
  std::set<std::uint64_t> pieces(engine_.offsets.begin(), engine_.offsets.end());
  for (std::uint64_t at = 0; at < 200 * kGridBytes; at += kPieceBytes)
    EXPECT_TRUE(pieces.contains(at)) << "also of the blocks touched before it was known";
}

TEST_F(Pump, reads_what_others_have_touched_first_where_a_touch_brings_less) {
  engine_.reach = 64 * 1024;
  before_ = {150, 151};
  ReadPump reader = pump();
  ASSERT_EQ(reader.read(first_blocks(100), {}), ReadPump::End::finished);
  EXPECT_TRUE(present_.contains(150) && present_.contains(151));
  const auto turn = [&](std::uint64_t offset) {
    return std::ranges::find(engine_.offsets, offset) - engine_.offsets.begin();
  };
  EXPECT_LT(turn(150 * kGridBytes), turn(kPieceBytes));
  EXPECT_LT(turn(151 * kGridBytes), turn(kPieceBytes));
}

TEST_F(Pump, retries_what_fails_now_and_then_and_gives_up_what_always_fails) {
  std::map<std::uint64_t, int> tries;
  engine_.error = [&](std::uint64_t offset) {
    const std::uint64_t block = offset / kGridBytes;
    if (block == 7) return EIO;
    if (block == 9 && tries[block]++ == 0) return ETIMEDOUT;
    return 0;
  };
  ReadPump reader = pump();
  const auto blocks = first_blocks(40);
  const auto start = Clock::now();
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  EXPECT_EQ(present_.size(), 39U);
  EXPECT_FALSE(present_.contains(7));
  EXPECT_TRUE(present_.contains(9));
  EXPECT_EQ(reader.errors(), ReadPump::kAttempts + 1U);
  EXPECT_EQ(reader.given_up(), 1U);
  EXPECT_LT(Clock::now() - start, milliseconds(6000));
}

TEST_F(Pump, a_block_that_takes_long_does_not_hold_up_the_next_list) {
  engine_.held = {3};
  ReadPump reader = pump();
  const auto all = first_blocks(60);
  const std::span blocks(all);
  const auto started = [] { return true; };
  ASSERT_EQ(reader.read(blocks.first(20), {}, started), ReadPump::End::finished);
  const auto second_has_ended = [this] { return present_.size() == 59; };
  ASSERT_EQ(reader.read(blocks.subspan(20), {}, second_has_ended), ReadPump::End::finished);
  EXPECT_FALSE(present_.contains(3));
  const auto latencies = reader.sample(blocks.subspan(10, 20), {});
  ASSERT_TRUE(latencies);
  EXPECT_EQ(std::ranges::count_if(*latencies, [](const auto& one) { return !one; }), 0)
      << "it waits for its own, no others";
  engine_.held.clear();
  ASSERT_EQ(reader.read({}, {}), ReadPump::End::finished);
  EXPECT_EQ(present_.size(), 60U);
  std::vector<Block> order;
  std::set<std::uint64_t> first;
  for (const std::uint64_t offset : engine_.offsets)
    if (offset % kGridBytes == 0 && first.insert(offset).second)
      order.push_back(static_cast<Block>(offset / kGridBytes));
  order.resize(60);
  EXPECT_EQ(order, all) << "started in the order of the lists";
  EXPECT_LE(engine_.most_in_flight, 16U + 4U);
}

TEST_F(Pump, a_list_is_not_held_up_by_what_has_to_be_tried_again_and_the_last_waits_for_it) {
  unsigned failures = 0;
  std::vector<Block> given_up;
  engine_.error = [&](std::uint64_t offset) {
    return offset / kGridBytes == 7 ? ++failures, EIO : 0;
  };
  PumpEvents events;
  events.present = [this](Block block, microseconds) { present_.insert(block); };
  events.given_up = [&](Block block) { given_up.push_back(block); };
  ReadPump reader(engine_, control_, kDevice, std::move(events));
  const auto blocks = first_blocks(20);
  ASSERT_EQ(reader.read(blocks, {}, [this] { return present_.size() == 19; }),
            ReadPump::End::finished);
  EXPECT_LT(failures, ReadPump::kAttempts);
  ASSERT_EQ(reader.read({}, {}), ReadPump::End::finished);
  EXPECT_EQ(given_up, (std::vector<Block>{7}));
}

TEST_F(Pump, ends_when_the_device_has_gone) {
  engine_.error = [](std::uint64_t offset) { return offset < 20 * kGridBytes ? 0 : ENODEV; };
  ReadPump reader = pump();
  const auto blocks = first_blocks(100);
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::device_lost);
  EXPECT_EQ(reader.last_error(), ENODEV);
  EXPECT_EQ(present_.size(), 20U);
}

TEST_F(Pump, survives_a_device_that_fails_for_a_while_without_hammering_it) {
  const auto start = Clock::now();
  unsigned failures = 0;
  engine_.error = [&](std::uint64_t) {
    const bool resetting = Clock::now() - start < milliseconds(2500);
    failures += resetting ? 1 : 0;
    return resetting ? EIO : 0;
  };
  ReadPump reader = pump();
  const auto blocks = first_blocks(60);
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  EXPECT_GE(present_.size(), 57U) << "a block or two may have used up their attempts";
  EXPECT_LT(failures, 40U);
}

/// The same of them were tried once a second until the whole device counted as lost: in the middle
/// of a list, at its end, and where all that is in flight at first is bad.
TEST_F(Pump, more_bad_blocks_in_a_row_than_are_in_flight_are_not_the_devices) {
  for (const Block first : {0U, 20U, 60U}) {
    SCOPED_TRACE(first);
    engine_.error = [first](std::uint64_t offset) {
      const std::uint64_t block = offset / kGridBytes;
      return block >= first && block < first + 20 ? EIO : 0;
    };
    present_.clear();
    ReadPump reader = pump();
    ASSERT_EQ(reader.read(first_blocks(80), {}), ReadPump::End::finished);
    EXPECT_EQ(present_.size(), 60U);
    EXPECT_EQ(reader.given_up(), 20U);
  }
}

TEST_F(Pump, a_device_that_answers_nothing_any_more_is_lost_after_ten_seconds) {
  engine_.error = [this](std::uint64_t) { return present_.size() >= 20 ? EIO : 0; };
  ReadPump reader = pump();
  const auto start = Clock::now();
  ASSERT_EQ(reader.read(first_blocks(200), {}), ReadPump::End::device_lost);
  EXPECT_LT(Clock::now() - start, milliseconds(13'000));
  EXPECT_LT(reader.errors(), 60U) << "one read a second";
}

TEST_F(Pump, a_stop_request_is_honoured_within_200_ms_even_when_reads_stall) {
  std::stop_source stop;
  Clock::time_point asked;
  on_tick_ = [&] {
    if (asked != Clock::time_point{} || present_.size() < 10) return;
    engine_.stall();
    asked = Clock::now();
    stop.request_stop();
  };
  ReadPump reader = pump();
  const auto blocks = first_blocks(200);
  ASSERT_EQ(reader.read(blocks, stop.get_token()), ReadPump::End::stopped);
  EXPECT_LT(Clock::now() - asked, milliseconds(200));
  EXPECT_LT(present_.size(), 200U);
}

TEST_F(Pump, samples_say_how_fast_present_blocks_are) {
  ReadPump reader = pump();
  const auto blocks = first_blocks(20);
  ASSERT_EQ(reader.read(blocks, {}), ReadPump::End::finished);
  const auto latencies = reader.sample(blocks, {});
  ASSERT_TRUE(latencies);
  ASSERT_EQ(latencies->size(), 20U);
  for (const auto& latency : *latencies) {
    ASSERT_TRUE(latency);
    EXPECT_LT(*latency, milliseconds(5));
  }
}

}  // namespace
}  // namespace warmroot::warm
