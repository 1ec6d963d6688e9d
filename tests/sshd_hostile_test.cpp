// A volume that is hostile to the entry `sshd`: its own sshd, which reads what it likes, runs in
// its root, and people get in by it or by the base's.
#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <tuple>

#include "tests/hostile_kinds.hpp"
#include "tests/volume_sshd_rig.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

constexpr char kOwn[] = "sshd: the volume's own";
constexpr char kInstead[] = "chroot: the base's sshd instead of sshd: ";
/// As in Debian's image, with people enough that each has one hostile place. The same for all
/// tests: the volume is made once.
constexpr char kMore[] = R"(
    sed -i '1i Include /etc/ssh/sshd_config.d/*.conf' $t/etc/ssh/sshd_config
    mkdir -p $t/etc/ssh/sshd_config.d $t/etc/default $t/home/bob/.ssh $t/home/cleo
    printf 'bob:x:2011:2011::/home/bob:/bin/sh\ncleo:x:2012:2012::/home/cleo:/bin/sh\n' >>$t/etc/passwd
    chown -R 2011:2011 $t/home/bob; chown 2012:2012 $t/home/cleo
)";
constexpr const char* kPeople[] = {"ada", "bob", "cleo"};

/// What the entry, or the sshd that it runs, reads or writes in a volume, or mounts on. Without
/// those that are needed the volume's sshd may not serve; the others keep it from nothing.
constexpr HostilePlace kPlaces[] = {{"usr/sbin/sshd", 4, true},
                                    {"etc/ssh", 4, true},
                                    {"etc/ssh/sshd_config", 2, true},
                                    {"etc/ssh/sshd_config.d", 3, true},
                                    {"etc/ssh/sshd_config.d/9.conf", 2, true},
                                    {"etc/ssh/ssh_host_ed25519_key", 2, true},
                                    {"etc/default/ssh", 1},
                                    {"etc/sysconfig/sshd", 1},
                                    {"etc/passwd", 2, true},
                                    {"etc/group", 2, true},
                                    {"etc/shadow", 2, true},
                                    {"etc/nsswitch.conf", 2, true},
                                    {"etc/nologin", 2, true},
                                    {"etc/pam.d/sshd", 2, true},
                                    {"etc/environment", 2, true},
                                    {"home/cleo", 1},
                                    {"home/bob/.ssh", 1},
                                    {"home/ada/.ssh/authorized_keys", 1},
                                    {"run", 4, true}};

