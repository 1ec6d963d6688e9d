// The bootstrap's mounts, probe logins and search for holders against the real kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/ioctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "bootstrap/base_accounts.hpp"
#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/in_root.hpp"
#include "bootstrap/mount_copies.hpp"
#include "bootstrap/mount_exec.hpp"
#include "bootstrap/paths.hpp"
#include "bootstrap/release.hpp"
#include "bootstrap/session_switch.hpp"
#include "bootstrap/sshd.hpp"
#include "bootstrap/user_keys.hpp"
#include "tests/boot_namespace.hpp"
#include "tests/refuse_call.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_EQ(MountCopies({root.st_dev}).keepers(), "boot_ns_test (" + std::to_string(child) + ")");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(check_device_free(loop_));
}

TEST_F(BootNamespace,
       a_service_that_had_its_own_namespace_before_the_mount_does_not_keep_the_volume) {
  make_volume();
  // As systemd has it: shared on the base, slaves in the namespace of networkd or logind.
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = ::unshare(CLONE_NEWNS) == 0 &&
                        ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0
                    ? 'y'
                    : 'n';
    [[maybe_unused]] const auto put = ::write(ready[1], &byte, 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  for (const char* time : {"first", "second"}) {
    ASSERT_TRUE(renew_mount_group(kRunDirectory)) << time;
    mount_volume();
    ASSERT_TRUE(perform_plan()) << time;
    EXPECT_TRUE(unmount_tree(kVolumePoint)) << time;
    const Ok free = check_device_free(loop_);
    EXPECT_TRUE(free) << time << ": " << (free ? "" : free.error().message());
  }
  EXPECT_EQ(::access("/dev/null", W_OK), 0) << "unmounting took the base's /dev along";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
}

/// Its path leads nowhere, for ten thousand rounds.
TEST_F(BootNamespace, a_mount_whose_parent_was_hidden_by_a_moved_one_is_unmounted_after_that) {
  make_volume();
  mount_volume();
  const auto made = shell("cd " + std::string(kVolumePoint) +
                          "; mkdir -p older parent\n"
                          "mount -t tmpfs older older; mkdir parent/newer\n"
                          "mount -t tmpfs newer parent/newer; mount --move older parent");
  ASSERT_TRUE(made) << made.error().message();
  const Ok done = unmount_tree(kVolumePoint);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_TRUE(mounts_at(kVolumePoint).empty());
}

/// As somebody renames a directory above a mount and leaves a link in its place, but at rest.
TEST_F(BootNamespace, a_link_in_the_path_of_a_mount_does_not_lead_the_unmount_onto_the_base) {
  make_volume();
  mount_volume();
  const std::string base = "/run/base-mounts";
  const auto made = shell("mkdir -p " + base + "/newer; mount -t tmpfs base " + base +
                          "/newer\ncd " + kVolumePoint +
                          "; mkdir -p older parent\n"
                          "mount -t tmpfs older older; ln -s " +
                          base +
                          " older/between; mkdir -p parent/between/newer\n"
                          "mount -t tmpfs newer parent/between/newer; mount --move older parent");
  ASSERT_TRUE(made) << made.error().message();
  const Ok done = unmount_tree(kVolumePoint);
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_TRUE(mounts_at(kVolumePoint).empty());
  EXPECT_THAT(mounts_at(base), ElementsAre(base + "/newer"));
  EXPECT_TRUE(shell("umount " + base + "/newer; rm -r " + base));
}

/// Links of the volume's led into what is bound into it from the base, and files were made there.
TEST_F(BootNamespace, makes_no_file_on_the_base_where_a_link_of_the_volume_leads_there) {
  make_volume();
  mount_volume();
  const std::string base = "/run/base-files";
  ASSERT_TRUE(shell("mkdir -p " + base + "; cd " + kVolumePoint +
                    "; mkdir -p etc bound run; mount --bind " + base +
                    " bound\n"
                    "mount -t tmpfs tmpfs run; mkdir run/in; ln -sf ../bound/new etc/file\n"
                    "ln -sf ../bound/deep/er etc/deep; ln -sf ../run/in/new/file etc/run\n"
                    "ln -sf missing/own etc/own"));
  {
    const auto root = RootDirectory::open(kVolumePoint);
    ASSERT_TRUE(root);
    for (const char* refused : {"etc/file", "etc/deep"}) {
      const Ok made = root->make_file(refused);
      ASSERT_FALSE(made) << refused;
      EXPECT_EQ(made.error().kind, ErrorKind::refused);
    }
    EXPECT_TRUE(list_directory(base).empty());
    for (const char* fine : {"etc/run", "etc/own", "etc/plain", "new/plain"})
      EXPECT_TRUE(root->make_file(fine)) << fine;
  }
  EXPECT_EQ(::access(inside("run/in/new/file").c_str(), F_OK), 0);
  EXPECT_TRUE(unmount_tree(kVolumePoint));
}

TEST_F(BootNamespace, what_the_base_mounts_while_sessions_run_is_still_there_after_the_unmount) {
  make_volume();
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
  ASSERT_TRUE(renew_mount_group(kRunDirectory));
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const auto made = shell(
      "work=$(mktemp -d /tmp/warmroot-later-XXXXXX); mkdir /run/later\n"
      "for place in $work /run/later; do mount -t tmpfs tmpfs $place; touch $place/kept; done\n"
      "echo $work");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(unmount_tree(kVolumePoint));
  EXPECT_EQ(::access((*made + "/kept").c_str(), F_OK), 0);
  EXPECT_EQ(::access("/run/later/kept", F_OK), 0);
  EXPECT_TRUE(check_device_free(loop_));
  EXPECT_TRUE(shell("for place in " + *made + " /run/later; do umount $place; rmdir $place; done"));
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
}

TEST_F(BootNamespace, a_docker_of_the_base_that_starts_later_is_reached_from_the_volume) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const auto connect_to = [](const std::string& path, auto call) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{AF_UNIX, {}};
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return call(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  EXPECT_FALSE(connect_to(inside("run/docker.sock"), ::connect));
  const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{AF_UNIX, "/run/docker.sock"};
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(server.get(), 1), 0);
  EXPECT_TRUE(connect_to(inside("run/docker.sock"), ::connect));
  EXPECT_EQ(::unlink(inside("run/base-run/docker.sock").c_str()), -1) << "people cannot remove it";
  EXPECT_EQ(errno, EROFS);
  ::unlink("/run/docker.sock");
}

