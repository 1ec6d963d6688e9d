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
#ifdef WARMROOT_SANITIZED
constexpr std::uint64_t kMostGrowthKib = 512 * 1024;  // it keeps what was freed for a while
#else
constexpr std::uint64_t kMostGrowthKib = 40 * 1024;
#endif

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

const std::string kGood = list_of("snap-0a1b2c3d", 64 << 20, 0);

struct BadList {
  const char* name;
  std::function<std::string()> text;  ///< none: 96 MiB, which this program never holds
  std::string told;                   ///< in the log
  const char* file = "hot-list";      ///< the manager's answer; nullptr: it lies on the volume
  bool beside_own = false;            ///< on which a good one lies
  bool is_copied = false;             ///< onto the volume, nobody knows of which
};

void PrintTo(const BadList& list, std::ostream* out) {
  *out << list.name;
}

class BootLists : public BootUp, public testing::WithParamInterface<BadList> {
 protected:
  void SetUp() override {
    BootUp::SetUp();
    if (reason_.empty()) {
      // Nor is the key known, which a daemon before was given: each says hello.
      ASSERT_TRUE(shell("rm -rf /run/answers; mkdir /run/answers; rm -f /run/list " +
                        std::string(kHeardAsked) + " " + kLogFile + " " + kKeyFile));
    }
  }
  static std::string log() { return read_file(kLogFile, kMaxStatus).value_or(""); }
  static std::string status_text() { return read_file(kStatusFile, kMaxStatus).value_or(""); }
  /// A line of what the kernel says of a process, proc_pid_status(5).
  static std::uint64_t kib_of(pid_t process, const std::string& key) {
    const auto line = shell("grep ^" + key + ": /proc/" + std::to_string(process) + "/status");
    return line ? std::strtoull(line->c_str() + key.size() + 1, nullptr, 10) : 0;
  }
};

TEST_P(BootLists, that_are_wrong_are_told_and_harm_no_session) {
  const BadList& bad = GetParam();
  if (bad.text) {
    ASSERT_TRUE(write_file_atomic("/run/list", bad.text(), 0644));
  } else {
    ASSERT_TRUE(shell("head -c 96M /dev/zero >/run/list"));
  }
  if (bad.file != nullptr) {
    ASSERT_TRUE(shell("mv /run/list /run/answers/" + std::string(bad.file)));
  }
  if (bad.beside_own) {
    ASSERT_TRUE(write_file_atomic("/run/list", kGood, 0644));
  }
  if (bad.file == nullptr || bad.beside_own)
    make_volume("mkdir -p $t/var/lib/warmroot; cp /run/list $t/" + std::string(kVolumeHotList) +
                    (bad.is_copied ? "" : "; echo vol-0abc >$t/" + std::string(kVolumeHotListOf)),
                false, "128M");
  else
    make_volume();
  dress_as_disk();
  // The daemon is a fork of this program and begins with its memory, not with its pages of files.
  const std::uint64_t inherited = kib_of(::getpid(), "RssAnon");
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  EXPECT_EQ(login(), kInTheVolume);
  EXPECT_TRUE(comes([] { return status_text().find("\"stage\":\"warm\"") != std::string::npos; }))
      << status_text();
  EXPECT_TRUE(comes([&] { return log().find(bad.told) != std::string::npos; })) << log();
  EXPECT_EQ(status().message, "");
  const std::uint64_t peak = kib_of(running_daemon(), "VmHWM");
  EXPECT_GT(peak, inherited);
  EXPECT_LT(peak, inherited + kMostGrowthKib);
  if (std::getenv("WARMROOT_SHOW") != nullptr)
    std::printf("%s: %lu KiB and %lu KiB\n", bad.name, static_cast<unsigned long>(inherited),
                static_cast<unsigned long>(peak - inherited));
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
    return log().find("waiting for the first session") != std::string::npos;
  })) << log();
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

/// It stayed on its volume.
TEST_F(BootLists, what_record_was_asked_for_goes_to_the_manager_and_nothing_of_another_volume) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  const std::string left = std::string(kAskedLists) + "vol-0abc";
  const std::string of_another = std::string(kAskedLists) + "vol-0def";
  ASSERT_TRUE(write_file_atomic(of_another, damaged(kGood), 0600));
  ASSERT_TRUE(write_file_atomic(left, kGood, 0600));
  EXPECT_TRUE(comes([] { return read_file(kHeardAsked, kMaxStatus).value_or("") == kGood; }));
  EXPECT_NE(::access(left.c_str(), F_OK), 0) << "once";
  EXPECT_EQ(::unlink(of_another.c_str()), 0) << "of whoever has that volume here later";
  EXPECT_TRUE(comes([] {
    return log().find("the manager has what `record` was asked for") != std::string::npos;
  })) << log();
  ASSERT_TRUE(write_file_atomic(left, list_of("", 64 << 20, 4096), 0600));
  EXPECT_TRUE(down());
  EXPECT_TRUE(comes([] { return read_file(kHeardAsked, kMaxStatus).value_or("") != kGood; }))
      << "shortly before the end, too";
}

