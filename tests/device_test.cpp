#include "bootstrap/device.hpp"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <vector>

#include "bootstrap/device_io.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/partition.hpp"
#include "tests/disks.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using std::string_literals::operator""s;

std::string chosen(std::vector<DiskFacts> disks, std::vector<std::string> launch = {},
                   std::optional<std::string> confirmed = std::nullopt) {
  const auto choice = choose_disk(disks, launch, confirmed);
  return choice.disk ? choice.disk->name : "none: " + choice.waiting_for;
}

TEST(ChooseDisk, the_ebs_disk_beside_the_base_is_the_assignment) {
  EXPECT_EQ(chosen({base_disk(), ebs("nvme1n1", "vol0bbb")}), "nvme1n1");
}

TEST(ChooseDisk, the_base_alone_is_something_to_wait_with) {
  EXPECT_THAT(chosen({base_disk()}), HasSubstr("none: waiting for a volume"));
}

TEST(ChooseDisk, an_instance_store_disk_is_no_assignment) {
  DiskFacts store = ebs("nvme1n1", "AWS1234");
  store.model = "Amazon EC2 NVMe Instance Storage";
  EXPECT_THAT(chosen({base_disk(), store}), HasSubstr("none"));
}

TEST(ChooseDisk, a_disk_of_the_launch_mapping_is_no_assignment) {
  DiskFacts data = ebs("nvme1n1", "vol0ccc");
  data.mapped_name = "sdb";
  EXPECT_THAT(chosen({base_disk(), data}, {"sda1", "sdb"}), HasSubstr("none"));
  EXPECT_EQ(chosen({base_disk(), data, ebs("nvme2n1", "vol0bbb")}, {"sda1", "sdb"}), "nvme2n1");
}

TEST(ChooseDisk, two_candidates_are_no_choice_until_the_manager_says_which) {
  const std::vector<DiskFacts> disks{base_disk(), ebs("nvme1n1", "vol0bbb"),
                                     ebs("nvme2n1", "vol0ccc")};
  EXPECT_THAT(chosen(disks), HasSubstr("none: several disks"));
  EXPECT_EQ(chosen(disks, {}, "vol-0ccc"), "nvme2n1");
}

TEST(ChooseDisk, a_disk_that_came_with_the_launch_is_the_assignment_once_the_manager_says_so) {
  DiskFacts data = ebs("nvme1n1", "vol0ccc");
  data.mapped_name = "sdf";
  EXPECT_EQ(chosen({base_disk(), data}, {"sda1", "sdf"}, "vol-0ccc"), "nvme1n1");
  EXPECT_THAT(chosen({base_disk(), data}, {"sda1", "sdf"}, "vol-0aaa"), HasSubstr("none"))
      << "never the base";
}

TEST(ChooseDisk, another_disk_than_the_confirmed_one_is_not_taken) {
  EXPECT_EQ(chosen({base_disk(), ebs("nvme1n1", "vol0bbb")}, {}, "vol-0ddd"),
            "none: waiting for the disk of vol-0ddd");
}

TEST(ChooseDisk, a_virtio_or_scsi_disk_with_a_volume_s_serial_counts) {
  DiskFacts disk = ebs("vdb", "vol0bbb");
  disk.model.clear();
  EXPECT_EQ(chosen({base_disk(), disk}), "vdb");
  disk.serial = "QM00001";
  EXPECT_THAT(chosen({base_disk(), disk}), HasSubstr("none"));
}

TEST(ChooseDisk, on_xen_what_the_launch_mapping_does_not_list_counts_even_if_it_was_there_first) {
  DiskFacts disk = ebs("xvdf", "");
  disk.model.clear();
  EXPECT_EQ(chosen({disk}), "xvdf");
  EXPECT_THAT(chosen({disk}, {"sdf"}), HasSubstr("none"));
  disk.present_at_start = true;
  EXPECT_EQ(chosen({disk}), "xvdf");
  EXPECT_THAT(chosen({disk}, {"xvdf"}), HasSubstr("none"));
  DiskFacts later = disk;
  later.name = "xvdg";
  EXPECT_THAT(chosen({disk, later}), HasSubstr("several"));
  later.present_at_start = false;
  EXPECT_EQ(chosen({disk, later}, {}, "vol-0bbb"), "xvdg");
  disk.holds_base = true;
  EXPECT_THAT(chosen({disk}), HasSubstr("none"));
}

