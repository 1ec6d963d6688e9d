// What a session reads, from the kernel's trace: the lines as kernels print them, and a loop device
// read for real.
#include "bootstrap/warm/block_trace.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/warm_volume.hpp"

namespace warmroot::warm {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

std::vector<TracedRead> only_reads(const std::vector<TracedEvent>& events) {
  std::vector<TracedRead> reads;
  for (const auto& event : events)
    if (const auto* read = std::get_if<TracedRead>(&event)) reads.push_back(*read);
  return reads;
}

std::vector<TracedRead> reads_of(std::string text) {
  return only_reads(parse_trace(text));
}

TEST(TraceLines, reads_are_told_with_their_thread_and_place) {
  EXPECT_THAT(
      reads_of("              dd-3093    [000] ..... 40479.775530: block_bio_queue: 254,0 RA "
               "12654392 + 32 [sh]\n"),
      ElementsAre(TracedRead{254, 0, {12654392 * 512ULL, 16384}, 3093, true}));
  EXPECT_THAT(
      reads_of(" my-odd [0] name-77  [001] d..1. 1.5: block_bio_queue: 259,1 R 8 + 8 [x]\n"),
      ElementsAre(TracedRead{259, 1, {4096, 4096}, 77, false}));
  EXPECT_THAT(reads_of("bash-5 [001] .... 1.5: block_bio_queue: 259,1 RSM 8 + 8 [bash]\n"),
              ElementsAre(TracedRead{259, 1, {4096, 4096}, 5, false}));
}

TEST(TraceLines, writes_flushes_discards_and_other_events_are_left_out) {
  EXPECT_THAT(reads_of("a-1 [001] .... 1.5: block_bio_queue: 259,1 WS 8 + 8 [a]\n"
                       "a-1 [001] .... 1.5: block_bio_queue: 259,1 FWS 0 + 0 [a]\n"
                       "a-1 [001] .... 1.5: block_bio_queue: 259,1 D 8 + 8 [a]\n"
                       "a-1 [001] .... 1.5: block_bio_queue: 259,1 R 8 + 0 [a]\n"
                       "a-1 [001] .... 1.5: block_rq_issue: 259,1 R 4096 () 8 + 8 [a]\n"
                       "CPU:1 [LOST 12 EVENTS]\n"),
              IsEmpty());
}

TEST(TraceLines, what_is_cut_anywhere_is_no_read_and_an_unfinished_line_waits) {
  const std::string line = "a-1 [001] .... 1.5: block_bio_queue: 259,1 RA 1024 + 8 [a]\n";
  for (std::size_t length = 0; length < line.find(" [a]"); ++length)
    EXPECT_THAT(reads_of(line.substr(0, length) + "\n"), IsEmpty()) << length;
  std::string text = line.substr(0, 20);
  EXPECT_THAT(parse_trace(text), IsEmpty());
  text += line.substr(20) + "b-2";
  EXPECT_EQ(parse_trace(text).size(), 1u);
  EXPECT_EQ(text, "b-2");
}

TEST(TraceLines, what_a_session_allocates_is_told_in_order) {
  std::string text =
      "      mkdir-77    [001] ..... 11.5: ext4_allocate_inode: dev 259,1 ino 131 dir 2 mode "
      "040755\n"
      "a-1 [001] .... 1.5: block_bio_queue: 259,1 R 8 + 8 [a]\n"
      "git-78 [001] ..... 12.5: ext4_allocate_blocks: dev 259,1 ino 131 flags "
      "HINT_DATA|HINT_NOPREALLOC len 1 block 34567 lblk 0 goal 0 lleft 0 lright 0 pleft 0 pright "
      "0\n";
  using What = TracedAllocation::What;
  EXPECT_THAT(parse_trace(text),
              ElementsAre(TracedEvent(TracedAllocation{What::inode, 131, 77}),
                          TracedEvent(TracedRead{259, 1, {4096, 4096}, 1, false}),
                          TracedEvent(TracedAllocation{What::blocks, 34567, 78})));
}

TEST(TraceLines, what_was_not_allocated_or_is_freed_is_left_out) {
  std::string text =
      "a-1 [001] ..... 12.5: ext4_allocate_blocks: dev 259,1 ino 131 flags HINT_DATA len 0 block 0 "
      "lblk 0 goal 0\n"
      "a-1 [001] ..... 12.5: ext4_free_blocks: dev 259,1 ino 131 mode 0100644 block 34567 count 1\n"
      "a-1 [001] ..... 12.5: ext4_allocate_inode: dev 259,1 ino x dir 2\n"
      "a-1 [001] ..... 12.5: ext4_allocate_inode: dev 259,1\n";
  EXPECT_THAT(parse_trace(text), IsEmpty());
}

TEST(TraceLines, a_process_cannot_forge_a_read_by_its_name) {
  // Names come from the session: fifteen bytes, newlines included on old kernels.
  EXPECT_THAT(reads_of("a-1 R 8 + 8-12 [001] .... 1.5: block_bio_queue: 1,2 W 8 + 8 [R 8 + 8]\n"),
              IsEmpty());
}

/// Was read until it was empty, by the thread that also has to hear that it should end.
TEST(BlockTrace, a_session_that_reads_without_end_keeps_nobody) {
  const UniqueFd endless(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::string text = "line";
  ASSERT_TRUE(append_what_is_there(endless.get(), 200'000, text));
  EXPECT_EQ(text.size(), 200'004U);
  const UniqueFd empty(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(append_what_is_there(empty.get(), 200'000, text));
  EXPECT_EQ(text.size(), 200'004U);
}

TEST(BlockTrace, reads_of_one_disk_are_seen_and_nobody_elses) {
  if (::geteuid() != 0 || !fs::exists("/dev/loop-control")) {
    if (must_run()) FAIL() << "this machine lacks root or loop devices";
    GTEST_SKIP() << "NOT TESTED: this machine lacks root or loop devices";
  }
  const std::string file = testing::TempDir() + "block_trace_disk";
  const std::string other_file = testing::TempDir() + "block_trace_other";
  for (const auto& each : {file, other_file}) {
    std::ofstream(each) << "x";
    fs::resize_file(each, 8 * kMiB);
  }
  Loop disk, other;
  ASSERT_TRUE(disk.attach(file, 0) && other.attach(other_file, 0));
  struct stat seen {};
  ASSERT_EQ(::stat(disk.device().c_str(), &seen), 0);
  {
    auto trace = BlockTrace::start(seen.st_rdev);
    ASSERT_TRUE(trace) << trace.error().message();
    const auto read = [](const Loop& from, int at) {
      return shell("dd if=" + from.device() +
                   " of=/dev/null bs=4k count=1 iflag=direct skip=" + std::to_string(at))
          .has_value();
    };
    ASSERT_TRUE(read(other, 5) && read(disk, 7) && read(disk, 3));
    pollfd waiting{trace->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 1000), 1);
    const auto taken = trace->take();
    ASSERT_TRUE(taken) << taken.error().message();
    const auto reads = only_reads(*taken);
    EXPECT_THAT(reads, Each(AllOf(Field(&TracedRead::major, major(seen.st_rdev)),
                                  Field(&TracedRead::minor, minor(seen.st_rdev)))));
    std::vector<std::uint64_t> direct;
    for (const auto& each : reads)
      if (each.device.length == 4096 && !each.ahead) direct.push_back(each.device.offset / 4096);
    EXPECT_THAT(direct, testing::IsSupersetOf({7u, 3u}));
    EXPECT_LT(std::find(direct.begin(), direct.end(), 7u),
              std::find(direct.begin(), direct.end(), 3u));
  }
  {
    auto trace = BlockTrace::make(BlockTrace::open_place());
    ASSERT_TRUE(trace) << trace.error().message();
    const UniqueFd fd(::open(disk.device().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(4096, 4096),
                                                           &std::free);
    const auto read = [&](off_t at) { return ::pread(fd.get(), page.get(), 4096, at * 4096); };
    std::jthread([&] { read(23); }).join();
    ASSERT_TRUE(trace->follow_reads(seen.st_rdev, ::gettid()));
    ASSERT_EQ(read(11), 4096);
    std::jthread([&] { read(13); }).join();
    std::jthread([&] {
      ::prctl(PR_SET_NAME, "ext4lazyinit");
      read(17);
    }).join();
    std::jthread([&] { read(19); }).join();
    pollfd waiting{trace->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 1000), 1);
    const auto taken = trace->take();
    ASSERT_TRUE(taken) << taken.error().message();
    std::vector<std::uint64_t> pages;
    for (const auto& each : only_reads(*taken)) pages.push_back(each.device.offset / 4096);
    EXPECT_THAT(pages, testing::IsSupersetOf({13u, 19u}));
    EXPECT_THAT(pages, testing::Not(testing::Contains(23u))) << "before it followed any";
    EXPECT_THAT(pages, testing::Not(testing::Contains(11u))) << "of the thread that is left out";
    EXPECT_THAT(pages, testing::Not(testing::Contains(17u))) << "no session waits for that thread";
  }
  auto again = BlockTrace::start(seen.st_rdev);  // nothing is left of the one before
  EXPECT_TRUE(again);
}

TEST(BlockTrace, what_a_killed_program_left_behind_is_taken_away) {
  if (::geteuid() != 0) {
    if (must_run()) FAIL() << "this machine lacks root";
    GTEST_SKIP() << "NOT TESTED: this machine lacks root";
  }
  int name[2];
  ASSERT_EQ(::pipe(name), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto trace = BlockTrace::start(makedev(7, 200));
    const char works = trace ? 'y' : 'n';
    (void)!::write(name[1], &works, 1);
    ::raise(SIGKILL);
  }
  char worked = 0;
  ASSERT_EQ(::read(name[0], &worked, 1), 1);
  ASSERT_EQ(worked, 'y');
  ::waitpid(child, nullptr, 0);
  const auto left = [&] {
    return shell(
               "m=$(mktemp -d) && mount -t tracefs none $m && ls $m/instances; umount $m; rmdir $m")
        .value_or("?");
  };
  const auto own = "warmroot-" + std::to_string(child);
  EXPECT_THAT(left(), testing::HasSubstr(own));
  EXPECT_TRUE(BlockTrace::start(makedev(7, 200)));
  EXPECT_THAT(left(), testing::Not(testing::HasSubstr(own)));
}

}  // namespace
}  // namespace warmroot::warm
