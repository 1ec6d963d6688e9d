// A volume that is hostile to the entry `sshd`: its own sshd, which reads what it likes, runs in
// its root, and people get in by it or by the base's.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "tests/hostile_kinds.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kOwn[] = "sshd: the volume's own";
constexpr char kInstead[] = "chroot: the base's sshd instead of sshd: ";
/// As in Debian's image. The same for all tests: the volume is made once.
constexpr char kMore[] = R"(
    sed -i '1i Include /etc/ssh/sshd_config.d/*.conf' $t/etc/ssh/sshd_config
    mkdir -p $t/etc/ssh/sshd_config.d $t/etc/default
)";

/// What the entry, or the sshd that it runs, reads or writes in a volume, or mounts on.
struct Place {
  const char* path;
  bool is_optional = false;  ///< the volume's sshd lets people in whatever is there
};
constexpr Place kPlaces[] = {{"usr/sbin/sshd"},
                             {"etc/ssh"},
                             {"etc/ssh/sshd_config"},
                             {"etc/ssh/sshd_config.d"},
                             {"etc/ssh/sshd_config.d/9.conf"},
                             {"etc/ssh/ssh_host_ed25519_key"},
                             {"etc/default/ssh", true},
                             {"etc/sysconfig/sshd", true},
                             {"etc/passwd"},
                             {"etc/group"},
                             {"etc/shadow"},
                             {"etc/nsswitch.conf"},
                             {"etc/nologin"},
                             {"home/ada", true},
                             {"home/ada/.ssh", true},
                             {"home/ada/.ssh/authorized_keys", true},
                             {"run"}};

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

TEST_P(SshdHostile, whatever_is_so_somebody_gets_in_and_the_base_is_as_it_was) {
  make_volume_with_sshd(kMore);
  put_canary();
  input_.entry = EntryKind::chroot;
  ASSERT_TRUE(comes_up()) << "what it leaves on the base is there from now on";
  input_.entry = EntryKind::sshd;
  ASSERT_TRUE(comes_up(look_));
  ASSERT_THAT(entry_, StartsWith(kOwn));
  const std::string before_all = outside(), alive = canary();
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(place.path);
    const long before = peak_kib();
    put_in_place(place.path, GetParam());
    std::ignore = comes_up(look_);
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("%s at %s: %s\n", GetParam().name, place.path, entry_.c_str());
    if (place.is_optional) {
      EXPECT_THAT(entry_, StartsWith(kOwn));
    }
    EXPECT_LT(peak_kib() - before, kMostGrowthKib);
    EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
    EXPECT_THAT(greeting(), EndsWith(kBase));
    EXPECT_EQ(canary(), alive);
    put_back(place.path);
  }
  EXPECT_EQ(outside(), before_all);
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, StartsWith(kOwn)) << "as it is, it serves";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SshdHostile, testing::ValuesIn(kHostileKinds), name_of_kind);

TEST_F(SshdHostile, hard_links_of_a_file_of_ours_carry_nothing_into_another_file) {
  make_volume_with_sshd(kMore);
  change_volume(R"sh(
      chmod 600 etc/shadow; mkdir -p var/lib/warmroot
      for name in var/lib/warmroot/state etc/default/ssh home/ada/.ssh/authorized_keys; do
        ln etc/shadow $name; done)sh");
  ASSERT_NO_FATAL_FAILURE(bring_up_by_own_sshd());
  expect_login(book_.snapshot());
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_THAT(book_.snapshot().remarks, Not(Contains(HasSubstr("root:"))));
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  mount_volume();
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
}

TEST_F(SshdHostile, names_and_options_that_would_write_on_a_terminal_or_climb_out_reach_nothing) {
  make_volume_with_sshd(kMore);
  change_volume(R"sh(
      {)sh" + std::string(kHostilePeople) +
                R"sh(; } >>etc/passwd
      : >"etc/ssh/sshd_config.d/$(printf 'new\nline\033[2J').conf"
      printf 'SSHD_OPTS="-o Banner=/a\033[2J -o SetEnv=FROM=\007"\n' >etc/default/ssh)sh");
  EXPECT_TRUE(comes_up([&](const Status& status) {
    look_(status);
    EXPECT_THAT(entry_, StartsWith(kOwn));
    EXPECT_THAT(list_directory(kLaunchKeys), ElementsAre("ada"));
    EXPECT_EQ(*shell("find /etc/cron.d -name x 2>/dev/null | wc -l"), "0");
    EXPECT_THAT(status.remarks, Contains(HasSubstr("options that do not count here: ")));
    for (const auto& remark : status.remarks) EXPECT_EQ(remark, without_controls(remark));
    for (const auto& step : status.steps)
      EXPECT_EQ(step.detail, without_controls(step.detail)) << step.name;
  }));
}

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
