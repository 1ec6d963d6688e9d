// What first touches took, and when they look like reads of a volume that is warm.
#include "bootstrap/warm/first_touches.hpp"

#include <gtest/gtest.h>

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;

FirstTouches of(unsigned quick, unsigned slow) {
  FirstTouches touches;
  for (unsigned i = 0; i < quick; ++i) touches.record(milliseconds(22), false);
  for (unsigned i = 0; i < slow; ++i) touches.record(milliseconds(36), false);
  return touches;
}

TEST(FirstTouches, may_be_of_a_warm_volume_while_three_of_four_are_as_quick_as_its_reads) {
  EXPECT_TRUE(FirstTouches().may_be_warm()) << "nothing speaks against it";
  EXPECT_TRUE(of(8, 0).may_be_warm());
  EXPECT_TRUE(of(6, 2).may_be_warm());
  EXPECT_FALSE(of(5, 3).may_be_warm());
  EXPECT_FALSE(of(0, 8).may_be_warm());
}

/// It was left out with all that a long batch ends: a stall of seconds was in no histogram.
TEST(FirstTouches, a_stall_that_ends_in_a_long_batch_is_recorded_and_what_is_quicker_is_not) {
  FirstTouches touches = of(2, 0);
  touches.record(milliseconds(40), true);
  touches.record(milliseconds(999), true);
  EXPECT_EQ(touches.count(), 2U);
  EXPECT_EQ(touches.summary().max_us, 22'000U);
  touches.record(milliseconds(1000), true);
  touches.record(milliseconds(5000), true);
  EXPECT_EQ(touches.count(), 4U);
  EXPECT_EQ(touches.summary().max_us, 5'000'000U);
  EXPECT_EQ(touches.summary().sum_us, 6'044'000U);
}

}  // namespace
}  // namespace warmroot::warm
