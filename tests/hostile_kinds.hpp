// What can stand in a volume where something else should be, and what is true of the base whatever
// does: shared by the tests of hostile volumes, one for the entry `chroot`, one for `sshd`.
#pragma once

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {

struct HostileKind {
  const char* name;
  const char* make;  ///< at $p, where nothing is
};

/// Links out of the volume would lead to it.
inline constexpr char kCanary[] = "/etc/canary";
/// And this one would be made.
inline constexpr char kDangling[] = "/run/warmroot/none";

inline constexpr HostileKind kHostileKinds[] = {
    {"pipe", "mkfifo $p"},
    {"character_device", "mknod $p c 1 5"},
    {"block_device", "mknod $p b 7 63"},
    {"directory", "mkdir $p"},
    {"empty_file", ": >$p"},
    {"unreadable_rubbish", "echo x >$p; chmod 0 $p"},
    {"gibibyte", "truncate -s 1G $p"},
    {"endless_device", "ln -s /dev/zero $p"},
    {"link_to_itself", "ln -s $(basename $p) $p"},
    {"dangling_link", "ln -s /run/warmroot/none $p"},
    {"link_upwards", "ln -s ../../../../../../../../../etc $p"},
    {"link_to_a_file_of_the_base", "ln -s ../../../../../../../../../etc/canary $p"},
    {"link_through_proc", "ln -s /proc/1/root/etc $p"}};

inline std::string name_of_kind(const testing::TestParamInfo<HostileKind>& kind) {
  return kind.param.name;
}

/// Accounts that would write on a terminal, climb out of a directory, or be an option of ssh's: for
/// the volume's passwd, by printf(1).
inline constexpr char kHostilePeople[] = R"sh(
    printf 'ev\033il:x:2002:2002::/home/evil:/bin/sh\n'
    printf '../../etc/cron.d/x:x:2003:2003::/home/x:/bin/sh\n'
    printf -- '-oProxyCommand:x:2004:2004::/home/x:/bin/sh\n'
    printf '..:x:2005:2005::/home/x:/bin/sh\n'
    printf 'eve:x:2006:2006:\033]0;title\007:/home/../../etc:/bin/sh\n'
    printf 'mal:x:2007:2007::/home/mal\033[2J:/bin/sh\033[2J\n')sh";

/// What waits for a pipe, or for sshd at one, takes 90 s; sshd reads a gibibyte of keys in some.
inline constexpr std::chrono::seconds kBringUpInTime{40};
#ifdef WARMROOT_SANITIZED
inline constexpr long kMostGrowthKib = 512 * 1024;  // it keeps what was freed for a while
#else
inline constexpr long kMostGrowthKib = 64 * 1024;
#endif

/// BootWhole, or a fixture made of it, whose volume is changed between bring-ups.
template <typename Fixture>
class HostileVolume : public Fixture {
 protected:
  static long peak_kib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  static void put_canary() { ASSERT_TRUE(shell(std::string("umask 027; echo alive >") + kCanary)); }
  /// Inode, mode, owner, time of the last change and content.
  static std::string canary() {
    return *shell("echo $(stat -c '%i %a %u %z' " + std::string(kCanary) + ") $(cat " + kCanary +
                  ")");
  }
  /// The names of what the base keeps.
  static std::string outside() {
    return *shell("find /etc /run/keys /var/lib 2>/dev/null | sort | paste -s -d ' '");
  }

  void change_volume(const std::string& script) {
    this->mount_volume();
    const auto done = shell("cd " + std::string(kVolumePoint) + "\n" + script + "\ncd /");
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_TRUE(unmount_tree(kVolumePoint));
  }
  /// What was there is kept beside it.
  void put_in_place(const std::string& place, const HostileKind& kind) {
    change_volume("p=" + place + "; mkdir -p $(dirname $p)\n[ ! -e $p ] || mv $p $p.was\n" +
                  kind.make);
  }
  void put_back(const std::string& place) {
    change_volume("p=" + place + "; rm -rf $p; [ ! -e $p.was ] || mv $p.was $p");
  }

  /// Whether it came up. It does, or does not, in time, and what it says has no control characters;
  /// `look` is for before it is given back, or when it did not come up. The base is as it was
  /// afterwards.
  bool comes_up(const std::function<void(const Status&)>& look = {}) {
    Assignment assignment;
    StatusBook book("");
    const auto start = std::chrono::steady_clock::now();
    const Ok done = bring_up(this->input_, assignment, book, this->stop_);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kBringUpInTime);
    const std::string said = done ? "" : done.error().message();
    EXPECT_EQ(said, without_controls(said));
    for (const char* file : {kMessageOfTheDay, kBannerFile}) {
      std::string shown = read_file(file, kMaxStatus).value_or("");
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      EXPECT_EQ(shown, without_controls(shown)) << file;
    }
    if (look) look(book.snapshot());
    if (done) {
      EXPECT_TRUE(release(leaving(), assignment, book));
    }
    EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), this->passwd_);
    EXPECT_EQ(::access(kAccountRecord, F_OK), -1);
    EXPECT_EQ(::access(kDangling, F_OK), -1);
    EXPECT_NE(this->session_os(), "Test Volume 1");
    EXPECT_TRUE(check_device_free("/dev/vdz"));
    return done.has_value();
  }
};

}  // namespace warmroot::bootstrap
