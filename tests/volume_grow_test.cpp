// A root that is grown to fill its disk, on the whole way in and out of the bootstrap: each file
// system, each kind of table.
#include <gmock/gmock.h>
#include <sys/statfs.h>

#include <cstdio>
#include <cstdlib>

#include "bootstrap/mount_exec.hpp"
#include "tests/boot_whole.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

struct Root {
  const char* name;
  const char* make;   ///< the file system of the tree $t in the file $part
  int size_mib;       ///< of $part
  const char* table;  ///< sfdisk's label and the line for the partition; empty: none
};

constexpr char kExt4[] = "mke2fs -q -t ext4 -E root_owner=0:0 -d $t $part";
constexpr char kXfs[] =
    "mkfs.xfs -q $part; mkdir $t.mnt; mount -o loop $part $t.mnt; cp -a $t/. $t.mnt/; umount "
    "$t.mnt; "
    "rmdir $t.mnt";
constexpr char kBtrfs[] = "mkfs.btrfs -q --rootdir $t $part >/dev/null 2>&1";

class VolumeGrow : public BootWhole, public testing::WithParamInterface<Root> {
 protected:
  /// $part in a disk that is half as large again.
  void make_root(const Root& root, const std::string& more = "") {
    const std::string size = std::to_string(root.size_mib);
    const bool has_table = root.table[0] != '\0';
    make_disk("part=$image.part; truncate -s " + size + "M $part\n" + root.make +
                  "\ndd if=$part of=$image bs=1M conv=notrunc,sparse status=none seek=" +
                  (has_table ? "1" : "0") + "; rm $part\n" +
                  (has_table ? "printf 'start=2048,size=" + std::to_string(root.size_mib * 2048) +
                                   "\n" + more + "' | sfdisk -q --wipe never --label " +
                                   root.table + " $image >/dev/null 2>&1\n"
                             : ""),
              std::to_string(root.size_mib * 3 / 2) + "M");
    dress_as_disk();
    if (has_table) dress_partitions();
    input_.grow = true;
  }
  std::string step() {
    for (const auto& done : book_.snapshot().steps)
      if (done.name == "grow the root")
        return std::string(to_string(done.outcome)) + ": " + done.detail;
    return "none";
  }
  static std::string node() { return GetParam().table[0] != '\0' ? "/dev/vdz1" : "/dev/vdz"; }
  static std::uint64_t size_mib() {
    struct statfs facts {};
    return ::statfs(kVolumePoint, &facts) == 0
               ? facts.f_blocks * static_cast<std::uint64_t>(facts.f_bsize) >> 20
               : 0;
  }
};

/// ext4 asks for it; root in a container and on some build machines has not got it.
bool may_grow_ext4() {
  constexpr std::uint64_t kSysResource = std::uint64_t{1} << 24;
  const std::string status = read_file("/proc/self/status", 65536).value_or("");
  const std::size_t at = status.find("CapEff:");
  return at != std::string::npos &&
         (std::strtoull(status.c_str() + at + 7, nullptr, 16) & kSysResource) != 0;
}

