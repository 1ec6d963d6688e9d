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

TEST(FirstTouches, that_were_seen_late_are_left_out) {
  FirstTouches touches = of(2, 0);
  touches.record(milliseconds(40), true);
  EXPECT_EQ(touches.count(), 2U);
  EXPECT_LT(touches.summary().max_us, 40'000U);
}

}  // namespace
}  // namespace warmroot::warm
