// A private mount namespace with its own /run, /etc, /var/lib and /dev, and volumes on loop devices
// with file systems made here, for tests of the bootstrap against the real kernel. Nothing of the
// machine outside is touched. Needs root.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/unmount.hpp"
#include "bootstrap/volume_root.hpp"
#include "tests/must_run.hpp"

namespace warmroot::bootstrap {

inline constexpr std::chrono::milliseconds kSetupLimit{60000};

inline Result<std::string> shell(const std::string& script) {
  TRY_ASSIGN(const auto done, run_program({"/bin/sh", "-ec", script}, kSetupLimit));
  if (done.exit_status != 0) return fail(ErrorKind::broken, script + ": " + done.output);
  return done.output.substr(0, done.output.find('\n'));
}

/// This process's own world: afterwards /run, /etc, /var/lib, /dev and an empty /boot are its own
/// and vanish with it.
inline std::string enter_private_world() {
  if (::geteuid() != 0) return "needs root";
  if (::unshare(CLONE_NEWNS) != 0) return "cannot make a mount namespace";
  const auto made = shell(R"(
    mount --make-rprivate /
    work=$(mktemp -d /tmp/warmroot-ns-XXXXXX)
    mount -t tmpfs -o mode=755 tmpfs $work
    mkdir $work/etc $work/dev $work/run $work/state $work/boot
    cp -a /etc/passwd /etc/group /etc/shadow /etc/os-release /etc/ld.so.cache /etc/mke2fs.conf $work/etc/ 2>/dev/null || :
    echo 'nameserver 192.0.2.1' >$work/etc/resolv.conf
    for node in null zero random urandom tty; do cp -a /dev/$node $work/dev/; done
    mknod $work/dev/loop-control c 10 237
    for n in $(seq 0 63); do mknod $work/dev/loop$n b 7 $n; done
    mkdir $work/dev/pts $work/dev/shm $work/run/warmroot $work/vm
    for name in dirty_bytes dirty_ratio; do cat /proc/sys/vm/$name >$work/vm/$name; done
    mount --bind $work/etc /etc
    mount --bind $work/run /run
    mount --bind $work/state /var/lib
    mount --bind $work/dev /dev
    mount --bind $work/boot /boot
    mount --bind $work/vm /proc/sys/vm
    umount $work
    rmdir $work)");
  if (!made) return made.error().message();
  const auto loop = shell("losetup -f");
  return loop ? "" : loop.error().message();
}

/// A small root: dash as sh and bash with its libraries, and accounts.
inline constexpr char kTree[] = R"(
    mkdir -p $t/bin $t/etc $t/root $t/proc $t/sys $t/dev $t/run $t/tmp $t/home/ada/.ssh $t/var $t/usr/lib
    cp /bin/dash $t/bin/sh; cp /bin/dash $t/bin/bash
    for file in $(ldd /bin/dash | grep -o '/[^ )]*'); do mkdir -p $t$(dirname $file); cp -L $file $t$file; done
    echo 'PRETTY_NAME="Test Volume 1"' >$t/etc/os-release
    printf 'root:x:0:0:root:/root:/bin/bash\nada:x:2001:2001::/home/ada:/bin/sh\n' >$t/etc/passwd
    printf 'root:x:0:\nada:x:2001:\n' >$t/etc/group
    echo 'root:*:19000:0:99999:7:::' >$t/etc/shadow
    echo 'ssh-ed25519 AAAA ada@volume' >$t/home/ada/.ssh/authorized_keys
    printf '#!/bin/sh\nwhile :; do :; done\n' >$t/bin/hang
    printf '#!/bin/sh\necho "profile is broken" >&2\nexit 3\n' >$t/bin/angry
    printf '#!/bin/sh\nuntil [ -e /tmp/go ]; do :; done\nexec /bin/sh "$@"\n' >$t/bin/stall
    chmod 755 $t $t/bin/*; chmod 1777 $t/tmp
)";

/// A root's file system, what makes it and what checks it.
struct RootKind {
  const char* filesystem;
  unsigned mib;          ///< of the whole disk that it fills
  const char* make;      ///< of the tree $t, in the file $image
  const char* check;     ///< with its device: fails where anything is wrong with an unmounted one
  const char* programs;  ///< that tests of it take
};
inline constexpr RootKind kExt4Root{"ext4", 128, "mke2fs -q -t ext4 -E root_owner=0:0 -d $t $image",
                                    "e2fsck -fn", "mke2fs e2fsck"};
/// mkfs.xfs makes none below 300 MiB.
inline constexpr RootKind kXfsRoot{
    "xfs", 320,
    "mkfs.xfs -q $image; mkdir $t.mnt; mount -o loop $image $t.mnt; cp -a $t/. $t.mnt/; "
    "umount $t.mnt; rmdir $t.mnt",
    "xfs_repair -n", "mkfs.xfs xfs_repair xfs_logprint"};
/// With one copy of its metadata: a second one could hide what the first has lost.
inline constexpr RootKind kBtrfsRoot{"btrfs", 320,
                                     "mkfs.btrfs -q -m single --rootdir $t $image >/dev/null 2>&1",
                                     "btrfs check", "mkfs.btrfs btrfs"};

class BootNamespace : public testing::Test {
 protected:
  static void SetUpTestSuite() { reason_ = enter_private_world(); }

  void SetUp() override {
    if (!reason_.empty()) {
      if (must_run()) FAIL() << "cannot run: " << reason_;
      GTEST_SKIP() << "SKIPPED, not tested: " << reason_;
    }
    ASSERT_TRUE(make_directory(kRunDirectory, 0755));
    ASSERT_TRUE(make_volume_point());
    ASSERT_TRUE(write_in_place(kResolvConf, "nameserver 192.0.2.1\n"));
  }

  /// Skips the test, or fails it where nothing may be skipped, on a machine without such roots.
  static void need(const RootKind& kind) {
    const std::string type = kind.filesystem;
    const auto has = shell("for each in " + std::string(kind.programs) +
                           "; do command -v $each >/dev/null; done\ngrep -qw " + type +
                           " /proc/filesystems || modprobe " + type);
    if (has) return;
    if (must_run()) FAIL() << "cannot run: " << has.error().message();
    GTEST_SKIP() << "SKIPPED, not tested: no " << type << " here";
  }

  void TearDown() override {
    if (!reason_.empty()) return;
    EXPECT_TRUE(unmount_tree(kVolumePoint));
    if (!loop_.empty()) {
      EXPECT_TRUE(shell("losetup -d " + loop_));
    }
    if (!image_.empty()) ::unlink(image_.c_str());
  }

  /// Makes an ext4 image of the tree after `changes` (with $t as its root) and a loop device of it.
  void make_volume(const std::string& changes = "", bool partitioned = false,
                   const std::string& size = "64M") {
    const auto image = shell(
        "t=$(mktemp -d /tmp/warmroot-tree-XXXXXX)\n" + std::string(kTree) + changes +
        "\nimage=$(mktemp " + images_ + "/warmroot-image-XXXXXX)\ntruncate -s " + size +
        " $image\n" +
        (partitioned ? "mke2fs -q -t ext4 -E offset=1048576,root_owner=0:0 -d $t $image 60000k\n"
                       "echo 'start=2048, type=linux' | sfdisk --quiet --wipe never --label gpt "
                       "$image >/dev/null 2>&1\n"
                     : "mke2fs -q -t ext4 -E root_owner=0:0 -d $t $image\n"
                       "debugfs -w -R \"sif <2> mode 040$(stat -c %a $t)\" $image 2>/dev/null\n") +
        "rm -rf $t\necho $image");
    ASSERT_TRUE(image) << image.error().message();
    image_ = *image;
    const auto loop = shell("losetup -f --show " + image_);
    ASSERT_TRUE(loop) << loop.error().message();
    loop_ = *loop;
  }

  /// Makes a disk of 96 MiB by the script ($t: the tree, $image: the file) and a loop device of it.
  void make_disk(const std::string& script, const std::string& size = "96M") {
    const auto image = shell("t=$(mktemp -d /tmp/warmroot-tree-XXXXXX)\n" + std::string(kTree) +
                             "image=$(mktemp " + images_ + "/warmroot-image-XXXXXX)\ntruncate -s " +
                             size + " $image\n" + script + "\nrm -rf $t\necho $image");
    ASSERT_TRUE(image) << image.error().message();
    image_ = *image;
    const auto loop = shell("losetup -f --show " + image_);
    ASSERT_TRUE(loop) << loop.error().message();
    loop_ = *loop;
  }

  /// The same, filled by a root of that kind after `changes`.
  void make_volume_of(const RootKind& kind, const std::string& changes = "") {
    make_disk(changes + "\n" + kind.make, std::to_string(kind.mib) + "M");
  }

  void mount_volume(const std::string& filesystem = "ext4") {
    const Ok mounted =
        mount_device(loop_, kVolumePoint, filesystem, root_mount_options(filesystem, true));
    ASSERT_TRUE(mounted) << mounted.error().message();
  }

  static Ok perform_plan(MountFacts facts = {}) {
    return perform_all(plan_mounts(facts), kVolumePoint, [](const MountStep& step, const Ok& done) {
      const std::string why = done ? "" : done.error().message();
      EXPECT_TRUE(done || !step.required) << step.name << ": " << why;
    });
  }

  static inline std::string reason_;
  std::string images_ = "/tmp";  ///< the directory in which images are made
  std::string image_, loop_;
};

inline std::string inside(const std::string& path) {
  return std::string(kVolumePoint) + "/" + path;
}

inline User ada(const std::string& with_shell = "/bin/sh") {
  return {"ada", "x", "", "/home/ada", with_shell, 2001, 2001};
}

}  // namespace warmroot::bootstrap
