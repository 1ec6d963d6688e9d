// What the bootstrap knows about file systems other than ext4: btrfs and its UUIDs, and the words
// for what the kernel refuses. Mounts themselves are tested in guests.
#include "bootstrap/root_mount.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bootstrap/device_io.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr char kUuid[] = "00010203-0405-0607-0809-0a0b0c0d0e0f";

std::string btrfs_superblock() {
  std::string block(kBtrfsSuperblockBytes, '\0');
  for (int i = 0; i < 16; ++i) block[0x20 + static_cast<std::size_t>(i)] = static_cast<char>(i);
  return block.replace(0x40, 8, "_BHRfS_M");
}

TEST(BtrfsUuid, is_read_as_sysfs_writes_it) {
  EXPECT_EQ(btrfs_uuid(btrfs_superblock()), kUuid);
}

TEST(BtrfsUuid, of_anything_else_there_is_none) {
  EXPECT_EQ(btrfs_uuid(""), std::nullopt);
  EXPECT_EQ(btrfs_uuid(btrfs_superblock().substr(0, 0x47)), std::nullopt);
  EXPECT_EQ(btrfs_uuid(std::string(kBtrfsSuperblockBytes, '\0')), std::nullopt);
}

/// A directory that looks like /sys on an instance that has a btrfs mounted.
class BtrfsBase : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text = "") {
    const std::filesystem::path file = sys_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  TemporaryDirectory directory_;
  const std::string sys_ = directory_.path();
};

TEST_F(BtrfsBase, a_base_on_btrfs_is_never_the_volume) {
  put("block/nvme0n1/size", "100\n");
  put("block/nvme0n1/dev", "259:0\n");
  put("block/nvme0n1/nvme0n1p1/dev", "259:1\n");
  put("block/nvme1n1/size", "100\n");
  put("block/nvme1n1/dev", "259:2\n");
  put("fs/btrfs/" + std::string(kUuid) + "/devices/nvme0n1p1");
  // mountinfo shows an anonymous number for btrfs.
  const auto disks = scan_disks(sys_, {"0:27"}, {});
  ASSERT_EQ(disks.size(), 2U);
  EXPECT_TRUE(disks[0].holds_base);
  EXPECT_FALSE(disks[1].holds_base);
}

TEST_F(BtrfsBase, members_of_all_mounted_file_systems_are_known) {
  EXPECT_THAT(btrfs_members(sys_), IsEmpty());
  put("fs/btrfs/" + std::string(kUuid) + "/devices/nvme0n1p1");
  put("fs/btrfs/other/devices/nvme2n1");
  put("fs/btrfs/features/compress_zstd");
  EXPECT_THAT(btrfs_members(sys_), UnorderedElementsAre("nvme0n1p1", "nvme2n1"));
}

TEST_F(BtrfsBase, a_copy_of_a_mounted_btrfs_is_refused_on_a_kernel_that_mixes_them_up) {
  put("fs/btrfs/" + std::string(kUuid) + "/devices/nvme0n1p1");
  const auto refused = check_no_btrfs_twin(sys_, kUuid);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("same UUID"));
  EXPECT_THAT(refused.error().message(), HasSubstr("nvme0n1p1"));
  EXPECT_TRUE(check_no_btrfs_twin(sys_, "another"));
}

TEST_F(BtrfsBase, a_copy_is_welcome_on_a_kernel_that_gives_it_a_uuid_of_its_own) {
  put("fs/btrfs/" + std::string(kUuid) + "/devices/nvme0n1p1");
  put("fs/btrfs/features/temp_fsid");
  EXPECT_TRUE(check_no_btrfs_twin(sys_, kUuid));
}

TEST(MountFailure, says_the_cause_and_the_remedy) {
  const struct {
    const char* filesystem;
    int error_number;
    const char* said;
  } cases[] = {{"btrfs", ENODEV, "kernel has no btrfs"}, {"xfs", EUCLEAN, "xfs_repair"},
               {"btrfs", EUCLEAN, "btrfs check"},        {"ext4", EUCLEAN, "e2fsck"},
               {"xfs", EINVAL, "kernel may be older"},   {"btrfs", EEXIST, "same UUID"}};
  for (const auto& each : cases) {
    const auto error =
        explain_mount_failure(each.filesystem, errno_error("mount", each.error_number));
    EXPECT_EQ(error.kind, ErrorKind::refused) << each.said;
    EXPECT_THAT(error.message(), HasSubstr(each.said));
    EXPECT_THAT(error.message(), Not(HasSubstr("\n")));
  }
}

TEST(MountFailure, by_a_wrong_checksum_is_damage_that_people_repair) {
  for (const int said : {EUCLEAN, EBADMSG})
    EXPECT_TRUE(is_damage(explain_mount_failure("xfs", errno_error("mount", said)))) << said;
  EXPECT_FALSE(is_damage(explain_mount_failure("xfs", errno_error("mount", EIO))));
  EXPECT_THAT(explain_mount_failure("ext4", errno_error("mount", EBADMSG)).message(),
              HasSubstr("e2fsck"));
}

TEST(MountFailure, that_is_nobody_s_fault_stays_as_it_is) {
  const auto error = explain_mount_failure("xfs", errno_error("mount", EIO));
  EXPECT_EQ(error.kind, ErrorKind::broken);
  EXPECT_THAT(error.message(), Not(HasSubstr(";")));
}

TEST(Subvolume, that_holds_the_root_is_named_with_what_to_do) {
  const struct {
    const char* path;
    const char* said;
  } cases[] = {{"@/etc/os-release", "subvolume @ does"},
               {"@rootfs/etc/os-release", "subvolume @rootfs does"},
               {"root/usr/lib/os-release", "subvolume root does"}};
  for (const auto& each : cases) {
    const TemporaryDirectory directory;
    const auto file = std::filesystem::path(directory.path()) / each.path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "ID=x\n";
    const auto top = RootDirectory::open(directory.path());
    ASSERT_TRUE(top);
    EXPECT_THAT(subvolume_hint(*top), HasSubstr(each.said));
    EXPECT_THAT(subvolume_hint(*top), HasSubstr("set-default"));
  }
}

TEST(Subvolume, is_not_guessed) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(std::filesystem::path(directory.path()) / "root/.ssh");
  const auto top = RootDirectory::open(directory.path());
  ASSERT_TRUE(top);
  EXPECT_EQ(subvolume_hint(*top), "");
}

}  // namespace
}  // namespace warmroot::bootstrap
