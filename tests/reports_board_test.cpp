// What the manager keeps of what its instances report: the latest word, who is up again, whose
// knocking wakes it.
#include "manager/reports_board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/reports_fixture.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;

TEST(ReportBoard, who_knocks_within_the_pause_wakes_at_its_end_unless_a_tick_came_before) {
  const auto now = std::chrono::steady_clock::now();
  for (const bool ticked : {false, true}) {
    ReportBoard board;
    board.set_known("research", {});
    board.knock("i-1", now - kKnockPause);
    EXPECT_TRUE(board.wait(Milliseconds{0}));
    EXPECT_THAT(board.take_knockers(), ElementsAre("i-1"));
    board.knock("i-2", now - kKnockPause + Milliseconds{10});
    if (ticked) board.take_knockers();
    EXPECT_EQ(board.wait(Milliseconds{0}), !ticked);
    EXPECT_FALSE(board.wait(Milliseconds{0}));
  }
}

TEST(ReportBoard, a_flood_of_knocks_is_bounded) {
  ReportBoard board;
  board.set_known("research", {});
  for (int i = 0; i < 100'000; ++i)
    board.knock(std::to_string(i), std::chrono::steady_clock::now());
  EXPECT_EQ(board.take_knockers().size(), kKnockersKept);
}

TEST(ReportBoard, a_new_stage_wakes_the_daemon_and_progress_does_not) {
  ReportBoard board;
  core::NodeReport report;
  report.instance_id = kInstance;
  report.stage = NodeStage::warming;
  board.record(report);
  EXPECT_TRUE(board.wait(Milliseconds(0))) << "kept until somebody waits";
  board.record(report);
  EXPECT_FALSE(board.wait(Milliseconds(0)));
  report.stage = NodeStage::warm;
  std::thread later([&] { board.record(report); });
  EXPECT_TRUE(board.wait(std::chrono::seconds(30)));
  later.join();
}

TEST(ReportBoard, remembers_when_each_stage_was_first_reported) {
  ReportBoard board;
  core::NodeReport report;
  report.instance_id = kInstance;
  for (const int second : {1, 2, 3}) {
    report.stage = second < 3 ? NodeStage::warming : NodeStage::warm;
    report.received = Instant(std::chrono::seconds(second));
    board.record(report);
  }
  const auto entry = board.entries().at(kInstance);
  EXPECT_EQ(entry.first_received.at(NodeStage::warming), Instant(std::chrono::seconds(1)));
  EXPECT_EQ(entry.first_received.at(NodeStage::warm), Instant(std::chrono::seconds(3)));
  EXPECT_EQ(entry.latest.stage, NodeStage::warm);
}

/// A boot behind a release has lost its key, and is given another one.
TEST(ReportBoard, who_goes_on_with_its_key_behind_a_drain_or_a_release_is_up_again) {
  ReportBoard board;
  const auto is_up_again = [&](NodeStage stage, bool has_new_key = false) {
    core::NodeReport report;
    report.instance_id = kInstance;
    report.stage = stage;
    board.record(report, has_new_key);
    return board.snapshot().at(kInstance).up_again;
  };
  EXPECT_FALSE(is_up_again(NodeStage::hello));
  EXPECT_FALSE(is_up_again(NodeStage::ready));
  for (const auto goes : {NodeStage::draining, NodeStage::released}) {
    EXPECT_FALSE(is_up_again(goes));
    EXPECT_TRUE(is_up_again(NodeStage::hello)) << to_string(goes);
    EXPECT_TRUE(is_up_again(NodeStage::disk_seen)) << "as long as nothing else was heard";
  }
  EXPECT_FALSE(is_up_again(NodeStage::released));
  EXPECT_FALSE(is_up_again(NodeStage::hello, true));
  EXPECT_FALSE(is_up_again(NodeStage::hello)) << "its first report with the new key";
}

TEST(ReportBoard, a_report_that_a_later_one_has_overtaken_changes_nothing) {
  ReportBoard board;
  const auto stage_after = [&](NodeStage stage, std::uint64_t number, bool has_new_key = false) {
    core::NodeReport report;
    report.instance_id = kInstance;
    report.stage = stage;
    board.record(report, has_new_key, number);
    return board.snapshot().at(kInstance).stage;
  };
  EXPECT_EQ(stage_after(NodeStage::draining, 5), NodeStage::draining);
  EXPECT_EQ(stage_after(NodeStage::mounted, 7), NodeStage::mounted);
  EXPECT_EQ(stage_after(NodeStage::released, 6), NodeStage::mounted);
  EXPECT_TRUE(board.snapshot().at(kInstance).up_again);
  EXPECT_EQ(board.releases_heard(), 0u);
  EXPECT_EQ(stage_after(NodeStage::hello, 0, true), NodeStage::hello);
  EXPECT_EQ(stage_after(NodeStage::disk_seen, 1), NodeStage::disk_seen) << "a new key";
}

TEST(ReportBoard, forgets_instances_that_are_gone_and_silent) {
  ReportBoard board;
  core::NodeReport report;
  report.instance_id = kInstance;
  report.received = Instant(std::chrono::seconds(10));
  board.record(report);
  board.forget_unknown(Instant(std::chrono::seconds(10)));
  EXPECT_EQ(board.entries().size(), 1u);
  board.forget_unknown(Instant(std::chrono::seconds(11)));
  EXPECT_EQ(board.entries().size(), 0u);
}

}  // namespace
}  // namespace warmroot::manager