TEST_F(BootNamespace, a_file_that_was_written_has_its_name_after_a_power_cut) {
  make_volume();
  mount_volume();
  {
    const auto root = RootDirectory::open(kVolumePoint);
    ASSERT_TRUE(root);
    ASSERT_TRUE(root->make_directories("var/lib/warmroot", 0755));
    ASSERT_TRUE(root->write("var/lib/warmroot/state", "open i-1\n", 0644));
    // Nothing of the journal that is not on the disk yet gets there. Source: fs/ext4/ioctl.c.
    constexpr unsigned long kExt4Shutdown = _IOR('X', 125, std::uint32_t);
    std::uint32_t without_flush = 2;
    const auto top = root->open_inside(".", O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(top);
    ASSERT_EQ(::ioctl(top->get(), kExt4Shutdown, &without_flush), 0) << std::strerror(errno);
  }
  ASSERT_TRUE(unmount_tree(kVolumePoint));
  mount_volume();
  EXPECT_EQ(read_attribute(inside("var/lib/warmroot/state")), "open i-1");
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

TEST_F(BootNamespace, another_volume_at_the_same_path_of_another_mount_namespace_is_not_ours) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(perform_plan());
  struct stat root {};
  ASSERT_EQ(::stat(kVolumePoint, &root), 0);
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool held =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        unmount_tree(kVolumePoint) && ::mount("other", kVolumePoint, "tmpfs", 0, nullptr) == 0 &&
        ::open(inside("file").c_str(), O_CREAT | O_RDWR, 0600) >= 0 && ::chdir(kVolumePoint) == 0;
    [[maybe_unused]] const auto put = ::write(ready[1], held ? "y" : "n", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(holders_text(holders_of(root.st_dev)), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
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

/// user-data's, or a library's: the volume's profiles could read and write them.
TEST_F(BootNamespace, neither_a_probe_login_nor_a_program_inherits_what_was_left_open) {
  make_volume(
      R"(printf '#!/bin/sh\n[ ! -e /proc/$$/fd/57 ]\n' >$t/bin/looks; chmod 755 $t/bin/looks)");
  mount_volume();
  ASSERT_TRUE(perform_plan());
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd left_open(::dup2(null.get(), 57));
  ASSERT_EQ(::fcntl(left_open.get(), F_GETFD), 0);
  const auto look = [&] {
    const Ok login = probe_login(kVolumePoint, ada("/bin/looks"), {2001}, milliseconds(20000));
    EXPECT_TRUE(login) << login.error().message();
    EXPECT_TRUE(shell("[ ! -e /proc/$$/fd/57 ]"));
  };
  look();
  std::thread before_5_11([&] {
    ASSERT_TRUE(refuse_call(SYS_close_range));
    look();
  });
  before_5_11.join();
}

/// Its set-user-ID programs ran for everybody on the base who knew the path.
TEST_F(BootNamespace, a_user_of_the_base_cannot_walk_into_the_volume_and_its_people_log_in) {
  make_volume("chmod 4755 $t/bin/bash");
  ASSERT_EQ(::chmod(kVolumeParent, 0755), 0);
  ASSERT_TRUE(make_volume_point());
  mount_volume();
  ASSERT_TRUE(perform_plan());
  ASSERT_TRUE(point_sessions_at(kVolumePoint));
  const auto as_nobody = [](const std::string& path) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::syscall(SYS_setresuid, 65534, 65534, 65534) != 0) ::_exit(255);
      ::_exit(::access(path.c_str(), R_OK) == 0 ? 0 : errno);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(as_nobody(inside("bin/bash")), EACCES);
  EXPECT_EQ(as_nobody(std::string(kSessionRoot) + "/bin/bash"), EACCES);
  EXPECT_EQ(as_nobody(kResolvConf), 0) << "what is beside it is for everybody";
  const Ok path = check_chroot_path(kSessionRoot);
  EXPECT_TRUE(path) << path.error().message();
  const Ok login = probe_login(kVolumePoint, ada(), {2001}, milliseconds(20000));
  EXPECT_TRUE(login) << login.error().message();
  ASSERT_TRUE(point_sessions_at("/"));
}

TEST_F(BootNamespace, what_is_mounted_in_the_volume_s_place_or_over_it_does_not_serve) {
  make_volume();
  mount_volume();
  ASSERT_TRUE(point_sessions_at(kVolumePoint));
  const auto entry = chroot_entry();
  const dev_t root_device = mounted_root().value_or(0);
  const auto trouble = [&] {
    const Ok works = check_still_serving(*entry, root_device);
    return works ? std::string() : works.error().message();
  };
  EXPECT_EQ(trouble(), "");
  ASSERT_EQ(::mount("other", kVolumePoint, "tmpfs", 0, "mode=0755"), 0);
  EXPECT_THAT(trouble(), HasSubstr("something else is mounted in the volume's place"));
  ASSERT_EQ(::umount(kVolumePoint), 0);
  EXPECT_EQ(trouble(), "") << "it serves again";
  ASSERT_EQ(::umount(kVolumePoint), 0);
  EXPECT_THAT(trouble(), HasSubstr("unmounted"));
  ASSERT_EQ(::mount("other", kVolumePoint, "tmpfs", 0, "mode=0755"), 0);
  EXPECT_THAT(trouble(), HasSubstr("something else is mounted in the volume's place"));
  ASSERT_TRUE(point_sessions_at("/"));
}

/// The daemon leads sessions back beside a release that could not wait for it.
TEST_F(BootNamespace, who_opens_a_volume_that_was_closed_for_its_release_lets_nobody_in) {
  make_volume();
  mount_volume();
  const auto entry = chroot_entry();
  bool is_released = false;
  const EntryInput input{"ssh-ed25519 BBBB launch", [&] { return is_released; }};
  const std::string keys = std::string(kUserKeysDirectory) + "/ada";
  ASSERT_TRUE(entry->prepare(input));
  ASSERT_TRUE(entry->open(input));
  EXPECT_EQ(::access(keys.c_str(), F_OK), 0);
  is_released = true;
  ASSERT_TRUE(entry->close_to(kNowhere));
  EXPECT_FALSE(entry->open(input));
  EXPECT_EQ(link_text(kSessionRoot), kNowhere);
  UserKeys late;
  EXPECT_TRUE(
      late.publish(*RootDirectory::open(kVolumePoint), {ada()}, input.launch_key, input.cancelled));
  EXPECT_NE(::access(keys.c_str(), F_OK), 0) << "the key would open the base";
  EXPECT_TRUE(entry->undo());
  ASSERT_TRUE(point_sessions_at("/"));
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

}  // namespace
}  // namespace warmroot::bootstrap
