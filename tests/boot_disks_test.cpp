// Which disks the bootstrap serves, against the real kernel: roots that are refused, damaged ones
// that are given back for repair, and which of several is taken.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/leftovers.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "tests/boot_whole.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Refusal {
  const char* name;
  const char* changes;
  const char* sentence;
};
class BootRefusals : public BootWhole, public testing::WithParamInterface<Refusal> {};

TEST_P(BootRefusals, leave_sessions_on_the_base_and_nothing_mounted) {
  make_volume(GetParam().changes);
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_FALSE(is_damage(done.error())) << "nothing there is ours to have repaired";
  EXPECT_THAT(done.error().message(), HasSubstr(GetParam().sentence));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BootRefusals,
    testing::Values(
        Refusal{"NoRoot", "rm -rf $t/etc $t/bin", "it has no etc/os-release"},
        Refusal{"NoShell", "rm $t/bin/sh; ln -s /does/not/exist $t/bin/sh", "no executable bin/sh"},
        Refusal{"OtherMachine",
                R"(printf '\177ELF\002\001\001\0\0\0\0\0\0\0\0\0\002\0\267\0' >$t/bin/sh)",
                "arm64"},
        Refusal{"LooseRoot", "chmod 777 $t", "can be written by others"},
        Refusal{"BrokenShell", "cp $t/bin/angry $t/bin/bash", "profile is broken"}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

/// $image gets these partitions by sfdisk.
std::string table(const std::string& label, const std::string& lines) {
  return "printf '" + lines + "' | sfdisk --quiet --wipe never --label " + label +
         " $image >/dev/null 2>&1\n";
}
/// An ext4 of the tree at so many MiB in $image.
std::string root_at(int mib, int size_mib) {
  return "mke2fs -q -t ext4 -E root_owner=0:0,offset=" + std::to_string(mib << 20) +
         " -d $t $image " + std::to_string(size_mib) + "M\n";
}
std::string empty_at(int mib, int size_mib) {
  return "mke2fs -q -t ext4 -E offset=" + std::to_string(mib << 20) + " $image " +
         std::to_string(size_mib) + "M\n";
}
/// The label of a physical volume, with the checksum that libblkid wants.
constexpr char kLvmLabel[] = R"(python3 - $image <<'END'
import struct, sys, zlib
rest = struct.pack("<I", 32) + b"LVM2 001" + b"0123456789abcdef0123456789abcdef"
rest = rest.ljust(512 - 20, b"\0")
crc = zlib.crc32(rest, 0xf597a6cf ^ 0xffffffff) ^ 0xffffffff
with open(sys.argv[1], "r+b") as disk:
    disk.seek(512)
    disk.write(b"LABELONE" + struct.pack("<QI", 1, crc) + rest)
END
)";
const std::string kLuksHeader =
    R"(printf 'LUKS\272\276\0\1aes' | dd of=$image conv=notrunc status=none )";

class DiskRefusals : public BootWhole, public testing::WithParamInterface<Refusal> {};

TEST_P(DiskRefusals, leave_sessions_on_the_base_and_the_disk_as_it_was) {
  make_disk(GetParam().changes);
  dress_as_disk();
  if (shell("sfdisk -l " + loop_ + " | grep -c Start").value_or("") == "1") dress_partitions();
  const auto before = shell("sync " + loop_ + "; sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr(GetParam().sentence));
  EXPECT_THAT(done.error().message(), testing::Not(HasSubstr("\n")));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(shell("sync " + loop_ + "; sha256sum <" + loop_).value_or(""), before.value_or("-"));
}

const std::string kLuksDisk = kLuksHeader + "\n";
const std::string kLuksBeside = table("gpt", "start=2048,size=40960\\nstart=43008,size=81920\\n") +
                                empty_at(1, 20) + kLuksHeader + "seek=43008\n";
const std::string kForeign = "truncate -s 0 $image; truncate -s 96M $image\n";
INSTANTIATE_TEST_SUITE_P(
    Table, DiskRefusals,
    testing::Values(
        Refusal{"Luks", kLuksDisk.c_str(),
                "the whole disk (crypto_LUKS, 96 MiB)); LUKS encryption"},
        Refusal{"LuksBesideBoot", kLuksBeside.c_str(),
                "it has no etc/os-release, the pool's source has to be an AMI or the snapshot of a "
                "root disk; LUKS encryption is not supported"},
        Refusal{"Lvm", kLvmLabel,
                "the whole disk (LVM2_member, 96 MiB)); LVM is not supported: copy"},
        Refusal{"Empty", kForeign.c_str(), "the whole disk (unknown, 96 MiB)); the pool's source"}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

TEST_F(BootWhole, a_root_beyond_replay_is_refused_with_what_to_do_whoever_vouches_for_it) {
  // Its root directory is gone: no journal brings that back.
  make_volume();
  ASSERT_TRUE(shell("printf 'clri <2>\nssv state 0\n' | debugfs -w -f - " + loop_ +
                    " >/dev/null 2>&1; sync " + loop_));
  dress_as_disk();
  const auto refused = [&] {
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
    EXPECT_NE(session_os(), "Test Volume 1");
    EXPECT_TRUE(check_device_free("/dev/vdz"));
    EXPECT_TRUE(!done && is_damage(done.error())) << "it is given back for people to repair";
    return done ? std::string("served") : done.error().message();
  };
  EXPECT_THAT(refused(), HasSubstr("its log or metadata is damaged: repair it on an instance that "
                                   "does not mount it (e2fsck)"));
  input_.confirmed_volume = [] { return std::optional<std::string>("vol-0abc"); };
  EXPECT_THAT(refused(),
              HasSubstr("the whole disk (ext4, 64 MiB) was not left clean, and e2fsck -p "
                        "cannot repair it by itself (it ended with 4): take a snapshot"));
}

/// e2fsck says nothing of a file system that is newer than itself; the kernel knows whether it can
/// mount it.
TEST_F(BootWhole, a_root_that_the_bases_e2fsck_is_too_old_for_is_mounted_and_replayed) {
  make_volume();
  // A feature that nobody knows yet, compatible by its kind.
  ASSERT_TRUE(
      shell("printf 'set_super_value feature_compat 0x8000023c\nset_super_value state 0\n' | "
            "debugfs -w -f - " +
            loop_ + " >/dev/null 2>&1; sync " + loop_));
  dress_as_disk();
  input_.confirmed_volume = [] { return std::optional<std::string>("vol-0abc"); };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

TEST_F(BootWhole, a_root_whose_damage_shows_only_inside_it_is_given_back_for_repair) {
  make_volume();
  ASSERT_TRUE(
      shell("at=$(debugfs -R 'imap /bin/sh' " + loop_ +
            " 2>/dev/null | sed -n 's/.*block \\([0-9]*\\), offset \\(0x[0-9a-f]*\\)/\\1 \\2/p')\n"
            "set -- $at; block=$(dumpe2fs -h " +
            loop_ +
            " 2>/dev/null | sed -n 's/^Block size: *//p')\n"
            "head -c 256 /dev/urandom | dd of=" +
            loop_ + " bs=1 seek=$(($1 * block + $2)) conv=notrunc,fsync status=none"));
  dress_as_disk();
  input_.confirmed_volume = [] { return std::optional<std::string>("vol-0abc"); };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("its file system is damaged (at /bin/sh)"));
  EXPECT_TRUE(is_damage(done.error()));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

TEST_F(BootWhole, a_damaged_xfs_is_given_back_for_repair) {
  make_disk(R"(
      mkfs.xfs -q $image; mkdir $t.mnt; mount -o loop $image $t.mnt; cp -a $t/. $t.mnt/; umount $t.mnt; rmdir $t.mnt
      root=$(xfs_db -c 'sb 0' -c 'p rootino' $image | sed 's/.*= //')
      xfs_db -x -c "inode $root" -c 'write -d core.magic 0' $image >/dev/null)",
            "320M");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("its log or metadata is damaged"));
  EXPECT_THAT(done.error().message(), HasSubstr("xfs_repair"));
  EXPECT_TRUE(is_damage(done.error()));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// The kernel says EIO, as of a disk that cannot be read: nobody can tell that repair would help.
TEST_F(BootWhole, a_damaged_btrfs_serves_nobody_and_keeps_its_volume) {
  make_disk(R"(
      mkfs.btrfs -q -m single --rootdir $t $image >/dev/null 2>&1
      tree=$(btrfs inspect-internal dump-tree -t fs $image | sed -n 's/^leaf \([0-9]*\) .*/\1/p' | head -n 1)
      at=$(btrfs-map-logical -l $tree $image | sed -n 's/.*physical \([0-9]*\) .*/\1/p' | head -n 1)
      head -c 4096 /dev/urandom | dd of=$image bs=1 seek=$at conv=notrunc status=none)",
            "256M");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("as btrfs: mount: Input/output error"));
  EXPECT_FALSE(is_damage(done.error())) << done.error().message();
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// What is mounted read-only somewhere cannot be mounted writable beside that.
TEST_F(BootWhole, a_root_that_a_copy_of_its_mount_keeps_read_only_is_made_writable_in_place) {
  make_volume();
  dress_as_disk();
  const TemporaryDirectory elsewhere;
  input_.enter_stage = [before = input_.enter_stage, &elsewhere](Stage stage,
                                                                 const std::string& why) {
    if (stage == Stage::checked) {
      EXPECT_TRUE(shell("mount -o ro /dev/vdz " + elsewhere.path()));
    }
    before(stage, why);
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_TRUE(shell("touch " + inside("var/written")));
  EXPECT_TRUE(shell("umount " + elsewhere.path()));
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

/// libmount tried again read-only and said that all was well, and the kernel says so of a file
/// system that is read-only by itself: sessions landed where nothing could be written.
TEST_F(BootWhole, a_root_that_cannot_be_written_to_is_not_served) {
  make_volume();
  ASSERT_TRUE(shell("tune2fs -O read-only " + loop_));
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("Read-only file system"));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

/// It was no reason to serve nobody.
TEST_F(BootWhole, a_root_that_somebody_has_open_when_it_becomes_writable_is_served) {
  make_volume();
  dress_as_disk();
  std::jthread somebody([](const std::stop_token& token) {
    UniqueFd looked;
    while (!looked && !token.stop_requested())
      looked.reset(::open(inside("etc").c_str(), O_PATH | O_CLOEXEC));
    while (!token.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  somebody = {};
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_TRUE(shell("touch " + inside("var/written")));
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

struct Layout {
  const char* name;
  std::string script, chosen;
};
class Layouts : public BootWhole, public testing::WithParamInterface<Layout> {};

TEST_P(Layouts, have_their_root_found_by_content_and_the_reason_said) {
  make_disk(GetParam().script);
  dress_as_disk();
  if (std::string(GetParam().name) != "None") dress_partitions();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_EQ(book_.snapshot().root, GetParam().chosen);
  EXPECT_THAT(status_text(status_document(book_.snapshot())).value_or(""),
              HasSubstr("root:    " + GetParam().chosen + "\n"));
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_TRUE(check_device_free("/dev/vdz"));
}

const std::string kNoSystemIn40 =
    "; not partition 1 (ext4, 40 MiB): /dev/vdz1: it has no etc/os-release, the pool's source has "
    "to be an AMI or the snapshot of a root disk";
INSTANTIATE_TEST_SUITE_P(
    Table, Layouts,
    testing::Values(
        Layout{"None", "mke2fs -q -t ext4 -E root_owner=0:0 -d $t $image\n",
               "the whole disk (ext4, 96 MiB), the only Linux file system"},
        Layout{"Gpt",
               table("gpt", "start=2048,size=81920\\nstart=83968,size=61440\\nstart=145408\\n") +
                   empty_at(1, 40) + root_at(41, 30),
               "partition 2 (ext4, 30 MiB) of the GPT, the largest of 2 Linux file systems that "
               "holds a system" +
                   kNoSystemIn40},
        Layout{
            "MbrLogical",
            table("dos", "start=2048,size=81920\\nstart=83968,type=5\\nstart=86016,size=61440\\n") +
                empty_at(1, 40) + root_at(42, 30),
            "partition 5 (ext4, 30 MiB) of the MBR, the largest of 2 Linux file systems that "
            "holds a system" +
                kNoSystemIn40},
        Layout{"GptOnlyOne", table("gpt", "start=2048,size=61440\\n") + root_at(1, 30),
               "partition 1 (ext4, 30 MiB) of the GPT, the only Linux file system"}),
    [](const auto& layout) { return std::string(layout.param.name); });

}  // namespace
}  // namespace warmroot::bootstrap
