// The bootstrap's mounts, logins and way out against the real kernel: in a private mount namespace
// with its own /run, /etc, /var/lib and /dev, on loop devices with file systems made here. Nothing
// of the machine outside is touched. Needs root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/sshd.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr milliseconds kSetupLimit{60000};

Result<std::string> shell(const std::string& script) {
  TRY_ASSIGN(const auto done, run_program({"/bin/sh", "-ec", script}, kSetupLimit));
  if (done.exit_status != 0) return fail(ErrorKind::broken, script + ": " + done.output);
  return done.output.substr(0, done.output.find('\n'));
}

/// This process's own world: afterwards /run, /etc, /var/lib and /dev are copies that vanish with
/// it.
std::string enter_private_world() {
  if (::geteuid() != 0) return "needs root";
  if (::unshare(CLONE_NEWNS) != 0) return "cannot make a mount namespace";
  const auto made = shell(R"(
    mount --make-rprivate /
    work=$(mktemp -d /tmp/warmroot-ns-XXXXXX)
    mount -t tmpfs -o mode=755 tmpfs $work
    mkdir $work/etc $work/dev $work/run $work/state
    cp -a /etc/passwd /etc/group /etc/shadow /etc/os-release /etc/ld.so.cache /etc/mke2fs.conf $work/etc/ 2>/dev/null || :
    echo 'nameserver 192.0.2.1' >$work/etc/resolv.conf
    for node in null zero random urandom tty; do cp -a /dev/$node $work/dev/; done
    mknod $work/dev/loop-control c 10 237
    for n in $(seq 0 63); do mknod $work/dev/loop$n b 7 $n; done
    mkdir $work/dev/pts $work/dev/shm $work/run/warmroot
    mount --bind $work/etc /etc
    mount --bind $work/run /run
    mount --bind $work/state /var/lib
    mount --bind $work/dev /dev
    umount $work
    rmdir $work)");
  if (!made) return made.error().message();
  const auto loop = shell("losetup -f");
  return loop ? "" : loop.error().message();
}

