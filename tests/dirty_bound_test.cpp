#include "bootstrap/dirty_bound.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bootstrap/base/units.hpp"
#include "bootstrap/files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

/// A kernel's files: the volume is nvme1n1 (259:3), the base's disk nvme0n1 (259:0).
class DirtyBounds : public testing::Test {
 protected:
  void SetUp() override {
    put("sys/block/nvme1n1/dev", "259:3");
    put("sys/block/nvme0n1/dev", "259:0");
    for (const char* device : {"259:0", "259:3"}) device_with(device, true);
    kernel_limit(8 * kGiB);
    put("vm/dirty_bytes", "0");
    put("vm/dirty_ratio", "20");
  }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = directory_.path() + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  void device_with(const std::string& device, bool bytes) {
    const std::string folder = "sys/class/bdi/" + device + "/";
    std::filesystem::remove_all(directory_.path() + "/" + folder);
    put(folder + "max_ratio", "100");
    if (!bytes) return;
    put(folder + "max_bytes", "8589934592");
    put(folder + "strict_limit", "0");
  }
  void kernel_limit(std::uint64_t bytes) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    put("vmstat", "nr_dirty 5\nnr_dirty_threshold " + std::to_string(bytes / page) + "\nother 1");
  }
  std::string at(const std::string& name, const std::string& device = "259:3") const {
    return read_attribute(directory_.path() + "/sys/class/bdi/" + device + "/" + name);
  }
  Result<DirtyBound> find(const std::string& filesystem = "ext4") const {
    return DirtyBound::find("nvme1n1", filesystem,
                            {directory_.path() + "/sys", directory_.path() + "/vmstat",
                             directory_.path() + "/vm", directory_.path() + "/before"});
  }
  std::string of_all(const std::string& name) const {
    return read_attribute(directory_.path() + "/vm/dirty_" + name);
  }
  const TemporaryDirectory directory_;
};

TEST_F(DirtyBounds, are_set_in_bytes_and_strict_on_the_volume_alone_and_taken_back) {
  auto bound = find();
  ASSERT_TRUE(bound) << bound.error().message();
  const auto words = bound->set(1875 * kMiB);
  ASSERT_TRUE(words) << words.error().message();
  EXPECT_EQ(*words, "at most 1875 MiB dirty in memory");
  EXPECT_EQ(at("max_bytes"), std::to_string(1875 * kMiB));
  EXPECT_EQ(at("strict_limit"), "1");
  EXPECT_EQ(at("max_bytes", "259:0"), "8589934592");
  EXPECT_EQ(at("strict_limit", "259:0"), "0");
  ASSERT_TRUE(bound->remove());
  EXPECT_EQ(at("strict_limit"), "0");
  EXPECT_EQ(at("max_ratio"), "100");
}

TEST_F(DirtyBounds, follow_the_kernel_s_limit_when_it_moves) {
  auto bound = find();
  ASSERT_TRUE(bound->set(1000 * kMiB));
  put("sys/class/bdi/259:3/max_bytes", std::to_string(1050 * kMiB));
  EXPECT_EQ(bound->keep(), std::nullopt);
  EXPECT_EQ(at("max_bytes"), std::to_string(1050 * kMiB)) << "a few per cent are no reason";
  put("sys/class/bdi/259:3/max_bytes", std::to_string(2000 * kMiB));
  EXPECT_EQ(bound->keep(), std::nullopt) << "the same was said before";
  EXPECT_EQ(at("max_bytes"), std::to_string(1000 * kMiB));
}

TEST_F(DirtyBounds, change_nothing_while_the_kernel_allows_less_anyway) {
  kernel_limit(700 * kMiB);
  auto bound = find();
  EXPECT_THAT(bound->set(1000 * kMiB).value_or(""), HasSubstr("own limit of 700 MiB is lower"));
  EXPECT_EQ(at("strict_limit"), "0");
  kernel_limit(650 * kMiB);
  EXPECT_EQ(bound->keep(), std::nullopt) << "it moves all the time";
  EXPECT_EQ(at("strict_limit"), "0");
  kernel_limit(2000 * kMiB);  // memory became free
  EXPECT_EQ(bound->keep(), "at most 1000 MiB dirty in memory") << "status said another thing";
  EXPECT_EQ(at("max_bytes"), std::to_string(1000 * kMiB));
  EXPECT_EQ(at("strict_limit"), "1");
}

/// A percentage of the device's, as it was, is heeded only while the whole machine has more dirty
/// than half of its limit: of 192 GiB five minutes of a gp3's writing.
TEST_F(DirtyBounds, of_kernels_before_6_2_are_of_all_disks_together_and_taken_back) {
  device_with("259:3", false);
  auto bound = find();
  const auto words = bound->set(1000 * kMiB);
  ASSERT_TRUE(words) << words.error().message();
  EXPECT_THAT(*words, HasSubstr("at most 1000 MiB dirty in memory, with what other disks have"));
  EXPECT_THAT(*words, HasSubstr("older than 6.2"));
  EXPECT_EQ(of_all("bytes"), std::to_string(1000 * kMiB));
  EXPECT_EQ(at("max_ratio"), "100");
  put("vm/dirty_ratio", "0");  // as the kernel does
  kernel_limit(1000 * kMiB);
  EXPECT_EQ(bound->keep(), std::nullopt);
  // The process is killed, and the next one, or `down`, takes it back.
  auto next = find();
  EXPECT_EQ(next->set(1000 * kMiB).value_or(""), *words) << "the limit that it finds is its own";
  ASSERT_TRUE(next->remove());
  EXPECT_EQ(of_all("ratio"), "20");
  put("vm/dirty_bytes", "0");
  ASSERT_TRUE(next->remove());
  EXPECT_EQ(of_all("bytes"), "0") << "once is enough";
}

