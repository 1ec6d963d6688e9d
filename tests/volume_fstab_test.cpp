// The volume's own fstab against the real kernel, on the whole way in and out of the bootstrap.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kHomeUuid[] = "11111111-2222-4333-8444-555555555555";
constexpr char kNotLeftClean[] =
    "debugfs -w -R 'ssv state 0' /dev/vdz2 2>/dev/null; sync /dev/vdz2";
/// Its root directory is gone, too.
constexpr char kBeyondRepair[] =
    "printf 'clri <2>\nssv state 0\n' | debugfs -w -f - /dev/vdz2 >/dev/null 2>&1; sync /dev/vdz2";

class VolumeFstab : public BootWhole {
 protected:
  /// A GPT with a root of 40 MiB whose fstab is this, a home of 20 MiB and a boot of 10 MiB.
  void make_parts(const std::string& fstab, const std::string& changes = "") {
    make_disk("cat >$t/etc/fstab <<'END'\n" + fstab + "END\nmkdir -p $t/boot\n" + changes + R"(
      printf 'start=2048,size=81920\nstart=83968,size=40960\nstart=124928,size=20480,name=boot\n' |
        sfdisk --quiet --wipe never --label gpt $image >/dev/null 2>&1
      mkdir $t.home $t.boot; mkdir $t.home/ada; echo kept >$t.home/ada/file; echo kernel >$t.boot/vmlinuz
      mke2fs -q -t ext4 -E root_owner=0:0,offset=1048576 -d $t $image 40M
      mke2fs -q -t ext4 -U )" +
              std::string(kHomeUuid) + R"( -E root_owner=0:0,offset=42991616 -d $t.home $image 20M
      mke2fs -q -t ext2 -E root_owner=0:0,offset=63963136 -d $t.boot $image 10M
      rm -rf $t.home $t.boot)");
    dress_as_disk();
    dress_partitions();
  }
  std::string step_of_fstab() {
    for (const auto& step : book_.snapshot().steps)
      if (step.name == "the volume's fstab") return step.detail;
    return "none";
  }
  static std::string state_of(const std::string& node) {
    return shell("dumpe2fs -h " + node + " 2>/dev/null | sed -n 's/^Filesystem state: *//p'")
        .value_or("unknown");
  }
  void serve() {
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(session_os(), "Test Volume 1");
  }
  void leave() {
    const Ok released = release(leaving(), assignment_, book_);
    ASSERT_TRUE(released) << released.error().message();
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
    EXPECT_TRUE(check_device_free("/dev/vdz"));
  }
};

TEST_F(VolumeFstab, partitions_of_the_disk_are_mounted_before_sessions_and_given_back) {
  make_parts("LABEL=x / ext4 defaults\nUUID=" + std::string(kHomeUuid) +
             " /home ext4 defaults,noexec\nPARTLABEL=boot /boot ext2 ro\n/dev/xvdg none swap sw\n"
             "server:/x /x nfs defaults\n");
  std::vector<std::string> when_ready;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) when_ready = mounts_at(kVolumePoint);
  };
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_THAT(when_ready, testing::IsSupersetOf({inside("home"), inside("boot")}));
  EXPECT_LT(std::find(when_ready.begin(), when_ready.end(), inside("home")),
            std::find(when_ready.begin(), when_ready.end(), inside("proc")));
  EXPECT_EQ(read_attribute(inside("home/ada/file")), "kept");
  EXPECT_EQ(read_attribute(inside("boot/vmlinuz")), "kernel");
  EXPECT_TRUE(write_in_place(inside("home/ada/new"), "written\n"));
  EXPECT_FALSE(write_in_place(inside("boot/new"), "written\n"));
  EXPECT_EQ(
      step_of_fstab(),
      "/home (partition 2 (ext4, 20 MiB)) is mounted, clean; "
      "/boot (partition 3 (ext2, 10 MiB)) is mounted, clean; "
      "swap (/dev/xvdg) is not mounted: memory is the base's; "
      "/x (server:/x) is not mounted: file systems of the network are not mounted, mount it in "
      "a hook or in a session");
  EXPECT_THAT(book_.snapshot().remarks,
              Contains(HasSubstr("fstab, /x (server:/x) is not mounted")));
  const std::string motd = read_file(kMessageOfTheDay, 65536).value_or("");
  EXPECT_THAT(motd, HasSubstr("/x (server:/x)"));
  EXPECT_THAT(motd, Not(HasSubstr("swap")));
  ASSERT_NO_FATAL_FAILURE(leave());
  EXPECT_EQ(state_of("/dev/vdz2"), "clean");
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(read_attribute(inside("home/ada/new")), "written");
  ASSERT_NO_FATAL_FAILURE(leave());
}

