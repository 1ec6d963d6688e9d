// Depth control in a closed loop with modelled devices, under virtual time; see depth_loop.hpp.
#include "bootstrap/warm/depth_control.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/depth_loop.hpp"

namespace warmroot::warm {
namespace {

constexpr unsigned kCeiling = 80;
constexpr unsigned kEarlyStart = 32;  // of the early reads, without a list and with one
constexpr unsigned kListStart = 24;

struct Case {
  const char* name;
  Law law;
  unsigned lowest, highest;  // depth after 3 s
  double least_of_bound;     // throughput from 3 s to 11 s over the bound's
};

/// A's queue is in no spread: reads wait for a slot as long as another's latency. There the ceiling
/// is what keeps the depth within a quarter.
class ClosedLoop : public testing::TestWithParam<Case> {};

TEST_P(ClosedLoop, settles_near_the_bandwidth_delay_product_and_reaches_the_bound) {
  const Case& c = GetParam();
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Loop loop(c.law, depth_limits(0, std::nullopt), seed);
    loop.run_until(3);
    const std::uint64_t before = loop.completed();
    const unsigned settled = loop.control().found();
    loop.run_until(11);
    const double rate = static_cast<double>(loop.completed() - before) / 8;
    const double latency = c.law.median_ms / 1e3 * std::exp(kSigma * kSigma / 2);
    const double latency_bound = (c.law.slots > 0 ? c.law.slots : kCeiling) / latency;
    const double bound = c.law.bandwidth_mib_s == 0
                             ? latency_bound
                             : std::min(c.law.bandwidth_mib_s / kBlockMib, latency_bound);
    EXPECT_GE(settled, c.lowest);
    EXPECT_LE(settled, c.highest);
    EXPECT_GE(rate, c.least_of_bound * bound);
    RecordProperty(std::string(c.name) + "_" + std::to_string(seed),
                   std::to_string(settled) + " " + std::to_string(rate / bound));
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("%-12s seed %2u depth %2u then %2u, %5.1f %% of bound, base %lld us\n", c.name,
                  seed, settled, loop.control().depth(), 100 * rate / bound,
                  static_cast<long long>(loop.control().base_latency().count()));
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, ClosedLoop,
                         testing::Values(Case{"A", {36, 0, false, 0, 0, 64}, 56, 80, 0.95},
                                         Case{"B", {36, 300, false, 0}, 20, 44, 0.95},
                                         Case{"B_additive", {36, 300, true, 0}, 20, 60, 0.90},
                                         Case{"B_tails", {36, 300, false, 1e-3}, 20, 44, 0.95},
                                         Case{"C", {100, 300, false, 0}, 60, 80, 0.95},
                                         Case{"D", {100, 100, false, 0}, 16, 44, 0.93},
                                         Case{"warm", {0.8, 0, false, 0}, 70, 80, 0.95}),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

struct FirstSecond {
  Law law;
  double product;         ///< what fills the pipe
  double least_of_bound;  ///< throughput of the first second, the first latency in it
  double most_off = 1.25;
};

/// From where early reads start. Within a quarter of the product either way for most seeds; the
/// volumes that a search by a third of its throughput left half empty for their first second were
/// A's and C's. Of D's 200 reads a second 32 are the first look and 23 the first in flight: it
/// takes a little longer.
TEST(DepthControl, finds_the_depth_within_a_second_and_uses_the_pipe_meanwhile) {
  for (const FirstSecond& c : {FirstSecond{{36, 0, false, 1e-3, 0, 64}, 64, 0.82},
                               FirstSecond{{36, 300, false, 1e-3}, 24.6, 0.90},
                               FirstSecond{{100, 300, false, 1e-3}, 68.3, 0.80, 1.3},
                               FirstSecond{{100, 100, false, 1e-3}, 22.8, 0.85, 1.35}}) {
    SCOPED_TRACE(std::to_string(c.law.median_ms) + " ms, " + std::to_string(c.law.bandwidth_mib_s) +
                 " MiB/s");
    constexpr unsigned kSeeds = 40;
    std::vector<double> off;
    std::uint64_t read = 0;
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      DepthLimits limits = depth_limits(0, std::nullopt);
      limits.start = kEarlyStart;
      Loop loop(c.law, limits, seed);
      loop.run_until(1);
      read += loop.completed();
      // A look at the base latency may be under way.
      std::vector<double> depths;
      for (int step = 0; step < 20; ++step) {
        loop.run_until(1 + step / 40.0);
        depths.push_back(loop.control().depth());
      }
      std::sort(depths.begin(), depths.end());
      const double depth = depths[depths.size() / 2];
      off.push_back(std::max(depth / c.product, c.product / depth));
    }
    std::sort(off.begin(), off.end());
    EXPECT_LE(off[off.size() / 2], c.most_off);
    EXPECT_LE(off.back(), 3.0);  // in a look at the base latency
    const double latency = c.law.median_ms / 1e3 * std::exp(kSigma * kSigma / 2);
    const double bound =
        c.law.bandwidth_mib_s == 0 ? c.law.slots / latency : c.law.bandwidth_mib_s / kBlockMib;
    EXPECT_GE(static_cast<double>(read) / kSeeds, c.least_of_bound * bound);
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("first second: %.2f off, at worst %.2f; %.0f %% of bound\n", off[off.size() / 2],
                  off.back(), 100.0 * static_cast<double>(read) / kSeeds / bound);
  }
}

struct List {
  Law law;
  double product;          ///< what fills the pipe
  double least_quicker;    ///< than without a hurry
  double most_off = 1.25;  ///< a second after the first read was asked for
};

/// A hot list's last blocks waited for a look at half the depth in the midst of it: 1.22 of its
/// bound. And what the first window showed beyond what the pipe has stayed until the next look: the
/// depth of B and D was a third too large.
TEST(DepthControl, a_list_is_read_without_looks_below_and_the_depth_is_known_within_the_second) {
  constexpr std::uint64_t kListed = 165;
  for (const bool told : {true, false}) {
    for (const List& c :
         {List{{36, 300, false, 1e-3}, 24.6, 1.02}, List{{100, 300, false, 1e-3}, 68.3, 1.3},
          List{{36, 0, false, 1e-3, 0, 64}, 64, 1.15}, List{{100, 100, false, 1e-3}, 22.8, 1.05}}) {
      SCOPED_TRACE(std::to_string(c.law.median_ms) + " ms, " +
                   std::to_string(c.law.bandwidth_mib_s) + " MiB/s, " +
                   (told ? "told of its end" : "ended by itself"));
      std::vector<double> off;
      double hurried_s = 0;
      double plain_s = 0;
      for (unsigned seed = 1; seed <= 40; ++seed) {
        DepthLimits limits = depth_limits(0, std::nullopt);
        limits.start = kListStart;
        const auto read_list = [&](Loop& loop, double& total) {
          for (double now = 0; loop.completed() < kListed; total += 0.005)
            loop.run_until(now += 0.005);
        };
        Loop plain(c.law, limits, seed);
        read_list(plain, plain_s);
        Loop loop(c.law, limits, seed);
        loop.run_until(0.06);  // the mount's own reads
        loop.control().hurry(true);
        read_list(loop, hurried_s);
        if (told) loop.control().hurry(false);
        loop.run_until(1);
        // A look above is half as much again as a depth that may be a tenth off what was found.
        EXPECT_LE(loop.control().depth(), 1.7 * loop.control().found());
        const double found = loop.control().found();
        off.push_back(std::max(found / c.product, c.product / found));
      }
      std::sort(off.begin(), off.end());
      EXPECT_LE(off[off.size() / 2], c.most_off);
      EXPECT_GE(plain_s / hurried_s, c.least_quicker);
      if (std::getenv("WARMROOT_SHOW") != nullptr)
        std::printf("list read in %.3f s, %.3f s without hurry; %.2f off, at worst %.2f\n",
                    hurried_s / 40, plain_s / 40, off[off.size() / 2], off.back());
    }
  }
}

/// As in a file system whose metadata is read first: much of it was never written, or has been read
/// for the mount. Its 1,700 blocks a second were taken for the pipe's, every later window for one
/// of a pipe that is not full, and queued latencies for the device's: 64 in flight where 25 fill
/// it.
TEST(DepthControl, blocks_that_are_present_teach_no_depth) {
  for (const double beside : {0.0, 0.3, 0.6})
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(beside) + " present");
      Law law{36, 300, false, 1e-3};
      law.present = beside;
      Loop loop(law, depth_limits(0, std::nullopt), seed);
      loop.run_until(0.7);
      Law burst = law;
      burst.present = 0.9;
      loop.change(burst);
      loop.run_until(0.85);
      loop.change(law);
      std::vector<unsigned> depths;  // a search passes through 64: the middle one counts
      for (int tenth = 15; tenth <= 40; ++tenth) {
        loop.run_until(tenth / 10.0);
        depths.push_back(loop.control().depth());
      }
      std::sort(depths.begin(), depths.end());
      EXPECT_GE(depths[depths.size() / 2], 20U);
      EXPECT_LE(depths[depths.size() / 2], 44U);
    }
}