/// A base with lvm2 or mdadm takes what is plugged in: people waited without a word.
TEST(ChooseDisk, a_volume_that_the_base_has_taken_is_waited_for_by_name) {
  DiskFacts disk = ebs("nvme1n1", "vol0bbb");
  disk.holds_base = true;
  const std::vector<DiskFacts> disks{disk};
  EXPECT_EQ(choose_disk(disks, {}, "vol-0bbb").waiting_for,
            "nvme1n1 is vol-0bbb, and the base uses it already, as a part of its LVM or RAID or "
            "mounted: see lsblk");
  EXPECT_EQ(choose_disk(disks, {}, "vol-0ccc").waiting_for, "waiting for the disk of vol-0ccc");
  EXPECT_EQ(choose_disk(disks, {}, std::nullopt).waiting_for,
            "waiting for a volume to be attached");
}

/// The boot behind the reboot at which it was given away served it, until its detach was done.
TEST(ChooseDisk, a_volume_that_was_given_away_is_chosen_by_the_managers_word_alone) {
  const std::vector<DiskFacts> there{base_disk(), ebs("nvme1n1", "vol0bbb")};
  const DiskChoice held = choose_disk(there, {}, std::nullopt, {"vol-0bbb", "nvme1n1"});
  EXPECT_FALSE(held.disk);
  EXPECT_TRUE(held.held_back);
  EXPECT_THAT(held.waiting_for, HasSubstr("vol-0bbb was given back before this machine booted"));
  DiskFacts nameless = ebs("xvdf", "");
  nameless.model.clear();
  EXPECT_TRUE(
      choose_disk(std::vector{nameless}, {}, std::nullopt, {"vol-0bbb", "nvme1n1"}).held_back);

  const DiskChoice word = choose_disk(there, {}, "vol-0bbb", {"vol-0bbb", "nvme1n1"});
  EXPECT_TRUE(word.disk && !word.held_back);
  for (const char* other : {"vol-0aaa", "vol-0ccc"}) {
    const DiskChoice choice = choose_disk(there, {}, std::nullopt, {other, "nvme1n1"});
    EXPECT_TRUE(choice.disk && !choice.held_back) << other << " is the base's, or gone";
  }
}

/// The first look, before the kernel had probed the disk, ended it, and the second one chose it.
TEST(GivenAway, counts_where_its_disk_comes_late_until_that_is_gone_or_it_is_given_again) {
  using std::chrono::seconds;
  const std::vector<DiskFacts> without{base_disk()};
  const std::vector<DiskFacts> there{base_disk(), ebs("nvme1n1", "vol0bbb")};
  GivenAway late({"vol-0bbb", "nvme1n1"});
  EXPECT_FALSE(late.is_over(without, {}, std::nullopt, seconds(0)));
  EXPECT_FALSE(late.is_over(without, {}, std::nullopt, seconds(120)));
  EXPECT_TRUE(choose_disk(there, {}, std::nullopt, late.volume()).held_back);
  EXPECT_FALSE(late.is_over(there, {}, std::nullopt, seconds(121)));
  EXPECT_FALSE(late.is_over(there, {}, std::nullopt, seconds(3600))) << "its detach is slow";
  EXPECT_TRUE(late.is_over(without, {}, std::nullopt, seconds(3601)));
  EXPECT_TRUE(late.volume().is_none());
  EXPECT_FALSE(late.is_over(without, {}, std::nullopt, seconds(3602))) << "it is said once";
  EXPECT_TRUE(choose_disk(there, {}, std::nullopt, late.volume()).disk)
      << "it is attached anew, by whomever";

  EXPECT_TRUE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(without, {}, std::nullopt, kLatestDisk))
      << "it was detached before this boot";
  EXPECT_TRUE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(without, {}, "vol-0bbb", seconds(0)));
  EXPECT_TRUE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(there, {}, "vol-0bbb", seconds(0)));
  EXPECT_FALSE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(there, {}, "vol-0ccc", seconds(3600)));
  EXPECT_FALSE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(without, {}, "vol-0ccc", seconds(0)));
  std::vector<DiskFacts> taken = there;
  taken.back().holds_base = true;
  EXPECT_FALSE(GivenAway({"vol-0bbb", "nvme1n1"}).is_over(taken, {}, std::nullopt, seconds(3600)))
      << "the base's LVM has it, and may let go of it";
  EXPECT_FALSE(GivenAway().is_over(without, {}, std::nullopt, seconds(3600)));
}

