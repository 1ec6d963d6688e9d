// Finding the disk on Xen instance types (p2, p3, c4, m4, r4 and older): names /dev/xvdX that
// follow EC2's mapping, no serial, no model. The trees are written by hand after what such machines
// show below /sys/block: block devices of the xen-blkfront driver, major 202.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "bootstrap/device.hpp"
#include "bootstrap/device_io.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

/// One disk of xen-blkfront: "xvdf 202:80 16777216", and one line "xvda1 202:1 2048 16775168" for
/// each of its partitions: number, first sector, sectors.
constexpr char kBase[] =
    "xvda 202:0 16777216\n xvda1 202:1 4096 16773087\n xvda128 202:128 2048 2048\n";
/// A paravirtual machine: the root is a disk of its own, called like a partition.
constexpr char kParavirtual[] = "xvda1 202:1 16777216\n";
constexpr char kNew[] = "xvdf 202:80 209715200\n xvdf1 202:81 4096 209711071\n";
constexpr char kFarNew[] = "xvdba 202:13312 209715200\n xvdba1 202:13313 2048 209713119\n";
constexpr char kData[] = "xvdb 202:16 1048576000\n";
constexpr char kSwapDisk[] = "xvda3 202:3 1835008\n";

class XenSys {
 public:
  XenSys() { std::filesystem::create_directories(directory_.path() + "/block"); }

  void add(const std::string& listing) {
    std::istringstream lines(listing);
    std::string disk;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string name, number, first, second;
      fields >> name >> number >> first >> second;
      if (line[0] == ' ') {
        put(disk + "/" + name,
            {{"partition", "1"}, {"start", first}, {"size", second}, {"dev", number}});
        continue;
      }
      disk = name;
      put(name, {{"size", first}, {"dev", number}, {"removable", "0"}, {"range", "16"}});
      put(name + "/device",
          {{"devtype", "vbd"}, {"modalias", "xen:vbd"}, {"nodename", "device/vbd/51712"}});
      put(name + "/queue", {{"rotational", "0"}, {"nr_requests", "64"}});
      put(name + "/holders", {});
    }
  }
  std::string root() const { return directory_.path(); }

 private:
  void put(const std::string& folder,
           const std::vector<std::pair<std::string, std::string>>& files) {
    const auto path = directory_.path() + "/block/" + folder;
    std::filesystem::create_directories(path);
    for (const auto& [name, text] : files) std::ofstream(path + "/" + name) << text << "\n";
  }
  TemporaryDirectory directory_;
};

struct Case {
  const char* name;
  std::string at_start, later;
  std::vector<std::string> launch;  ///< IMDS' block device mapping
  std::optional<std::string> confirmed;
  std::string mounted;   ///< the base's root
  std::string expected;  ///< a disk, or a part of what is waited for
};

class XenDisks : public testing::TestWithParam<Case> {};

TEST_P(XenDisks, are_found_by_what_the_launch_did_not_bring) {
  const Case& given = GetParam();
  XenSys sys;
  sys.add(given.at_start);
  std::set<std::string> at_start;
  for (const auto& disk : scan_disks(sys.root(), {given.mounted}, {})) at_start.insert(disk.name);
  sys.add(given.later);
  const auto disks = scan_disks(sys.root(), {given.mounted}, at_start);
  for (const auto& disk : disks) EXPECT_EQ(disk.serial + disk.model, "") << disk.name;
  const DiskChoice choice = choose_disk(disks, given.launch, given.confirmed);
  EXPECT_THAT(choice.disk ? choice.disk->name : choice.waiting_for, HasSubstr(given.expected));
}

const std::vector<std::string> kAmi{"sda1"}, kAmiXvd{"xvda"}, kWithStore{"sda1", "sdb"};

INSTANTIATE_TEST_SUITE_P(
    Table, XenDisks,
    testing::Values(
        Case{"BaseAlone", kBase, "", kAmi, {}, "202:1", "waiting for a volume to be attached"},
        Case{"AppearsLater", kBase, kNew, kAmi, {}, "202:1", "xvdf"},
        Case{"WasThereBeforeUp", std::string(kBase) + kNew, "", kAmi, {}, "202:1", "xvdf"},
        Case{"MappingInXvdNames", kBase, kNew, kAmiXvd, {}, "202:1", "xvdf"},
        Case{"TwoLetters", kBase, kFarNew, kAmi, {}, "202:1", "xvdba"},
        Case{"TwoLettersOfTheLaunch", kBase, kFarNew, {"sda1", "sdba"}, {}, "202:1", "waiting"},
        Case{"InstanceStoreOfTheLaunch",
             std::string(kBase) + kData,
             "",
             kWithStore,
             {},
             "202:1",
             "waiting for a volume"},
        Case{"BesideAnInstanceStore",
             std::string(kBase) + kData,
             kNew,
             kWithStore,
             {},
             "202:1",
             "xvdf"},
        Case{"TwoNewOnes",
             kBase,
             std::string(kNew) + kFarNew,
             kAmi,
             {},
             "202:1",
             "several disks were not there at launch (xvdba, xvdf)"},
        Case{"TwoNewOnesOneAtStart", std::string(kBase) + kNew, kFarNew, kAmi, "vol-0abc", "202:1",
             "xvdba"},
        Case{"TheOnlyOneIsWhatTheManagerMeans", kBase, kNew, kAmi, "vol-0abc", "202:1", "xvdf"},
        Case{"TwoNewOnesAndAWordThatNoSerialAnswers", kBase, std::string(kNew) + kFarNew, kAmi,
             "vol-0abc", "202:1", "waiting for the disk of vol-0abc"},
        Case{"ParavirtualRoot", kParavirtual, kNew, kAmi, {}, "202:1", "xvdf"},
        Case{"ParavirtualRootAlone", kParavirtual, "", kAmi, {}, "202:1", "waiting for a volume"},
        Case{"ParavirtualSwapOfTheLaunch",
             std::string(kParavirtual) + kSwapDisk,
             kNew,
             {"sda1", "sda3"},
             {},
             "202:1",
             "xvdf"}),
    [](const auto& row) { return std::string(row.param.name); });