TEST(DepthControl, a_volume_that_turns_out_warm_is_a_law_of_its_own) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Loop loop({36, 300, false, 0}, depth_limits(0, std::nullopt), seed);
    loop.run_until(2);
    loop.change({0.8, 0, false, 0});
    loop.run_until(4);
    EXPECT_LT(loop.control().base_latency().count(), 5000) << "seed " << seed;
    EXPECT_GE(loop.control().depth(), 50U) << "seed " << seed;
  }
}

TEST(DepthControl, follows_a_device_whose_law_changes) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Loop loop({36, 300, false, 0}, depth_limits(0, std::nullopt), seed);
    loop.run_until(4);
    loop.change({100, 300, false, 0});
    loop.run_until(9);
    EXPECT_GE(loop.control().found(), 48U);
    loop.change({36, 100, false, 0});  // product: 8
    loop.run_until(17);
    EXPECT_LE(loop.control().found(), 20U);
    loop.change({36, 300, false, 0});
    loop.run_until(22);
    EXPECT_GE(loop.control().found(), 20U);
    EXPECT_LE(loop.control().found(), 44U);
  }
}

/// Off what fills the pipe, one and two seconds after the law has changed: the median of the seeds.
TEST(DepthControl, finds_the_depth_of_a_new_law_within_seconds) {
  struct Change {
    const char* name;
    Law before, after;
    double product;
    double after_1_s, after_2_s;
  };
  const Law a_bandwidth{36, 300, false, 1e-3}, slow{100, 300, false, 1e-3};
  const Law slow_and_narrow{100, 100, false, 1e-3}, narrow{36, 100, false, 1e-3};
  const Change changes[] = {{"slower reads", a_bandwidth, slow, 68.3, 1.25, 1.25},
                            {"quicker reads", slow, a_bandwidth, 24.6, 1.4, 1.25},
                            {"quicker and more", slow_and_narrow, a_bandwidth, 24.6, 1.25, 1.25},
                            {"slower and less", a_bandwidth, slow_and_narrow, 22.8, 1.5, 1.25},
                            {"less", a_bandwidth, narrow, 8.2, 2.8, 1.3},
                            {"more", narrow, a_bandwidth, 24.6, 1.3, 1.2}};
  constexpr unsigned kSeeds = 40;
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    std::vector<double> off[2];
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      DepthLimits limits = depth_limits(0, std::nullopt);
      limits.start = kEarlyStart;
      Loop loop(change.before, limits, seed);
      loop.run_until(2);
      loop.change(change.after);
      for (int second = 1; second <= 2; ++second) {
        loop.run_until(2 + second);
        const double depth = loop.control().found();
        off[second - 1].push_back(std::max(depth / change.product, change.product / depth));
      }
    }
    for (auto& each : off) std::sort(each.begin(), each.end());
    EXPECT_LE(off[0][kSeeds / 2], change.after_1_s);
    EXPECT_LE(off[1][kSeeds / 2], change.after_2_s);
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("%-16s off %.2f after 1 s, %.2f after 2 s\n", change.name, off[0][kSeeds / 2],
                  off[1][kSeeds / 2]);
  }
}