TEST(ChooseDisk, an_empty_medium_does_not_count) {
  DiskFacts disk = ebs("nvme1n1", "vol0bbb");
  disk.size_bytes = 0;
  EXPECT_THAT(chosen({disk}), HasSubstr("none"));
}

TEST(VolumeId, is_read_from_serials_with_and_without_the_dash) {
  EXPECT_EQ(volume_id_of_serial("vol0123456789abcdef0"), "vol-0123456789abcdef0");
  EXPECT_EQ(volume_id_of_serial("vol-0abc"), "vol-0abc");
  for (const char* other : {"", "vol", "vol-", "volume1", "vol0123x", "AWS0123", "VOL0123"})
    EXPECT_EQ(volume_id_of_serial(other), std::nullopt) << other;
}

TEST(Uevent, the_kernel_s_message_is_read) {
  const auto event = parse_uevent(
      "add@/devices/pci0000:00/nvme/nvme1/nvme1n1\0ACTION=add\0DEVPATH=/devices/"
      "x\0SUBSYSTEM=block\0"
      "MAJOR=259\0DEVNAME=nvme1n1\0DEVTYPE=disk\0SEQNUM=1034\0"s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->action, "add");
  EXPECT_EQ(event->subsystem, "block");
  EXPECT_EQ(event->device_name, "nvme1n1");
  EXPECT_EQ(event->device_type, "disk");
}

TEST(Uevent, udev_s_messages_and_rubbish_are_not) {
  for (const auto& text : {"libudev\0\xfe\xed\xca\xfe"s, ""s, "add@/devices"s, "add@/x\0\0\0"s,
                           "add@/x\0ACTION=add\0"s, "\0\0\0\0"s})
    EXPECT_FALSE(parse_uevent(text)) << text;
}

/// A directory that looks like /sys, from what machines have shown.
class FakeSys : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/warmroot-sys-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    root_ = pattern;
    ::mkdir((root_ + "/block").c_str(), 0755);
  }
  void TearDown() override { [[maybe_unused]] int status = ::system(("rm -r " + root_).c_str()); }

  void put(const std::string& path, const std::string& text) {
    std::string so_far = root_ + "/block";
    for (std::size_t at = 0, end; (end = path.find('/', at)) != std::string::npos; at = end + 1)
      ::mkdir((so_far + "/" + path.substr(0, end)).c_str(), 0755);
    std::ofstream(so_far + "/" + path) << text;
  }
  std::string root_;
};

TEST_F(FakeSys, an_nvme_ebs_disk_shows_its_padded_serial_and_model) {
  put("nvme1n1/size", "16777216\n");
  put("nvme1n1/dev", "259:1\n");
  put("nvme1n1/device/serial", "vol0123456789abcdef0\n");
  put("nvme1n1/device/model", "Amazon Elastic Block Store              \n");
  const auto disks = scan_disks(root_, {}, {});
  ASSERT_EQ(disks.size(), 1u);
  EXPECT_EQ(disks[0].volume_id(), "vol-0123456789abcdef0");
  EXPECT_EQ(disks[0].model, "Amazon Elastic Block Store");
  EXPECT_EQ(disks[0].size_bytes, 8ull << 30);
  EXPECT_FALSE(disks[0].holds_base);
}

