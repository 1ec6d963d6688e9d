// The metrics file as Prometheus reads it.
#include "bootstrap/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <sstream>

namespace warmroot::bootstrap {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string value_of(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(series) != std::string::npos && line.front() != '#')
      return line.substr(line.rfind(' ') + 1);
  return "absent";
}

Status warming() {
  Status status;
  status.deployment = "research";
  status.pool = "imagenet";
  status.node = "imagenet-0";
  status.volume_id = "vol-1";
  status.instance_id = "i-1";
  status.stage = Stage::warming;
  status.warm.state = warm::WarmState::running;
  status.warm.needed_blocks = 4'000;
  status.warm.device_blocks = 16'000;
  status.warm.present_blocks = 1'000;
  status.warm.present_device_blocks = 2'000;
  status.warm.warmth = 0.25;
  status.warm.bytes_read = 5'000'000'000;
  status.warm.first_touch = {3, 36'000, 50'000, 60'000, 70'000, 150'000};
  return status;
}

TEST(Metrics, say_where_warming_stands_and_what_it_costs) {
  const std::string text = metrics_text(warming());
  EXPECT_THAT(text, HasSubstr("warmroot_stage{deployment=\"research\",pool=\"imagenet\","
                              "node=\"imagenet-0\",volume_id=\"vol-1\",instance_id=\"i-1\","
                              "stage=\"warming\"} 1\n"));
  EXPECT_EQ(value_of(text, "of=\"needed\""), "0.25");
  EXPECT_EQ(value_of(text, "of=\"device\""), "0.125");
  EXPECT_EQ(value_of(text, "warmroot_bytes_read_total{"), "5000000000");
  EXPECT_EQ(value_of(text, "warmroot_first_touch_seconds_count{"), "3");
  EXPECT_EQ(value_of(text, "warmroot_first_touch_seconds_sum{"), "0.15");
  EXPECT_EQ(value_of(text, "warmroot_warm_read_seconds_sum{"), "0");
}

TEST(Metrics, say_how_long_the_hot_list_took_and_the_rest_will_take_once_that_is_known) {
  Status status = warming();
  EXPECT_EQ(value_of(metrics_text(status), "warmroot_hot_list_seconds{"), "absent");
  EXPECT_EQ(value_of(metrics_text(status), "warmroot_warming_eta_seconds{"), "absent");
  status.warm.hot_ms = 625;
  status.warm.eta_ms = 0;
  EXPECT_EQ(value_of(metrics_text(status), "warmroot_hot_list_seconds{"), "0.625");
  EXPECT_EQ(value_of(metrics_text(status), "warmroot_warming_eta_seconds{"), "0");
}

TEST(Metrics, have_buckets_that_can_be_added_up_over_nodes_and_no_quantiles) {
  Status status = warming();
  warm::LatencyHistogram reads;
  for (const int ms : {1, 36, 44, 70, 100'000}) reads.record(std::chrono::milliseconds(ms));
  status.warm.first_touch = reads.summary();
  const std::string text = metrics_text(status);
  EXPECT_THAT(text, HasSubstr("# TYPE warmroot_first_touch_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE warmroot_warm_read_seconds histogram\n"));
  EXPECT_THAT(text, Not(HasSubstr("quantile")));
  const std::map<std::string, std::string> counts = {
      {"0.000256", "0"}, {"0.001024", "1"},  {"0.032768", "1"}, {"0.065536", "3"},
      {"0.131072", "4"}, {"67.108864", "4"}, {"+Inf", "5"}};
  for (const auto& [edge, count] : counts)
    EXPECT_EQ(value_of(text, "le=\"" + edge + "\""), count) << edge;
  EXPECT_EQ(value_of(text, "warmroot_first_touch_seconds_count{"), "5");
  const auto lines = [&](const std::string& of) {
    std::size_t count = 0;
    for (auto at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
    return count;
  };
  // The same edges where nothing was read.
  EXPECT_EQ(lines("warmroot_first_touch_seconds_bucket{"), 20U);
  EXPECT_EQ(lines("warmroot_warm_read_seconds_bucket{"), 20U);
}

TEST(Metrics, have_no_warmth_of_an_unknown_device) {
  const std::string text = metrics_text(Status{});
  EXPECT_EQ(value_of(text, "of=\"device\""), "0");
}

TEST(Metrics, tell_each_name_and_type_once_before_its_values) {
  std::map<std::string, int> types;
  std::string known;
  std::istringstream lines(metrics_text(warming()));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      known = line.substr(7, line.find(' ', 7) - 7);
      ++types[known];
    } else if (!line.starts_with("# HELP ")) {
      EXPECT_TRUE(line.starts_with(known)) << line;
    }
  }
  EXPECT_GT(types.size(), 10U);
  for (const auto& [name, count] : types) EXPECT_EQ(count, 1) << name;
}

TEST(Metrics, labels_from_elsewhere_cannot_break_out) {
  Status status = warming();
  status.node = "a\"b\\c\nwarmroot_stage 7";
  EXPECT_THAT(metrics_text(status), HasSubstr("node=\"a\\\"b\\\\c\\nwarmroot_stage 7\""));
}

}  // namespace
}  // namespace warmroot::bootstrap
