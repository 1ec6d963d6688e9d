// A volume whose files are not what they should be: pipes, devices, directories, links into the
// machine, files of a gibibyte, names that would write on a terminal. Bring-up ends in time, in
// bounded memory, with sessions in the volume or one sentence; the base is as it was afterwards.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "bootstrap/base/control_bytes.hpp"
#include "bootstrap/base_accounts.hpp"
#include "bootstrap/bring_up.hpp"
#include "bootstrap/filesystem_check.hpp"
#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::chrono::seconds kInTime{20};
#ifdef __SANITIZE_ADDRESS__
constexpr long kMostGrowthKib = 512 * 1024;  // it keeps what was freed for a while
#else
constexpr long kMostGrowthKib = 64 * 1024;
#endif

/// What the bootstrap reads or writes in a volume.
constexpr const char* kPlaces[] = {"etc/passwd",
                                   "etc/group",
                                   "etc/shadow",
                                   "etc/os-release",
                                   "usr/lib/os-release",
                                   "usr/sbin/sshd",
                                   "etc/fstab",
                                   "etc/resolv.conf",
                                   "etc/hostname",
                                   "etc/warmroot/hooks.d",
                                   "home/ada",
                                   "home/ada/.ssh",
                                   "home/ada/.ssh/authorized_keys",
                                   "bin/sh",
                                   "var/lib",
                                   "var/lib/warmroot",
                                   kVolumeMarker,
                                   kVolumeHostKeys,
                                   kVolumeMap,
                                   kVolumeHotList,
                                   "run",
                                   "tmp",
                                   "proc",
                                   "dev"};

struct Kind {
  const char* name;
  const char* make;  ///< at $p, where nothing is
};

class BootHostile : public BootWhole, public testing::WithParamInterface<Kind> {
 protected:
  static long peak_kib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  /// The names of what the base keeps.
  static std::string outside() {
    return *shell("find /etc /run/keys /var/lib 2>/dev/null | sort | paste -s -d ' '");
  }
  void change_volume(const std::string& script) {
    mount_volume();
    const auto done = shell("cd " + std::string(kVolumePoint) + "\n" + script + "\ncd /");
    ASSERT_TRUE(done) << done.error().message();
    ASSERT_TRUE(unmount_tree(kVolumePoint));
  }
  /// Whether it came up; what it says otherwise has no control characters.
  bool comes_up() {
    Assignment assignment;
    StatusBook book("");
    const auto start = steady_clock::now();
    const Ok done = bring_up(input_, assignment, book, stop_);
    EXPECT_LT(steady_clock::now() - start, kInTime);
    const std::string said = done ? "" : done.error().message();
    EXPECT_EQ(said, without_controls(said));
    for (const char* file : {kMessageOfTheDay, kBannerFile}) {
      std::string shown = read_file(file, kMaxStatus).value_or("");
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      EXPECT_EQ(shown, without_controls(shown)) << file;
    }
    if (done) {
      EXPECT_TRUE(release(leaving(), assignment, book));
    }
    EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
    EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
    EXPECT_EQ(::access(kAccountRecord, F_OK), -1);
    EXPECT_NE(session_os(), "Test Volume 1");
    EXPECT_TRUE(check_device_free("/dev/vdz"));
    return done.has_value();
  }
};

