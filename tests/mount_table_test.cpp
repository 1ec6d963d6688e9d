#include "bootstrap/mount_table.hpp"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::set<std::string> of(const std::string& mountinfo, const char* device = "259:4") {
  return mounts_of_volume(parse_mount_table(mountinfo), VolumeSigns{{device}});
}

/// With all signs: of the volume 259:4, whose place is in the tmpfs 0:24.
std::set<std::string> held_in(const std::string& mountinfo) {
  return mounts_of_volume(parse_mount_table(mountinfo),
                          VolumeSigns{{"259:4"}, "/run/warmroot/private/volume", "0:24"});
}

TEST(MountTable, tells_what_is_mounted) {
  EXPECT_THAT(mounted_devices("21 1 259:4 / / rw - ext4 /dev/root rw\n"
                              "30 21 0:22 / /sys rw - sysfs s rw\n"),
              UnorderedElementsAre("259:4", "0:22"));
}

TEST(MountTable, a_device_has_its_mounts_and_all_that_is_inside_them) {
  const std::string table =
      "41 40 0:5 / /v/dev/pts rw - devpts d rw\n"  // before the one that it is in
      "40 35 0:6 / /v/dev rw - devtmpfs d rw\n"
      "21 1 8:1 / / rw - ext4 /dev/root rw\n"
      "35 21 259:4 / /v rw - ext4 /dev/nvme1n1p1 rw\n"
      "36 21 259:4 /home /home rw - ext4 /dev/nvme1n1p1 rw\n"
      "37 21 0:7 / /tmp rw - tmpfs t rw\n";
  EXPECT_THAT(of(table), ElementsAre("35", "36", "40", "41"));
  EXPECT_THAT(of(table, "259:5"), IsEmpty());
}

TEST(MountTable, what_stands_behind_the_optional_fields_is_told) {
  const auto rows = parse_mount_table(
      "640 602 0:61 / /m\\040x rw,relatime shared:3 master:1 - overlay over\\040lay "
      "rw,lowerdir=/a\n"
      "641 602 0:62 / /y rw - tmpfs  rw,size=4k\n"
      "642 602 0:4 mnt:[4026532567] /run/kept rw - nsfs nsfs rw\n"
      "643 602 0:4 / /z rw\n");
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].filesystem + " " + rows[0].options, "overlay rw,lowerdir=/a");
  EXPECT_EQ(rows[1].filesystem + " " + rows[1].options, "tmpfs rw,size=4k");
  EXPECT_EQ(rows[2].filesystem + " " + rows[2].root, "nsfs mnt:[4026532567]");
  EXPECT_EQ(rows[3].filesystem + rows[3].options, "");
}

TEST(MountTable, an_overlay_tells_its_layers_as_they_were_named) {
  EXPECT_THAT(overlay_layers("rw,lowerdir=l/AB:/b\\134:c::/d,upperdir=/u\\054p,workdir=/w\\040x"
                             ",xino=off"),
              ElementsAre("l/AB", "/b:c", "/d", "/u,p", "/w x"));
  EXPECT_THAT(overlay_layers("rw,lowerdir+=/a,datadir+=/b,redirect_dir=on"),
              ElementsAre("/a", "/b"));
  EXPECT_THAT(overlay_layers("rw,lowerdir=,index=off,lowerdir"), IsEmpty());
}

/// A container that a session started: the session's root has gone from its namespace, the base's
/// has not. Its layers have the names of the session's chroot.
TEST(MountTable, what_stands_in_the_volume_s_place_in_another_namespace_holds_the_volume) {
  const std::string base =
      "600 599 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "601 600 0:24 / /run rw,nosuid,nodev - tmpfs tmpfs rw,size=803460k,mode=755\n"
      "602 601 0:24 /warmroot /run/warmroot rw,nosuid,nodev - tmpfs tmpfs rw,size=803460k\n";
  const std::string container =
      "640 602 0:61 / /run/warmroot/private/volume rw,relatime - overlay overlay "
      "rw,lowerdir=/var/lib/containers/storage/overlay/l/QX,upperdir=/var/lib/containers/up,"
      "workdir=/var/lib/containers/work,metacopy=on\n"
      "641 640 0:62 / /run/warmroot/private/volume/proc rw - proc proc rw\n";
  EXPECT_THAT(held_in(base + container), UnorderedElementsAre("640", "641"));
  // A tmpfs of bubblewrap's, and what it has bound of the volume.
  EXPECT_THAT(
      held_in(base + "650 602 0:70 /newroot /run/warmroot/private/volume rw - tmpfs t rw\n"
                     "651 650 259:4 /usr /run/warmroot/private/volume/usr ro - ext4 d rw\n"),
      UnorderedElementsAre("650", "651"));
  // The root was moved over the session's, which is there still.
  EXPECT_THAT(
      held_in(base + "660 602 259:4 / /run/warmroot/private/volume rw - ext4 /dev/nvme1n1p1 rw\n"
                     "661 660 0:61 / /run/warmroot/private/volume rw - overlay o rw\n"),
      UnorderedElementsAre("660", "661"));
  EXPECT_THAT(held_in(base), IsEmpty());
}

