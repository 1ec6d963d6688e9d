// The names by which a base finds its own disks while a volume bears them too.
#include "bootstrap/boot_pin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "bootstrap/boot_pin_io.hpp"
#include "bootstrap/files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kOwn = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0b-part1";

std::vector<PartitionFacts> twins() {
  return {PartitionFacts{.number = 15, .content = "vfat", .uuid = "4F8A-11"},
          PartitionFacts{.number = 1,
                         .uuid = "0e1f-aa",
                         .label = "cloudimg-rootfs",
                         .part_uuid = "d1a2-01",
                         .part_label = ""}};
}

TEST(BootPin, what_the_kernel_was_told_last_is_a_twin_s_name_or_not) {
  const auto partitions = twins();
  EXPECT_EQ(boot_twin("BOOT_IMAGE=/vmlinuz root=UUID=0e1F-AA ro quiet\n", partitions),
            "UUID=0e1F-AA");
  EXPECT_EQ(boot_twin("root=PARTUUID=d1a2-01", partitions), "PARTUUID=d1a2-01");
  EXPECT_EQ(boot_twin("root=LABEL=cloudimg-rootfs rw", partitions), "LABEL=cloudimg-rootfs");
  EXPECT_EQ(boot_twin("root=UUID=0e1f-aa root=/dev/nvme0n1p1", partitions), "");
  EXPECT_EQ(boot_twin("root=/dev/a root=LABEL=b root=/dev/a", partitions), "");
  EXPECT_EQ(boot_twin("root=PARTLABEL= noroot=UUID=0e1f-aa", partitions), "");
  EXPECT_EQ(boot_twin("root=UUID=d1a2-01", partitions), "");
  EXPECT_EQ(boot_twin("root=LABEL=Cloudimg-rootfs", partitions), "");
  EXPECT_EQ(boot_twin("root=/dev/disk/by-partuuid/D1A2-01", partitions),
            "/dev/disk/by-partuuid/D1A2-01");
  EXPECT_EQ(boot_twin("", partitions), "");
}

TEST(BootPin, a_disk_is_named_by_its_serial_number) {
  const std::vector<DiskLink> links = {
      {"dm-uuid-part1-mpath-x", "nvme0n1p1"},
      {"nvme-eui.0025-part1", "nvme0n1p1"},
      {"nvme-nvme.1d0f-766f6c-part1", "nvme0n1p1"},
      {"nvme-Amazon_Elastic_Block_Store_vol0b_1-part1", "nvme0n1p1"},
      {"nvme-Amazon_Elastic_Block_Store_vol0b-part1", "nvme0n1p1"},
      {"nvme-Amazon_Elastic_Block_Store_vol0b", "nvme0n1"},
      {"nvme-Amazon_Elastic_Block_Store_vol0c-part1", "nvme1n1p1"},
      {"virtio-vol0d", "vda"}};
  EXPECT_EQ(lasting_name("nvme0n1p1", links), kOwn);
  EXPECT_EQ(lasting_name("vda", links), "/dev/disk/by-id/virtio-vol0d");
  EXPECT_EQ(lasting_name("xvda1", links), "/dev/xvda1") << "EC2 gives the name";
  EXPECT_EQ(lasting_name("sda1", links), "");
  EXPECT_EQ(lasting_name("", links), "");
}

// As Debian's, Ubuntu's and Amazon Linux' images have them.
TEST(BootPin, only_the_root_of_a_kernel_is_renamed) {
  const Renaming renaming{"UUID=0e1f-aa", kOwn};
  const std::string grub =
      "# linux /vmlinuz root=UUID=0e1f-aa\n"
      "set root='hd0,gpt1'\n"
      "search --no-floppy --fs-uuid --set=root --hint-bios=hd0,gpt1 0e1f-aa\n"
      "\tlinux\t/boot/vmlinuz root=UUID=0e1f-aa ro noroot=UUID=0e1f-aa console=ttyS0\n"
      "\tinitrd\t/boot/initrd\n"
      "set kernelopts=\"root=UUID=0e1f-aa ro\"\n"
      "\tlinux\t/boot/other root=UUID=0e1f-aab";
  EXPECT_EQ(renamed_in_loader(grub, renaming),
            "# linux /vmlinuz root=UUID=0e1f-aa\n"
            "set root='hd0,gpt1'\n"
            "search --no-floppy --fs-uuid --set=root --hint-bios=hd0,gpt1 0e1f-aa\n"
            "\tlinux\t/boot/vmlinuz root=" +
                kOwn +
                " ro noroot=UUID=0e1f-aa console=ttyS0\n"
                "\tinitrd\t/boot/initrd\n"
                "set kernelopts=\"root=" +
                kOwn +
                " ro\"\n"
                "\tlinux\t/boot/other root=UUID=0e1f-aab");
  EXPECT_THAT(roots_in_loader(grub), ElementsAre("", "UUID=0e1f-aa", "UUID=0e1f-aab"));
  EXPECT_TRUE(loader_has_initrd(grub));
  EXPECT_TRUE(
      loader_has_initrd("title A\ninitrd /boot/initramfs.img\noptions root=UUID=0e1f-aa\n"));
  EXPECT_FALSE(loader_has_initrd("linux /boot/vmlinuz root=PARTUUID=d1a2-01 noinitrd\n# initrd\n"));
}

