// Whatever a volume or the manager brings as hot list or block list, on its whole way through the
// bootstrap: it is said what is wrong, people land in the volume, warming ends, memory is bounded.
#include <sys/syscall.h>

#include "bootstrap/warm/hot_list.hpp"
#include "bootstrap/warm/recorder.hpp"
#include "tests/boot_up.hpp"

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;

constexpr char kInTheVolume[] = "/home/ada PRETTY_NAME=\"Test Volume 1\"";
constexpr std::uint64_t kTebibyte = std::uint64_t{1} << 40;

std::string list_of(const std::string& lineage, std::uint64_t device_bytes,
                    std::uint64_t first_offset) {
  warm::HotList list{lineage, "", device_bytes, 1, {}};
  for (std::uint64_t i = 0; i < 8; ++i)
    list.ranges.push_back({{first_offset + i * warm::kGridBytes, 4096}, "/bin/sh", 0, 1000});
  return warm::encode_hot_list(list);
}

std::string damaged(std::string list) {
  list.replace(list.find("/bin/sh"), 7, "/bin/sx");
  return list;
}

struct BadList {
  const char* name;
  std::function<std::string()> text;
  std::string told;               ///< in the log
  const char* file = "hot-list";  ///< the manager's answer; nullptr: it lies on the volume
};

void PrintTo(const BadList& list, std::ostream* out) {
  *out << list.name;
}

class BootLists : public BootUp, public testing::WithParamInterface<BadList> {
 protected:
  void SetUp() override {
    BootUp::SetUp();
    if (reason_.empty()) {
      ASSERT_TRUE(shell("rm -rf /run/answers; mkdir /run/answers; rm -f /run/list " +
                        std::string(kLogFile)));
    }
  }
  static std::string log() { return read_file(kLogFile, kMaxStatus).value_or(""); }
  static std::string status_text() { return read_file(kStatusFile, kMaxStatus).value_or(""); }
  /// The daemon's largest resident set of its own memory so far, without what it shares with this
  /// program.
  static std::uint64_t peak_kib() {
    const auto line = shell("grep VmHWM /proc/" + std::to_string(running_daemon()) + "/status");
    return line ? std::strtoull(line->c_str() + sizeof("VmHWM:") - 1, nullptr, 10) : 0;
  }
};

TEST_P(BootLists, that_are_wrong_are_told_and_harm_no_session) {
  const BadList& bad = GetParam();
  ASSERT_TRUE(write_file_atomic("/run/list", bad.text(), 0644));
  if (bad.file != nullptr) {
    ASSERT_TRUE(shell("mv /run/list /run/answers/" + std::string(bad.file)));
    make_volume();
  } else {
    make_volume("mkdir -p $t/var/lib/warmroot; cp /run/list $t/" + std::string(kVolumeHotList),
                false, "128M");
  }
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(comes([] { return status_text().find("\"stage\":\"warm\"") != std::string::npos; }))
      << status_text();
  EXPECT_TRUE(comes([&] { return log().find(bad.told) != std::string::npos; })) << log();
  EXPECT_EQ(status().message, "");
  const std::uint64_t peak = peak_kib();
  EXPECT_GT(peak, 0U);
  EXPECT_LT(peak, 48U * 1024);
  if (std::getenv("WARMROOT_SHOW") != nullptr)
    std::printf("%s: %lu KiB\n", bad.name, static_cast<unsigned long>(peak));
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
  EXPECT_THAT(mounts_at(kVolumePoint), testing::IsEmpty());
}

/// The first person's session, recorded by a daemon whose kernel has no trace to show.
TEST_F(BootLists, where_tracefs_is_absent_the_daemon_records_by_pages_and_its_log_says_so) {
  ASSERT_TRUE(shell("mount -t tmpfs tmpfs /sys/kernel"));
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager, SYS_fsopen), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_TRUE(comes([] {
    return log().find("recording from opened files and pages in memory") != std::string::npos;
  }));
  // Logins that the daemon tries itself are no person's.
  ASSERT_TRUE(comes([] {
    return log().find("step name=\"probe logins of others\"") != std::string::npos;
  })) << log();
  ::poll(nullptr, 0, 3 * warm::kRecordPollMs);
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(down());
  ASSERT_TRUE(shell("umount /sys/kernel"));
  mount_volume();
  const auto list =
      warm::decode_hot_list(read_file(inside(kVolumeHotList), kMaxStatus).value_or(""));
  ASSERT_TRUE(list) << list.error().message() << log();
  EXPECT_THAT(list->ranges, testing::Contains(testing::Field(&warm::HotRange::path, "/bin/sh")));
  EXPECT_THAT(log(), HasSubstr("this one from opened files and pages in memory"));
}

const std::string kGood = list_of("snap-0a1b2c3d", 64 << 20, 0);

INSTANTIATE_TEST_SUITE_P(
    Of, BootLists,
    testing::Values(
        BadList{"an_empty_one_of_the_manager", [] { return ""; }, "the hot list is no hot list"},
        BadList{"a_corrupt_one_of_the_manager", [] { return damaged(kGood); }, "the hot list "},
        BadList{"a_long_one_of_the_manager",
                [] { return std::string(warm::kMostListBytes + 1, 'a'); },
                "is longer than a hot list may be"},
        BadList{"a_huge_one_of_the_manager", [] { return std::string(96 << 20, 'a'); },
                "the answer is larger than 8 MiB"},
        BadList{"a_foreign_one_of_the_manager",
                [] { return list_of("snap-0f0e0d0c", 64 << 20, 0); },
                "the manager's list is of snap-0f0e0d0c, not of this volume's lineage"},
        BadList{"one_beyond_the_device_of_the_manager",
                [] { return list_of("snap-0a1b2c3d", kTebibyte, kTebibyte / 2); },
                "8 ranges lie beyond the device: left out"},
        BadList{"a_corrupt_one_of_the_pool", [] { return damaged(kGood); },
                "the hot list is damaged: its checksum is wrong", "hot-list-of-pool"},
        BadList{"a_corrupt_block_list", [] { return std::string(4096, 'b'); },
                "the block list is no block list", "block-list"},
        BadList{"an_empty_one_on_the_volume", [] { return ""; }, "the hot list is no hot list",
                nullptr},
        BadList{"a_corrupt_one_on_the_volume", [] { return damaged(kGood); },
                "the hot list is damaged: its checksum is wrong", nullptr},
        BadList{"a_huge_one_on_the_volume", [] { return std::string(96 << 20, 'a'); },
                "the hot list is no file of the expected size", nullptr},
        BadList{"one_beyond_the_device_on_the_volume",
                [] { return list_of("snap-0a1b2c3d", kTebibyte, kTebibyte / 2); },
                "8 ranges lie beyond the device: left out", nullptr}),
    [](const testing::TestParamInfo<BadList>& list) { return std::string(list.param.name); });

}  // namespace
}  // namespace warmroot::bootstrap