TEST_F(FakeSys, reads_of_a_disk_never_run_into_the_drivers_time_limit) {
  put("nvme1n1/queue/io_timeout", "30000\n");
  ASSERT_TRUE(raise_io_timeout(root_, "nvme1n1"));
  std::string limit;
  std::getline(std::ifstream(root_ + "/block/nvme1n1/queue/io_timeout"), limit);
  EXPECT_THAT(limit, testing::StartsWith("4294967295")) << "all that the kernel's 32 bits hold";
  const Ok absent = raise_io_timeout(root_, "vda");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message(), testing::HasSubstr("vda/queue/io_timeout"));
}

/// One look whose access(2) failed for whatever reason ended every session without a warning.
TEST_F(FakeSys, a_look_that_fails_for_another_reason_is_no_disk_that_has_gone) {
  put("xvdf/dev", "202:80\n");
  put("xvda/dev", "202:0\n");
  const DiskIdentity disk = identify_disk(root_, "xvdf");
  const std::string entry = root_ + "/block/xvdf", away = root_ + "/block/away";
  int looks_between = 0;
  std::function<void()> meanwhile = [] {};
  const auto has_gone = [&] {
    return disk_has_gone(root_, disk, [&] {
      ++looks_between;
      meanwhile();
      return false;
    });
  };
  EXPECT_FALSE(has_gone());
  // Something is mounted over /sys.
  ASSERT_EQ(::rename((root_ + "/block").c_str(), (root_ + "/covered").c_str()), 0);
  EXPECT_FALSE(has_gone());
  ASSERT_EQ(::rename((root_ + "/covered").c_str(), (root_ + "/block").c_str()), 0);
  // Another errno than that of what is not there.
  ASSERT_EQ(::rename(entry.c_str(), away.c_str()), 0);
  ASSERT_EQ(::symlink(entry.c_str(), entry.c_str()), 0);
  EXPECT_FALSE(has_gone());
  ASSERT_EQ(::unlink(entry.c_str()), 0);
  EXPECT_EQ(looks_between, 0);
  EXPECT_TRUE(has_gone());
  EXPECT_EQ(looks_between, 1);
  meanwhile = [&] { ASSERT_EQ(::rename(away.c_str(), entry.c_str()), 0); };
  EXPECT_FALSE(has_gone()) << "at the second look it is there";
  EXPECT_EQ(looks_between, 2);
  ASSERT_EQ(::rename(entry.c_str(), away.c_str()), 0);
  EXPECT_FALSE(disk_has_gone(root_, disk, [] { return true; })) << "there was no second look";
  EXPECT_FALSE(disk_has_gone(root_, {}, [] { return false; })) << "none was found yet";
}

/// Xen gave it the name and the number of the one before: its mount was served for ever.
TEST_F(FakeSys, a_disk_attached_again_under_the_same_name_is_another) {
  const auto is_same = [&](const DiskIdentity& disk) {
    return !disk_has_gone(root_, disk, [] { return false; });
  };
  put("xvdf/dev", "202:80\n");
  const DiskIdentity old_kernel = identify_disk(root_, "xvdf");
  put("xvdf/diskseq", "17\n");
  const DiskIdentity disk = identify_disk(root_, "xvdf");
  EXPECT_TRUE(is_same(disk));
  put("xvdf/diskseq", "18\n");
  EXPECT_FALSE(is_same(disk));
  EXPECT_TRUE(is_same(old_kernel)) << "nobody can tell";
  put("xvdf/dev", "202:96\n");
  EXPECT_FALSE(is_same(old_kernel));
  // What cannot be read says nothing.
  for (const char* file : {"dev", "diskseq"})
    ASSERT_EQ(::unlink((root_ + "/block/xvdf/" + file).c_str()), 0);
  EXPECT_TRUE(is_same(disk));
}