/// All that is allowed is in flight when the device becomes narrower than that: reads that wait for
/// each other before their latency begins are not much alike, and were taken for slower ones.
TEST(DepthControl, a_queue_of_its_own_making_at_the_ceiling_is_no_latency) {
  std::vector<unsigned> found;
  for (unsigned seed = 1; seed <= 11; ++seed) {
    Loop loop({36, 0, false, 0}, depth_limits(0, std::nullopt), seed);
    loop.run_until(3);
    EXPECT_EQ(loop.control().found(), kCeiling) << "seed " << seed;
    loop.change({36, 400, true, 0});  // 33 fill it
    loop.run_until(12);
    found.push_back(loop.control().found());
    EXPECT_GE(found.back(), 26U) << "seed " << seed;
  }
  std::sort(found.begin(), found.end());
  EXPECT_LE(found[found.size() / 2], 54U);  // a half of the ceiling, and kGain of it
}

/// A session takes its share for a moment.
TEST(DepthControl, a_window_beside_the_foreground_teaches_no_fall) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Law law{36, 300, false, 0};
    Loop loop(law, depth_limits(0, std::nullopt), seed);
    loop.run_until(3);
    const double before = loop.control().throughput_per_s();
    loop.control().others_in_flight(1);
    loop.change({36, 120, false, 0});
    loop.run_until(3.2);
    loop.change(law);
    loop.run_until(3.6);
    EXPECT_GE(loop.control().throughput_per_s(), 0.8 * before);
  }
}

