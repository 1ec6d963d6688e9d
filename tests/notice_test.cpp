#include "bootstrap/notice.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "bootstrap/documents.hpp"

namespace warmroot::bootstrap {
namespace {

TEST(InstanceAction, is_read_from_the_metadata_service_s_answer) {
  EXPECT_EQ(parse_instance_action(R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})"),
            "terminate at 2026-01-02T03:06:05Z");
  for (const char* other : {"", "404", "{}", "[]", R"({"action":7})", R"({"time":"2026"})"})
    EXPECT_FALSE(parse_instance_action(other)) << other;
}

TEST(WatchForNotice, goes_on_after_failed_looks_and_empty_ones) {
  int looks = 0;
  std::string heard;
  const auto look = [&]() -> Result<std::optional<std::string>> {
    ++looks;
    if (looks == 1) return fail(ErrorKind::unknown_outcome, "timeout");
    if (looks == 2) return std::optional<std::string>();
    return std::optional<std::string>(R"({"action":"stop","time":"soon"})");
  };
  EXPECT_TRUE(watch_for_notice(look, {}, [&](const std::string& text) { heard = text; }));
  EXPECT_EQ(heard, "stop at soon");
  EXPECT_EQ(looks, 3);
}

TEST(WatchForNotice, ends_at_once_when_it_is_told_to) {
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto started = std::chrono::steady_clock::now();
  const auto nothing = []() -> Result<std::optional<std::string>> {
    return std::optional<std::string>();
  };
  EXPECT_FALSE(watch_for_notice(nothing, stop.get_token(), [](const std::string&) { FAIL(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(900));
  stopper.join();
}

}  // namespace
}  // namespace warmroot::bootstrap