/// By such a number a release would unmount what is another disk's.
TEST_F(FakeSys, numbers_are_a_disk_s_own_only_while_it_is_known_to_be_the_same_one) {
  put("nvme1n1/dev", "259:1\n");
  put("nvme1n1/nvme1n1p1/dev", "259:5\n");
  put("nvme2n1/dev", "259:2\n");
  const DiskIdentity old_kernel = identify_disk(root_, "nvme1n1");
  put("nvme1n1/diskseq", "17\n");
  const DiskIdentity disk = identify_disk(root_, "nvme1n1");
  const auto are_own = [&](const DiskIdentity& of, const std::vector<dev_t>& devices) {
    return are_of_disk(root_, of, devices);
  };
  EXPECT_TRUE(are_own(disk, {makedev(259, 1), makedev(259, 5)}));
  EXPECT_TRUE(are_own(disk, {makedev(259, 5), makedev(0, 47)})) << "which is a btrfs's";
  EXPECT_FALSE(are_own(disk, {makedev(259, 1), makedev(259, 2)}));
  EXPECT_FALSE(are_own(old_kernel, {makedev(259, 1)})) << "nobody can tell";
  EXPECT_FALSE(are_own({}, {}));
  put("nvme1n1/diskseq", "18\n");
  EXPECT_FALSE(are_own(disk, {makedev(259, 1)}));
}

TEST_F(FakeSys, a_disk_with_a_mounted_partition_or_something_stacked_on_it_holds_the_base) {
  put("nvme0n1/size", "100\n");
  put("nvme0n1/dev", "259:0\n");
  put("nvme0n1/nvme0n1p1/dev", "259:4\n");
  put("nvme1n1/size", "100\n");
  put("nvme1n1/dev", "259:1\n");
  put("nvme1n1/nvme1n1p1/dev", "259:5\n");
  put("nvme1n1/nvme1n1p1/holders/dm-0", "");
  put("nvme2n1/size", "100\n");
  put("nvme2n1/dev", "259:2\n");
  const auto disks = scan_disks(root_, {"259:4"}, {"nvme2n1"});
  ASSERT_EQ(disks.size(), 3u);
  EXPECT_TRUE(disks[0].holds_base);
  EXPECT_TRUE(disks[1].holds_base);
  EXPECT_FALSE(disks[2].holds_base);
  EXPECT_TRUE(disks[2].present_at_start);
}

TEST_F(FakeSys, virtio_keeps_its_serial_elsewhere_and_scsi_in_a_vital_product_page) {
  put("vdb/size", "100\n");
  put("vdb/serial", "vol0bbb");
  put("sdb/size", "100\n");
  put("sdb/device/vpd_pg80", "\0\x80\0\x07vol0ccc"s);
  const auto disks = scan_disks(root_, {}, {});
  ASSERT_EQ(disks.size(), 2u);
  EXPECT_EQ(disks[0].volume_id(), "vol-0ccc");
  EXPECT_EQ(disks[1].volume_id(), "vol-0bbb");
}

TEST_F(FakeSys, loops_and_stacked_devices_are_no_disks) {
  for (const char* name : {"loop0", "dm-0", "md127", "ram1", "zram0", "sr0"})
    put(std::string(name) + "/size", "100\n");
  EXPECT_TRUE(scan_disks(root_, {}, {}).empty());
}

PartitionFacts partition(int number, std::uint64_t mib, const std::string& content) {
  return {number, 1 << 20, mib << 20, content, {}};
}

TEST(RootCandidates, are_linux_file_systems_the_largest_first) {
  const auto candidates = root_candidates(std::vector{
      partition(1, 512, "vfat"), partition(2, 1024, "ext4"), partition(3, 8192, "xfs")});
  ASSERT_TRUE(candidates);
  ASSERT_EQ(candidates->size(), 2u);
  EXPECT_EQ(candidates->at(0).number, 3);
  EXPECT_EQ(candidates->at(1).number, 2);
}

