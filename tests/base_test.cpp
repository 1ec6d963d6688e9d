#include <gtest/gtest.h>

#include <cerrno>

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

}  // namespace
}  // namespace warmroot
