// How much of the volume may wait in memory while it is mounted, and what is written back when it
// has to be given back, by the kernel's own count.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>

#include <cstdlib>
#include <thread>

#include "tests/handover.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

using DirtyMemory = Handover;

/// The kernel's debugfs at /run/debug, where it lets us.
struct KernelStatistics {
  KernelStatistics() {
    std::ignore = shell("mkdir -p /run/debug; mount -t debugfs debugfs /run/debug");
  }
  ~KernelStatistics() { ::umount("/run/debug"); }
};

/// "BdiWriteback: 12 kB" and "BdiReclaimable: ..." of a backing device's statistics, together.
std::uint64_t dirty_kib(const std::string& stats) {
  std::uint64_t sum = 0;
  for (const std::string key : {"BdiWriteback:", "BdiReclaimable:"})
    if (const std::size_t at = stats.find(key); at != std::string::npos)
      sum += std::strtoull(stats.c_str() + at + key.size(), nullptr, 10);
  return sum;
}

TEST_F(DirtyMemory, dirty_memory_of_the_volume_is_bounded_while_it_is_mounted) {
  make_volume();
  dress_as_disk();
  input_.write_mib_s = 4;
  const std::string bdi = "/sys/class/bdi/" + read_attribute("/sys/block/vdz/dev") + "/";
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string words = book_.snapshot().dirty_bound;
  if (::access((bdi + "max_bytes").c_str(), W_OK) == 0) {
    EXPECT_EQ(words, "at most 40 MiB dirty in memory, at 4 MiB/s");
    EXPECT_NEAR(std::atof(read_attribute(bdi + "max_bytes").c_str()), 40.0 * kMiB, 4.0 * kMiB);
    EXPECT_EQ(read_attribute(bdi + "strict_limit"), "1");
  } else {
    EXPECT_THAT(words, testing::AnyOf(HasSubstr("older than 6.2"), HasSubstr("not bounded")));
  }
  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  EXPECT_EQ(read_attribute(bdi + "max_ratio"), "100");
  EXPECT_NE(read_attribute(bdi + "strict_limit"), "1");
}

TEST_F(DirtyMemory, what_is_dirty_is_written_back_while_people_save) {
  const KernelStatistics kernel;
  // Above the kernel's own limit, and so not set: a bound lets the kernel write back much earlier,
  // how early depends on the machine's free memory.
  input_.write_mib_s = 100'000;
  ASSERT_NO_FATAL_FAILURE(bring_up_with(""));
  const std::string stats = "/run/debug/bdi/" + read_attribute("/sys/block/vdz/dev") + "/stats";
  const bool can_tell = ::access(stats.c_str(), R_OK) == 0;
  const auto dirty = [&] { return dirty_kib(read_file(stats, 65536).value_or("")); };
  const pid_t session = child_that([&] {
    const int file = ::open(inside("large").c_str(), O_CREAT | O_WRONLY, 0600);
    const std::string text(20 << 20, 'w');
    // Until it stays in memory: other programs' writing may make the kernel write back everything.
    const std::int64_t limit = boottime_ms() + 60'000;
    bool written = false;
    do written = ::pwrite(file, text.data(), text.size(), 0) > 0;
    while (written && can_tell && dirty() <= 10 * 1024u && boottime_ms() < limit);
    return written;
  });
  const std::uint64_t before = dirty();
  std::uint64_t left_over = before;
  bool saving = false;
  std::thread person([&] {
    const std::int64_t limit = boottime_ms() + 60'000;
    while ((left_over = dirty()) > 1024 && steps_with("end sessions").empty() &&
           boottime_ms() < limit)
      ::poll(nullptr, 0, 10);
    saving = steps_with("end sessions").empty();
    end(session);
  });
  // People have 5 s; the kernel by itself would begin after 30.
  const Ok released = release(leaving(seconds(45)), assignment_, book_);
  person.join();
  ASSERT_TRUE(released) << released.error().message();
  if (!can_tell) {
    if (must_run()) FAIL() << "cannot run: no debugfs";
    GTEST_SKIP() << "SKIPPED, not tested: no debugfs";
  }
  EXPECT_GT(before, 10 * 1024u);
  EXPECT_LE(left_over, 1024u);
  EXPECT_TRUE(saving) << "sessions had to end before anything was written back";
}

TEST_F(DirtyMemory, what_a_session_writes_fast_stays_below_the_bound) {
  make_volume("", false, "256M");
  dress_as_disk();
  input_.write_mib_s = 1;
  const KernelStatistics kernel;
  const std::string device = read_attribute("/sys/block/vdz/dev");
  ASSERT_TRUE(bring_up(input_, assignment_, book_, stop_));
  const std::string stats = "/run/debug/bdi/" + device + "/stats";
  const bool can_tell = ::access(stats.c_str(), R_OK) == 0;
  const bool can_bound = ::access(("/sys/class/bdi/" + device + "/max_bytes").c_str(), W_OK) == 0;
  const pid_t writer = ::fork();
  if (writer == 0) {
    const int file = ::open(inside("large").c_str(), O_CREAT | O_WRONLY, 0600);
    const std::string block(1 << 20, 'w');
    int written = 0;
    while (written < 150 && ::write(file, block.data(), block.size()) > 0) ++written;
    ::_exit(written == 150 ? 0 : 1);
  }
  std::uint64_t most_kib = 0;
  int status = 0;
  while (::waitpid(writer, &status, WNOHANG) == 0)
    most_kib = std::max(most_kib, dirty_kib(read_file(stats, 65536).value_or("")));
  EXPECT_EQ(status, 0);
  const Ok released = release(leaving(), assignment_, book_);
  ASSERT_TRUE(released) << released.error().message();
  // Debian 12's own kernel is 6.1.
  if (!can_bound) GTEST_SKIP() << "SKIPPED, not tested: a kernel before 6.2";
  if (!can_tell) {
    if (must_run()) FAIL() << "cannot run: no debugfs";
    GTEST_SKIP() << "SKIPPED, not tested: no debugfs";
  }
  EXPECT_GT(most_kib, 0u);
  EXPECT_LT(most_kib, 2 * 10 * 1024u) << "150 MiB were written under a bound of 10";
}

}  // namespace
}  // namespace warmroot::bootstrap
