// Tables that sfdisk made, grown by the plan, and read again by sfdisk and libblkid; a cut after
// each write.
#include "bootstrap/partition_grow.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <random>

#include "bootstrap/files.hpp"
#include "bootstrap/warm/little_endian.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kMib = 1 << 20;

class GrownTable : public testing::Test {
 protected:
  void SetUp() override {
    if (first_executable({"/sbin/sfdisk", "/usr/sbin/sfdisk"}).empty()) {
      if (must_run()) FAIL() << "this machine lacks sfdisk";
      GTEST_SKIP() << "NOT TESTED: this machine lacks sfdisk";
    }
  }

  std::string output(const std::string& script) const {
    const auto done = run_program({"/bin/sh", "-c", "d=" + image_ + "; " + script},
                                  std::chrono::milliseconds(20000));
    return done ? done->output : done.error().message();
  }
  /// A disk of 64 MiB with this table, made larger.
  void make(const std::string& label, const std::string& lines, int mib = 96) {
    output("rm -f $d; truncate -s 64M $d; printf '" + lines + "' | sfdisk -q --label " + label +
           " $d; truncate -s " + std::to_string(mib) + "M $d");
    bytes_ = std::uint64_t(mib) * kMib;
  }
  std::vector<PartitionFacts> partitions() const {
    const UniqueFd disk(::open(image_.c_str(), O_RDONLY | O_CLOEXEC));
    return read_partitions(disk.get()).value_or(std::vector<PartitionFacts>());
  }
  PartitionFacts partition(int number) const {
    for (const auto& found : partitions())
      if (found.number == number) return found;
    return {};
  }
  Result<std::optional<Growth>> plan(int number) const {
    const auto whole = read_file(image_, 1 << 28).value_or("");
    return plan_growth(std::string_view(whole).substr(0, kGrowthLooksAtBytes), bytes_,
                       partition(number));
  }
  void write(const TableWrite& write) const {
    const UniqueFd disk(::open(image_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(disk.get(), write.bytes.data(), write.bytes.size(),
                       static_cast<off_t>(write.offset)),
              static_cast<ssize_t>(write.bytes.size()));
  }
  std::string refusal(int number) const {
    const auto planned = plan(number);
    return planned ? "planned" : planned.error().message();
  }

  TemporaryDirectory directory_;
  const std::string image_ = directory_.path() + "/disk";
  std::uint64_t bytes_ = 0;
};

TEST_F(GrownTable, of_either_kind_is_whole_again_and_changes_nothing_else) {
  struct {
    const char *label, *lines;
    int number;
    std::uint64_t first_mib, end_mib;
  } cases[] = {
      {"gpt", "start=2048\\n", 1, 1, 95},
      // As Debian's and Ubuntu's images have it: what boots lies before the root, and is numbered
      // behind it.
      {"gpt", "1: start=16384\\n14: start=2048,size=6144\\n15: start=8192,size=8192\\n", 1, 8, 95},
      {"dos", "start=2048,bootable\\n", 1, 1, 96},
      {"dos", "start=2048,size=4096\\nstart=8192\\n", 2, 4, 96},
  };
  for (const auto& given : cases) {
    SCOPED_TRACE(given.lines);
    make(given.label, given.lines);
    const auto before = partitions();
    const auto growth = plan(given.number);
    ASSERT_TRUE(growth) << growth.error().message();
    ASSERT_TRUE(*growth);
    for (const auto& part : (*growth)->writes) write(part);
    EXPECT_THAT(output("sfdisk --verify $d 2>&1"), HasSubstr("No errors detected"));
    EXPECT_THAT(output("sfdisk --dump $d 2>&1 >/dev/null"), IsEmpty()) << "sfdisk would repair it";
    const auto after = partitions();
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].part_uuid, before[i].part_uuid);
      EXPECT_EQ(after[i].offset_bytes, before[i].offset_bytes);
      if (after[i].number != given.number) {
        EXPECT_EQ(after[i].size_bytes, before[i].size_bytes);
        continue;
      }
      EXPECT_EQ(after[i].size_bytes, (given.end_mib - given.first_mib) * kMib);
      EXPECT_EQ(after[i].size_bytes, (*growth)->size_bytes);
    }
    EXPECT_FALSE(plan(given.number).value_or(Growth())) << "there is nothing more to gain";
  }
}

TEST_F(GrownTable, cut_after_each_write_is_read_and_can_be_grown) {
  for (std::size_t written = 0; written <= 4; ++written) {
    SCOPED_TRACE(written);
    make("gpt", "start=2048,name=root\\n");
    const PartitionFacts before = partition(1);
    const auto growth = plan(1);
    ASSERT_TRUE(growth && *growth);
    for (std::size_t i = 0; i < written && i < (*growth)->writes.size(); ++i)
      write((*growth)->writes[i]);
    const PartitionFacts found = partition(1);
    EXPECT_EQ(found.part_uuid, before.part_uuid);
    EXPECT_EQ(found.offset_bytes, before.offset_bytes);
    EXPECT_EQ(found.size_bytes, written < 3 ? before.size_bytes : (*growth)->size_bytes);
    const auto again = plan(1);
    ASSERT_TRUE(again) << again.error().message();
    for (const auto& part : *again ? (*again)->writes : std::vector<TableWrite>()) write(part);
    EXPECT_EQ(partition(1).size_bytes, (*growth)->size_bytes);
  }
}

TEST_F(GrownTable, is_left_alone_where_something_lies_behind_or_nothing_is_gained) {
  make("gpt", "start=2048,size=20480\\nstart=40960,size=2048\\n");
  EXPECT_THAT(refusal(1), HasSubstr("partition 2 lies behind it"));
  make("dos", "start=2048,size=20480\\nstart=40960,type=5\\nstart=43008\\n");
  EXPECT_THAT(refusal(1), HasSubstr("partition 2 lies behind it"));
  EXPECT_THAT(refusal(5), HasSubstr("a logical partition"));
  make("gpt", "start=2048\\n", 64);
  EXPECT_FALSE(plan(1).value_or(Growth()));
  make("dos", "start=2048\\n", 64);
  EXPECT_FALSE(plan(1).value_or(Growth()));
  make("sgi", "start=4096\\n");
  EXPECT_NE(refusal(1), "planned");
}

TEST_F(GrownTable, that_is_damaged_is_left_alone) {
  make("gpt", "start=2048\\n");
  const PartitionFacts root = partition(1);
  const std::string start = read_file(image_, 1 << 28).value_or("").substr(0, kGrowthLooksAtBytes);
  for (const std::size_t at : {512 + 0, 512 + 12, 512 + 16, 512 + 24, 512 + 72, 512 + 80, 512 + 84,
                               512 + 88, 1024 + 0, 1024 + 32, 1024 + 40, 1024 + 60}) {
    std::string damaged = start;
    damaged[at] = static_cast<char>(damaged[at] + 1);
    const auto planned = plan_growth(damaged, bytes_, root);
    ASSERT_FALSE(planned) << at;
    EXPECT_EQ(planned.error().kind, ErrorKind::refused);
  }
  EXPECT_FALSE(plan_growth(start.substr(0, 1000), bytes_, root));
  EXPECT_FALSE(plan_growth(start, 32 * kMib, root)) << "the table of a larger disk";
}

}  // namespace
}  // namespace warmroot::bootstrap
