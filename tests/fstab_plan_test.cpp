#include "bootstrap/fstab_plan.hpp"

#include <gmock/gmock.h>

namespace warmroot::bootstrap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PartitionFacts part(int number, const std::string& content, const std::string& uuid,
                    const std::string& label = "") {
  PartitionFacts partition{number, std::uint64_t(number) << 30, 1 << 30, content, {}};
  partition.uuid = uuid;
  partition.label = label;
  partition.part_uuid = "aaaa-0" + std::to_string(number);
  partition.part_label = "part" + std::to_string(number);
  return partition;
}

const PartitionFacts kRoot = part(1, "ext4", "0000-root", "cloudimg-rootfs");
const std::vector<PartitionFacts> kDisk = {
    kRoot, part(2, "xfs", "0000-HOME", "home"), part(15, "vfat", "1A2B-3C4D", "UEFI"),
    part(3, "crypto_LUKS", "0000-luks"), part(4, "swap", "0000-swap")};

/// "home <- 2: rw,relatime" for each mount, and the sentence for each line that is left.
std::vector<std::string> planned(const std::string& text, const PartitionFacts& root = kRoot,
                                 std::vector<PartitionFacts> disk = kDisk) {
  const FstabPlan plan = plan_fstab(text, disk, root);
  std::vector<std::string> lines;
  for (const auto& mount : plan.mounts)
    lines.push_back(mount.target + " <- " + std::to_string(mount.partition.number) + ": " +
                    mount.options);
  for (const auto& left : plan.left) lines.push_back((left.for_people ? "! " : "") + left.text);
  return lines;
}

TEST(FstabPlan, partitions_of_the_same_disk_are_mounted_by_whatever_names_them) {
  EXPECT_THAT(
      planned("# /etc/fstab\n\n"
              "LABEL=cloudimg-rootfs\t/\text4\tdiscard,errors=remount-ro\t0 1\n"
              "UUID=0000-home /home xfs defaults,nofail,x-systemd.device-timeout=9,discard 0 2\n"
              "LABEL=UEFI /boot/efi vfat umask=0077,iocharset=utf8 0 1\n"),
      ElementsAre("home <- 2: rw,relatime,nodev,nouuid",
                  "boot/efi <- 15: rw,relatime,nodev,umask=0077"));
  for (const char* what :
       {"UUID=0000-HOME", "uuid", "LABEL=home", "LABEL=\"home\"", "PARTUUID=AAAA-02",
        "PARTLABEL=part2", "/dev/disk/by-uuid/0000-HOME", "/dev/disk/by-label/home",
        "/dev/disk/by-partuuid/aaaa-02", "/dev/disk/by-partlabel/part2"}) {
    const auto lines = planned(std::string(what) + " /home auto ro,noatime,nosuid 0 0");
    if (std::string(what) == "uuid")
      EXPECT_THAT(lines,
                  ElementsAre("! /home (uuid) is not mounted: this is no file system on a disk"));
    else
      EXPECT_THAT(lines, ElementsAre("home <- 2: ro,nodev,nouuid,noatime,nosuid")) << what;
  }
}

TEST(FstabPlan, what_holds_others_is_mounted_first) {
  EXPECT_THAT(
      planned("LABEL=UEFI /home/data/efi vfat defaults\nUUID=0000-home //home/ xfs defaults"),
      ElementsAre(testing::StartsWith("home <- 2"), testing::StartsWith("home/data/efi <- 15")));
}

TEST(FstabPlan, subvolumes_of_the_root_s_btrfs_are_mounted) {
  const PartitionFacts root = part(1, "btrfs", "0000-root");
  EXPECT_THAT(
      planned("UUID=0000-root / btrfs subvol=root\n"
              "UUID=0000-root /home btrfs subvol=home,compress=zstd:1,discard=async,autodefrag\n"
              "UUID=0000-root /top btrfs defaults\n",
              root, {root}),
      ElementsAre("home <- 1: rw,relatime,nodev,nodiscard,subvol=home,compress=zstd:1",
                  "! /top (UUID=0000-root) is not mounted: it is the root itself"));
}

struct Left {
  const char* line;
  const char* sentence;
};
class LinesLeft : public testing::TestWithParam<Left> {};