TEST_F(VolumeFstab, a_partition_that_was_not_left_clean_is_repaired) {
  make_parts("UUID=" + std::string(kHomeUuid) + " /home ext4 defaults\n");
  ASSERT_TRUE(shell(kNotLeftClean));
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_THAT(step_of_fstab(), HasSubstr("is mounted, not left clean; e2fsck -p repaired it"));
  ASSERT_NO_FATAL_FAILURE(leave());
}

/// People got sessions with an empty /home, and what they wrote there was hidden once it was back.
TEST_F(VolumeFstab,
       a_volume_of_which_a_partition_is_beyond_repair_is_given_back_and_serves_nobody) {
  make_parts("PARTLABEL=boot /boot ext2 defaults\nUUID=" + std::string(kHomeUuid) +
             " /home ext4 defaults\n");
  ASSERT_TRUE(shell(kBeyondRepair));
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_TRUE(is_damage(done.error())) << "it is given back for people to repair";
  EXPECT_THAT(done.error().message(),
              testing::AllOf(testing::StartsWith(
                                 "/home (partition 2 (ext4, 20 MiB)), which the volume's fstab "
                                 "does not call nofail: the file system of partition 2"),
                             HasSubstr("run e2fsck -f"), Not(HasSubstr("\n"))));
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "checked"));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(state_of("/dev/vdz1"), "clean");
  EXPECT_EQ(state_of("/dev/vdz3"), "clean");
}

TEST_F(VolumeFstab, a_partition_beyond_repair_is_left_out_where_its_line_says_nofail) {
  make_parts("UUID=" + std::string(kHomeUuid) + " /home ext4 defaults,nofail\n");
  ASSERT_TRUE(shell(kBeyondRepair));
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_THAT(
      book_.snapshot().remarks,
      Contains(testing::AllOf(HasSubstr("/home (partition 2 (ext4, 20 MiB)) is not mounted"),
                              HasSubstr("run e2fsck -f"))));
  EXPECT_THAT(mounts_at(kVolumePoint), Not(Contains(inside("home"))));
  ASSERT_NO_FATAL_FAILURE(leave());
}

