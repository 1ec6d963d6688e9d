// A volume that is hostile to the entry `sshd`: its own sshd, which reads what it likes, runs in
// its root, and people get in by it or by the base's.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/hostile_kinds.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kOwn[] = "sshd: the volume's own";
constexpr char kInstead[] = "chroot: the base's sshd instead of sshd: ";
/// As in Debian's image. The same for all tests: the volume is made once.
constexpr char kMore[] = R"(
    sed -i '1i Include /etc/ssh/sshd_config.d/*.conf' $t/etc/ssh/sshd_config
    mkdir -p $t/etc/ssh/sshd_config.d $t/etc/default
)";

class SshdHostile : public HostileVolume<VolumeSshdTest>,
                    public testing::WithParamInterface<HostileKind> {
 protected:
  static void SetUpTestSuite() {
    static bool done = false;
    if (std::exchange(done, true)) return;  // its tests with kinds and those without are two suites
    VolumeSshdTest::SetUpTestSuite();
    if (!reason_.empty()) return;
    const auto made = shell(R"sh(
      echo 'keeper:x:3001:3001::/run/keeper:/bin/sh' >>/etc/passwd
      mkdir -p /run/keeper/.ssh; cp /run/keys/own.pub /run/keeper/.ssh/authorized_keys
      chown -R 3001:3001 /run/keeper
      echo "127.0.0.1 $(cut -d' ' -f1,2 /run/keys/volume.pub)" >/run/known)sh");
    if (!made) reason_ = made.error().message();
  }

  /// Of a person whom only the base knows.
  static std::string base_login() {
    return shell(
               "ssh -F none -p 22 -i /run/keys/own -o BatchMode=yes -o StrictHostKeyChecking=no "
               "-o UserKnownHostsFile=/dev/null keeper@127.0.0.1 'echo in $HOME' 2>/dev/null")
        .value_or("no");
  }
  /// By the volume's own sshd, or else on the base.
  static void expect_login(const Status& status) {
    if (status.entry.starts_with(kOwn)) {
      EXPECT_EQ(shell(client("echo in") + " 2>/dev/null").value_or("no"), "in");
      return;
    }
    EXPECT_EQ(base_login(), "in /run/keeper") << status.entry;
    if (status.entry.empty()) return;  // nobody serves
    EXPECT_THAT(status.entry, StartsWith(kInstead));
    EXPECT_EQ(status.entry, without_controls(status.entry));
  }

  /// Of the last bring-up.
  std::string entry_;
  const std::function<void(const Status&)> look_ = [this](const Status& status) {
    entry_ = status.entry;
    expect_login(status);
  };
};

/// It was waited for a minute and a half, or let people in and kept each of them waiting.
TEST_F(SshdHostile, a_pipe_where_its_sshd_reads_keeps_nobody_waiting) {
  make_volume_with_sshd(kMore);
  for (const char* place :
       {"etc/passwd", "etc/group", "etc/shadow", "etc/nsswitch.conf", "etc/hosts.allow",
        "etc/hosts.deny", "etc/nologin", "etc/ssh/sshd_config", "etc/ssh/sshd_config.d/9.conf",
        "etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_rsa_key.pub"}) {
    SCOPED_TRACE(place);
    put_in_place(place, {"pipe", "mkfifo $p"});
    EXPECT_TRUE(comes_up(look_));
    EXPECT_EQ(entry_, std::string(kInstead) + "/" + place + " in the volume is no regular file");
    put_back(place);
  }
  change_volume("mkfifo etc/ssh/other; echo 'SSHD_OPTS=\"-f /etc/ssh/other\"' >etc/default/ssh");
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, HasSubstr(": /etc/ssh/other in the volume is no regular file"));
}

/// Up to 256 KiB of it were in `status`.
TEST_F(SshdHostile, what_its_sshd_says_against_its_configuration_is_a_sentence_however_long_it_is) {
  make_volume_with_sshd(kMore);
  change_volume(R"sh(
      mv usr/sbin/sshd usr/sbin/sshd.was
      cat >usr/sbin/sshd <<'end'
#!/bin/sh
s=x; while [ ${#s} -lt 131072 ]; do s=$s$s; done
printf '\033]0;no\007 %s' "$s"; exit 1
end
      chmod 755 usr/sbin/sshd)sh");
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, StartsWith(std::string(kInstead) + "the volume's own sshd rejects its "
                                                         "configuration:  ]0;no  xxx"));
  EXPECT_LT(entry_.size(), 600u);
}

}  // namespace
}  // namespace warmroot::bootstrap
