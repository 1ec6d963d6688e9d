// Which disk is the volume that a boot before served, and for how long that counts.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/device.hpp"
#include "tests/disks.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

/// Behind a reset nobody has a word: a volume that came with its launch was not served any more.
TEST(ChooseDisk, the_volume_that_was_served_is_told_from_the_others_without_a_word) {
  const EarlierVolume served{"vol-0ccc", "nvme1n1"};
  DiskFacts with_launch = ebs("nvme2n1", "vol0ccc");  // the names of the boot before are no more
  with_launch.mapped_name = "sdf";
  const std::vector<std::string> launch{"sda1", "sdf"};
  const std::vector<DiskFacts> there{base_disk(), ebs("nvme1n1", "vol0bbb"), with_launch};
  const auto name = [](const DiskChoice& choice) {
    return choice.disk ? choice.disk->name : "none: " + choice.waiting_for;
  };
  EXPECT_EQ(name(choose_disk(there, launch, std::nullopt, {}, served)), "nvme2n1");
  EXPECT_EQ(name(choose_disk(there, launch, std::nullopt, {"vol-0bbb", "nvme1n1"}, served)),
            "nvme2n1")
      << "another one was given away, and is there still";
  EXPECT_EQ(name(choose_disk(there, launch, "vol-0bbb", {}, served)), "nvme1n1");
  EXPECT_EQ(name(choose_disk(there, launch, "vol-0ddd", {}, served)),
            "none: waiting for the disk of vol-0ddd");

  const std::vector<DiskFacts> without{base_disk(), ebs("nvme1n1", "vol0bbb")};
  EXPECT_EQ(name(choose_disk(without, launch, std::nullopt, {}, served)),
            "none: waiting for the disk of vol-0ccc, which was served before this machine booted");
  std::vector<DiskFacts> taken = there;
  taken.back().holds_base = true;
  EXPECT_THAT(name(choose_disk(taken, launch, std::nullopt, {}, served)), HasSubstr("none"));
}

TEST(ServedBefore, counts_until_another_volume_is_named_or_its_disk_has_not_come_in_time) {
  using std::chrono::seconds;
  const EarlierVolume served{"vol-0bbb", "nvme1n1"};
  const std::vector<DiskFacts> without{base_disk(), ebs("nvme2n1", "vol0ccc")};
  const std::vector<DiskFacts> there{base_disk(), ebs("nvme1n1", "vol0bbb")};
  ServedBefore late(served);
  EXPECT_FALSE(late.is_over(without, std::nullopt, seconds(120)));
  EXPECT_FALSE(late.is_over(there, std::nullopt, seconds(121)));
  EXPECT_FALSE(late.is_over(there, std::nullopt, seconds(3600))) << "the manager says no";
  EXPECT_FALSE(late.is_over(there, "vol-0bbb", seconds(3601)));
  EXPECT_FALSE(late.volume().is_none());
  EXPECT_TRUE(late.is_over(there, "vol-0ccc", seconds(3602)));
  EXPECT_TRUE(late.volume().is_none());
  EXPECT_FALSE(late.is_over(there, "vol-0ccc", seconds(3603))) << "it is said once";

  ServedBefore gone(served);
  EXPECT_FALSE(gone.is_over(without, std::nullopt, kLatestDisk - Milliseconds(1)));
  EXPECT_TRUE(gone.is_over(without, std::nullopt, kLatestDisk));
  EXPECT_TRUE(choose_disk(without, {}, std::nullopt, {}, gone.volume()).disk) << "as ever";
  EXPECT_FALSE(ServedBefore().is_over(without, "vol-0ccc", kLatestDisk));
}

TEST(EarlierVolume, is_the_same_as_one_that_nobody_has_named_where_no_name_tells_them_apart) {
  const EarlierVolume named{"vol-0abc", "xvdf"}, nameless{"", "xvdf"};
  EXPECT_TRUE(may_be_same(named, {"vol-0abc", "nvme1n1"}));
  EXPECT_FALSE(may_be_same(named, {"vol-0def", "xvdf"}));
  EXPECT_TRUE(may_be_same(named, nameless));
  EXPECT_TRUE(may_be_same(nameless, {"vol-0abc", "nvme1n1"}));
  EXPECT_FALSE(may_be_same(nameless, {"vol-0abc", "xvdg"}));
  EXPECT_FALSE(may_be_same(named, {}));
  EXPECT_FALSE(may_be_same({}, {}));
}

TEST(EarlierVolume, is_known_by_an_id_that_a_disk_can_have_or_by_the_name_of_a_xen_disk) {
  EXPECT_TRUE(can_be_known({"vol-0abc", "nvme1n1"}));
  EXPECT_TRUE(can_be_known({"", "xvdba"}));
  for (const EarlierVolume& other :
       {EarlierVolume{}, EarlierVolume{"", "nvme1n1"}, EarlierVolume{"vol0abc", "xvdf"},
        EarlierVolume{"vol-0abc\r", "xvdf"}, EarlierVolume{"", "xvdf\x1b[2J"}})
    EXPECT_FALSE(can_be_known(other)) << other.volume_id << " " << other.disk_name;
}

}  // namespace
}  // namespace warmroot::bootstrap