/// Any disk without a serial was feared to be the volume that was given away, and kept people out.
TEST(XenGivenAway, another_disk_than_the_one_that_was_given_away_is_not_held_back) {
  XenSys sys;
  sys.add(std::string(kBase) + kNew);
  const auto disks = scan_disks(sys.root(), {"202:1"}, {});
  const DiskChoice other = choose_disk(disks, kAmi, std::nullopt, {"vol-0abc", "xvdba"});
  EXPECT_EQ(other.disk ? other.disk->name : other.waiting_for, "xvdf");
  EXPECT_TRUE(choose_disk(disks, kAmi, std::nullopt, {"vol-0abc", "xvdf"}).held_back);
  EXPECT_TRUE(choose_disk(disks, kAmi, std::nullopt, {"vol-0abc", "nvme1n1"}).held_back)
      << "the instance is of another type since";
  EXPECT_TRUE(choose_disk(disks, kAmi, std::nullopt, {"vol-0abc", ""}).held_back)
      << "by an older program";
  EXPECT_TRUE(GivenAway({"vol-0abc", "xvdba"}).is_over(disks, kAmi, std::nullopt, kLatestDisk));
  EXPECT_FALSE(GivenAway({"vol-0abc", "xvdf"}).is_over(disks, kAmi, std::nullopt, kLatestDisk));
}

/// It was not kept from the next boot at all.
TEST(XenGivenAway, one_that_no_manager_has_named_is_known_by_its_disk_until_there_is_a_word) {
  XenSys sys;
  sys.add(std::string(kBase) + kNew);
  const auto disks = scan_disks(sys.root(), {"202:1"}, {});
  const EarlierVolume nameless{"", "xvdf"};
  const DiskChoice held = choose_disk(disks, kAmi, std::nullopt, nameless);
  EXPECT_TRUE(held.held_back);
  EXPECT_THAT(held.waiting_for, HasSubstr("the volume that was /dev/xvdf was given back before"));
  EXPECT_FALSE(GivenAway(nameless).is_over(disks, kAmi, std::nullopt, kLatestDisk));
  EXPECT_TRUE(GivenAway(nameless).is_over(disks, kAmi, "vol-0abc", kLatestDisk));
}

/// Two disks that no launch lists were no choice behind a reset, nor did the word tell them apart.
TEST(XenServedBefore, the_disk_of_the_same_name_is_the_one_that_was_served) {
  XenSys sys;
  sys.add(std::string(kBase) + kNew + kFarNew);
  const auto disks = scan_disks(sys.root(), {"202:1"}, {"xvda", "xvdba", "xvdf"});
  const auto chosen = [&](const std::optional<std::string>& confirmed,
                          const EarlierVolume& given_away, const EarlierVolume& served) {
    const DiskChoice choice = choose_disk(disks, kAmi, confirmed, given_away, served);
    return choice.disk ? choice.disk->name : choice.waiting_for;
  };
  EXPECT_EQ(chosen(std::nullopt, {}, {"vol-0abc", "xvdf"}), "xvdf");
  EXPECT_EQ(chosen(std::nullopt, {}, {"", "xvdba"}), "xvdba");
  EXPECT_EQ(chosen("vol-0abc", {}, {"vol-0abc", "xvdf"}), "xvdf");
  EXPECT_EQ(chosen("vol-0abc", {}, {"vol-0def", "xvdf"}), "waiting for the disk of vol-0abc");
  EXPECT_EQ(chosen(std::nullopt, {"vol-0def", "xvdba"}, {"vol-0abc", "xvdf"}), "xvdf");
  EXPECT_EQ(chosen(std::nullopt, {}, {"", "xvdg"}),
            "waiting for the disk of the volume that was /dev/xvdg, which was served before this "
            "machine booted");
  EXPECT_THAT(chosen(std::nullopt, {}, {"vol-0abc", "nvme1n1"}), HasSubstr("waiting"))
      << "the instance is of another type since";
}

}  // namespace
}  // namespace warmroot::bootstrap
