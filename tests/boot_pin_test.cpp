// The names by which a base finds its own disks while a volume bears them too.
#include "bootstrap/boot_pin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "bootstrap/boot_pin_io.hpp"
#include "bootstrap/files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

TEST(BootPin, in_grub_cfg_only_the_roots_of_kernels_are_renamed) {
  const std::string grub =
      "# linux /vmlinuz root=UUID=0e1f-aa\n"
      "set root='hd0,gpt1'\n"
      "search --no-floppy --fs-uuid --set=root --hint-bios=hd0,gpt1 0e1f-aa\n"
      "menuentry 'A' {\n"
      "\tlinux\t/boot/vmlinuz root=UUID=0e1f-aa ro noroot=UUID=0e1f-aa console=ttyS0\n"
      "\techo 'Loading initial ramdisk'\n"
      "\tinitrd\t/boot/initrd\n"
      "}\n"
      "\tlinux\t/boot/other root=UUID=0e1f-aab\n"
      "\tinitrd /boot/initrd";
  const auto done = pin_grub(grub, twins(), kOwn);
  EXPECT_EQ(done.text,
            "# linux /vmlinuz root=UUID=0e1f-aa\n"
            "set root='hd0,gpt1'\n"
            "search --no-floppy --fs-uuid --set=root --hint-bios=hd0,gpt1 0e1f-aa\n"
            "menuentry 'A' {\n"
            "\tlinux\t/boot/vmlinuz root=" +
                kOwn +
                " ro noroot=UUID=0e1f-aa console=ttyS0\n"
                "\techo 'Loading initial ramdisk'\n"
                "\tinitrd\t/boot/initrd\n"
                "}\n"
                "\tlinux\t/boot/other root=UUID=0e1f-aab\n"
                "\tinitrd /boot/initrd");
  EXPECT_EQ(done.pinned, "UUID=0e1f-aa");
  EXPECT_EQ(done.open, "");
}

// As Ubuntu's cloud images have them: the branch without initrd is tried first, and would panic.
TEST(BootPin, a_kernel_that_is_started_without_an_initramfs_keeps_its_name) {
  const std::string grub =
      "if [ \"${initrdfail}\" = 1 ]; then\n"
      "  linux /boot/vmlinuz root=PARTUUID=d1a2-01 ro\n"
      "  initrd /boot/initrd\n"
      "else\n"
      "  linux /boot/vmlinuz root=PARTUUID=d1a2-01 ro panic=-1\n"
      "fi\n"
      "initrdfail\n";
  const auto done = pin_grub(grub, twins(), kOwn);
  EXPECT_THAT(done.text, HasSubstr("root=" + kOwn + " ro\n"));
  EXPECT_THAT(done.text, HasSubstr("root=PARTUUID=d1a2-01 ro panic=-1\n"));
  EXPECT_EQ(done.open, "PARTUUID=d1a2-01");
  EXPECT_EQ(pin_grub("linux /vmlinuz root=UUID=0e1f-aa\n", twins(), kOwn).open, "UUID=0e1f-aa");
  EXPECT_EQ(pin_grub("linux /vmlinuz root=UUID=0e1f-aa\n", twins(), "/dev/xvda1").text,
            "linux /vmlinuz root=/dev/xvda1\n")
      << "the kernel knows that by itself";
  EXPECT_EQ(pin_grub("linux /a root=UUID=0e1f-aa\ninitrd /b\n", twins(), "").open, "UUID=0e1f-aa");
}

TEST(BootPin, an_entry_is_renamed_where_it_has_an_initramfs) {
  const std::string options = "options root=PARTUUID=d1a2-01 ro\n";
  EXPECT_EQ(pin_boot_entry("title A\n" + options + "initrd /i\n", twins(), kOwn).text,
            "title A\noptions root=" + kOwn + " ro\ninitrd /i\n");
  const auto without = pin_boot_entry(options, twins(), kOwn);
  EXPECT_EQ(without.text, options);
  EXPECT_EQ(without.open, "PARTUUID=d1a2-01");
  EXPECT_EQ(pin_boot_entry("options $kernelopts\ninitrd /i\n", twins(), kOwn).open, "$kernelopts");
  EXPECT_EQ(pin_boot_entry("options root=LABEL=x\n", twins(), kOwn).open, "");
}

