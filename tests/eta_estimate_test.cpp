// When the warmer will be done, as it tells while it runs.
#include "bootstrap/warm/eta_estimate.hpp"

#include <gtest/gtest.h>

namespace warmroot::warm {
namespace {

TEST(EtaEstimate, tells_nothing_before_it_has_seen_blocks_come) {
  EtaEstimate eta;
  EXPECT_EQ(eta.ms_for(100), std::nullopt);
  eta.update(50, 500);
  EXPECT_EQ(eta.ms_for(100), std::nullopt) << "nobody knows how long these took";
  eta.update(50, 500);
  EXPECT_EQ(eta.ms_for(100), std::nullopt);
  eta.update(100, 500);
  EXPECT_EQ(eta.ms_for(100), 1000u);
  EXPECT_EQ(eta.ms_for(0), 0u);
}

/// All that was read before counted as read in one report, and the next ones told a fraction of the
/// time that was left.
TEST(EtaEstimate, what_was_there_when_the_needed_set_became_known_did_not_come_in_an_instant) {
  EtaEstimate eta;
  eta.update(std::nullopt, 500);
  eta.update(std::nullopt, 500);
  eta.update(300, 500);
  EXPECT_EQ(eta.ms_for(100), std::nullopt);
  eta.update(350, 500);
  EXPECT_EQ(eta.ms_for(100), 1000u);
}

TEST(EtaEstimate, follows_a_change_of_speed_within_a_few_reports) {
  EtaEstimate eta;
  std::uint64_t present = 0;
  eta.update(present, 500);
  for (int report = 0; report < 10; ++report) eta.update(present += 100, 500);
  EXPECT_EQ(eta.ms_for(1000), 5000u);
  for (int report = 0; report < 10; ++report) eta.update(present += 10, 500);
  EXPECT_NEAR(static_cast<double>(*eta.ms_for(1000)), 50'000, 15'000);
}

TEST(EtaEstimate, blocks_that_turn_out_to_be_absent_change_no_speed) {
  EtaEstimate eta;
  eta.update(0, 500);
  eta.update(100, 500);
  eta.update(20, 500);
  EXPECT_EQ(eta.ms_for(100), 500u);
  eta.update(120, 500);
  EXPECT_EQ(eta.ms_for(100), 500u);
  eta.update(120, 0);
  EXPECT_EQ(eta.ms_for(100), 500u) << "two reports at once";
}

/// Some minutes of it made a number of milliseconds that no integer holds.
TEST(EtaEstimate, a_standstill_ends_at_nobody_knows) {
  EtaEstimate eta;
  eta.update(0, 500);
  eta.update(1, 500);
  for (int report = 0; report < 1'000; ++report) eta.update(1, 500);
  EXPECT_EQ(eta.ms_for(UINT32_MAX), std::nullopt);
}

}  // namespace
}  // namespace warmroot::warm
