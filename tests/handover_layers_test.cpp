// A release and a container of the base's with its data on the volume, against the real kernel.
// Alone on its machine: the layers of such a container have names on the base, by which the tests
// of other releases would take them for their volume's.
#include <gmock/gmock.h>
#include <sys/types.h>

#include <string>

#include "bootstrap/mount_exec.hpp"
#include "tests/handover_containers.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

/// Nothing in it told of the volume but its root's options.
TEST_F(Containers, of_the_base_with_their_data_on_the_volume_are_ended) {
  ASSERT_NO_FATAL_FAILURE(bring_up_with(kContainers));
  const pid_t container = child_that([] {
    const std::string data = inside("c1");
    return own_mounts_alone() && mount_overlay(data) && pivot_into(data + "/merged");
  });
  // Its image is seen on the base, too, where nobody uses it.
  ASSERT_TRUE(shell("mkdir -p /run/image"));
  ASSERT_TRUE(mount_overlay(inside("c2"), "/run/image"));
  EXPECT_TRUE(holds(container));
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << (released ? "" : released.error().message());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  const bool ended = has_ended(container);
  EXPECT_TRUE(ended);
  if (!ended) end(container);
  EXPECT_TRUE(mounts_at("/run/image").empty());
  const auto proven = steps_with("prove the device free");
  ASSERT_EQ(proven.size(), 1U);
  EXPECT_THAT(proven[0].detail, HasSubstr("a copy of the mount was taken from the base"));
  EXPECT_TRUE(shell("rmdir /run/image"));
}

}  // namespace
}  // namespace warmroot::bootstrap
