// The order of device names, and that none comes twice on one instance.
#include "manager/core/device_names.hpp"

#include <gtest/gtest.h>

namespace warmroot::core {
namespace {

TEST(DeviceNames, start_with_those_that_aws_recommends_and_go_on_with_two_letters) {
  std::set<std::string> used;
  std::string last;
  std::string twelfth;
  int count = 0;
  while (const auto name = next_device_name(used)) {
    ASSERT_TRUE(used.insert(*name).second) << *name;
    if (++count == 12) twelfth = *name;
    last = *name;
  }
  EXPECT_EQ(count, 11 + 26 + 26);
  EXPECT_EQ(twelfth, "/dev/xvdba");
  EXPECT_EQ(last, "/dev/xvdaz");
}

struct Case {
  std::set<std::string> used;
  const char* next;
};

TEST(DeviceNames, treat_every_spelling_of_a_device_as_the_same) {
  const Case cases[] = {
      {{}, "/dev/sdf"},
      {{"/dev/sdf"}, "/dev/sdg"},
      {{"/dev/xvdf"}, "/dev/sdg"},
      {{"sdf", "xvdg"}, "/dev/sdh"},
      {{"/dev/sda1", "/dev/xvda", "/dev/nvme0n1"}, "/dev/sdf"},
      {{"/dev/sdg"}, "/dev/sdf"},
  };
  for (const auto& each : cases) EXPECT_EQ(next_device_name(each.used), each.next);
}

}  // namespace
}  // namespace warmroot::core
