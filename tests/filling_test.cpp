// Which way to fill a volume is the cheapest that is in time, and what is said of it.
#include "manager/core/filling.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace warmroot::core {
namespace {

struct FillCase {
  const char* name;
  FillFacts facts;
  std::int64_t deadline_s;
  FillWay way;
  int rate_mib_s;
  std::optional<double> price_usd;
  bool in_time;
};

class Filling : public testing::TestWithParam<FillCase> {};

TEST_P(Filling, takes_the_cheapest_way_that_is_in_time) {
  const auto& row = GetParam();
  const auto fill = choose_fill(row.facts, std::chrono::seconds(row.deadline_s));
  EXPECT_EQ(static_cast<int>(fill.way), static_cast<int>(row.way)) << fill.why;
  EXPECT_EQ(fill.rate_mib_s, row.rate_mib_s) << fill.why;
  EXPECT_EQ(fill.price_usd.has_value(), row.price_usd.has_value()) << fill.why;
  if (fill.price_usd && row.price_usd) {
    EXPECT_NEAR(*fill.price_usd, *row.price_usd, 1e-9);
  }
  EXPECT_EQ(fill.in_time, row.in_time) << fill.why;
  EXPECT_FALSE(fill.why.empty());
}

constexpr Milliseconds kNowhere{0};
// 100 GiB: free 20,490 s, 200 MiB/s 522 s for 0.24, 300 MiB/s 351.3 s for 0.36.
INSTANTIATE_TEST_SUITE_P(
    Table, Filling,
    testing::Values(
        FillCase{"no deadline: nothing is paid",
                 {100, false, 5000, kNowhere, 0.001},
                 0,
                 FillWay::free,
                 0,
                 0.0,
                 true},
        FillCase{"no deadline, fast restore is on",
                 {100, true, 5000, {}, {}},
                 0,
                 FillWay::fast_restore,
                 0,
                 0.0,
                 true},
        FillCase{"time enough",
                 {100, false, 5000, kNowhere, 0.001},
                 30'000,
                 FillWay::free,
                 0,
                 0.0,
                 true},
        FillCase{"fast restore costs nothing more",
                 {100, true, 5000, kNowhere, 0.001},
                 600,
                 FillWay::fast_restore,
                 0,
                 0.0,
                 true},
        FillCase{
            "the cheaper rate", {100, false, 5000, {}, {}}, 600, FillWay::rate, 200, 0.24, true},
        FillCase{
            "the dearer rate", {100, false, 5000, {}, {}}, 400, FillWay::rate, 300, 0.36, true},
        FillCase{"what is left of the Region's rates",
                 {100, false, 150, {}, {}},
                 700,
                 FillWay::rate,
                 150,
                 0.24,
                 true},
        FillCase{"less than the least rate is none",
                 {100, false, 99, {}, {}},
                 600,
                 FillWay::free,
                 0,
                 0.0,
                 false},
        FillCase{
            "a cheap copy", {100, false, 5000, kNowhere, 0.001}, 600, FillWay::copy, 0, 0.1, true},
        FillCase{
            "a dear copy", {100, false, 5000, kNowhere, 0.01}, 600, FillWay::rate, 200, 0.24, true},
        FillCase{"a dear copy that alone is in time",
                 {100, false, 5000, kNowhere, 0.01},
                 60,
                 FillWay::copy,
                 0,
                 1.0,
                 true},
        FillCase{"a copy of unknown price when a rate will do",
                 {100, false, 5000, kNowhere, {}},
                 600,
                 FillWay::rate,
                 200,
                 0.24,
                 true},
        FillCase{"a copy of unknown price when nothing else will",
                 {100, false, 5000, kNowhere, {}},
                 60,
                 FillWay::copy,
                 0,
                 {},
                 true},
        FillCase{"the golden volume is busy for a while",
                 {100, false, 5000, std::chrono::seconds{300}, 0.001},
                 600,
                 FillWay::copy,
                 0,
                 0.1,
                 true},
        FillCase{"the golden volume is busy for too long",
                 {100, false, 5000, std::chrono::seconds{3000}, 0.001},
                 600,
                 FillWay::rate,
                 200,
                 0.24,
                 true},
        FillCase{"nothing is in time: the fastest",
                 {100, false, 5000, {}, {}},
                 30,
                 FillWay::rate,
                 300,
                 0.36,
                 false},
        FillCase{"a small volume", {8, false, 5000, {}, {}}, 60, FillWay::rate, 200, 0.0192, true},
        FillCase{
            "a small volume, later", {8, false, 5000, {}, {}}, 1'700, FillWay::free, 0, 0.0, true}),
    [](const auto& row) { return "row" + std::to_string(row.index); });

TEST(FillingText, says_the_way_the_time_the_price_and_what_it_was_compared_with) {
  EXPECT_EQ(choose_fill({100, false, 5000, {}, {}}, std::chrono::seconds(600)).why,
            "at a paid 200 MiB/s, ready in about 9 min, for 0.24 USD; free loading would take "
            "about 6 h, it is wanted within 10 min");
  EXPECT_EQ(choose_fill({8, false, 5000, {}, {}}, std::chrono::seconds(3600)).why,
            "loaded by EC2 in the background, ready in about 27 min, for nothing");
}

}  // namespace
}  // namespace warmroot::core
