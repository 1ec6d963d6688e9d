// The entry `nspawn` against real programs: Debian's systemd and sshd boot as the volume of a base
// without systemd, in a hierarchy of control groups of this test's.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {

/// The machine's systemd and D-Bus in the tree $t, with what their programs are linked to, and a
/// service of the volume's.
inline constexpr char kWithSystemd[] = R"(
    while read -r file; do
      case $file in *catalog*|/usr/share/doc/*|/usr/share/man/*|/usr/share/locale/*) continue ;; esac
      [ -d $file ] || [ ! -e $file ] || echo $file
    done </run/system-files >$t/needed
    printf '/bin/%s\n' cat sleep kill mkdir mount umount >>$t/needed
    echo /usr/bin/id >>$t/needed
    for program in $(grep -E '/(systemd|systemd-(journald|sysusers|tmpfiles|logind|user-sessions)|systemctl|dbus-daemon|mount|id)$' $t/needed | grep -v /share/) $(grep libsystemd-shared $t/needed); do
      ldd $program 2>/dev/null | grep -o '/[^ )]*' || :
    done | sort -u >$t/libraries
    tar -C / -cf - --no-recursion -h -T $t/libraries 2>/dev/null | tar -C $t -xf - --skip-old-files
    tar -C / -cf - --no-recursion -T $t/needed 2>/dev/null | tar -C $t -xf - --skip-old-files
    rm $t/libraries
    rm $t/needed
    echo 'messagebus:x:106:107::/nonexistent:/usr/sbin/nologin' >>$t/etc/passwd
    echo 'messagebus:x:107:' >>$t/etc/group
    printf 'ID=test\nPRETTY_NAME="Test Volume 1"\n' >$t/etc/os-release
    echo a-volume >$t/etc/hostname
    ln -s ../run/systemd/resolve/stub-resolv.conf $t/etc/resolv.conf
    mkdir -p $t/etc/systemd/system/multi-user.target.wants
    printf '[Service]\nExecStart=/bin/sh -c "echo served >/root/served; exec sleep 100000"\n' >$t/etc/systemd/system/work.service
    ln -s ../work.service $t/etc/systemd/system/multi-user.target.wants/work.service
)";

class NspawnTest : public VolumeSshdTest {
 protected:
  static void SetUpTestSuite() {
    // The packages' database is out of sight in the private world.
    const auto files =
        run_program({"/usr/bin/dpkg", "-L", "systemd", "dbus", "dbus-bin", "dbus-daemon",
                     "dbus-system-bus-common", "dbus-session-bus-common"},
                    kSetupLimit);
    VolumeSshdTest::SetUpTestSuite();
    if (!files || files->exit_status != 0) reason_ = "no systemd and D-Bus, run tests/deps.sh";
    if (!reason_.empty()) return;
    ASSERT_TRUE(write_file_atomic("/run/system-files", files->output, 0644));
    const auto made = shell(R"(
      [ -x /usr/bin/systemd-nspawn ] || { echo "no systemd-nspawn, run tests/deps.sh"; exit 1; }
      mount -t cgroup2 cgroup2 /sys/fs/cgroup
      mkdir /sys/fs/cgroup/warmroot-nspawn-test-$PPID)");
    if (!made) {
      reason_ = made.error().message();
      return;
    }
    group_ = "/sys/fs/cgroup/warmroot-nspawn-test-" + std::to_string(::getpid());
    enter(group_);
  }

  static void TearDownTestSuite() {
    if (group_.empty()) return;
    enter("/sys/fs/cgroup");
    EXPECT_TRUE(shell("find " + group_ + " -depth -type d -exec rmdir {} +"));
  }

  void make_system() {
    ASSERT_NO_FATAL_FAILURE(make_volume_with_sshd(kWithSystemd, "192M"));
    input_.entry = EntryKind::nspawn;
    ASSERT_TRUE(shell("echo \"127.0.0.1 $(cut -d' ' -f1,2 /run/keys/volume.pub)\" >/run/known"));
  }

  void bring_up_booted() {
    const Ok done = bring_up(input_, assignment_, book_, stop_);
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_THAT(book_.snapshot().entry, testing::StartsWith("nspawn: the volume's sshd (process "))
        << shell(std::string("tail -n 5 ") + kOwnSshdLog + " | tr '\n' '|'").value_or("");
  }

  pid_t init() const {
    const std::string text = book_.snapshot().entry;
    const std::string before = "init (process ";
    return std::stoi(text.substr(text.find(before) + before.size()));
  }

  static std::string said(const std::string& command) {
    const auto answer = shell(client(command));
    return answer ? *answer : answer.error().message();
  }

 private:
  static void enter(const std::string& group) {
    ASSERT_TRUE(write_in_place(group + "/cgroup.procs", std::to_string(::getpid())));
  }
  static inline std::string group_;
};

}  // namespace warmroot::bootstrap
