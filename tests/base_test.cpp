#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <string>

#include "bootstrap/base/bounded_thread.hpp"
#include "bootstrap/base/result.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot {
namespace {

TEST(Error, names_context_outermost_first_with_code_and_request) {
  const Error error = Error{ErrorKind::refused, "AttachVolume vol-1", "VolumeInUse", "r-1"}.within("node a-0");
  EXPECT_EQ(error.message(), "node a-0: AttachVolume vol-1 (VolumeInUse) [request r-1]");
}

TEST(Error, from_errno_carries_the_name_and_what_the_caller_can_do) {
  const Error error = errno_error("open /x", ENOENT);
  EXPECT_EQ(error.kind, ErrorKind::gone);
  EXPECT_EQ(error.message(), "open /x: No such file or directory (ENOENT)");
}

TEST(Instant, round_trips_through_both_of_EC2s_forms) {
  const auto instant = parse_iso8601("2026-01-02T03:04:05.678Z");
  ASSERT_TRUE(instant);
  EXPECT_EQ(to_iso8601(*instant), "2026-01-02T03:04:05.678Z");
  EXPECT_EQ(to_compact_iso8601(*instant), "20260102T030405Z");
  EXPECT_EQ(parse_iso8601("20260102T030405Z"), *instant - Milliseconds{678});
  EXPECT_EQ(parse_iso8601("2026-01-02T03:04:05Z"), *instant - Milliseconds{678});
}

TEST(Instant, refuses_what_is_no_instant) {
  for (const char* text : {"", "2026-01-02", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T25:04:05Z"})
    EXPECT_FALSE(parse_iso8601(text)) << text;
}

TEST(BoundedThread, that_hangs_is_waited_for_only_so_long) {
  // A wait without a bound once kept the volume: sessions were not ended, nothing was synced.
  const auto already = std::chrono::steady_clock::now();
  std::promise<void> answer;
  BoundedThread thread;
  EXPECT_TRUE(thread.stop_by(already)) << "there is none";
  EXPECT_FALSE(thread.started());
  std::atomic<bool> asked = false;
  thread.start([&, hanging = answer.get_future()](std::stop_token token) {
    hanging.wait();
    asked = token.stop_requested();
  });
  EXPECT_TRUE(thread.started());
  EXPECT_FALSE(thread.stop_by(already));
  answer.set_value();
  EXPECT_TRUE(thread.stop_by(already + std::chrono::hours(1)));
  EXPECT_TRUE(asked);
  EXPECT_TRUE(thread.stop_by(already)) << "asked again";
}

}  // namespace
}  // namespace warmroot
