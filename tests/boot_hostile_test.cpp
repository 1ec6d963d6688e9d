// A volume whose files are not what they should be: pipes, devices, directories, links into the
// machine, files of a gibibyte, names that would write on a terminal. Bring-up ends in time, in
// bounded memory, with sessions in the volume or one sentence; the base is as it was afterwards.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "bootstrap/files.hpp"
#include "bootstrap/holders.hpp"
#include "bootstrap/mount_table.hpp"
#include "bootstrap/paths.hpp"
#include "tests/handover.hpp"
#include "tests/hostile_kinds.hpp"
#include "tests/long_mount_table.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What the bootstrap reads or writes in a volume, or mounts on. Without those that are needed
/// nobody is let in; the others keep nobody out.
constexpr HostilePlace kPlaces[] = {{"etc/passwd", 2},
                                    {"etc/group", 1},
                                    {"etc/shadow", 1},
                                    {"etc/os-release", 1},
                                    {"usr/lib/os-release", 0, true},
                                    {"usr/sbin/sshd", 1},
                                    {"etc/fstab", 1},
                                    {"etc/resolv.conf", 2},
                                    {"etc/hostname", 1},
                                    {"etc/warmroot/hooks.d", 1},
                                    {"home/cleo", 1},
                                    {"home/bob/.ssh", 1},
                                    {"home/ada/.ssh/authorized_keys", 1},
                                    {"bin/sh", 0, true},
                                    {"var/lib", 3},
                                    {"var/lib/warmroot", 2},
                                    {kVolumeMarker, 1},
                                    {kVolumeProof, 1},
                                    {kVolumeHostKeys, 1},
                                    {kVolumeMap, 1},
                                    {kVolumeHotList, 1},
                                    {"run", 0, true},
                                    {"tmp", 0, true},
                                    {"proc", 0, true},
                                    {"dev", 0, true}};

/// With people enough that each has one hostile place, and os-release as Debian has it.
constexpr char kMore[] = R"(
    mkdir -p $t/etc/warmroot/hooks.d $t/var/lib/warmroot; chmod 755 $t/var/lib
    mv $t/etc/os-release $t/usr/lib/os-release; ln -s ../usr/lib/os-release $t/etc/os-release
    printf 'bob:x:2011:2011::/home/bob:/bin/sh\ncleo:x:2012:2012::/home/cleo:/bin/sh\n' >>$t/etc/passwd
    mkdir -p $t/home/bob/.ssh $t/home/cleo)";

using BootHostile = HostileVolume<BootWhole>;

TEST(BootHostilePlaces, each_kind_is_tried_at_each_place) {
  expect_each_kind_at_each_place(kPlaces, NeededPlaces::some_alone);
}

TEST_F(BootHostile, whatever_is_so_bring_up_ends_in_time_and_leaves_the_base_as_it_was) {
  make_volume(kMore);
  dress_as_disk();
  put_canary();
  input_.node_host_keys = true;
  ASSERT_TRUE(comes_up());
  try_each_round(kPlaces, NeededPlaces::some_alone, [this] {
    const bool up = comes_up();
    return Tried{up, up ? "serves" : "refused"};
  });
  EXPECT_TRUE(comes_up()) << "as it is, it serves";
}

TEST_F(BootHostile, hard_links_of_a_file_of_ours_carry_nothing_into_another_file) {
  make_volume(
      "mkdir -p $t/var/lib/warmroot; for name in state proof host_keys warm.map hot.list; do\n"
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
      mkdir -p "$t/home/$(printf 'new\nline')"
      {)sh" + std::string(kHostilePeople) +
              "; } >>$t/etc/passwd");
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

/// The table was left out as a whole where it was longer than what is read of it: nobody was found
/// to be in the volume, and nobody was ended.
TEST_F(BootHostile, a_table_of_mounts_as_long_as_somebody_likes_hides_nobody) {
  make_volume();
  mount_volume();
  struct stat root {};
  ASSERT_EQ(::stat(kVolumePoint, &root), 0);
  const pid_t session = child_that([] { return ::chroot(kVolumePoint) == 0 && ::chdir("/") == 0; });
  LongMountTable table(kVolumePoint);
  const bool is_long = !read_file("/proc/self/mountinfo", kMaxMountinfo);
  const auto holders = holders_of(root.st_dev);
  const bool is_all_there = table.unmount();
  end(session);
  EXPECT_TRUE(is_all_there);
  EXPECT_TRUE(is_long);
  EXPECT_TRUE(std::any_of(holders.begin(), holders.end(),
                          [&](const Holder& holder) { return holder.pid == session; }));
}

}  // namespace
}  // namespace warmroot::bootstrap
