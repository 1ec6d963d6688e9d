#include "bootstrap/release_plan.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "bootstrap/process_stat.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::seconds;

const Instant kNow = *parse_iso8601("2026-01-02T03:04:05Z");

struct Case {
  const char* name;
  ReleaseCause cause;
  const char* notice_time;
  seconds expected;
  ReleaseWishes wishes{};
};
class TimeForRelease : public testing::TestWithParam<Case> {};

TEST_P(TimeForRelease, is_what_the_cause_says) {
  const Case& row = GetParam();
  EXPECT_EQ(time_for_release(row.cause, row.notice_time, kNow, row.wishes), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, TimeForRelease,
    testing::Values(
        Case{"EC2sOwnTime", ReleaseCause::spot_notice, "2026-01-02T03:05:35Z", seconds(90)},
        Case{"WithMilliseconds", ReleaseCause::spot_notice, "2026-01-02T03:05:05.000Z",
             seconds(60)},
        Case{"NearlyOver", ReleaseCause::spot_notice, "2026-01-02T03:04:06Z", seconds(20)},
        Case{"InThePast", ReleaseCause::spot_notice, "2026-01-02T03:04:00Z", seconds(20)},
        Case{"LongPast", ReleaseCause::spot_notice, "1970-01-01T00:00:00Z", seconds(20)},
        Case{"OurClockIsLate", ReleaseCause::spot_notice, "2026-01-02T09:00:00Z", seconds(120)},
        Case{"NoTime", ReleaseCause::spot_notice, "", seconds(120)},
        Case{"Garbage", ReleaseCause::spot_notice, "soon", seconds(120)},
        Case{"NoSuchDay", ReleaseCause::spot_notice, "2026-02-31T03:04:05Z", seconds(120)},
        Case{"Shutdown", ReleaseCause::shutdown, "", seconds(80)},
        Case{"Reboot", ReleaseCause::reboot, "", seconds(80)},
        Case{"Wish", ReleaseCause::wish, "", seconds(120)},
        Case{"Down", ReleaseCause::operator_, "", seconds(120)},
        Case{"NothingToSave", ReleaseCause::disk_gone, "", seconds(20)}),
    [](const auto& row) { return std::string(row.param.name); });

constexpr ReleaseWishes kMost{seconds(90), seconds(90)}, kNone{seconds(0), seconds(0)};

INSTANTIATE_TEST_SUITE_P(
    Wishes, TimeForRelease,
    testing::Values(
        Case{"LongGrace", ReleaseCause::wish, "", seconds(180), {seconds(90), seconds(30)}},
        Case{"LongHooks", ReleaseCause::operator_, "", seconds(135), {seconds(5), seconds(45)}},
        Case{"BothAtOnce", ReleaseCause::operator_, "", seconds(180), kMost},
        Case{"GraceWithinTheHooksTime",
             ReleaseCause::wish,
             "",
             seconds(120),
             {seconds(30), seconds(30)}},
        Case{"NoneTakeNothingAway", ReleaseCause::wish, "", seconds(120), kNone},
        Case{"NotEC2sOwnTime", ReleaseCause::spot_notice, "2026-01-02T03:05:35Z", seconds(90),
             kMost},
        Case{"NorANoticeWithoutOne", ReleaseCause::spot_notice, "", seconds(120), kMost},
        Case{"NorAShutdown", ReleaseCause::shutdown, "", seconds(80), kMost},
        Case{"NorAReboot", ReleaseCause::reboot, "", seconds(80), kMost},
        Case{"NorWhatIsLost", ReleaseCause::disk_gone, "", seconds(20), kMost}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ReleaseCause, is_known_again_by_its_word_and_init_waits_for_two_of_them) {
  for (const auto& [cause, word, by_init] :
       {std::tuple{ReleaseCause::spot_notice, "spot-notice", false},
        std::tuple{ReleaseCause::shutdown, "shutdown", true},
        std::tuple{ReleaseCause::reboot, "reboot", true},
        std::tuple{ReleaseCause::wish, "manager-wish", false},
        std::tuple{ReleaseCause::operator_, "operator", false},
        std::tuple{ReleaseCause::disk_gone, "disk-gone", false}}) {
    EXPECT_EQ(to_string(cause), word);
    EXPECT_EQ(release_cause_from(word), cause);
    EXPECT_EQ(is_by_init(cause), by_init) << word;
  }
  EXPECT_EQ(release_cause_from("rebooting"), std::nullopt);
}

struct Row {
  int left, warn, own_users, hooks, terminate, kill, sync, unmount;
  ReleaseWishes wishes{};
};
class ReleaseBudgets : public testing::TestWithParam<Row> {};

TEST_P(ReleaseBudgets, are_those_of_the_readme) {
  const Row& row = GetParam();
  const ReleaseBudget budget = plan_release(seconds(row.left), row.wishes);
  EXPECT_EQ(budget.warn, seconds(row.warn));
  EXPECT_EQ(budget.own_users, seconds(row.own_users));
  EXPECT_EQ(budget.hooks, seconds(row.hooks));
  EXPECT_EQ(budget.terminate, seconds(row.terminate));
  EXPECT_EQ(budget.kill, seconds(row.kill));
  EXPECT_EQ(budget.sync, seconds(row.sync));
  EXPECT_EQ(budget.unmount, seconds(row.unmount));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReleaseBudgets,
    testing::Values(Row{120, 5, 2, 30, 5, 2, 117, 30}, Row{80, 5, 2, 30, 5, 2, 77, 30},
                    Row{40, 5, 2, 18, 5, 2, 37, 30}, Row{24, 2, 1, 2, 5, 2, 21, 24},
                    Row{20, 0, 1, 0, 3, 2, 17, 20}, Row{17, 0, 1, 0, 0, 2, 14, 17},
                    Row{15, 0, 0, 0, 0, 0, 12, 15}, Row{2, 0, 0, 0, 0, 0, 12, 3},
                    Row{-60, 0, 0, 0, 0, 0, 12, 3}),
    [](const auto& row) {
      return row.param.left < 0 ? std::string("Past") : "Left" + std::to_string(row.param.left);
    });

INSTANTIATE_TEST_SUITE_P(
    Wishes, ReleaseBudgets,
    testing::Values(Row{180, 90, 2, 90, 5, 2, 177, 30, kMost},
                    Row{120, 90, 2, 90, 5, 2, 117, 30, kMost},
                    Row{119, 60, 2, 10, 5, 2, 116, 30, {seconds(60), seconds(10)}},
                    Row{118, 0, 1, 0, 5, 2, 115, 30, kNone},
                    Row{80, 58, 2, 58, 5, 2, 77, 30, kMost}, Row{24, 2, 1, 2, 5, 2, 21, 24, kMost},
                    Row{20, 0, 1, 0, 3, 2, 17, 20, kMost}, Row{15, 0, 0, 0, 0, 0, 12, 15, kMost},
                    Row{-60, 0, 0, 0, 0, 0, 12, 3, kMost}),
    [](const auto& row) {
      return row.param.left < 0 ? std::string("Past") : "Left" + std::to_string(row.param.left);
    });

TEST(ReleasePlan, leaves_the_last_15_s_to_sync_and_unmount_however_long_each_step_takes) {
  for (const ReleaseWishes& wishes : {ReleaseWishes{}, kMost, kNone}) {
    const auto take = [&](Milliseconds& left, Milliseconds ReleaseBudget::*step) {
      left -= plan_release(left, wishes).*step;
    };
    for (Milliseconds all{0}; all <= seconds(300); all += Milliseconds(250)) {
      Milliseconds left = all;
      for (const auto step :
           {&ReleaseBudget::own_users, &ReleaseBudget::hooks, &ReleaseBudget::warn,
            &ReleaseBudget::terminate, &ReleaseBudget::kill})
        take(left, step);
      EXPECT_GE(left, std::min(all, kKeptForSync)) << all.count();
      if (all >= kKeptForSync) {
        take(left, &ReleaseBudget::sync);
        EXPECT_GE(left, seconds(3)) << all.count();
      }
    }
  }
}

TEST(ReleasePlan, servers_of_peoples_mounts_have_a_third_of_the_unmount_and_5_s_at_most) {
  for (const auto& [left, expected] :
       {std::pair{120, 5000}, std::pair{15, 5000}, std::pair{12, 4000}, std::pair{3, 1000},
        std::pair{-60, 1000}})
    EXPECT_EQ(plan_release(seconds(left), {}).servers, Milliseconds(expected)) << left;
}

/// People's time and the hooks' pass together.
TEST(ReleasePlan, the_longest_wishes_are_whole_after_a_notice_and_leave_the_usual_rest_of_a_wish) {
  const auto after_people = [](Milliseconds left) {
    const ReleaseBudget budget = plan_release(left, kMost);
    EXPECT_EQ(std::max(budget.warn, budget.hooks), seconds(kMostReleaseWishS));
    return left - budget.own_users - std::max(budget.warn, budget.hooks);
  };
  EXPECT_GE(after_people(time_for_release(ReleaseCause::spot_notice, "", kNow, kMost)),
            seconds(5 + 2) + kKeptForSync);
  const Milliseconds usual = time_for_release(ReleaseCause::wish, "", kNow, {});
  const ReleaseBudget budget = plan_release(usual, {});
  EXPECT_EQ(after_people(time_for_release(ReleaseCause::wish, "", kNow, kMost)),
            usual - budget.own_users - std::max(budget.warn, budget.hooks));
}

TEST(ReleasePlan, people_and_a_full_bound_take_at_most_25_s) {
  const ReleaseBudget budget = plan_release(seconds(120), {});
  EXPECT_LE(budget.warn + budget.terminate + budget.kill + kWriteBack, seconds(25));
}

TEST(ReleasePlan, whoever_had_more_than_20_s_is_told_once_more_in_the_last_10) {
  EXPECT_TRUE(is_reminder_due(seconds(21), seconds(10)));
  EXPECT_TRUE(is_reminder_due(seconds(90), Milliseconds(1)));
  EXPECT_FALSE(is_reminder_due(seconds(90), Milliseconds(10'001)));
  EXPECT_FALSE(is_reminder_due(seconds(20), seconds(10)));
  EXPECT_FALSE(is_reminder_due(seconds(90), seconds(0))) << "what is left is not theirs";
}

TEST(ReleasePlan, dirty_memory_is_what_is_written_in_the_time_kept_for_it) {
  EXPECT_EQ(dirty_limit_bytes(125), 1250 * kMiB);
  EXPECT_EQ(dirty_limit_bytes(100'000), 1'000'000 * kMiB);
}

TEST(ProcessStat, is_read_behind_a_command_that_looks_like_more_fields) {
  const auto stat = parse_process_stat(
      "812 (a) D 9 (b) R) S 77 812 811 34818 812 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5417 9 9");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 77);
  EXPECT_EQ(stat->session, 811);
  EXPECT_EQ(stat->started_ticks, 5417u);
  EXPECT_EQ(stat->terminal, 2u);  // 136:2
}

TEST(ProcessStat, knows_pseudo_terminals_by_their_majors_alone) {
  const auto terminal = [](const std::string& number) {
    return parse_process_stat("1 (x) D 0 1 1 " + number + " 1")->terminal;
  };
  EXPECT_EQ(terminal("0"), std::nullopt);
  EXPECT_EQ(terminal("1025"), std::nullopt);  // 4:1, tty1
  EXPECT_EQ(terminal("35072"), 256u);         // 137:0
  EXPECT_EQ(terminal("1083647"), 511u);       // 136:511
  for (const char* text : {"", "812", "812 (x", "812 (x) S", "812 (x) S one two"})
    EXPECT_FALSE(parse_process_stat(text)) << text;
}

}  // namespace
}  // namespace warmroot::bootstrap
