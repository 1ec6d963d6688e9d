// Both engines on a real file with direct reads.
#include "bootstrap/warm/read_engine.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "bootstrap/base/unique_fd.hpp"
#include "tests/must_run.hpp"

namespace warmroot::warm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class EngineOnFile : public testing::TestWithParam<EngineChoice> {
 protected:
  static constexpr std::uint64_t kPages = 300;

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "engine_XXXXXX").string();
    const UniqueFd file(::mkstemp(pattern.data()));
    path_ = pattern;
    const std::string content(kPages * kTouchBytes, 'x');
    ASSERT_EQ(::write(file.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!fd_) skip("direct reads in the temporary directory");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void skip(const std::string& what) {
    if (must_run()) FAIL() << "this machine lacks " << what;
    GTEST_SKIP() << "NOT TESTED: this machine lacks " << what;
  }

  std::unique_ptr<ReadEngine> engine(unsigned capacity) {
    auto made = make_read_engine(fd_.get(), capacity, GetParam());
    return made ? std::move(*made) : nullptr;
  }

  std::string path_;
  UniqueFd fd_;
};

TEST_P(EngineOnFile, reads_everything_once_and_never_more_at_once_than_it_may) {
  const auto reader = engine(16);
  if (!reader) return skip("io_uring");
  std::set<std::uint64_t> seen;
  std::uint64_t next = 0;
  std::vector<ReadResult> results;
  while (seen.size() < kPages) {
    std::vector<ReadRequest> requests;
    while (next < kPages && reader->in_flight() + requests.size() < reader->capacity())
      requests.push_back({next, next * kTouchBytes, kTouchBytes}), ++next;
    ASSERT_TRUE(reader->submit(requests));
    ASSERT_LE(reader->in_flight(), 16U);
    results.clear();
    ASSERT_TRUE(reader->wait(milliseconds(1000), results));
    ASSERT_FALSE(results.empty());
    for (const ReadResult& result : results) {
      EXPECT_EQ(result.error, 0);
      EXPECT_GE(result.latency.count(), 0);
      EXPECT_TRUE(seen.insert(result.tag).second);
    }
  }
  EXPECT_EQ(reader->in_flight(), 0U);
}

TEST_P(EngineOnFile, a_read_beyond_the_end_is_an_error_of_that_read_alone) {
  const auto reader = engine(4);
  if (!reader) return skip("io_uring");
  const ReadRequest requests[] = {{1, 0, kTouchBytes},
                                  {2, kPages * kTouchBytes, kTouchBytes},
                                  {3, (kPages - 1) * kTouchBytes, 2 * kTouchBytes},
                                  {4, 512, 100}};
  ASSERT_TRUE(reader->submit(requests));
  std::map<std::uint64_t, int> errors;
  std::vector<ReadResult> results;
  while (errors.size() < 4) {
    results.clear();
    ASSERT_TRUE(reader->wait(milliseconds(1000), results));
    ASSERT_FALSE(results.empty());
    for (const ReadResult& result : results) errors[result.tag] = result.error;
  }
  EXPECT_EQ(errors[1], 0);
  EXPECT_EQ(errors[2], EIO);
  EXPECT_EQ(errors[3], EIO);
  EXPECT_EQ(errors[4], EINVAL);
}

TEST_P(EngineOnFile, waiting_with_nothing_in_flight_returns_and_destruction_does_not_wait) {
  const auto start = Clock::now();
  auto reader = engine(8);
  if (!reader) return skip("io_uring");
  std::vector<ReadResult> results;
  ASSERT_TRUE(reader->wait(milliseconds(2000), results));
  const ReadRequest request{1, 0, kPieceBytes};
  ASSERT_TRUE(reader->submit({&request, 1}));
  reader.reset();
  EXPECT_LT(Clock::now() - start, milliseconds(1000));
}

INSTANTIATE_TEST_SUITE_P(Both, EngineOnFile,
                         testing::Values(EngineChoice::io_uring, EngineChoice::pread),
                         [](const testing::TestParamInfo<EngineChoice>& choice) {
                           return choice.param == EngineChoice::pread ? std::string("pread")
                                                                      : std::string("io_uring");
                         });

/// Three reads of a pipe that holds one page: the other two stall.
TEST(ReadEngine, who_waits_for_a_batch_waits_no_longer_for_a_stalled_part_of_it) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  const auto made = make_read_engine(out.get(), 4, EngineChoice::io_uring);
  if (!made && must_run()) FAIL() << made.error().message();
  if (!made) GTEST_SKIP() << "NOT TESTED: this machine lacks io_uring";
  ReadEngine& engine = **made;
  ASSERT_TRUE(engine.submit(std::vector<ReadRequest>{{1}, {2}, {3}}));
  std::vector<ReadResult> results;
  auto start = Clock::now();
  ASSERT_TRUE(engine.wait(milliseconds(50), results, 3));
  EXPECT_TRUE(results.empty());
  EXPECT_GE(Clock::now() - start, milliseconds(45));
  const std::string page(kTouchBytes, 'x');
  ASSERT_EQ(::write(in.get(), page.data(), page.size()), static_cast<ssize_t>(page.size()));
  start = Clock::now();
  ASSERT_TRUE(engine.wait(milliseconds(5000), results, 3));
  EXPECT_EQ(results.size(), 1U);
  EXPECT_LT(Clock::now() - start, milliseconds(2500));
}

TEST(ReadEngine, falls_back_to_threads_where_a_ring_is_refused) {
  // More entries than any kernel grants: io_uring_setup answers EINVAL, as a kernel without it
  // answers ENOSYS.
  constexpr unsigned kTooMany = 1U << 20;
  EXPECT_FALSE(make_read_engine(0, kTooMany, EngineChoice::io_uring));
  const auto engine = make_read_engine(0, kTooMany, EngineChoice::automatic);
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->name(), "pread");
}

}  // namespace
}  // namespace warmroot::warm
