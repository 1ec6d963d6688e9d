// The operator's bound on the warmer's rate, under virtual time.
#include "bootstrap/warm/rate_cap.hpp"

#include <gtest/gtest.h>

#include "bootstrap/base/units.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kBlock = 512 * kKiB;

/// Blocks let through in `seconds` by somebody who asks every `every` for as many as he may have.
unsigned taken(RateCap& cap, double from_s, double seconds, microseconds every) {
  unsigned blocks = 0;
  const auto start = microseconds(static_cast<std::int64_t>(from_s * 1e6));
  const auto end = start + microseconds(static_cast<std::int64_t>(seconds * 1e6));
  for (auto now = start; now < end; now += every)
    while (cap.take(now, kBlock)) ++blocks;
  return blocks;
}

struct Case {
  const char* name;
  std::uint64_t mib_s;
  microseconds every;
};

class Rates : public testing::TestWithParam<Case> {};

TEST_P(Rates, are_kept_to_and_used) {
  const Case& c = GetParam();
  RateCap cap(c.mib_s * kMiB);
  const double wanted = 10.0 * static_cast<double>(c.mib_s) * 2;
  const unsigned got = taken(cap, 5, 10, c.every);
  EXPECT_LE(got, wanted + 2);
  EXPECT_GE(got, 0.95 * wanted - 2);
}

INSTANTIATE_TEST_SUITE_P(All, Rates,
                         testing::Values(Case{"slower_than_a_block_a_look", 1,
                                              microseconds(20'000)},
                                         Case{"asked_all_the_time", 20, microseconds(500)},
                                         Case{"of_a_fast_volume", 300, microseconds(20'000)}),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

TEST(RateCap, a_pause_is_not_made_up_for) {
  RateCap cap(100 * kMiB);
  taken(cap, 0, 1, microseconds(5000));
  unsigned burst = 0;
  while (cap.take(microseconds(60'000'000), kBlock)) ++burst;
  EXPECT_LE(burst, 10U);  // 40 ms, and one
}

TEST(RateCap, zero_is_no_bound) {
  RateCap cap(0);
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(cap.take(microseconds(1), kBlock));
}

}  // namespace
}  // namespace warmroot::warm
