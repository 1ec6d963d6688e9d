// Warm or cold, told by how long drawn blocks took beside present ones.
#include "bootstrap/warm/warm_draws.hpp"

#include <gtest/gtest.h>

namespace warmroot::warm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Case {
  const char* name;
  std::vector<Draw> draws;
  Drawn says;
};

std::vector<Draw> many(std::size_t count, Draw draw, std::size_t others = 0, Draw other = {}) {
  std::vector<Draw> draws(count, draw);
  draws.insert(draws.end(), others, other);
  return draws;
}

class Draws : public testing::TestWithParam<Case> {};

TEST_P(Draws, tell_a_first_touch_from_a_queue) {
  EXPECT_EQ(static_cast<int>(judge_draws(GetParam().draws)), static_cast<int>(GetParam().says));
}

const Draw kWarm{microseconds(900), microseconds(850)};
const Draw kCold{milliseconds(36), microseconds(850)};

INSTANTIATE_TEST_SUITE_P(
    Volumes, Draws,
    testing::Values(
        Case{"warm", many(8, kWarm), Drawn::present}, Case{"cold", many(8, kCold), Drawn::absent},
        Case{"warm_at_the_cap", many(8, {milliseconds(22), milliseconds(21)}), Drawn::present},
        Case{"cold_at_the_cap", many(8, {milliseconds(57), milliseconds(21)}), Drawn::absent},
        Case{"one_stall", many(7, kWarm, 1, kCold), Drawn::doubtful},
        Case{"two_cold_blocks", many(54, kWarm, 2, kCold), Drawn::absent},
        Case{"one_that_failed", many(7, kWarm, 1, {{}, milliseconds(1)}), Drawn::present},
        Case{"a_device_that_does_not_answer", many(8, {}), Drawn::absent},
        Case{"nothing_to_compare_with", many(8, {milliseconds(22), {}}), Drawn::absent},
        Case{"a_queue_too_long_to_tell", many(8, {milliseconds(90), milliseconds(80)}),
             Drawn::absent},
        Case{"no_draws", {}, Drawn::absent}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

TEST(DrawsOf, pairs_what_was_read_in_turn) {
  const std::optional<microseconds> in_turn[] = {microseconds(1), microseconds(2), std::nullopt,
                                                 microseconds(4)};
  const auto draws = draws_of(in_turn);
  ASSERT_EQ(draws.size(), 2U);
  EXPECT_EQ(draws[0].drawn, microseconds(1));
  EXPECT_EQ(draws[0].beside, microseconds(2));
  EXPECT_EQ(draws[1].drawn, std::nullopt);
  EXPECT_EQ(draws[1].beside, microseconds(4));
}

using Latencies = std::vector<std::optional<microseconds>>;

Latencies latencies(std::size_t count, std::optional<microseconds> each, std::size_t others = 0,
                    std::optional<microseconds> other = {}) {
  Latencies all(count, each);
  all.insert(all.end(), others, other);
  return all;
}

TEST(HaveAnswered, is_told_by_half_of_the_reads) {
  EXPECT_TRUE(have_answered(latencies(2, milliseconds(1), 2)));
  EXPECT_FALSE(have_answered(latencies(1, milliseconds(1), 2)));
  EXPECT_FALSE(have_answered(latencies(4, {})));
  EXPECT_TRUE(have_answered({}));
}

struct MapCase {
  const char* name;
  Latencies sampled, reference;
  std::optional<std::size_t> cold;
};

class MapsClaims : public testing::TestWithParam<MapCase> {};

TEST_P(MapsClaims, are_tried_by_reading_some_again) {
  EXPECT_EQ(cold_of_map(GetParam().sampled, GetParam().reference), GetParam().cold);
}

const Latencies kQuick = latencies(8, microseconds(900));

INSTANTIATE_TEST_SUITE_P(
    Maps, MapsClaims,
    testing::Values(
        MapCase{"true", latencies(64, microseconds(900)), kQuick, {}},
        MapCase{"of_a_restored_snapshot", latencies(64, milliseconds(36)), kQuick, 64},
        MapCase{"with_writes_in_front",
                latencies(61, microseconds(900), 3, milliseconds(30)),
                kQuick,
                {}},
        MapCase{"that_claims_a_sixteenth_too_much",
                latencies(60, microseconds(900), 4, milliseconds(30)), kQuick, 4},
        MapCase{
            "behind_a_queue", latencies(64, milliseconds(22)), latencies(8, milliseconds(21)), {}},
        MapCase{"cold_behind_a_queue", latencies(64, milliseconds(100)),
                latencies(8, milliseconds(21)), 64},
        MapCase{"of_two_blocks", latencies(1, microseconds(900), 1, milliseconds(36)), kQuick, {}},
        MapCase{"of_two_cold_blocks", latencies(2, milliseconds(36)), kQuick, 2},
        MapCase{"without_a_reference", latencies(64, milliseconds(36)), {}, 64},
        MapCase{"that_nothing_answers_for", latencies(64, {}), kQuick, {}}),
    [](const testing::TestParamInfo<MapCase>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace warmroot::warm