TEST(MountTable, what_stands_at_that_path_of_another_base_holds_another_volume) {
  const std::string table =
      "600 599 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "601 600 0:99 / /run rw - tmpfs tmpfs rw\n"
      "640 601 0:61 / /run/warmroot/private/volume rw - overlay o rw,lowerdir=/var/lib/a:/b\n"
      "641 640 0:62 / /run/warmroot/private/volume/proc rw - proc proc rw\n";
  EXPECT_THAT(held_in(table), IsEmpty());
  EXPECT_THAT(mounts_of_volume(parse_mount_table(table),
                               VolumeSigns{{"259:4"}, "/run/warmroot/private/volume"}),
              IsEmpty())
      << "nor where nobody says what the place is in";
}

/// As a container of the base's sees its own, with its data on the volume.
TEST(MountTable, an_overlay_of_directories_that_are_named_below_the_volume_holds_it) {
  const auto container = [](const std::string& layers) {
    return "700 699 0:61 / / rw - overlay overlay rw," + layers +
           "\n701 700 0:62 / /proc rw - proc proc rw\n";
  };
  const std::string volume = "/run/warmroot/private/volume";
  EXPECT_THAT(held_in(container("lowerdir=/var/a:" + volume + "/docker/b,upperdir=/var/u")),
              UnorderedElementsAre("700", "701"));
  EXPECT_THAT(held_in(container("lowerdir=/var/a,upperdir=" + volume + "/u,workdir=/var/w")),
              UnorderedElementsAre("700", "701"));
  EXPECT_THAT(held_in(container("lowerdir=" + volume)), UnorderedElementsAre("700", "701"));
  for (const std::string other : {"lowerdir=/var/lib/docker/a:/var/lib/docker/b", "lowerdir=/a",
                                  "redirect_dir=/run/warmroot/private/volume/a"})
    EXPECT_THAT(held_in(container(other)), IsEmpty()) << other;
  EXPECT_THAT(held_in(container("lowerdir=" + volume + "2/a")), IsEmpty());
  EXPECT_THAT(held_in("700 699 0:61 / / rw - fuse f rw,lowerdir=" + volume + "/a\n"), IsEmpty());
}

/// What a private /tmp of a service has of it is unmounted there.
TEST(MountTable, a_copy_of_the_volume_in_a_service_is_its_mounts_and_none_of_the_base_s) {
  EXPECT_THAT(held_in("800 799 8:1 / / rw master:1 - ext4 /dev/sda1 rw\n"
                      "801 800 0:24 / /run rw master:5 - tmpfs tmpfs rw\n"
                      "802 801 259:4 / /run/warmroot/private/volume rw - ext4 /dev/nvme1n1p1 rw\n"
                      "803 802 0:6 / /run/warmroot/private/volume/dev rw - devtmpfs d rw\n"
                      "804 802 0:63 / /run/warmroot/private/volume/c/merged rw - overlay o "
                      "rw,lowerdir=/c/lower,upperdir=/c/upper,workdir=/c/work\n"
                      "805 800 8:1 /tmp/systemd-private/tmp /tmp rw - ext4 /dev/sda1 rw\n"),
              UnorderedElementsAre("802", "803", "804"));
}

TEST(MountTable, lines_that_are_none_are_left_out) {
  EXPECT_THAT(parse_mount_table("\n21\n21 1 259:4\n21 1 259:4 /\n22 21 0:5 / /sys\n"), SizeIs(1));
  EXPECT_THAT(of("21 21 259:4 / / rw\n21 21 259:4 / / rw\n"), ElementsAre("21"))
      << "a mount in itself";
}

TEST(MountTable, the_type_of_a_file_system_is_behind_as_many_fields_as_there_are) {
  std::string types;
  for (const auto& mount :
       parse_mount_table("35 21 259:4 / /v rw shared:7 master:1 - ext4 /dev/x rw\n"
                         "36 35 0:44 / /v/nfs rw - nfs4 -:/x rw\n"
                         "37 35 0:45 / /v/a rw shared:7\n"
                         "38 35 0:46 / /v/b rw -\n"))
    types += mount.filesystem + ",";
  EXPECT_EQ(types, "ext4,nfs4,,,");
}

/// A namespace may have a hundred thousand mounts, each inside the next one of the table.
TEST(MountTable, a_deep_table_in_the_wrong_order_is_read_in_time) {
  constexpr int kMounts = 100'000;
  std::string table;
  for (int id = kMounts; id > 1; --id)
    table += std::to_string(id) + " " + std::to_string(id - 1) + " 0:1 / /m rw\n";
  table += "1 0 259:4 / /v rw\n";
  EXPECT_THAT(of(table), SizeIs(kMounts));
}

}  // namespace
}  // namespace warmroot::bootstrap
