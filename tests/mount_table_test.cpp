#include "bootstrap/mount_table.hpp"

#include <gmock/gmock.h>

#include <string>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::set<std::string> of(const std::string& mountinfo, const char* device = "259:4") {
  return mounts_of_devices(parse_mount_table(mountinfo), {device});
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
