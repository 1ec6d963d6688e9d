// The script by which `ami import` takes out of an image what makes it one machine: run for real,
// over this system's own root, whose changes go to a tmpfs of the test's.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "bootstrap/files.hpp"
#include "manager/core/importing.hpp"
#include "tests/must_run.hpp"

namespace warmroot {
namespace {

using bootstrap::run_program;

constexpr std::chrono::milliseconds kLimit{60000};

/// A root with this system's programs at $r, in a mount namespace of its own, in which a machine
/// has lived: keys, an id, cloud-init's state, people's histories. `poweroff` says that it was
/// called, and what cloud-init was told; systemd-run is there or not, as `with_systemd` says.
constexpr char kRoom[] = R"room(
  unshare --mount --propagation private sh -ec '
    w=$(mktemp -d); mount -t tmpfs tmpfs $w; mkdir $w/up $w/work $w/r; r=$w/r
    mount -t overlay -o lowerdir=/,upperdir=$w/up,workdir=$w/work overlay $r
    mount -t tmpfs tmpfs $r/run; mount --rbind /dev $r/dev; mount -t proc proc $r/proc
    rm -rf $r/var/lib/cloud $r/etc/ssh $r/home $r/usr/bin/systemd-run
    mkdir -p $r/var/lib/cloud/instances/i-1 $r/etc/ssh $r/home/ada/.ssh $r/root/.ssh \
      $r/var/lib/dbus $r/var/lib/systemd $r/var/log/journal/0123 $r/var/lib/amazon/ssm/i-1 $r/var/lib/dhcp
    for file in etc/ssh/ssh_host_ed25519_key etc/ssh/ssh_host_rsa_key.pub etc/ssh/sshd_config etc/machine-id \
      var/lib/dbus/machine-id var/lib/systemd/random-seed home/ada/.ssh/authorized_keys \
      home/ada/.ssh/known_hosts home/ada/.bash_history root/.ssh/authorized_keys root/.bash_history \
      var/log/cloud-init-output.log var/log/wtmp var/log/journal/0123/system.journal home/ada/data \
      var/lib/cloud/instances/i-1/user-data.txt var/lib/dhcp/dhclient.leases; do echo told >$r/$file; done
    printf "#!/bin/sh\necho cloud-init \$* >>/calls\n" >$r/usr/local/bin/cloud-init
    printf "#!/bin/sh\necho poweroff >>/calls\n" >$r/usr/local/bin/poweroff
    [ $1 = no ] || printf "#!/bin/sh\necho \$1 \$2 >>/calls\nshift 2\nexec \"\$@\"\n" >$r/usr/local/bin/systemd-run
    chmod 755 $r/usr/local/bin/*
    cp "$2" $r/user-data
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin chroot $r sh /user-data
    for i in $(seq 100); do grep -q poweroff $r/calls 2>/dev/null && break; sleep 0.1; done
    cat $r/calls
    cd $r && find etc/ssh etc/machine-id var/lib/cloud var/lib/dbus/machine-id var/lib/systemd/random-seed home root \
      var/log/journal var/log/wtmp var/log/cloud-init-output.log var/lib/amazon/ssm var/lib/dhcp -type f -size +0 2>/dev/null |
      grep -v "^root/[^.]" | grep -E "^(etc|var|home)|root/.(ssh/auth|bash_hist)" |
                         sort
  ' room WITH_SYSTEMD USER_DATA)room";

class ImportClean : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Systemd, ImportClean, testing::Values("yes", "no"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ImportClean, what_makes_it_one_machine_is_gone_before_it_powers_off_and_data_stays) {
  if (::geteuid() != 0) {
    if (must_run()) FAIL() << "cannot run: needs root";
    GTEST_SKIP() << "SKIPPED, not tested: needs root";
  }
  std::string script = testing::TempDir() + "warmroot-import-XXXXXX";
  const int fd = ::mkstemp(script.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  ASSERT_TRUE(bootstrap::write_in_place(script, core::import_user_data()));
  std::string room = kRoom;
  room.replace(room.find("WITH_SYSTEMD"), 12, GetParam());
  room.replace(room.find("USER_DATA"), 9, script);
  const auto done = run_program({"/bin/sh", "-ec", room}, kLimit);
  ::unlink(script.c_str());
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(done->exit_status, 0) << done->output;
  const std::string by_systemd =
      std::string(GetParam()) == "yes" ? "--no-block --unit=warmroot-clean\n" : "";
  EXPECT_EQ(done->output, by_systemd +
                              "cloud-init status --wait\n"
                              "cloud-init clean --logs\n"
                              "poweroff\n"
                              "etc/ssh/sshd_config\n"
                              "home/ada/.ssh/known_hosts\n"
                              "home/ada/data\n");
}

}  // namespace
}  // namespace warmroot