TEST_F(VolumeFstab, behind_whatever_step_it_is_killed_nobody_is_in_a_home_that_was_not_checked) {
  make_parts("UUID=" + std::string(kHomeUuid) + " /home ext4 defaults\n");
  ASSERT_NO_FATAL_FAILURE(serve());
  const auto steps = book_.snapshot().steps;
  const auto opened = std::find_if(steps.begin(), steps.end(), [](const TimedStep& step) {
    return step.name == "switch sessions";
  });
  ASSERT_NE(opened, steps.end());
  const auto last = static_cast<std::size_t>(opened - steps.begin()) + 1;
  ASSERT_TRUE(undo_bring_up(assignment_));
  const auto is_served = [] {
    if (link_text(kSessionRoot) != kVolumePoint) return false;
    EXPECT_THAT(mounts_at(kVolumePoint), Contains(inside("home")));
    EXPECT_EQ(state_of("/dev/vdz2"), "clean") << "as e2fsck leaves it, and mounting does not";
    return true;
  };
  for (std::size_t killed = 1; killed <= last; ++killed) {
    SCOPED_TRACE(steps[killed - 1].name);
    ASSERT_TRUE(shell(kNotLeftClean));
    EXPECT_TRUE(killed_after(killed, [&](StatusBook& book) {
      Assignment lost;
      std::ignore = bring_up(input_, lost, book, stop_);
    }));
    EXPECT_EQ(is_served(), killed == last);
    const Ok cleared = clear_leftovers();
    ASSERT_TRUE(cleared) << cleared.error().message();
    ASSERT_TRUE(shell(kNotLeftClean));
    Assignment assignment;
    StatusBook book("");
    const Ok done = bring_up(input_, assignment, book, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(is_served());
    ASSERT_TRUE(undo_bring_up(assignment));
  }
}

/// e2fsck was asked of it once more, with the first place mounted, and the second one left out.
TEST_F(VolumeFstab, a_partition_that_two_lines_name_is_checked_once_and_mounted_at_both_places) {
  const std::string line = "UUID=" + std::string(kHomeUuid);
  make_parts(line + " /home ext4 defaults\n" + line + " /srv ext4 defaults\n", "mkdir $t/srv\n");
  ASSERT_TRUE(shell(kNotLeftClean));
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(step_of_fstab(),
            "/home (partition 2 (ext4, 20 MiB)) is mounted, not left clean; e2fsck -p repaired it; "
            "/srv (partition 2 (ext4, 20 MiB)) is mounted, as at its other place");
  EXPECT_EQ(read_attribute(inside("srv/ada/file")), "kept");
  EXPECT_EQ(assignment_.other_devices.size(), 1u);
  ASSERT_NO_FATAL_FAILURE(leave());
}

TEST_F(VolumeFstab, links_lead_no_mount_onto_the_base_nor_over_the_root) {
  const std::string line = "UUID=" + std::string(kHomeUuid);
  make_parts(line + " /up ext4 defaults\n" + line + " /top ext4 defaults\n" + line +
                 " /missing ext4 defaults\n" + line + " /etc/fstab ext4 defaults\n",
             "mkdir $t/opt; ln -s ../../../../../../opt $t/up; ln -s / $t/top\n");
  const auto opt_before = mounts_at("/opt").size();
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(mounts_at("/opt").size(), opt_before);
  EXPECT_THAT(mounts_at(kVolumePoint), Contains(inside("opt")));
  const auto mounts = mounts_at(kVolumePoint);
  EXPECT_EQ(std::count(mounts.begin(), mounts.end(), kVolumePoint), 1);
  EXPECT_THAT(book_.snapshot().remarks,
              testing::IsSupersetOf({testing::Matcher<std::string>(HasSubstr(
                                         "/top (partition 2 (ext4, 20 MiB)) is not mounted: its "
                                         "place leads to the root itself")),
                                     testing::Matcher<std::string>(HasSubstr("No such file")),
                                     testing::Matcher<std::string>(HasSubstr("Not a directory"))}));
  ASSERT_NO_FATAL_FAILURE(leave());
}

/// The line is as in Ubuntu's cloud images.
TEST_F(VolumeFstab, the_efi_partition_is_root_s_alone_and_a_kernel_without_vfat_keeps_nobody_out) {
  if (!shell("command -v mkfs.vfat")) {
    if (must_run()) FAIL() << "cannot run: no mkfs.vfat";
    GTEST_SKIP() << "SKIPPED, not tested: no mkfs.vfat";
  }
  make_disk(R"(
      mkdir -p $t/boot/efi
      echo 'LABEL=UEFI /boot/efi vfat umask=0077,iocharset=utf8 0 1' >$t/etc/fstab
      printf 'start=2048,size=81920\nstart=83968,size=20480\n' |
        sfdisk --quiet --wipe never --label gpt $image >/dev/null 2>&1
      mke2fs -q -t ext4 -E root_owner=0:0,offset=1048576 -d $t $image 40M
      truncate -s 10M $image.efi
      mkfs.vfat -n UEFI $image.efi >/dev/null
      dd if=$image.efi of=$image bs=1M seek=41 conv=notrunc status=none
      rm $image.efi)");
  dress_as_disk();
  dress_partitions();
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string name = "/boot/efi (partition 2 (vfat, 10 MiB)) is ";
  if (!shell("grep -qw vfat /proc/filesystems")) {  // it was loaded by now
    std::printf("NOT TESTED: that vfat is mounted; this kernel has none\n");
    EXPECT_THAT(book_.snapshot().remarks, Contains(testing::AllOf(HasSubstr(name + "not mounted"),
                                                                  HasSubstr("has no vfat"))));
    ASSERT_NO_FATAL_FAILURE(leave());
    return;
  }
  EXPECT_EQ(step_of_fstab(), name + "mounted, as it was left");
  struct stat facts {};
  ASSERT_EQ(::stat(inside("boot/efi").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  EXPECT_TRUE(write_in_place(inside("boot/efi/new"), "written\n"));
  ASSERT_NO_FATAL_FAILURE(leave());
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(read_attribute(inside("boot/efi/new")), "written");
  ASSERT_NO_FATAL_FAILURE(leave());
}

TEST_F(VolumeFstab, a_subvolume_of_the_root_s_btrfs_is_mounted) {
  // A UUID that is asked for is looked up on all disks of the machine, also on one that another
  // test keeps waiting.
  make_disk(R"(
      mkfs.btrfs -q --rootdir $t $image >/dev/null 2>&1
      mkdir $t.mnt; mount -o loop,nodiscard $image $t.mnt
      uuid=$(blkid -p -s UUID -o value $image)
      echo "UUID=$uuid /home btrfs subvol=@home,compress=zstd 0 0" >$t.mnt/etc/fstab
      btrfs -q subvolume create $t.mnt/@home
      echo kept >$t.mnt/@home/file
      umount $t.mnt; rmdir $t.mnt)",
            "300M");
  dress_as_disk();
  ASSERT_NO_FATAL_FAILURE(serve());
  EXPECT_EQ(read_attribute(inside("home/file")), "kept");
  EXPECT_EQ(step_of_fstab(),
            "/home (the whole disk (btrfs, 300 MiB)) is mounted, a subvolume of the root's");
  ASSERT_NO_FATAL_FAILURE(leave());
}

}  // namespace
}  // namespace warmroot::bootstrap