TEST_P(BootHostile, whatever_is_so_bring_up_ends_in_time_and_leaves_the_base_as_it_was) {
  make_volume("mkdir -p $t/etc/warmroot/hooks.d $t/var/lib/warmroot; chmod 755 $t/var/lib");
  dress_as_disk();
  input_.node_host_keys = true;
  ASSERT_TRUE(comes_up());
  const std::string before_all = outside();
  for (const char* place : kPlaces) {
    SCOPED_TRACE(place);
    const std::string p = place;
    const long before = peak_kib();
    change_volume("p=" + p + "; mkdir -p $(dirname $p)\n[ ! -e $p ] || mv $p $p.was\n" +
                  GetParam().make);
    const bool up = comes_up();
    if (std::getenv("WARMROOT_SHOW") != nullptr)
      std::printf("%s at %s: %s\n", GetParam().name, place, up ? "serves" : "refused");
    EXPECT_LT(peak_kib() - before, kMostGrowthKib);
    change_volume("p=" + p + "; rm -rf $p; [ ! -e $p.was ] || mv $p.was $p");
  }
  EXPECT_EQ(outside(), before_all);
  EXPECT_TRUE(comes_up()) << "as it is, it serves";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BootHostile,
    testing::Values(Kind{"pipe", "mkfifo $p"}, Kind{"character_device", "mknod $p c 1 5"},
                    Kind{"block_device", "mknod $p b 7 63"}, Kind{"directory", "mkdir $p"},
                    Kind{"empty_file", ": >$p"}, Kind{"gibibyte", "truncate -s 1G $p"},
                    Kind{"endless_device", "ln -s /dev/zero $p"},
                    Kind{"link_to_itself", "ln -s $(basename $p) $p"},
                    Kind{"dangling_link", "ln -s /run/warmroot/none $p"},
                    Kind{"link_upwards", "ln -s ../../../../../../../../../etc $p"},
                    Kind{"link_through_proc", "ln -s /proc/1/root/etc $p"}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST_F(BootHostile, hard_links_of_a_file_of_ours_carry_nothing_into_another_file) {
  make_volume(
      "mkdir -p $t/var/lib/warmroot; for name in state host_keys warm.map hot.list; do\n"
      "ln $t/etc/shadow $t/var/lib/warmroot/$name; done; chmod 600 $t/etc/shadow; "
      "ln -f $t/etc/shadow $t/home/ada/.ssh/authorized_keys");
  dress_as_disk();
  input_.node_host_keys = true;
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "open i-1");
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_THAT(read_file(std::string(kUserKeysDirectory) + "/ada", 65536).value_or(""),
              Not(HasSubstr("root:")));
  EXPECT_THAT(shown_host_key(), Not(HasSubstr("root:")));
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  mount_volume();
  EXPECT_EQ(read_attribute(inside("etc/shadow")), "root:*:19000:0:99999:7:::");
  EXPECT_EQ(read_attribute(inside(kVolumeMarker)), "clean i-1");
}

TEST_F(BootHostile, names_that_would_write_on_a_terminal_or_climb_out_reach_nothing) {
  make_volume(R"sh(
      printf 'PRETTY_NAME="Evil \033[2J\007 \r[root@base]# "\n' >$t/etc/os-release
      { printf 'ev\033il:x:2002:2002::/home/evil:/bin/sh\n'
        printf '../../etc/cron.d/x:x:2003:2003::/home/x:/bin/sh\n'
        printf -- '-oProxyCommand:x:2004:2004::/home/x:/bin/sh\n'
        printf '..:x:2005:2005::/home/x:/bin/sh\n'
        printf 'eve:x:2006:2006:\033]0;title\007:/home/../../etc:/bin/sh\n'
        printf 'mal:x:2007:2007::/home/mal\033[2J:/bin/sh\033[2J\n'; } >>$t/etc/passwd
      mkdir -p "$t/home/$(printf 'new\nline')"
      )sh");
  dress_as_disk();
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string passwd = *read_file("/etc/passwd", 1 << 20);
  for (const char* name : {"ev\033il", "../../etc", "-oProxy", "\n..:"})
    EXPECT_THAT(passwd, Not(HasSubstr(name)));
  EXPECT_THAT(passwd, Not(HasSubstr("\033")));
  EXPECT_THAT(passwd, HasSubstr("ada:x:2001:2001::/home/ada:/bin/sh\n"));
  EXPECT_EQ(*shell("find /etc/cron.d -name x 2>/dev/null | wc -l"), "0");
  for (const auto& name : list_directory(kUserKeysDirectory))
    EXPECT_EQ(name, without_controls(name));
  const std::string motd = read_file(kMessageOfTheDay, kMaxStatus).value_or("");
  EXPECT_THAT(motd, Not(HasSubstr("\033")));
  EXPECT_THAT(motd, Not(HasSubstr("\r")));
  for (const auto& step : book_.snapshot().steps)
    EXPECT_EQ(step.detail, without_controls(step.detail)) << step.name;
  EXPECT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_EQ(*read_file("/etc/passwd", 1 << 20), passwd_);
}

}  // namespace
}  // namespace warmroot::bootstrap