/// Of lists that came faster than the manager hears of a volume it kept the first: the others were
/// refused until they were given up.
TEST_F(BootLists, of_what_record_was_asked_for_in_short_order_the_manager_gets_the_last) {
  make_volume();
  dress_as_disk();
  ASSERT_EQ(run_up(kTicketOfManager), "");
  start_sshd();
  ASSERT_TRUE(comes_ready()) << status().message;
  const std::string left = std::string(kAskedLists) + "vol-0abc";
  const auto heard = [] { return read_file(kHeardAsked, kMaxStatus).value_or(""); };
  ASSERT_TRUE(write_file_atomic(left, kGood, 0600));
  auto unheard = steady_clock::now();
  ASSERT_TRUE(comes([&] {
    const auto now = steady_clock::now();
    const bool is_heard = heard() == kGood;
    if (!is_heard) unheard = now;
    return is_heard;
  }));
  const std::string last = list_of("", 64 << 20, 8192);
  ASSERT_TRUE(write_file_atomic(left, list_of("", 64 << 20, 4096), 0600));
  ASSERT_TRUE(write_file_atomic(left, last, 0600));
  EXPECT_TRUE(comes([&] { return heard() != kGood; }));
  EXPECT_GE(steady_clock::now() - unheard, warm::kAskedPause) << "once it hears of the volume";
  EXPECT_EQ(heard(), last);
}

INSTANTIATE_TEST_SUITE_P(
    Of, BootLists,
    testing::Values(
        BadList{"an_empty_one_of_the_manager", [] { return ""; }, "the hot list is no hot list"},
        BadList{"a_corrupt_one_of_the_manager", [] { return damaged(kGood); }, "the hot list "},
        BadList{"a_long_one_of_the_manager",
                [] { return std::string(warm::kMostListBytes + 1, 'a'); },
                "is longer than a hot list may be"},
        BadList{"a_huge_one_of_the_manager", {}, "the answer is larger than 8 MiB"},
        BadList{"a_huge_hello_of_the_manager", {}, "the answer is larger than 8 MiB", "hello"},
        BadList{"a_foreign_one_of_the_manager",
                [] { return list_of("snap-0f0e0d0c", 64 << 20, 0); },
                "the manager's list is of snap-0f0e0d0c, not of this volume's lineage"},
        BadList{"a_foreign_one_of_the_manager_beside_the_volumes_own",
                [] { return list_of("snap-0f0e0d0c", 64 << 20, 0); },
                "not of this volume's lineage: its blocks mean nothing here", "hot-list", true},
        BadList{"one_beyond_the_device_of_the_manager",
                [] { return list_of("snap-0a1b2c3d", kTebibyte, kTebibyte / 2); },
                "8 ranges lie beyond the device: left out"},
        BadList{"a_corrupt_one_of_the_pool", [] { return damaged(kGood); },
                "the hot list is damaged: its checksum is wrong", "hot-list-of-pool"},
        BadList{"an_empty_one_of_the_pool", [] { return ""; }, "the hot list is no hot list",
                "hot-list-of-pool"},
        BadList{"a_long_one_of_the_pool", [] { return std::string(warm::kMostListBytes + 1, 'a'); },
                "is longer than a hot list may be", "hot-list-of-pool"},
        BadList{
            "a_huge_one_of_the_pool", {}, "the answer is larger than 8 MiB", "hot-list-of-pool"},
        BadList{"a_corrupt_block_list", [] { return std::string(4096, 'b'); },
                "the block list is no block list", "block-list"},
        BadList{"an_empty_one_on_the_volume", [] { return ""; }, "the hot list is no hot list",
                nullptr},
        BadList{"a_corrupt_one_on_the_volume", [] { return damaged(kGood); },
                "the hot list is damaged: its checksum is wrong", nullptr},
        BadList{"a_huge_one_on_the_volume",
                {},
                "the hot list is no file of the expected size",
                nullptr},
        BadList{"one_beyond_the_device_on_the_volume",
                [] { return list_of("snap-0a1b2c3d", kTebibyte, kTebibyte / 2); },
                "8 ranges lie beyond the device: left out", nullptr},
        BadList{"one_that_was_copied_onto_the_volume", [] { return kGood; },
                "was written on another file system: only its files count", nullptr, false, true}),
    [](const testing::TestParamInfo<BadList>& list) { return std::string(list.param.name); });

}  // namespace
}  // namespace warmroot::bootstrap
