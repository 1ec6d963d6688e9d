// What a disk holds, asked of libblkid on a lazily initialised volume; needs what warm_volume.hpp
// does. Which table and which root are tested by partition_grow_test and boot_disks_test.
#include "bootstrap/partition.hpp"

#include "bootstrap/base/sector.hpp"
#include "bootstrap/base/unique_fd.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

class ReadPartitions : public WarmerTest {
 protected:
  /// How often somebody asked for an absent block when all that had been asked for was there.
  std::size_t rounds_since(std::size_t first) const {
    const auto log = ebs_->touch_log(kVolume);
    std::size_t rounds = 0;
    sim::SimTime present_at{};
    for (std::size_t i = first; i < log.size(); ++i) {
      if (i == first || log[i].requested_at >= present_at) ++rounds;
      present_at = std::max(present_at, log[i].present_at);
    }
    return rounds;
  }
};

TEST_F(ReadPartitions, asks_for_all_that_libblkid_looks_at_at_once) {
  make_image(kOddOffset);
  ASSERT_TRUE(shell("printf 'label: dos\nstart=" + std::to_string(kOddOffset / kSector) +
                    "\n' | sfdisk -q --wipe never " + (top_ / "image").string()));
  attach({});
  const std::size_t before = ebs_->touch_log(kVolume).size();
  const UniqueFd disk(::open(disk_loop_.device().c_str(), O_RDONLY | O_CLOEXEC));
  const auto partitions = bootstrap::read_partitions(disk.get());
  ASSERT_TRUE(partitions) << partitions.error().message();
  ASSERT_EQ(partitions->size(), 1U);
  EXPECT_EQ(partitions->front().content, "ext4");
  EXPECT_EQ(partitions->front().offset_bytes, kOddOffset);
  const std::size_t touched = ebs_->touch_log(kVolume).size() - before;
  EXPECT_GE(touched, 5U);
  EXPECT_LE(rounds_since(before), 2U) << touched << " first touches";
}

}  // namespace
}  // namespace warmroot::warm
