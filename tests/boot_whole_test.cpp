// The whole way in and out of the bootstrap against the real kernel: bring-up, refusals, repair,
// stops.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/device_io.hpp"
#include "bootstrap/documents.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/sshd.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(BootWhole, sessions_move_into_the_volume_and_back_and_the_device_ends_free) {
  make_volume();
  dress_as_disk();
  EXPECT_NE(session_os(), "Test Volume 1");
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "checked", "mounted", "ready"));
  EXPECT_THAT(*read_file("/etc/passwd", 1 << 20),
              HasSubstr("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_EQ(*read_file(std::string(kUserKeysDirectory) + "/ada", 65536),
            "ssh-ed25519 AAAA ada@volume\nssh-ed25519 BBBB launch\n");
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");

  int inside_now[2];
  ASSERT_EQ(::pipe(inside_now), 0);
  const pid_t session = ::fork();
  if (session == 0) {
    if (::chroot(kSessionRoot) != 0 || ::chdir("/") != 0) ::_exit(1);
    [[maybe_unused]] const auto put = ::write(inside_now[1], "y", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(inside_now[0], &byte, 1), 1);
  bool stopped = false;
  ReleaseInput input = leaving();
  input.stop_own_users = [&](Milliseconds) { return stopped = true; };
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_TRUE(stopped);
  int status = 0;
  ASSERT_EQ(::waitpid(session, &status, 0), session);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(session_os(), "Test Volume 1");
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
  EXPECT_EQ(::access(kAccountRecord, F_OK), -1);
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  mount_volume();
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
}

/// They were copied once: a key that somebody had taken out of their file opened the node until the
/// lease ended.
TEST_F(BootWhole, keys_that_people_add_and_take_away_in_a_session_count_at_once) {
  make_volume();
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string keys = std::string(kUserKeysDirectory) + "/ada";
  const std::string file = inside("home/ada/.ssh/authorized_keys");
  ASSERT_TRUE(shell("echo ssh-ed25519 CCCC new >>" + file));
  assignment_.entry->follow_people({});
  EXPECT_THAT(*read_file(keys, 65536),
              AllOf(HasSubstr("AAAA ada@volume\n"), HasSubstr("CCCC new")));
  // As editors and ssh-copy-id do it, with another file of the same length.
  ASSERT_TRUE(shell("sed s/CCCC/DDDD/ " + file + " >" + file + ".new; chown --reference=" + file +
                    " " + file + ".new; mv " + file + ".new " + file));
  assignment_.entry->follow_people({});
  EXPECT_THAT(*read_file(keys, 65536),
              AllOf(HasSubstr("DDDD new"), testing::Not(HasSubstr("CCCC"))));
  ASSERT_TRUE(shell("rm " + file));
  assignment_.entry->follow_people({});
  EXPECT_EQ(*read_file(keys, 65536), "ssh-ed25519 BBBB launch\n");
  // What root may read and they may not is not shown to them.
  for (const char* secret : {"/proc/1/maps", "/etc/shadow", "/etc/secret"}) {
    ASSERT_TRUE(shell("echo root:x >" + inside("etc/shadow") + "; echo me >" +
                      inside("etc/secret") + "; chmod 600 " + inside("etc/shadow") + " " +
                      inside("etc/secret") + "; ln -sf " + secret + " " + file));
    assignment_.entry->follow_people({});
    EXPECT_EQ(*read_file(keys, 65536), "ssh-ed25519 BBBB launch\n") << secret;
  }
  ASSERT_TRUE(shell("rm " + file));
  ASSERT_TRUE(assignment_.entry->close());
  ASSERT_TRUE(shell("echo ssh-ed25519 EEEE >" + file));
  assignment_.entry->follow_people({});
  EXPECT_EQ(::access(keys.c_str(), F_OK), -1) << "it would open the base";
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

/// Another person of the volume's could add a key, or put one of root's files in its place.
TEST_F(BootWhole, keys_that_others_than_their_owner_can_write_count_only_when_that_has_ended) {
  make_volume("mkdir $t/srv; echo lab:x:2500:ada >>$t/etc/group");
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const auto keys = [&] {
    assignment_.entry->follow_people({});
    return *read_file(std::string(kUserKeysDirectory) + "/ada", 65536);
  };
  const std::string launch = "ssh-ed25519 BBBB launch\n";
  const std::string both = "ssh-ed25519 AAAA ada@volume\n" + launch;
  ASSERT_EQ(keys(), both);
  for (const char* part : {"ada/.ssh/authorized_keys", "ada/.ssh", "ada"})
    for (const char* change : {"chgrp 2500", "chmod o+w", "chown 2002"}) {
      const auto in_home = [&](const std::string& how) {
        return shell(how + " " + inside("home/") + part).has_value();
      };
      SCOPED_TRACE(std::string(change) + " " + part);
      ASSERT_TRUE(in_home("chgrp 2001") && in_home("chmod g+w"));
      EXPECT_EQ(keys(), both) << "a group that ada is alone in";
      ASSERT_TRUE(in_home(change));
      EXPECT_EQ(keys(), launch);
      ASSERT_TRUE(in_home("chmod go-w") && in_home("chown 2001"));
      EXPECT_EQ(keys(), both);
    }
  const std::string touch = "; touch " + inside("home/ada/.ssh/authorized_keys");
  ASSERT_TRUE(shell("chmod 777 " + inside("home") + touch));
  EXPECT_EQ(keys(), both) << "above the home, as with sshd";
  ASSERT_TRUE(shell("cd " + inside("home/ada") +
                    "; mv .ssh ../../srv/keys; ln -s /srv/keys .ssh"
                    "; touch ../../srv/keys/authorized_keys"));
  EXPECT_EQ(keys(), both);
  ASSERT_TRUE(shell("cd " + inside("srv") + "; chmod 777 .; touch keys/authorized_keys"));
  EXPECT_EQ(keys(), launch) << "another could rename the directory that a link leads to";
  EXPECT_TRUE(release(leaving(), assignment_, book_));
}

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

TEST_F(BootWhole, a_mark_that_cannot_be_written_keeps_nobody_from_mounting_or_unmounting) {
  make_volume("mkdir -p $t/var/lib; touch $t/var/lib/warmroot");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  // A banner that cannot be replaced is no reason to keep the volume either.
  ASSERT_TRUE(shell("rm -f /run/warmroot/banner; mkdir -p /run/warmroot/banner/in-the-way"));
  ReleaseInput input = leaving();
  input.stop_own_users = [](Milliseconds) { return false; };
  const Ok released = release(input, assignment_, book_);
  EXPECT_TRUE(shell("rm -r /run/warmroot/banner"));
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
  EXPECT_EQ(link_text(kSessionRoot), "/") << "nobody is refused for it";
  std::vector<std::string> troubles;
  for (const auto& step : book_.snapshot().steps)
    if (step.outcome == Outcome::failed) troubles.push_back(step.name);
  EXPECT_THAT(troubles,
              ElementsAre("mark as in use", "show the banner", "stop warming", "mark clean"));
}

TEST_F(BootWhole, the_volume_s_keys_open_nothing_while_sessions_land_on_the_base) {
  // root's shell is run by every probe: it fails when it finds keys that came too early.
  make_volume(R"(printf '#!/bin/sh\n[ ! -e /run/warmroot/keys/ada ]\n' >$t/bin/bash)");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const std::string keys = std::string(kUserKeysDirectory) + "/ada";
  EXPECT_EQ(::access(keys.c_str(), F_OK), 0);
  int found = 0;
  ReleaseInput input = leaving();
  input.stop_own_users = [&](Milliseconds) {
    found = ::access(keys.c_str(), F_OK);
    return true;
  };
  const Ok released = release(input, assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(found, -1) << "sessions landed on the base with the volume's keys";
}

TEST_F(BootWhole, the_lines_of_a_boot_that_lost_its_power_are_taken_away_by_the_next) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  ASSERT_NE(*read_file("/etc/passwd", 1 << 20), passwd_);
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  ASSERT_TRUE(shell("find /run/warmroot -type f -delete"));  // what a reboot leaves of it
  EXPECT_TRUE(remove_imported_accounts(recorded_accounts()));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

TEST_F(BootWhole, a_session_root_that_sshd_refuses_or_a_disk_that_is_gone_is_noticed_after_ready) {
  make_volume();
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  const auto trouble = [&] {
    const Ok works = check_still_serving(*assignment_.entry, assignment_.root_device);
    return works ? std::string() : works.error().message();
  };
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(::chmod(kVolumePoint, 0777), 0);
  EXPECT_THAT(trouble(), HasSubstr("can be written by others than root"));
  ASSERT_EQ(::chmod(kVolumePoint, 0755), 0);
  const auto has_gone = [&] {
    return disk_has_gone("/sys", assignment_.disk, [] { return false; });
  };
  EXPECT_FALSE(has_gone());
  ASSERT_TRUE(shell("mv /run/block/vdz /run/block/.away"));
  EXPECT_TRUE(has_gone());
  ASSERT_TRUE(shell("mv /run/block/.away /run/block/vdz"));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  EXPECT_THAT(trouble(), HasSubstr("unmounted"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole,
       whom_the_uid_of_somebody_on_the_base_keeps_out_status_names_with_what_would_help) {
  ASSERT_TRUE(shell("echo 'owner:x:2077:2077::/root:/bin/sh' >>/etc/passwd"));
  make_volume("echo 'ubuntu:x:2077:2077::/home/ubuntu:/bin/sh' >>$t/etc/passwd");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_THAT(book_.snapshot().remarks,
              testing::Contains(AllOf(HasSubstr("ubuntu has uid 2077, which is owner on the base"),
                                      HasSubstr("with session.entry = \"sshd\""))));
  EXPECT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_TRUE(shell("sed -i '/^owner:/d' /etc/passwd"));
}

TEST_F(BootWhole, an_sshd_that_ran_before_has_no_rescue_port_and_that_is_told) {
  make_volume();
  dress_as_disk();
  const auto remarks_on_it = [&](bool late, unsigned port) {
    input_.sshd_is_late = late;
    input_.rescue_port = port;
    Assignment assignment;
    const Ok done = bring_up(input_, assignment, book_, stop_);
    EXPECT_TRUE(done) << done.error().message();
    const auto remarks = book_.snapshot().remarks;
    EXPECT_TRUE(undo_bring_up(assignment));
    return std::count_if(remarks.begin(), remarks.end(), [](const auto& remark) {
      return remark.find("the rescue port 2222 is closed until it is restarted") != remark.npos;
    });
  };
  EXPECT_EQ(remarks_on_it(true, 2222), 1);
  EXPECT_EQ(remarks_on_it(true, 0), 0);
  EXPECT_EQ(remarks_on_it(false, 2222), 0);
}

TEST_F(BootWhole, nothing_is_written_to_a_foreign_disk_that_was_not_left_clean) {
  make_volume("rm -rf $t/etc");
  ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync " + loop_));
  dress_as_disk();
  const auto before = shell("sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("it has no etc/os-release"));
  EXPECT_EQ(shell("sync " + loop_ + "; sha256sum <" + loop_).value_or(""), before.value_or("-"));
}

TEST_F(BootWhole, nothing_is_written_to_a_foreign_disk_that_was_left_clean) {
  make_volume("rm -rf $t/etc");
  dress_as_disk();
  const auto before = shell("sync " + loop_ + "; sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("it has no etc/os-release"));
  EXPECT_EQ(shell("sync " + loop_ + "; sha256sum <" + loop_).value_or(""), before.value_or("-"));
}

TEST_F(BootWhole, sessions_are_open_before_the_logins_of_others_are_tried) {
  make_volume();
  dress_as_disk();
  std::size_t steps_when_ready = 0;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) steps_when_ready = book_.snapshot().steps.size();
  };
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const auto steps = book_.snapshot().steps;
  ASSERT_GT(steps.size(), steps_when_ready);
  EXPECT_EQ(steps.at(steps_when_ready - 1).name, "switch sessions");
  EXPECT_EQ(steps.back().name, "probe logins of others");
  EXPECT_THAT(steps.back().detail, HasSubstr("ada"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, a_root_that_was_not_left_clean_is_repaired_with_and_without_the_manager_s_word) {
  for (const char* word : {"vol-0abc", ""}) {
    SCOPED_TRACE(word);
    make_volume();
    ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync " + loop_));
    dress_as_disk();
    const std::string volume = word;
    input_.confirmed_volume = [volume] {
      return volume.empty() ? std::nullopt : std::optional<std::string>(volume);
    };
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(session_os(), "Test Volume 1");
    ASSERT_TRUE(undo_bring_up(assignment_));
    if (volume.empty()) break;
    ::umount("/sys/block");
    ASSERT_TRUE(shell("losetup -d " + loop_));
    ::unlink(image_.c_str());
  }
  int looks = 0;
  for (const auto& step : book_.snapshot().steps) looks += step.name == "look without writing";
  EXPECT_EQ(looks, 1);
}

TEST_F(BootWhole, the_only_disk_waits_for_the_manager_s_word_and_goes_on_without_at_the_limit) {
  make_volume();
  dress_as_disk();
  input_.confirmation_limit = milliseconds(1500);
  int asked = 0;
  input_.confirmed_volume = [&]() -> std::optional<std::string> {
    return ++asked < 10 ? std::nullopt : std::optional<std::string>("vol-0abc");
  };
  std::int64_t started = boottime_ms();
  Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_LT(boottime_ms() - started, 1400) << "the word came early";
  ASSERT_TRUE(undo_bring_up(assignment_));

  input_.confirmed_volume = [] { return std::optional<std::string>(); };
  started = boottime_ms();
  done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_GE(boottime_ms() - started, 1500);
  ASSERT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, one_user_s_bad_profile_keeps_nobody_else_out) {
  make_volume("sed -i 's,/home/ada:/bin/sh,/home/ada:/bin/angry,' $t/etc/passwd");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  std::map<std::string, std::string> details;
  for (const auto& step : book_.snapshot().steps) details[step.name] = step.detail;
  EXPECT_EQ(details["probe login"], "root");
  EXPECT_THAT(details["probe logins of others"],
              HasSubstr("the probe login of ada: /bin/angry failed: profile is broken"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, a_stop_during_a_probe_that_hangs_is_heard) {
  make_volume("cp $t/bin/hang $t/bin/bash");
  dress_as_disk();
  std::thread notice([this] {
    std::this_thread::sleep_for(milliseconds(1500));
    stop_.request({"spot-notice", "EC2 takes this spot instance back"});
  });
  const std::int64_t started = boottime_ms();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  notice.join();
  ASSERT_FALSE(done);
  EXPECT_LT(boottime_ms() - started, 10000);
  EXPECT_THAT(done.error().message(), HasSubstr("EC2 takes this spot instance back"));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
}

TEST_F(BootWhole, a_stop_while_waiting_for_the_disk_ends_the_wait) {
  make_volume();
  dress_as_disk();
  ASSERT_TRUE(write_in_place("/run/block/vdz/serial", "QM0001\n"));
  stop_.request({"operator", "the operator asked for it"});
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("the operator asked for it"));
}

}  // namespace
}  // namespace warmroot::bootstrap
