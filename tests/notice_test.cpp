#include "bootstrap/notice.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "bootstrap/documents.hpp"
#include "bootstrap/stop_request.hpp"

namespace warmroot::bootstrap {
namespace {

TEST(InstanceAction, is_read_from_the_metadata_service_s_answer) {
  const auto notice =
      parse_instance_action(R"({"action":"terminate","time":"2026-01-02T03:06:05Z"})");
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->action, "terminate");
  EXPECT_EQ(notice->time, "2026-01-02T03:06:05Z");
  for (const char* other : {"", "404", "{}", "[]", R"({"action":7})", R"({"time":"2026"})"})
    EXPECT_FALSE(parse_instance_action(other)) << other;
}

TEST(RebalanceHint, is_read_from_the_metadata_service_s_answer) {
  EXPECT_EQ(parse_rebalance(R"({"noticeTime":"2026-01-02T03:04:05Z"})"), "2026-01-02T03:04:05Z");
  for (const char* other : {"", "404", "{}", "[]", R"({"noticeTime":7})", R"({"noticeTime":""})"})
    EXPECT_FALSE(parse_rebalance(other)) << other;
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
  EXPECT_TRUE(watch_for_notice(
      look, {}, [&](const InstanceAction& notice) { heard = notice.action + " " + notice.time; }));
  EXPECT_EQ(heard, "stop soon");
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
  EXPECT_FALSE(watch_for_notice(nothing, stop.get_token(), [](const InstanceAction&) { FAIL(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(900));
  stopper.join();
}

TEST(StopRequest, keeps_the_first_reason_and_of_all_reasons_the_earliest_end) {
  StopRequest stop;
  stop.request({"operator", "the operator asked for it", 120'000});
  stop.request({"spot-notice", "EC2 takes this spot instance back", 90'000});
  stop.request({"manager-wish", "the manager asked for the volume", 200'000});
  ASSERT_TRUE(stop.wait_for(std::chrono::milliseconds(0)));
  EXPECT_EQ(stop.reason()->word, "operator");
  EXPECT_EQ(stop.reason()->deadline_ms, 90'000);
}

TEST(StopRequest, tells_who_asked_beside_the_first) {
  StopRequest stop;
  EXPECT_FALSE(stop.who_else_asked("reboot"));
  stop.request({"reboot", "this machine reboots", 80'000});
  stop.request({"reboot", "this machine reboots", 70'000});
  EXPECT_FALSE(stop.who_else_asked("reboot"));
  stop.request({"manager-wish", "the manager asked for the volume", 120'000});
  stop.request({"spot-notice", "EC2 takes this spot instance back", 120'000});
  ASSERT_TRUE(stop.who_else_asked("reboot"));
  EXPECT_EQ(stop.who_else_asked("reboot")->sentence, "the manager asked for the volume");
  EXPECT_EQ(stop.reason()->word, "reboot");
  EXPECT_EQ(stop.who_else_asked("manager-wish")->word, "reboot");
  for (const char* word : {"reboot", "manager-wish", "spot-notice"})
    EXPECT_TRUE(stop.was_asked_for(word)) << word;
  EXPECT_FALSE(stop.was_asked_for("operator"));
}

}  // namespace
}  // namespace warmroot::bootstrap