TEST(DepthControl, what_was_measured_while_there_was_nothing_to_read_does_not_count) {
  DepthControl control({4, 8, 64});
  auto now = std::chrono::microseconds{0};
  const auto reads = [&](unsigned count, std::chrono::microseconds apart) {
    for (unsigned i = 0; i < count; ++i)
      control.completed(now += apart, std::chrono::milliseconds{40});
  };
  reads(12, std::chrono::milliseconds{5});
  now += std::chrono::seconds{2};
  control.interrupted();
  reads(40, std::chrono::milliseconds{5});
  EXPECT_GE(control.throughput_per_s(), 150) << "200 came in a second, and none in two";
}

/// What was read before the mount has searched already, wherever it was interrupted.
TEST(DepthControl, who_takes_over_goes_on_where_the_reader_before_was) {
  for (const double after_s : {0.05, 0.15, 0.4, 1.0}) {
    std::uint64_t read_anew = 0;
    std::uint64_t read_on = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", after " + std::to_string(after_s) + " s");
      DepthLimits limits = depth_limits(0, std::nullopt);
      limits.start = kEarlyStart;
      Loop early({36, 300, false, 0}, limits, seed);
      early.run_until(after_s);
      limits.start = 16;
      Loop fresh({36, 300, false, 0}, limits, seed + 100);
      Loop warmer({36, 300, false, 0}, limits, seed + 100);
      warmer.control() = early.control();
      warmer.control().hand_over(limits);
      EXPECT_EQ(warmer.control().depth(), early.control().depth());
      EXPECT_EQ(warmer.control().throughput_per_s(), early.control().throughput_per_s());
      fresh.run_until(0.6);
      warmer.run_until(0.6);
      read_anew += fresh.completed();
      read_on += warmer.completed();
      warmer.run_until(2);
      EXPECT_GE(warmer.control().found(), 20U);
      EXPECT_LE(warmer.control().found(), 44U);
    }
    EXPECT_GT(read_on, read_anew) << "in the first 0.6 s, after " << after_s << " s";
  }
}

/// A list behind the mount, as it is: begun by the early reads, ended by the warmer, which then has
/// to wait for a few blocks before it knows what is next. In D that left a search with 48 in
/// flight, which went on with 80 for most of the second after.
TEST(DepthControl, a_list_that_ends_before_its_first_window_leaves_no_queue_behind) {
  for (const List& c :
       {List{{36, 300, false, 1e-3}, 24.6, 0, 1.4}, List{{100, 300, false, 1e-3}, 68.3, 0},
        List{{36, 0, false, 1e-3, 0, 64}, 64, 0}, List{{100, 100, false, 1e-3}, 22.8, 0}}) {
    for (const double mounted_s : {0.22, 0.42}) {
      SCOPED_TRACE(std::to_string(c.law.median_ms) + " ms, " +
                   std::to_string(c.law.bandwidth_mib_s) + " MiB/s, mounted after " +
                   std::to_string(mounted_s) + " s");
      std::vector<double> off, later_off;
      for (unsigned seed = 1; seed <= 40; ++seed) {
        DepthLimits limits = depth_limits(0, 128);
        limits.start = kListStart;
        Loop loop(c.law, limits, seed);
        loop.read_only(157);
        loop.run_until(0.06);
        loop.control().hurry(true);
        loop.run_until(mounted_s);
        limits.start = 16;
        loop.hand_over(limits);
        if (loop.left() > 0) loop.control().hurry(true);
        double now = mounted_s;
        while (loop.left() > 0) loop.run_until(now += 0.002);
        loop.control().hurry(false);
        const std::uint64_t descriptors_after = loop.completed() + loop.own_in_flight() + 6;
        loop.read_only(6);
        while (loop.completed() < descriptors_after) loop.run_until(now += 0.002);
        loop.read_only(UINT64_MAX);
        const auto found_off = [&] {
          const double found = loop.control().found();
          return std::max(found / c.product, c.product / found);
        };
        loop.run_until(1);
        off.push_back(found_off());
        loop.run_until(1.5);
        later_off.push_back(found_off());
      }
      std::sort(off.begin(), off.end());
      std::sort(later_off.begin(), later_off.end());
      EXPECT_LE(off[off.size() / 2], c.most_off);
      EXPECT_LE(later_off[later_off.size() * 9 / 10], 1.8);
      if (std::getenv("WARMROOT_SHOW") != nullptr)
        std::printf("after the list %.2f off, %.2f half a second later, of ten the worst but one\n",
                    off[off.size() / 2], later_off[later_off.size() * 9 / 10]);
    }
  }
}