TEST(BootPin, only_what_a_line_of_fstab_mounts_is_renamed) {
  const Renaming renaming{"LABEL=cloudimg-rootfs", kOwn};
  EXPECT_EQ(renamed_in_fstab("# LABEL=cloudimg-rootfs / ext4\n"
                             "LABEL=cloudimg-rootfs\t/\text4 x=LABEL=cloudimg-rootfs 0 1\n"
                             " LABEL=cloudimg-rootfs2 /a ext4\n"
                             "\n"
                             "LABEL=cloudimg-rootfs",
                             renaming),
            "# LABEL=cloudimg-rootfs / ext4\n" + kOwn +
                "\t/\text4 x=LABEL=cloudimg-rootfs 0 1\n"
                " LABEL=cloudimg-rootfs2 /a ext4\n"
                "\n" +
                kOwn);
}

TEST(BootPin, a_record_says_what_it_was_told_and_nothing_else) {
  const BootNames names{{"/boot/grub/grub.cfg", {{"UUID=a", "/dev/disk/by-id/x"}}},
                        {"/etc/fstab", {{"LABEL=my disk", "/dev/xvda1"}}}};
  const auto read = parse_boot_record(to_record(names));
  EXPECT_EQ(to_record(read), to_record(names));
  EXPECT_EQ(read.at("/etc/fstab").front().from, "LABEL=my disk");
  for (const auto* broken : {"", "/a", "/a\tUUID=a", "/a\tUUID=a\t/dev/x", "\n\t\n", "\tb\tc\n"})
    EXPECT_EQ(to_record(parse_boot_record(broken)), "") << broken;
}

/// A base below a directory: GRUB and fstab by names that twins() bear too, on nvme0n1p1.
class PinnedBase : public ::testing::Test {
 protected:
  static constexpr char kGrub[] = "/boot/grub/grub.cfg";

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(base_ + path).parent_path());
    std::ofstream(base_ + path) << text;
  }
  std::string text(const std::string& path) const {
    return read_file(base_ + path, 65536).value_or("none");
  }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(base_ + path).parent_path());
    std::filesystem::create_symlink(target, base_ + path);
  }

  void SetUp() override {
    base_ = directory_.path();
    write(kGrub, "linux /boot/vmlinuz root=UUID=0e1f-aa ro\ninitrd /boot/initrd\n");
    write("/etc/fstab",
          "LABEL=cloudimg-rootfs / ext4 rw 0 1\nUUID=4F8A-11 /boot/efi vfat 0 0\n"
          "UUID=own /data ext4 0 0\n");
    write("/proc/self/mountinfo",
          "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:2 / /boot/efi rw - vfat /dev/x rw\n");
    write("/proc/cmdline", "root=UUID=0e1f-aa ro\n");
    link("/sys/dev/block/259:1", "../../devices/pci/nvme/nvme0n1/nvme0n1p1");
    link("/sys/dev/block/259:2", "../../devices/pci/nvme/nvme0n1/nvme0n1p15");
    for (const auto* part : {"1", "15"})
      link(std::string("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0b-part") + part,
           std::string("../../nvme0n1p") + part);
    std::filesystem::create_directories(base_ + "/var/lib");
  }

  TemporaryDirectory directory_;
  std::string base_;
};

TEST_F(PinnedBase, it_comes_up_on_its_own_disk_and_has_its_names_back_afterwards) {
  const auto grub = text(kGrub), fstab = text("/etc/fstab");
  ::chmod((base_ + kGrub).c_str(), 0444);
  for (int turn = 0; turn < 2; ++turn) {
    const auto pin = pin_boot(base_, twins());
    ASSERT_TRUE(pin) << pin.error().message();
    EXPECT_EQ(pin->pinned, "UUID=0e1f-aa") << turn;
    EXPECT_EQ(pin->open, "");
    EXPECT_EQ(text(kGrub), "linux /boot/vmlinuz root=" + kOwn + " ro\ninitrd /boot/initrd\n");
    EXPECT_EQ(text("/etc/fstab"),
              kOwn + " / ext4 rw 0 1\n" + kOwn + "5 /boot/efi vfat 0 0\nUUID=own /data ext4 0 0\n");
  }
  struct stat facts {};
  ASSERT_EQ(::stat((base_ + kGrub).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0444U);
  ASSERT_TRUE(unpin_boot(base_));
  EXPECT_EQ(text(kGrub), grub);
  EXPECT_EQ(text("/etc/fstab"), fstab);
  EXPECT_THAT(list_directory(base_ + "/var/lib/warmroot"), IsEmpty());
  EXPECT_TRUE(unpin_boot(base_));
}

TEST_F(PinnedBase, after_a_reset_the_names_still_come_back) {
  const auto grub = text(kGrub), fstab = text("/etc/fstab");
  ASSERT_TRUE(pin_boot(base_, twins()));
  write("/proc/cmdline", "root=" + kOwn + " ro\n");
  const auto pin = pin_boot(base_, twins());
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->pinned + pin->open, "");
  ASSERT_TRUE(unpin_boot(base_));
  EXPECT_EQ(text(kGrub), grub);
  EXPECT_EQ(text("/etc/fstab"), fstab);
}