TEST_P(VolumeGrow, fills_its_disk_once_sessions_are_open_and_stays_whole) {
  make_root(GetParam());
  std::uint64_t when_ready = 0;
  input_.enter_stage = [&](Stage stage, const std::string&) {
    if (stage == Stage::ready) when_ready = size_mib();
  };
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  if (std::string(GetParam().name).starts_with("Ext4") && !may_grow_ext4()) {
    std::printf("NOT TESTED: that ext4 grows; this root has no CAP_SYS_RESOURCE\n");
    EXPECT_THAT(step(), HasSubstr("failed: growing the file system: Operation not permitted"));
    EXPECT_THAT(book_.snapshot().remarks, Contains(HasSubstr("the root does not fill its disk")));
    ASSERT_TRUE(release(leaving(), assignment_, book_));
    EXPECT_TRUE(shell("e2fsck -fn " + node())) << "refused, and harmed all the same";
    return;
  }
  EXPECT_THAT(step(), HasSubstr("ok: the file system has"));
  EXPECT_GT(size_mib(), when_ready * 13 / 10) << step();
  EXPECT_TRUE(shell("dd if=/dev/zero of=" + inside("large") + " bs=1M count=" +
                    std::to_string(GetParam().size_mib) + " conv=fsync status=none"))
      << "the new space is not there";
  ASSERT_TRUE(release(leaving(), assignment_, book_));
  EXPECT_THAT(mounts_at(kVolumePoint), IsEmpty());
  EXPECT_TRUE(check_device_free("/dev/vdz"));

  StatusBook second("");
  const Ok again = bring_up(input_, assignment_, second, stop_);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  bool filled = false;
  for (const auto& step : second.snapshot().steps)
    filled = filled || step.detail.find("already") != std::string::npos;
  EXPECT_TRUE(filled);
  ASSERT_TRUE(release(leaving(), assignment_, second));
  const std::string check = GetParam().name;
  const auto checked = check.starts_with("Ext4")  ? shell("e2fsck -fn " + node())
                       : check.starts_with("Xfs") ? shell("xfs_repair -n " + node())
                                                  : shell("btrfs check " + node());
  EXPECT_TRUE(checked) << checked.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Table, VolumeGrow,
    testing::Values(Root{"Ext4", kExt4, 64, ""}, Root{"Ext4Gpt", kExt4, 64, "gpt"},
                    Root{"Ext4Mbr", kExt4, 64, "dos"}, Root{"Xfs", kXfs, 320, ""},
                    Root{"XfsGpt", kXfs, 320, "gpt"}, Root{"Btrfs", kBtrfs, 256, ""},
                    Root{"BtrfsGpt", kBtrfs, 256, "gpt"}),
    [](const auto& root) { return std::string(root.param.name); });

class GrowKilled : public VolumeGrow {};

TEST_P(GrowKilled, after_the_table_was_written_is_gone_on_with) {
  make_root(GetParam());
  ASSERT_TRUE(shell("echo ', +' | sfdisk -q --force --no-reread --no-tell-kernel -N 1 /dev/vdz"));
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  EXPECT_THAT(step(), HasSubstr("ok: the file system has"));
  EXPECT_GT(size_mib(), 400u);
  EXPECT_TRUE(undo_bring_up(assignment_));
  EXPECT_TRUE(shell("xfs_repair -n /dev/vdz1"));
}

INSTANTIATE_TEST_SUITE_P(Table, GrowKilled,
                         testing::Values(Root{"Gpt", kXfs, 320, "gpt"},
                                         Root{"Mbr", kXfs, 320, "dos"}),
                         [](const auto& root) { return std::string(root.param.name); });

class GrowRefused : public VolumeGrow {};

TEST_P(GrowRefused, where_something_lies_behind_and_sessions_stay_open) {
  make_root(GetParam(), "start=150000,size=2048\n");
  const auto before = shell("sfdisk --dump /dev/vdz | sha256sum");
  const Ok done = bring_up(input_, assignment_, book_, stop_);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(session_os(), "Test Volume 1");
  EXPECT_THAT(step(), HasSubstr("failed: partition 1 (ext4, 64 MiB): partition 2 lies behind it"));
  EXPECT_THAT(book_.snapshot().remarks,
              Contains(HasSubstr("the root does not fill its disk: partition 1")));
  EXPECT_EQ(shell("sfdisk --dump /dev/vdz | sha256sum").value_or(""), before.value_or("-"));
  EXPECT_TRUE(undo_bring_up(assignment_));
}

INSTANTIATE_TEST_SUITE_P(Table, GrowRefused,
                         testing::Values(Root{"Gpt", kExt4, 64, "gpt"},
                                         Root{"Mbr", kExt4, 64, "dos"}),
                         [](const auto& root) { return std::string(root.param.name); });

class GrowUnasked : public VolumeGrow {};

TEST_P(GrowUnasked, a_volume_stays_as_it_is) {
  make_root(GetParam());
  input_.grow = false;
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  EXPECT_EQ(step(), "none");
  EXPECT_LT(size_mib(), 65u);
  EXPECT_TRUE(undo_bring_up(assignment_));
}

INSTANTIATE_TEST_SUITE_P(Table, GrowUnasked, testing::Values(Root{"Gpt", kExt4, 64, "gpt"}),
                         [](const auto& root) { return std::string(root.param.name); });

}  // namespace
}  // namespace warmroot::bootstrap