TEST(DepthControl, who_takes_over_keeps_its_own_limits) {
  DepthControl control({4, 32, 64});
  control.hand_over(depth_limits(6, std::nullopt));
  EXPECT_EQ(control.depth(), 6U);
}

/// At the mount the early reads' last are in the kernel still: with as many again of the warmer's
/// all of a device's tags were taken just when the first session came. Where a first touch takes
/// 100 ms, one of theirs for each of ours alone was four latencies of a pipe that was mostly empty.
TEST(DepthControl, who_takes_over_leaves_room_for_what_is_under_way_until_that_is_back) {
  DepthControl control({4, 32, 80});
  control.hand_over(depth_limits(0, 128), 60);
  EXPECT_EQ(control.depth(), 20U);
  auto now = std::chrono::microseconds{0};
  for (int back = 1; back <= 12; ++back)
    control.completed(now += std::chrono::milliseconds{2}, std::chrono::milliseconds{40});
  EXPECT_EQ(control.depth(), 32U);
  EXPECT_TRUE(control.waits_for_others());
  control.hand_over(depth_limits(0, 128), 78);
  EXPECT_EQ(control.depth(), 4U);
  control.others_in_flight(0);
  EXPECT_EQ(control.depth(), 4U) << "the device may not have got ours yet";
  control.others_in_flight(55);
  EXPECT_EQ(control.depth(), 25U) << "the device says that the others are back";
  control.others_in_flight(70);
  EXPECT_EQ(control.depth(), 25U) << "what is more than that is a session's";
  control.others_in_flight(0);
  control.others_in_flight(0);
  EXPECT_FALSE(control.waits_for_others());
  DepthControl unused({4, 32, 80});
  unused.hand_over(depth_limits(0, 128), 0);
  unused.hurry(true);
  EXPECT_EQ(unused.depth(), 48U);
}

/// 228 fill it, for which nobody but an operator has a ceiling.
TEST(DepthControl, an_operator_may_ask_for_more_where_the_pipe_is_wide_and_slow) {
  const Law wide{100, 1000, false, 0};
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Loop unasked(wide, depth_limits(0, 1023), seed), asked(wide, depth_limits(400, 1023), seed);
    unasked.run_until(5);
    asked.run_until(5);
    EXPECT_LE(unasked.control().depth(), 80U);
    EXPECT_GE(asked.completed(), 2 * unasked.completed());
  }
}

TEST(DepthControl, stays_within_its_limits) {
  struct {
    unsigned max_depth;
    std::optional<unsigned> tags;
    unsigned floor, start, ceiling;
  } const cases[] = {
      {0, std::nullopt, 4, 8, 80},
      {0, 1023, 4, 8, 80},
      {0, 31, 4, 8, 19},
      {16, 128, 4, 8, 16},
      {2, 128, 2, 2, 2},
      {0, 8, 4, 5, 5},
      {0, 1, 1, 1, 1},
      {100, 256, 4, 8, 100},
      {0, 128, 4, 8, 80},
      {512, 1023, 4, 8, 512},
      {512, 128, 4, 8, 80},
  };
  for (const auto& c : cases) {
    const DepthLimits limits = depth_limits(c.max_depth, c.tags);
    EXPECT_EQ(limits.floor, c.floor);
    EXPECT_EQ(limits.start, c.start);
    EXPECT_EQ(limits.ceiling, c.ceiling);
    Loop loop({100, 0, false, 0}, limits, 3);
    for (int tenth = 1; tenth <= 50; ++tenth) {
      loop.run_until(tenth / 10.0);
      EXPECT_LE(loop.control().depth(), limits.ceiling);
      EXPECT_GE(loop.control().depth(), limits.floor);
    }
  }
}

}  // namespace
}  // namespace warmroot::warm
