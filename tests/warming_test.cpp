// Warming of one lease as the daemon has it, as far as that needs no volume.
#include "bootstrap/warming.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Once there had been a warmer, nobody asked whether they had ended: a release went on while they
/// had the disk open. A FIFO nobody writes to, for a disk whose first read does not come back.
TEST(WarmingOfAStalledDisk, has_not_ended_before_its_early_reads_have) {
  const TemporaryDirectory directory;
  const std::string stalled = directory.path() + "/stalled";
  ASSERT_EQ(::mkfifo(stalled.c_str(), 0600), 0);
  Ticket ticket;
  ticket.record = false;
  StatusBook book("");
  Reporter nobody(
      book, "", "", [] { return Result<std::optional<std::string>>(std::nullopt); },
      [](const Wishes&) {});
  Warming warming(ticket, book, nobody, [](Stage) {});
  warming.disk_likely(stalled);
  Assignment assignment;
  assignment.disk_node = "/dev/does-not-exist";
  warming.root_mounted(assignment);
  const auto has_failed = [&] { return book.snapshot().warm.state == warm::WarmState::failed; };
  const auto limit = steady_clock::now() + std::chrono::seconds(10);
  while (!has_failed() && steady_clock::now() < limit)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(has_failed()) << "there is still a warmer";
  EXPECT_FALSE(warming.stop(milliseconds(300)));
  const UniqueFd writer(::open(stalled.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(warming.stop(milliseconds(10'000)));
}

}  // namespace
}  // namespace warmroot::bootstrap