/// A second volume of the same AMI on the instance that was reset: its command line has no name of
/// a twin any more, and its boot loader has.
TEST_F(PinnedBase, what_it_would_boot_by_counts_not_what_it_was_booted_by) {
  write("/proc/cmdline", "root=" + kOwn + " ro\n");
  const auto pin = pin_boot(base_, twins());
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->pinned, "UUID=0e1f-aa");
  EXPECT_THAT(text(kGrub), HasSubstr("root=" + kOwn));
}

TEST_F(PinnedBase, a_volume_of_other_names_changes_nothing) {
  const auto grub = text(kGrub), fstab = text("/etc/fstab");
  const std::vector<PartitionFacts> others = {PartitionFacts{.number = 1, .uuid = "ffff"}};
  const auto pin = pin_boot(base_, others);
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->pinned + pin->open, "");
  EXPECT_EQ(text(kGrub), grub);
  EXPECT_EQ(text("/etc/fstab"), fstab);
  EXPECT_EQ(::access((base_ + "/var/lib/warmroot").c_str(), F_OK), -1);
}

TEST_F(PinnedBase, what_cannot_be_pinned_is_told) {
  write(kGrub, "linux /boot/vmlinuz root=UUID=0e1f-aa ro\n");
  auto pin = pin_boot(base_, twins());
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->open, "UUID=0e1f-aa");
  EXPECT_THAT(pin->why, HasSubstr("without an initramfs"));
  EXPECT_THAT(text(kGrub), HasSubstr("root=UUID=0e1f-aa"));

  std::filesystem::remove_all(base_ + "/dev");
  pin = pin_boot(base_, twins());
  ASSERT_TRUE(pin);
  EXPECT_THAT(pin->why, HasSubstr("no name that lasts"));

  std::filesystem::remove_all(base_ + "/boot");
  pin = pin_boot(base_, twins());
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->open, "UUID=0e1f-aa");
  EXPECT_THAT(pin->why, HasSubstr("no file of GRUB's"));
}

/// The Boot Loader Specification's entries, as Amazon Linux 2023 has them, and a link instead of
/// a file.
TEST_F(PinnedBase, every_file_that_names_a_root_is_changed_where_it_is) {
  const std::string entry = "title AL\ninitrd /boot/i\noptions root=PARTUUID=d1a2-01 ro\n";
  write("/boot/loader/entries/a.conf", entry);
  write("/boot/loader/entries/b.conf.rpmsave", entry);
  write("/boot/efi/grub.cfg", text(kGrub));
  std::filesystem::create_directories(base_ + "/boot/grub2");
  link("/boot/grub2/grub.cfg", "../efi/grub.cfg");
  ASSERT_TRUE(pin_boot(base_, twins()));
  EXPECT_THAT(text("/boot/loader/entries/a.conf"), HasSubstr("root=" + kOwn + " ro"));
  EXPECT_EQ(text("/boot/loader/entries/b.conf.rpmsave"), entry);
  EXPECT_THAT(text("/boot/efi/grub.cfg"), HasSubstr("root=" + kOwn + " ro"));
  EXPECT_TRUE(std::filesystem::is_symlink(base_ + "/boot/grub2/grub.cfg"));
  ASSERT_TRUE(unpin_boot(base_));
  EXPECT_EQ(text("/boot/loader/entries/a.conf"), entry);
  EXPECT_THAT(text("/boot/efi/grub.cfg"), HasSubstr("root=UUID=0e1f-aa"));
}

TEST_F(PinnedBase, with_the_record_lost_to_a_full_disk_nothing_is_changed) {
  const auto grub = text(kGrub);
  write("/var/lib/warmroot", "no directory");
  EXPECT_FALSE(pin_boot(base_, twins()));
  EXPECT_EQ(text(kGrub), grub);
}

}  // namespace
}  // namespace warmroot::bootstrap