TEST(BootPin, only_what_a_line_of_fstab_mounts_is_renamed) {
  const auto own = [](const std::string& point, const std::string& what) {
    return point == "/" && what == "LABEL=cloudimg-rootfs" ? kOwn : std::string();
  };
  EXPECT_EQ(pin_fstab("# LABEL=cloudimg-rootfs / ext4\n"
                      "LABEL=cloudimg-rootfs\t/\text4 x=LABEL=cloudimg-rootfs 0 1\n"
                      " LABEL=cloudimg-rootfs2 / ext4\n"
                      "\n"
                      "LABEL=cloudimg-rootfs\n"
                      "LABEL=cloudimg-rootfs /",
                      own)
                .text,
            "# LABEL=cloudimg-rootfs / ext4\n" + kOwn +
                "\t/\text4 x=LABEL=cloudimg-rootfs 0 1\n"
                " LABEL=cloudimg-rootfs2 / ext4\n"
                "\n"
                "LABEL=cloudimg-rootfs\n" +
                kOwn + " /");
}

TEST(BootPin, the_grub_of_uefi_may_take_the_files_of_another_disk) {
  EXPECT_TRUE(strays("search.fs_uuid 0E1F-AA root\nset prefix=($root)/boot/grub\n", twins()));
  EXPECT_TRUE(strays("search --label --set=root cloudimg-rootfs\n", twins()));
  EXPECT_FALSE(strays("search --root-dev-only --fs-uuid --set=dev 0e1f-aa\n", twins()));
  EXPECT_FALSE(strays("search.fs_uuid 1111-22 root\n", twins()));
  EXPECT_FALSE(strays("", twins()));
}

TEST(BootPin, a_record_says_what_it_was_told) {
  BootRecord record{"nvme1n1", "vol0c", "UUID=a", {{"/etc/fstab", {"a\n\"b\"\n", "\tc\n"}}}};
  const auto read = parse_boot_record(to_json(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), to_json(record));
  EXPECT_EQ(read->files.at("/etc/fstab").before, "a\n\"b\"\n");
  for (const auto* broken : {"", "[]", "{", "{\"files\": 1}", "null"})
    EXPECT_FALSE(parse_boot_record(broken)) << broken;
}

/// A base below a directory: GRUB and fstab by names that twins() bear too, on nvme0n1p1.
class PinnedBase : public ::testing::Test {
 protected:
  static constexpr char kGrub[] = "/boot/grub/grub.cfg";
  static constexpr char kDisk[] = "nvme1n1";

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
  BootPin pin() const { return pin_boot(base_, kDisk, twins()); }
  void detach() { std::filesystem::remove_all(base_ + "/sys/block/" + kDisk); }

  void SetUp() override {
    base_ = directory_.path();
    write(kGrub, "linux /boot/vmlinuz root=UUID=0e1f-aa ro\ninitrd /boot/initrd\n");
    write("/etc/fstab",
          "LABEL=cloudimg-rootfs / ext4 rw 0 1\nUUID=4F8A-11 /boot/efi vfat 0 0\n"
          "UUID=own /data ext4 0 0\n");
    write("/proc/self/mountinfo",
          "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 259:2 / /boot/efi rw - vfat /dev/x rw\n");
    write("/proc/cmdline", "root=UUID=0e1f-aa ro\n");
    for (const auto& [number, part] : {std::pair("259:1", "1"), std::pair("259:2", "15")}) {
      const std::string device = std::string("/sys/devices/nvme0n1/nvme0n1p") + part;
      write(device + "/partition", std::string(part) + "\n");
      link(std::string("/sys/dev/block/") + number, "../.." + device.substr(4));
      link(std::string("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0b-part") + part,
           std::string("../../nvme0n1p") + part);
    }
    write("/sys/block/nvme0n1/device/serial", "vol0b\n");
    write("/sys/block/nvme1n1/device/serial", "vol0c\n");
    std::filesystem::create_directories(base_ + "/var/lib");
    grub_ = text(kGrub);
    fstab_ = text("/etc/fstab");
  }

