// Depth control beside a session that misses, in a closed loop under virtual time: it yields, and
// it takes its depth again when the session rests. How much that gives to the session on a device
// is warmer_session_test's.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "tests/depth_loop.hpp"

namespace warmroot::warm {
namespace {

TEST(DepthForeground, yields_to_the_foreground_without_emptying_the_pipe_and_comes_back) {
  Loop loop({36, 300, false, 0}, depth_limits(0, std::nullopt), 7);
  loop.run_until(2);
  const unsigned alone = loop.control().depth();
  loop.control().others_in_flight(1);
  const unsigned yielding = loop.control().depth();
  EXPECT_LT(yielding, alone);
  EXPECT_GE(yielding, 16U);
  const std::uint64_t before = loop.completed();
  loop.run_until(20);
  EXPECT_GE(loop.control().depth(), 16U) << "yielding must not spiral down to the floor";
  EXPECT_GE(static_cast<double>(loop.completed() - before) / 18, 0.8 * 600);
  loop.control().others_in_flight(0);
  loop.run_until(22);
  EXPECT_GE(loop.control().depth(), 24U);
}

/// A disk that somebody uses without a pause showed no wider pipe for as long as it was filled.
TEST(DepthForeground, a_pipe_that_became_wider_beside_a_session_that_never_rests_is_found) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Loop loop({100, 100, false, 0}, depth_limits(0, std::nullopt), seed);
    loop.control().others_in_flight(1);
    loop.run_until(3);
    EXPECT_LE(loop.control().found(), 40U) << "seed " << seed;
    loop.change({100, 300, false, 0});
    loop.run_until(3 + 2 * 30 + 10);
    EXPECT_GE(loop.control().found(), 50U) << "seed " << seed;
  }
}

/// Of a session of ten seconds between two rests.
struct Beside {
  double wait_s = 0;        ///< of its misses, on average
  double read_per_s = 0;    ///< by the warmer meanwhile
  double depth_before = 0;  ///< the warmer's, alone
  double depth_meanwhile = 0;
  double depth_after = 0;  ///< in the second that begins half a second after the session's end
};

Beside run_beside_a_session(const Law& law, unsigned seed, bool yields) {
  Loop loop(law, depth_limits(0, std::nullopt), seed);
  const auto mean_depth = [&](double from, double to) {
    double sum = 0;
    int steps = 0;
    for (double at = from; at < to; at += 0.05, ++steps) {
      loop.run_until(at);
      sum += loop.control().depth();
    }
    return sum / steps;
  };
  Beside beside;
  loop.run_until(3);
  beside.depth_before = mean_depth(3, 13);
  loop.session_misses(true);
  if (yields) loop.control().others_in_flight(1);
  const std::uint64_t before = loop.completed();
  beside.depth_meanwhile = mean_depth(13, 23);
  beside.read_per_s = static_cast<double>(loop.completed() - before) / 10;
  loop.session_misses(false);
  loop.control().others_in_flight(0);
  const auto& waits = loop.session_latencies_s();
  beside.wait_s =
      std::accumulate(waits.begin(), waits.end(), 0.0) / static_cast<double>(waits.size());
  beside.depth_after = mean_depth(23.5, 33.5);
  return beside;
}

/// Two runs of the same seeds, one of which is not told of the session.
TEST(DepthForeground, a_session_that_misses_waits_less_and_the_depth_comes_back_when_it_rests) {
  struct {
    const char* name;
    Law law;
  } const profiles[] = {{"B", {36, 300, false, 0}},
                        {"C", {100, 300, false, 0}},
                        {"D", {100, 100, false, 0}},
                        {"A", {36, 0, false, 0, 0, 64}}};
  constexpr unsigned kSeeds = 20;
  for (const auto& profile : profiles) {
    SCOPED_TRACE(profile.name);
    Beside told, untold;
    for (unsigned seed = 1; seed <= kSeeds; ++seed)
      for (const bool yields : {true, false}) {
        const Beside one = run_beside_a_session(profile.law, seed, yields);
        Beside& sum = yields ? told : untold;
        sum.wait_s += one.wait_s / kSeeds;
        sum.read_per_s += one.read_per_s / kSeeds;
        sum.depth_before += one.depth_before / kSeeds;
        sum.depth_meanwhile += one.depth_meanwhile / kSeeds;
        sum.depth_after += one.depth_after / kSeeds;
      }
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      for (const Beside* each : {&told, &untold})
        std::printf("%s %-6s waits %.1f ms, %.0f read/s, depth %.1f, %.1f beside, %.1f after\n",
                    profile.name, each == &told ? "told" : "untold", 1e3 * each->wait_s,
                    each->read_per_s, each->depth_before, each->depth_meanwhile, each->depth_after);
    EXPECT_LT(told.wait_s, untold.wait_s);
    EXPECT_LT(told.depth_meanwhile, 0.95 * told.depth_before);
    EXPECT_GT(told.depth_after, 0.95 * told.depth_before);
    EXPECT_GT(told.read_per_s, 0.85 * untold.read_per_s) << "the pipe stays full";
  }
}

}  // namespace
}  // namespace warmroot::warm