TEST_F(DirtyBounds, of_all_disks_give_way_to_what_an_operator_has_set) {
  device_with("259:3", false);
  put("vm/dirty_bytes", std::to_string(4000 * kMiB));
  put("vm/dirty_ratio", "0");
  kernel_limit(4000 * kMiB);
  auto bound = find();
  ASSERT_TRUE(bound->set(1000 * kMiB));
  put("vm/dirty_bytes", std::to_string(2000 * kMiB));
  kernel_limit(2000 * kMiB);
  EXPECT_THAT(bound->keep().value_or(""),
              HasSubstr("as somebody else has set vm.dirty_bytes or vm.dirty_ratio since, and "
                        "not at most 1000 MiB"));
  EXPECT_EQ(bound->keep(), std::nullopt) << "said once";
  EXPECT_EQ(of_all("bytes"), std::to_string(2000 * kMiB));
  put("vm/dirty_bytes", std::to_string(1000 * kMiB));
  kernel_limit(1000 * kMiB);
  EXPECT_THAT(bound->keep().value_or(""), HasSubstr("at most 1000 MiB dirty"));
  put("vm/dirty_bytes", std::to_string(2000 * kMiB));
  ASSERT_TRUE(bound->remove());
  EXPECT_EQ(of_all("bytes"), std::to_string(4000 * kMiB));
}

TEST_F(DirtyBounds, of_all_disks_that_could_not_be_set_are_tried_again) {
  device_with("259:3", false);
  const std::string bytes = directory_.path() + "/vm/dirty_bytes";
  std::filesystem::remove(bytes);
  std::filesystem::create_directory(bytes);
  auto bound = find();
  EXPECT_FALSE(bound->set(1000 * kMiB));
  EXPECT_EQ(bound->keep(), std::nullopt);
  std::filesystem::remove(bytes);
  put("vm/dirty_bytes", "0");
  EXPECT_THAT(bound->keep().value_or(""), HasSubstr("at most 1000 MiB dirty"));
  EXPECT_EQ(of_all("bytes"), std::to_string(1000 * kMiB));
}

TEST_F(DirtyBounds, of_all_disks_come_once_the_kernel_allows_more) {
  device_with("259:3", false);
  kernel_limit(700 * kMiB);
  auto bound = find();
  EXPECT_THAT(bound->set(1000 * kMiB).value_or(""), HasSubstr("is lower"));
  EXPECT_EQ(of_all("bytes"), "0");
  kernel_limit(2000 * kMiB);
  EXPECT_THAT(bound->keep().value_or(""), HasSubstr("at most 1000 MiB dirty"));
  EXPECT_EQ(of_all("bytes"), std::to_string(1000 * kMiB));
}

TEST_F(DirtyBounds, of_a_process_that_is_gone_are_taken_back_too) {
  ASSERT_TRUE(find()->set(1000 * kMiB));
  put("sys/class/bdi/259:3/max_ratio", "12");  // the kernel shows the same share twice
  ASSERT_TRUE(find()->remove());
  EXPECT_EQ(at("strict_limit"), "0");
  EXPECT_EQ(at("max_ratio"), "100");
}

TEST_F(DirtyBounds, of_btrfs_are_set_on_its_own_device) {
  put("sys/fs/btrfs/features/temp_fsid", "0");
  put("sys/fs/btrfs/1111/devices/nvme0n1p1/size", "1");
  put("sys/fs/btrfs/2222/devices/nvme1n1p1/size", "1");
  put("sys/block/nvme0n1/nvme0n1p1/dev", "259:1");
  put("sys/block/nvme1n1/nvme1n1p1/dev", "259:4");
  device_with("btrfs-2", true);
  std::filesystem::create_directory_symlink(directory_.path() + "/sys/class/bdi/btrfs-2",
                                            directory_.path() + "/sys/fs/btrfs/2222/bdi");
  auto bound = find("btrfs");
  ASSERT_TRUE(bound) << bound.error().message();
  ASSERT_TRUE(bound->set(1000 * kMiB));
  EXPECT_EQ(at("strict_limit", "btrfs-2"), "1");
  EXPECT_EQ(at("strict_limit"), "0");
}

TEST_F(DirtyBounds, that_cannot_be_found_or_set_say_so) {
  EXPECT_FALSE(find("btrfs"));
  std::filesystem::remove_all(directory_.path() + "/sys/class/bdi/259:3");
  const auto bound = find();
  ASSERT_FALSE(bound);
  EXPECT_THAT(bound.error().message(), HasSubstr("no backing device of nvme1n1"));
  DirtyBound none;
  none.keep();
  EXPECT_TRUE(none.remove());
}

}  // namespace
}  // namespace warmroot::bootstrap