/// A small root: dash as sh and bash with its libraries, and accounts.
constexpr char kTree[] = R"(
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
    chmod 755 $t $t/bin/*; chmod 1777 $t/tmp
)";

class BootNamespace : public testing::Test {
 protected:
  static void SetUpTestSuite() { reason_ = enter_private_world(); }

  void SetUp() override {
    if (!reason_.empty()) {
      const char* must = std::getenv("WARMROOT_MUST_RUN");
      if (must != nullptr && std::string(must) == "1") FAIL() << "cannot run: " << reason_;
      GTEST_SKIP() << "SKIPPED, not tested: " << reason_;
    }
    ASSERT_TRUE(make_directory(kRunDirectory, 0755));
    ASSERT_TRUE(make_directory(kVolumePoint, 0755));
    ASSERT_TRUE(write_in_place(kResolvConf, "nameserver 192.0.2.1\n"));
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
  void make_volume(const std::string& changes = "", bool partitioned = false) {
    const auto image = shell(
        "t=$(mktemp -d /tmp/warmroot-tree-XXXXXX)\n" + std::string(kTree) + changes +
        "\nimage=$(mktemp /tmp/warmroot-image-XXXXXX)\ntruncate -s 64M $image\n" +
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

  void mount_volume() {
    const Ok mounted = mount_device(loop_, kVolumePoint, "ext4", root_mount_options("ext4", true));
    ASSERT_TRUE(mounted) << mounted.error().message();
  }

  static Ok perform_plan(MountFacts facts = {}) {
    return perform_all(plan_mounts(facts), kVolumePoint, [](const MountStep& step, const Ok& done) {
      const std::string why = done ? "" : done.error().message();
      EXPECT_TRUE(done || !step.required) << step.name << ": " << why;
    });
  }

  static std::string reason_;
  std::string image_, loop_;
};

std::string BootNamespace::reason_;

std::string inside(const std::string& path) {
  return std::string(kVolumePoint) + "/" + path;
}

TEST_F(BootNamespace, the_plan_makes_a_volume_fit_for_sessions_and_unmounting_leaves_nothing) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  EXPECT_FALSE(read_attribute(inside("proc/version")).empty());
  EXPECT_EQ(::access(inside("dev/null").c_str(), W_OK), 0);
  EXPECT_EQ(read_attribute(inside("etc/resolv.conf")), "nameserver 192.0.2.1");
  EXPECT_EQ(::open(inside("run/warmroot/new").c_str(), O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, EROFS);
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_EQ(::access("/dev/null", W_OK), 0) << "unmounting took the base's /dev along";
  EXPECT_TRUE(check_device_free(loop_));
}

TEST_F(BootNamespace, links_in_the_volume_cannot_lead_a_mount_onto_the_base) {
  make_volume(
      "rmdir $t/run $t/dev; ln -s /etc $t/run; ln -s ../../../../../var $t/dev\n"
      "ln -s /run/systemd/resolve/stub.conf $t/etc/resolv.conf");
  mount_volume();
  const auto etc_before = mounts_at("/etc").size(), var_before = mounts_at("/var").size();
  ASSERT_TRUE(perform_plan());
  EXPECT_EQ(mounts_at("/etc").size(), etc_before);
  EXPECT_EQ(mounts_at("/var").size(), var_before);
  EXPECT_THAT(mounts_at(inside("etc")), testing::Contains(inside("etc")));
  EXPECT_THAT(mounts_at(inside("var")), testing::Contains(inside("var")));
  EXPECT_EQ(::access("/etc/lock", F_OK), -1) << "a directory of the plan was made on the base";
}

TEST_F(BootNamespace, a_resolv_conf_that_dangles_into_run_is_made_there) {
  make_volume("ln -s ../run/systemd/resolve/stub-resolv.conf $t/etc/resolv.conf");
  mount_volume();
  ASSERT_TRUE(perform_plan());
  EXPECT_EQ(read_attribute(inside("run/systemd/resolve/stub-resolv.conf")), "nameserver 192.0.2.1");
  EXPECT_EQ(::access("/run/systemd/resolve", F_OK), -1) << "the link was followed on the base";
}

TEST_F(BootNamespace, a_failed_step_undoes_the_ones_before_it) {
  make_volume();
  mount_volume();
  auto steps = plan_mounts({});
  MountStep broken = steps.back();
  broken.name = "broken";
  broken.source = "/does/not/exist";
  broken.required = true;
  steps.push_back(broken);
  const Ok done = perform_all(steps, kVolumePoint, [](const MountStep&, const Ok&) {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("broken"));
  EXPECT_THAT(mounts_at(kVolumePoint), ElementsAre(kVolumePoint));
}

TEST_F(BootNamespace, a_device_held_by_another_mount_namespace_is_not_free) {
  make_volume();
  mount_volume();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = ::unshare(CLONE_NEWNS) == 0 ? 'y' : 'n';
    [[maybe_unused]] const auto put = ::write(ready[1], &byte, 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  struct stat root {};
  ASSERT_EQ(::stat(kVolumePoint, &root), 0);
  EXPECT_TRUE(unmount_tree(kVolumePoint)) << "umount itself succeeds: that is the trap";
  const Ok held = check_device_free(loop_);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, "EBUSY");
  const auto keepers = namespaces_holding(root.st_dev);
  ASSERT_EQ(keepers.size(), 1u);
  EXPECT_EQ(keepers[0].pid, child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(check_device_free(loop_));
}

User ada(const std::string& with_shell = "/bin/sh") {
  return {"ada", "x", "", "/home/ada", with_shell, 2001, 2001};
}

TEST_F(BootNamespace, a_device_node_in_the_volume_opens_nothing) {
  make_volume("mknod $t/etc/shadow-disk c 1 3; mkfifo $t/etc/pipe");
  mount_volume();
  EXPECT_EQ(::open(inside("etc/shadow-disk").c_str(), O_RDONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EACCES);
  const auto root = RootDirectory::open(kVolumePoint);
  ASSERT_TRUE(root);
  for (const char* name : {"etc/shadow-disk", "etc/pipe"}) {
    const auto text = root->read(name, 4096);
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().message(), HasSubstr("is no regular file"));
  }
}

TEST_F(BootNamespace, who_holds_the_volume_is_found_by_an_open_file_a_directory_or_a_root_alone) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  struct stat root {};
  ASSERT_EQ(::stat(kVolumePoint, &root), 0);
  EXPECT_THAT(holders_of(root.st_dev), IsEmpty());
  const auto hold = [&](const char* how) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return std::size_t{0};
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string kind = how, file = inside("etc/os-release"), run = inside("run/lock");
      bool held = false;
      if (kind == "file") held = ::open(file.c_str(), O_RDONLY) >= 0;
      if (kind == "deleted") held = ::open(inside("etc").c_str(), O_TMPFILE | O_RDWR, 0600) >= 0;
      if (kind == "tmpfs") held = ::open(run.c_str(), O_RDONLY) >= 0;
      if (kind == "directory") held = ::chdir(kVolumePoint) == 0;
      if (kind == "root") held = ::chroot(kVolumePoint) == 0;
      [[maybe_unused]] const auto put = ::write(ready[1], held ? "y" : "n", 1);
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y') << how;
    const auto holders = holders_of(root.st_dev);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    return static_cast<std::size_t>(
        std::count_if(holders.begin(), holders.end(), [&](auto& h) { return h.pid == child; }));
  };
  for (const char* how : {"file", "deleted", "tmpfs", "directory", "root"})
    EXPECT_EQ(hold(how), 1u) << how;
  EXPECT_THAT(holders_of(root.st_dev), IsEmpty());
}

TEST_F(BootNamespace, a_probe_login_succeeds_where_a_session_would) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const Ok done = probe_login(kVolumePoint, ada(), {2001, 3000}, milliseconds(20000));
  EXPECT_TRUE(done) << done.error().message();
}

TEST_F(BootNamespace, a_probe_login_says_what_would_go_wrong) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const auto message = [](const User& user) {
    const Ok done = probe_login(kVolumePoint, user, {2001}, milliseconds(2000));
    return done ? std::string("it worked") : done.error().message();
  };
  EXPECT_THAT(message(ada("/bin/zsh")), HasSubstr("starting the shell: No such file"));
  EXPECT_THAT(message(ada("/bin/angry")), HasSubstr("profile is broken"));
  EXPECT_THAT(message(ada("/bin/hang")), HasSubstr("longer than 2 s"));
  EXPECT_THAT(holders_of([] {
                struct stat root {};
                ::stat(kVolumePoint, &root);
                return root.st_dev;
              }()),
              IsEmpty());
}

TEST_F(BootNamespace, a_root_that_others_can_write_is_refused_as_sshd_would) {
  make_volume("chmod 775 $t");
  mount_volume();
  const Ok checked = check_chroot_path(kVolumePoint);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message(), HasSubstr("can be written by others"));
}

TEST_F(BootNamespace, the_table_is_read_and_the_partition_added_where_the_kernel_has_not) {
  make_volume("", true);
  const UniqueFd disk(::open(loop_.c_str(), O_RDONLY | O_CLOEXEC));
  const auto partitions = read_partitions(disk.get());
  ASSERT_TRUE(partitions);
  ASSERT_EQ(partitions->size(), 1u);
  EXPECT_EQ(partitions->at(0).content, "ext4");
  EXPECT_EQ(partitions->at(0).offset_bytes, 1u << 20);
  const auto state = read_ext_state(disk.get(), partitions->at(0).offset_bytes);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->cleanly_unmounted);
}

/// The loop device dressed as /dev/vdz with the serial of a volume, by a /sys/block of our own.
class BootWhole : public BootNamespace {
 protected:
  void dress_as_disk() {
    struct stat node {};
    ASSERT_EQ(::stat(loop_.c_str(), &node), 0);
    const std::string numbers =
        std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev));
    ASSERT_TRUE(
        shell("mkdir -p /run/block/vdz/queue; echo 131072 >/run/block/vdz/size; echo vol0abc "
              ">/run/block/vdz/serial; echo " +
              numbers +
              " >/run/block/vdz/dev; "
              "rm -f /dev/vdz; cp -a " +
              loop_ + " /dev/vdz; mount --bind /run/block /sys/block"));
    input_.launch.instance_id = "i-1";
    input_.launch.public_key = "ssh-ed25519 BBBB launch";
    input_.pool = "test";
    input_.confirmed_volume = [] { return std::optional<std::string>(); };
    input_.enter_stage = [this](Stage stage, const std::string&) {
      stages_.emplace_back(to_string(stage));
    };
    ASSERT_TRUE(point_sessions_at("/"));
    passwd_ = *read_file("/etc/passwd", 1 << 20);
  }
  void TearDown() override {
    if (reason_.empty()) ::umount("/sys/block");
    BootNamespace::TearDown();
  }
  std::string session_os() {
    return pretty_name(
        read_file(std::string(kSessionRoot) + "/etc/os-release", 65536).value_or(""));
  }

  BringUpInput input_;
  Assignment assignment_;
  StatusBook book_{""};
  StopRequest stop_;
  std::vector<std::string> stages_;
  std::string passwd_;
};

TEST_F(BootWhole, sessions_move_into_the_volume_and_back_and_the_device_ends_free) {
  make_volume();
  dress_as_disk();
  EXPECT_NE(session_os(), "Test Volume 1");
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_THAT(stages_, ElementsAre("disk_seen", "checked", "mounted"));
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
  const ReleaseInput leaving{"test", "i-1", "a test ends", [&] { return stopped = true; }};
  const Ok released = release(leaving, assignment_, book_);
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

TEST_F(BootWhole, a_key_file_that_links_to_somebody_else_s_secret_is_not_published) {
  make_volume("chmod 600 $t/etc/shadow; ln -sf /etc/shadow $t/home/ada/.ssh/authorized_keys");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(*read_file(std::string(kUserKeysDirectory) + "/ada", 65536),
            "ssh-ed25519 BBBB launch\n");
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
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

TEST_F(BootWhole, a_mark_that_cannot_be_written_keeps_nobody_from_mounting_or_unmounting) {
  make_volume("mkdir -p $t/var/lib; touch $t/var/lib/warmroot");
  dress_as_disk();
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  // A banner that cannot be replaced is no reason to keep the volume either.
  ASSERT_TRUE(shell("rm -f /run/warmroot/banner; mkdir -p /run/warmroot/banner/in-the-way"));
  const ReleaseInput leaving{"test", "i-1", "a test ends", [] { return false; }};
  const Ok released = release(leaving, assignment_, book_);
  EXPECT_TRUE(shell("rm -r /run/warmroot/banner"));
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));
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
  const ReleaseInput leaving{"test", "i-1", "a test ends", [&] {
                               found = ::access(keys.c_str(), F_OK);
                               return true;
                             }};
  const Ok released = release(leaving, assignment_, book_);
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
    const Ok works = check_still_serving(assignment_.disk_node);
    return works ? std::string() : works.error().message();
  };
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(::chmod(kVolumePoint, 0777), 0);
  EXPECT_THAT(trouble(), HasSubstr("can be written by others than root"));
  ASSERT_EQ(::chmod(kVolumePoint, 0755), 0);
  ASSERT_TRUE(shell("mv /run/block/vdz /run/block/.away"));
  EXPECT_THAT(trouble(), HasSubstr("the volume's disk vdz is gone"));
  ASSERT_TRUE(shell("mv /run/block/.away /run/block/vdz"));
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  EXPECT_THAT(trouble(), HasSubstr("unmounted"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

TEST_F(BootWhole, nothing_is_written_to_a_foreign_disk_that_was_not_left_clean) {
  make_volume("rm -rf $t/etc");
  ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync"));
  dress_as_disk();
  const auto before = shell("sha256sum <" + loop_);
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("it has no etc/os-release"));
  EXPECT_EQ(*shell("sync; sha256sum <" + loop_), *before);
}

TEST_F(BootWhole, a_root_that_was_not_left_clean_is_repaired_with_and_without_the_manager_s_word) {
  for (const char* word : {"vol-0abc", ""}) {
    SCOPED_TRACE(word);
    make_volume();
    ASSERT_TRUE(shell("debugfs -w -R 'ssv state 0' " + loop_ + " 2>/dev/null; sync"));
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
  std::string detail;
  for (const auto& step : book_.snapshot().steps)
    if (step.name == "probe login") detail = step.detail;
  EXPECT_THAT(detail, testing::StartsWith("root"));
  EXPECT_THAT(detail, HasSubstr("the probe login of ada: /bin/angry failed: profile is broken"));
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