  void expect_as_before() {
    EXPECT_EQ(text(kGrub), grub_);
    EXPECT_EQ(text("/etc/fstab"), fstab_);
  }

  TemporaryDirectory directory_;
  std::string base_, grub_, fstab_;
};

TEST_F(PinnedBase, it_comes_up_on_its_own_disk_and_has_its_names_back_once_the_volume_is_away) {
  ::chmod((base_ + kGrub).c_str(), 0444);
  for (int turn = 0; turn < 2; ++turn) {
    const auto done = pin();
    EXPECT_THAT(done.pinned, Not(IsEmpty())) << turn;
    EXPECT_EQ(done.open, "");
    EXPECT_EQ(text(kGrub), "linux /boot/vmlinuz root=" + kOwn + " ro\ninitrd /boot/initrd\n");
    EXPECT_EQ(text("/etc/fstab"),
              kOwn + " / ext4 rw 0 1\n" + kOwn + "5 /boot/efi vfat 0 0\nUUID=own /data ext4 0 0\n");
    // Given back, and attached still: a reset is as bad as before.
    EXPECT_FALSE(is_boot_pinned_for_nothing(base_));
    ASSERT_TRUE(unpin_boot(base_));
    EXPECT_THAT(text(kGrub), HasSubstr(kOwn));
  }
  struct stat facts {};
  ASSERT_EQ(::stat((base_ + kGrub).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0444U);
  detach();
  EXPECT_TRUE(is_boot_pinned_for_nothing(base_));
  ASSERT_TRUE(unpin_boot(base_));
  expect_as_before();
  EXPECT_THAT(list_directory(base_ + "/var/lib/warmroot"), IsEmpty());
  EXPECT_FALSE(is_boot_pinned_for_nothing(base_));
  EXPECT_TRUE(unpin_boot(base_));
}

TEST_F(PinnedBase, after_a_reset_it_is_pinned_still_and_the_names_come_back) {
  pin();
  write("/proc/cmdline", "root=" + kOwn + " ro\n");
  ASSERT_TRUE(unpin_boot(base_));  // as `up` does
  const auto done = pin();
  EXPECT_THAT(done.pinned, Not(IsEmpty()));
  EXPECT_EQ(done.open, "");
  detach();
  ASSERT_TRUE(unpin_boot(base_));
  expect_as_before();
}

/// A second volume of the same AMI on the instance that was reset: its command line has no name of
/// a twin any more, and its boot loader has.
TEST_F(PinnedBase, what_it_would_boot_by_counts_not_what_it_was_booted_by) {
  write("/proc/cmdline", "root=" + kOwn + " ro\n");
  EXPECT_THAT(pin().pinned, Not(IsEmpty()));
  EXPECT_THAT(text(kGrub), HasSubstr("root=" + kOwn));
}

TEST_F(PinnedBase, a_volume_of_other_names_changes_nothing) {
  const std::vector<PartitionFacts> others = {PartitionFacts{.number = 1, .uuid = "ffff"},
                                              // its number is another's there
                                              PartitionFacts{.number = 2, .uuid = "0e1f-aa"}};
  write("/proc/cmdline", "root=" + kOwn + " ro\n");
  const auto done = pin_boot(base_, kDisk, others);
  EXPECT_EQ(done.pinned + done.open, "");
  expect_as_before();
  EXPECT_EQ(::access((base_ + "/var/lib/warmroot").c_str(), F_OK), -1);
}

TEST_F(PinnedBase, what_cannot_be_pinned_is_told) {
  write(kGrub, "linux /boot/vmlinuz root=UUID=0e1f-aa ro\n");
  EXPECT_THAT(pin().why, HasSubstr("without an initramfs"));
  EXPECT_THAT(text(kGrub), HasSubstr("root=UUID=0e1f-aa"));

  std::filesystem::remove_all(base_ + "/dev");
  EXPECT_THAT(pin().why, HasSubstr("no name that lasts"));

  std::filesystem::remove_all(base_ + "/boot");
  write("/var/lib/warmroot/boot-names", "{\"files\": {}}");
  const auto done = pin();
  EXPECT_EQ(done.open, "UUID=0e1f-aa");
  EXPECT_THAT(done.why, HasSubstr("no file of GRUB's"));
}

TEST_F(PinnedBase, under_uefi_grub_has_to_find_its_own_files_as_well) {
  write("/sys/firmware/efi/fw_platform_size", "64\n");
  EXPECT_THAT(pin().why, IsEmpty()) << "nothing on the EFI system partition looks for a name";
  write("/boot/efi/EFI/debian/grub.cfg", "search.fs_uuid 0e1f-aa root\n");
  EXPECT_THAT(pin().why, HasSubstr("by UEFI"));
  write("/proc/self/mountinfo",
        "1 0 259:1 / / rw - ext4 /dev/root rw\n2 1 0:40 / /boot/efi rw - autofs systemd-1 rw\n");
  write("/boot/efi/EFI/debian/grub.cfg", "");
  EXPECT_THAT(pin().why, HasSubstr("by UEFI")) << "it cannot be seen";
}

/// The Boot Loader Specification's entries, as Amazon Linux 2023 has them, and a link instead of
/// a file.
TEST_F(PinnedBase, every_file_that_names_a_root_is_changed_where_it_is) {
  const std::string entry = "title AL\ninitrd /boot/i\noptions root=PARTUUID=d1a2-01 ro\n";
  write("/boot/loader/entries/a.conf", entry);
  write("/boot/loader/entries/b.conf.rpmsave", entry);
  write("/boot/efi/grub.cfg", grub_);
  std::filesystem::create_directories(base_ + "/boot/grub2");
  link("/boot/grub2/grub.cfg", "../efi/grub.cfg");
  pin();
  EXPECT_THAT(text("/boot/loader/entries/a.conf"), HasSubstr("root=" + kOwn + " ro"));
  EXPECT_EQ(text("/boot/loader/entries/b.conf.rpmsave"), entry);
  EXPECT_THAT(text("/boot/efi/grub.cfg"), HasSubstr("root=" + kOwn + " ro"));
  EXPECT_TRUE(std::filesystem::is_symlink(base_ + "/boot/grub2/grub.cfg"));
  detach();
  ASSERT_TRUE(unpin_boot(base_));
  EXPECT_EQ(text("/boot/loader/entries/a.conf"), entry);
  EXPECT_EQ(text("/boot/efi/grub.cfg"), grub_);
}

TEST_F(PinnedBase, what_others_have_written_since_stays) {
  pin();
  write(kGrub, "linux /boot/newer root=UUID=0e1f-aa ro\ninitrd /boot/newer\n");
  detach();
  ASSERT_TRUE(unpin_boot(base_));
  EXPECT_THAT(text(kGrub), HasSubstr("/boot/newer root=UUID=0e1f-aa"));
  EXPECT_EQ(text("/etc/fstab"), fstab_);
}

TEST_F(PinnedBase, with_no_room_for_the_record_nothing_is_changed_and_it_is_told) {
  write("/var/lib/warmroot", "no directory");
  const auto done = pin();
  EXPECT_EQ(done.pinned, "");
  EXPECT_THAT(done.open, Not(IsEmpty()));
  EXPECT_THAT(done.why, Not(IsEmpty()));
  expect_as_before();
}

TEST_F(PinnedBase, a_boot_that_is_not_mounted_when_the_names_are_to_come_back_is_waited_for) {
  pin();
  detach();
  std::filesystem::rename(base_ + "/boot", base_ + "/boot-away");
  EXPECT_FALSE(unpin_boot(base_));
  EXPECT_EQ(text("/etc/fstab"), fstab_);
  std::filesystem::rename(base_ + "/boot-away", base_ + "/boot");
  ASSERT_TRUE(unpin_boot(base_));
  expect_as_before();
}

}  // namespace
}  // namespace warmroot::bootstrap