TEST(RootChoice, says_which_partition_and_why) {
  PartitionFacts whole{0, 0, 8ull << 30, "xfs", {}}, second = partition(2, 1024, "ext4");
  EXPECT_EQ(root_choice(whole, 1, {}),
            "the whole disk (xfs, 8192 MiB), the only Linux file system");
  second.table = "gpt";
  EXPECT_EQ(root_choice(second, 1, {}),
            "partition 2 (ext4, 1024 MiB) of the GPT, the only Linux file system");
  second.table = "dos";
  EXPECT_EQ(
      root_choice(second, 2, std::vector<std::string>{"partition 1: it has no system"}),
      "partition 2 (ext4, 1024 MiB) of the MBR, the largest of 2 Linux file systems that holds "
      "a system; not partition 1: it has no system");
}

struct Unusable {
  std::vector<PartitionFacts> partitions;
  const char* sentence;
};
class UnusableDisks : public testing::TestWithParam<Unusable> {};

TEST_P(UnusableDisks, are_refused_with_what_is_on_them) {
  const auto candidates = root_candidates(GetParam().partitions);
  ASSERT_FALSE(candidates);
  EXPECT_EQ(candidates.error().kind, ErrorKind::refused);
  EXPECT_THAT(candidates.error().message(), HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    Table, UnusableDisks,
    testing::Values(
        Unusable{{}, "it is empty"},
        Unusable{{partition(0, 8, "")}, "the whole disk (unknown, 8 MiB)); the pool's source"},
        Unusable{{partition(1, 8, "crypto_LUKS")},
                 "copy the system to a plain partition of an encrypted"},
        Unusable{{partition(1, 8, "LVM2_member")}, "LVM is not supported: copy the system"},
        Unusable{{partition(1, 8, "ntfs")}, "partition 1 (ntfs, 8 MiB)); the pool's source"}));

std::string superblock(unsigned char state, unsigned char incompatible) {
  std::string bytes(1024, '\0');
  bytes[0x38] = '\x53';
  bytes[0x39] = '\xef';
  bytes[0x3a] = static_cast<char>(state);
  bytes[0x60] = static_cast<char>(incompatible);
  return bytes;
}

TEST(ExtSuperblock, says_how_the_file_system_was_left) {
  const auto clean = parse_ext_superblock(superblock(1, 0x40));
  ASSERT_TRUE(clean);
  EXPECT_TRUE(clean->cleanly_unmounted);
  const auto crashed = parse_ext_superblock(superblock(1, 0x44));
  EXPECT_TRUE(crashed->needs_recovery);
  EXPECT_FALSE(crashed->cleanly_unmounted);
  EXPECT_TRUE(parse_ext_superblock(superblock(3, 0))->has_errors);
  EXPECT_FALSE(parse_ext_superblock(std::string(1024, '\0')));
  EXPECT_FALSE(parse_ext_superblock("short"));
}

TEST(ElfMachine, is_read_in_the_file_s_own_byte_order) {
  std::string header =
      "\x7f"
      "ELF\x02\x01\x01" +
      std::string(9, '\0') + "\x02\0\xb7\0"s;
  EXPECT_EQ(elf_machine(header), 183);
  EXPECT_EQ(machine_name(183), "arm64");
  header[5] = 2;
  header.replace(16, 4, "\0\x02\0\x15"s);
  EXPECT_EQ(elf_machine(header), 21);
  EXPECT_FALSE(elf_machine("#!/bin/sh"));
  EXPECT_FALSE(
      elf_machine("\x7f"
                  "ELF"));
}

TEST(OsRelease, gives_its_pretty_name_with_any_quotes) {
  EXPECT_EQ(pretty_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(pretty_name("PRETTY_NAME='A'"), "A");
  EXPECT_EQ(pretty_name("PRETTY_NAME=plain\n"), "plain");
  EXPECT_EQ(pretty_name("NAME=x\n"), "");
}

}  // namespace
}  // namespace warmroot::bootstrap