TEST_P(LinesLeft, are_said_with_their_reason) {
  EXPECT_THAT(planned(GetParam().line), ElementsAre(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    Table, LinesLeft,
    testing::Values(
        Left{"UUID=0000-swap none swap sw 0 0",
             "swap (UUID=0000-swap) is not mounted: memory is the base's"},
        Left{"/swap.img none swap sw", "swap (/swap.img) is not mounted: memory is the base's"},
        Left{"tmpfs /tmp tmpfs size=1G",
             "/tmp (tmpfs) is not mounted: sessions have their own, or none"},
        Left{"server:/x /x nfs4 defaults",
             "! /x (server:/x) is not mounted: file systems of the network are not mounted, mount "
             "it "
             "in a hook or in a session"},
        Left{"LABEL=home /h xfs _netdev",
             "! /h (LABEL=home) is not mounted: file systems of the network are not mounted, mount "
             "it "
             "in a hook or in a session"},
        Left{"/dev/nvme1n1 /data xfs defaults",
             "! /data (/dev/nvme1n1) is not mounted: it is named as another machine called it, "
             "UUID= "
             "would be understood"},
        Left{"UUID=0000-gone /data ext4 defaults",
             "! /data (UUID=0000-gone) is not mounted: it is no partition of this disk"},
        Left{"UUID=0000-gone /boot ext4 defaults",
             "/boot (UUID=0000-gone) is not mounted: it is no partition of this disk"},
        Left{
            "UUID=0000-luks /data ext4 defaults",
            "! /data (UUID=0000-luks) is not mounted: a partition that holds crypto_LUKS cannot be "
            "mounted"},
        Left{"UUID=0000-root /again ext4 defaults",
             "! /again (UUID=0000-root) is not mounted: it is the root itself"},
        Left{"LABEL=home /home xfs noauto", "! /home (LABEL=home) is not mounted: it says noauto"},
        Left{"/home/x /srv none bind",
             "! /srv (/home/x) is not mounted: only partitions and subvolumes are mounted"},
        Left{"LABEL=home /var xfs defaults",
             "! /var (LABEL=home) is not mounted: what the bootstrap keeps of the node lies below, "
             "in "
             "the root's file system"},
        Left{"LABEL=home /run/x xfs defaults",
             "! /run/x (LABEL=home) is not mounted: sessions have their own there"},
        Left{"LABEL= /x xfs defaults",
             "! /x (LABEL=) is not mounted: this is no file system on a disk"}));

TEST(FstabPlan, hostile_lines_mount_nothing_and_reach_no_terminal) {
  for (const char* point : {"home", "/../etc", "/home/..", "/./x", "//", "/a\\012b", "/\\033[2J",
                            "/proc", "/sys/x", "/dev", "/var/lib/warmroot/host_keys"}) {
    const auto lines = planned("LABEL=home " + std::string(point) + " xfs defaults");
    ASSERT_EQ(lines.size(), 1u) << point;
    EXPECT_THAT(lines[0], HasSubstr("is not mounted")) << point;
    EXPECT_THAT(lines[0], testing::Not(testing::AnyOf(HasSubstr("\n"), HasSubstr("\033"))))
        << point;
  }
  const PartitionFacts root = part(1, "btrfs", "0000-root");
  for (const char* options : {"subvol=a\\040b", "subvol=\"x", "subvol="})
    EXPECT_THAT(planned("UUID=0000-root /x btrfs " + std::string(options), root, {root}),
                testing::Not(ElementsAre(HasSubstr("<-"))))
        << options;
  EXPECT_THAT(
      planned("LABEL=home /x xfs dev,suid,logdev=/dev/sda,X-mount.mkdir,context=x,offset=1"),
      ElementsAre("x <- 2: rw,relatime,nodev,nouuid"));
  EXPECT_THAT(planned("UUID=0000-root /x btrfs subvol=x\\054dev", root, {root}),
              ElementsAre("x <- 1: rw,relatime,nodev,nodiscard,subvol=x"));
}

TEST(FstabPlan, a_name_that_two_partitions_carry_names_none) {
  auto disk = kDisk;
  disk.push_back(part(5, "ext4", "0000-HOME"));
  EXPECT_THAT(planned("UUID=0000-HOME /home xfs defaults", kRoot, disk),
              ElementsAre(HasSubstr("more than one partition of this disk is called so")));
  EXPECT_THAT(
      planned("LABEL=home /home xfs defaults\nLABEL=UEFI /home vfat defaults"),
      ElementsAre(testing::StartsWith("home <- 2"), HasSubstr("another line has the same place")));
}

TEST(FstabPlan, what_is_damaged_fails_the_volume_unless_its_line_lets_it_be_missing) {
  const auto fails = [](const std::string& line, FstabStep failed, const std::string& code) {
    const FstabPlan plan = plan_fstab(line, kDisk, kRoot);
    EXPECT_EQ(plan.mounts.size(), 1u) << line;
    return plan.mounts.size() == 1 &&
           fails_volume(plan.mounts[0], failed, Error{ErrorKind::refused, "why", code, {}});
  };
  for (const char* options : {"", " defaults", " rw,noatime", " defaults,nofailure"}) {
    const std::string line = "LABEL=home /home xfs" + std::string(options);
    for (const char* code : {"", "EUCLEAN", "EBUSY"})
      EXPECT_TRUE(fails(line, FstabStep::check, code)) << line << " " << code;
    for (const char* code : {"EUCLEAN", "EBADMSG", "EIO"})
      EXPECT_TRUE(fails(line, FstabStep::mount, code)) << line << " " << code;
    // The base's kernel has no such file system, or not this one's features; no such directory.
    for (const char* code : {"", "ENODEV", "EINVAL", "ENOENT", "ENOTDIR", "EBUSY"})
      EXPECT_FALSE(fails(line, FstabStep::mount, code)) << line << " " << code;
  }
  for (const char* options : {"nofail", "defaults,nofail", "noatime,x-systemd.automount", "ro"}) {
    const std::string line = "LABEL=UEFI /boot/efi vfat " + std::string(options);
    EXPECT_FALSE(fails(line, FstabStep::check, "EUCLEAN")) << line;
    EXPECT_FALSE(fails(line, FstabStep::mount, "EUCLEAN")) << line;
  }
}

TEST(FstabPlan, a_text_without_end_or_sense_is_read_within_bounds) {
  EXPECT_THAT(parse_fstab(std::string(kMaxFstab + 1, 'x')), IsEmpty());
  EXPECT_THAT(parse_fstab("one two\n\\ \\0 \\07\n\\\n"), testing::SizeIs(1));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "LABEL=home /home xfs\n";
  EXPECT_THAT(parse_fstab(many), testing::SizeIs(64));
}

}  // namespace
}  // namespace warmroot::bootstrap