class SshdHostile : public HostileVolume<VolumeSshdTest> {
 protected:
  static void SetUpTestSuite() {
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
  /// Of one of the volume's people, by its own sshd.
  static std::string own_login(const std::string& user) {
    return shell(client("echo in", "launch", user) + " 2>/dev/null").value_or("no");
  }
  /// By the volume's own sshd, each of its people, or else on the base.
  static void expect_login(const Status& status) {
    if (status.entry.starts_with(kOwn)) {
      for (const char* user : kPeople) EXPECT_EQ(own_login(user), "in") << user;
      return;
    }
    EXPECT_EQ(base_login(), "in /run/keeper") << status.entry;
    if (status.entry.empty()) return;  // nobody serves
    EXPECT_THAT(status.entry, StartsWith(kInstead));
    EXPECT_EQ(status.entry, without_controls(status.entry));
  }

  /// While the volume is mounted; bring-ups have make_hostile.
  static void put_in_mounted(const std::string& place, const HostileKind& kind) {
    const auto put = shell("cd " + std::string(kVolumePoint) + "\n" + script_to_put(place, kind));
    ASSERT_TRUE(put) << put.error().message();
  }
  static void put_back_in_mounted(const std::string& place) {
    const auto put = shell("cd " + std::string(kVolumePoint) + "\n" + script_to_put_back(place));
    ASSERT_TRUE(put) << put.error().message();
  }

  /// Prepares and opens the entry in the volume that is mounted, as bring_up does: in time, with a
  /// login, or with a sentence why not. The base has the port afterwards. Returns the sentence, or
  /// "serves".
  std::string try_entry() const {
    const auto start = steady_clock::now();
    const auto entry = sshd_entry({kPort});
    const EntryInput input{input_.launch.public_key, {}};
    Result<std::string> opened = entry->prepare(input);
    if (opened) opened = entry->open(input);
    EXPECT_LT(steady_clock::now() - start, kBringUpInTime);
    const std::string said = opened ? "serves" : opened.error().message();
    EXPECT_EQ(said, without_controls(said));
    if (opened) {
      EXPECT_EQ(own_login(kPeople[0]), "in");
    }
    EXPECT_TRUE(entry->close());
    EXPECT_TRUE(entry->end(kEndLimit));
    EXPECT_TRUE(entry->undo());
    EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
    EXPECT_THAT(greeting(), EndsWith(kBase));
    return said;
  }

  /// Of the last bring-up.
  std::string entry_;
  const std::function<void(const Status&)> look_ = [this](const Status& status) {
    entry_ = status.entry;
    expect_login(status);
  };
};

TEST(SshdHostilePlaces, each_kind_is_tried_at_each_place) {
  expect_each_kind_at_each_place(kPlaces, NeededPlaces::only_together);
}

TEST_F(SshdHostile, whatever_is_so_somebody_gets_in_and_the_base_is_as_it_was) {
  make_volume_with_sshd(kMore);
  put_canary();
  input_.entry = EntryKind::chroot;
  ASSERT_TRUE(comes_up()) << "what it leaves on the base is there from now on";
  input_.entry = EntryKind::sshd;
  ASSERT_TRUE(comes_up(look_));
  ASSERT_THAT(entry_, StartsWith(kOwn));
  try_each_round(kPlaces, NeededPlaces::only_together, [this] {
    std::ignore = comes_up(look_);
    EXPECT_THAT(list_directory(kLaunchKeys), IsEmpty());
    EXPECT_THAT(greeting(), EndsWith(kBase));
    return Tried{entry_.starts_with(kOwn), entry_};
  });
  EXPECT_TRUE(comes_up(look_));
  EXPECT_THAT(entry_, StartsWith(kOwn)) << "as it is, it serves";
}

/// Each alone, by the entry itself in one bring-up: of what is hostile together the first hides the
/// others.
TEST_F(SshdHostile, whatever_is_where_its_sshd_needs_something_the_entry_opens_or_says_why_not) {
  make_volume_with_sshd(kMore);
  put_canary();
  input_.entry = EntryKind::chroot;
  const Ok up = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(up) << up.error().message();
  ASSERT_EQ(try_entry(), "serves");
  const std::string alive = canary();
  for (const HostilePlace& place : kPlaces) {
    // The other is what bring_up mounts on.
    if (!place.is_needed || place.path == std::string_view("run")) continue;
    for (const HostileKind& kind : kHostileKinds) {
      SCOPED_TRACE(std::string(kind.name) + " at " + place.path);
      const long before = peak_kib();
      put_in_mounted(place.path, kind);
      show(kind, {place.path}, try_entry());
      EXPECT_LT(peak_kib() - before, kMostGrowthKib);
      EXPECT_EQ(::access(kDangling, F_OK), -1);
      EXPECT_EQ(canary(), alive);
      put_back_in_mounted(place.path);
    }
  }
  EXPECT_EQ(try_entry(), "serves") << "as it is, it serves";
  const Ok released = release(leaving(), assignment_, book_);
  EXPECT_TRUE(released) << released.error().message();
}

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
    EXPECT_THAT(list_directory(kLaunchKeys), UnorderedElementsAre("ada", "bob", "cleo"));
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
  input_.entry = EntryKind::chroot;
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  for (const char* place :
       {"etc/passwd", "etc/group", "etc/shadow", "etc/nsswitch.conf", "etc/hosts.allow",
        "etc/hosts.deny", "etc/nologin", "etc/ssh/sshd_config", "etc/ssh/sshd_config.d/9.conf",
        "etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_rsa_key.pub", "etc/pam.d/sshd"}) {
    put_in_mounted(place, {"pipe", "mkfifo $p"});
    EXPECT_EQ(try_entry(), std::string("/") + place + " in the volume is no regular file");
    put_back_in_mounted(place);
  }
  put_in_mounted("etc/group", {"kernel_s_log", "ln -s /proc/kmsg $p"});
  EXPECT_EQ(try_entry(), "/etc/group in the volume is no regular file")
      << "it waits as a pipe does";
  put_back_in_mounted("etc/group");
  put_in_mounted("etc/motd", {"null_device", "ln -s /dev/null $p"});
  EXPECT_EQ(try_entry(), "serves") << "that is how a file is switched off";
  put_back_in_mounted("etc/motd");
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  change_volume("mkfifo etc/ssh/other; echo 'SSHD_OPTS=\"-f /etc/ssh/other\"' >etc/default/ssh");
  input_.entry = EntryKind::sshd;
  EXPECT_TRUE(comes_up(look_));
  EXPECT_EQ(entry_, std::string(kInstead) + "/etc/ssh/other in the volume is no regular file");
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
