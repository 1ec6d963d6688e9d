// What warm_bench makes of a device log, on logs small enough to be counted by hand; profiles,
// contenders, bounds and medians.
#include "bench/warm_metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/warm_contenders.hpp"
#include "bench/warm_profile.hpp"
#include "bench/warm_report.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::bench {
namespace {

using namespace std::chrono_literals;
using sim::DeviceRequest;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

constexpr std::uint64_t kUnit = 512 * kKiB;

/// Eight blocks; 6 and 7 are not in the snapshot, 5 is but the file system calls it free.
VolumeFacts eight_blocks() {
  const std::vector<sim::ByteRange> free = {{5 * kUnit, kUnit}, {4 * kUnit, kUnit / 2}};
  return volume_facts(8 * kUnit, kUnit, {{0, 6 * kUnit}}, free);
}

DeviceRequest read_of(unsigned opener, std::uint64_t block, SimTime at, SimTime due,
                      unsigned touches, bool waited) {
  return {.at = at,
          .due = due,
          .range = {block * kUnit, 4096},
          .opener = opener,
          .first_touches = touches,
          .waited = waited};
}

/// The session (1) wants blocks 0, 1, 2 and the never written 6; the contender (2) brought 0 in
/// time, 1 too late, and 3 for nothing.
RunLog small_log() {
  RunLog log;
  log.session_opener = 1;
  log.contender_opener = 2;
  log.start = 1s;
  log.found = 1060ms;
  log.mounted = 1100ms;
  log.session_end = 2s;
  log.end = 3s;
  log.requests = {read_of(2, 0, 1000ms, 1040ms, 1, true),  read_of(1, 0, 1050ms, 1051ms, 0, false),
                  read_of(2, 1, 1060ms, 1100ms, 1, true),  read_of(1, 1, 1070ms, 1100ms, 0, true),
                  read_of(1, 2, 1200ms, 1300ms, 1, true),  read_of(2, 3, 1400ms, 1440ms, 1, true),
                  read_of(1, 6, 1500ms, 1501ms, 0, false), read_of(2, 4, 2500ms, 2540ms, 1, true)};
  log.touches = {{0, 1000ms, 1040ms},
                 {1, 1060ms, 1100ms},
                 {2, 1200ms, 1300ms},
                 {3, 1400ms, 1440ms},
                 {4, 2500ms, 2540ms}};
  return log;
}

TEST(WarmMetrics, needed_is_what_the_snapshot_holds_and_the_file_system_uses) {
  const VolumeFacts volume = eight_blocks();
  EXPECT_THAT(volume.costly, ElementsAre(true, true, true, true, true, true, false, false));
  EXPECT_THAT(volume.needed, ElementsAre(true, true, true, true, true, false, false, false));
  EXPECT_THAT(needed_list(volume), ElementsAre(0, 1, 2, 3, 4));
}

TEST(WarmMetrics, the_snapshots_blocks_are_of_512_kib_whatever_a_volume_brings_in_at_once) {
  const VolumeFacts volume =
      volume_facts(8 * kUnit, 2 * kUnit, {{0, 100}, {200, kUnit}, {3 * kUnit, kUnit}}, {});
  EXPECT_THAT(held_blocks(volume), ElementsAre(0, 1, 3));
}

TEST(WarmMetrics, the_sessions_blocks_are_costly_ones_in_first_use_order) {
  EXPECT_THAT(session_blocks(small_log(), eight_blocks()), ElementsAre(0, 1, 2));
}

TEST(WarmMetrics, coverage_recall_and_precision_are_counted_by_opener_and_time) {
  const RunMetrics metrics = measure(small_log(), eight_blocks(), {}, 1ms);
  EXPECT_DOUBLE_EQ(*metrics.coverage, 1.0 / 3);   // 0 was there
  EXPECT_DOUBLE_EQ(*metrics.recall, 2.0 / 3);     // 0 and 1 had been asked for
  EXPECT_DOUBLE_EQ(*metrics.precision, 2.0 / 3);  // of 0, 1, 3; 4 came after the session
  EXPECT_EQ(*metrics.contender_requests, 4u);
  EXPECT_EQ(*metrics.contender_bytes, 4 * 4096u);
  EXPECT_EQ(*metrics.contender_blocks, 4u);
  EXPECT_EQ(metrics.session_blocks, 3u);
}

TEST(WarmMetrics, a_stall_is_what_a_read_waited_beyond_a_warm_one) {
  const RunMetrics metrics = measure(small_log(), eight_blocks(), {}, 1ms);
  ASSERT_TRUE(metrics.stalls);
  EXPECT_EQ(metrics.stalls->count, 2u);
  EXPECT_THAT(metrics.stalls->sum_s, DoubleNear(0.029 + 0.099, 1e-9));
  EXPECT_THAT(metrics.stalls->p50_ms, DoubleNear(29, 1e-6));
  EXPECT_THAT(metrics.stalls->max_ms, DoubleNear(99, 1e-6));
}

TEST(WarmMetrics, times_count_from_the_start_and_what_the_log_does_not_reach_has_none) {
  RunLog log = small_log();
  const std::vector<std::uint64_t> hot = {0, 1, 2};
  RunMetrics metrics = measure(log, eight_blocks(), hot, 1ms);
  EXPECT_THAT(metrics.mounted_s, DoubleNear(0.1, 1e-9));
  EXPECT_THAT(metrics.mount_s, DoubleNear(0.04, 1e-9));
  EXPECT_THAT(metrics.session_s, DoubleNear(1, 1e-9));
  EXPECT_THAT(*metrics.needed_50_s, DoubleNear(0.3, 1e-9));    // third of five
  EXPECT_THAT(*metrics.needed_100_s, DoubleNear(1.54, 1e-9));  // block 4
  EXPECT_THAT(*metrics.hot_s, DoubleNear(0.3, 1e-9));
  log.end = 2s;
  metrics = measure(log, eight_blocks(), hot, 1ms);
  EXPECT_FALSE(metrics.needed_100_s);
  EXPECT_TRUE(metrics.needed_50_s);
}

TEST(WarmMetrics, a_contender_on_the_sessions_device_is_not_told_apart) {
  RunLog log = small_log();
  log.contender_opener = 0;
  const RunMetrics metrics = measure(log, eight_blocks(), {}, 1ms);
  EXPECT_FALSE(metrics.stalls || metrics.coverage || metrics.recall || metrics.contender_bytes);
  EXPECT_TRUE(metrics.needed_100_s);
}

DeviceRequest write_of(sim::ByteRange range, SimTime at, SimTime due, unsigned touches) {
  return {.at = at,
          .due = due,
          .range = range,
          .kind = DeviceRequest::Kind::write,
          .opener = 1,
          .first_touches = touches};
}

/// The session (1) writes block 0 whole, half of block 1 and, while that is under way, its other
/// half, and reads 0, 1 and 2; the contender (2) brings in what is left.
RunLog writing_log() {
  RunLog log;
  log.session_opener = 1;
  log.contender_opener = 2;
  log.start = log.found = log.mounted = 1s;
  log.session_end = 2s;
  log.end = 3s;
  log.requests = {write_of({0, kUnit}, 1000ms, 1001ms, 0),
                  write_of({kUnit, kUnit / 2}, 1010ms, 1050ms, 1),
                  write_of({kUnit + kUnit / 2, kUnit / 2}, 1020ms, 1050ms, 0),
                  read_of(1, 0, 1100ms, 1101ms, 0, false),
                  read_of(1, 1, 1110ms, 1111ms, 0, false),
                  read_of(2, 2, 1200ms, 1240ms, 1, true),
                  read_of(1, 2, 1300ms, 1301ms, 0, false),
                  read_of(2, 3, 2100ms, 2140ms, 1, true),
                  read_of(2, 4, 2200ms, 2240ms, 1, true),
                  write_of({4 * kUnit, kUnit / 2}, 2210ms, 2240ms, 0)};
  log.touches = {{1, 1010ms, 1050ms}, {2, 1200ms, 1240ms}, {3, 2100ms, 2140ms}, {4, 2200ms, 2240ms}};
  return log;
}

TEST(WarmMetrics, a_block_that_was_written_whole_is_present_and_no_more_needed_from_the_snapshot) {
  const RunMetrics metrics = measure(writing_log(), eight_blocks(), {}, 1ms);
  ASSERT_TRUE(metrics.needed_100_s);  // of 0 to 4, and nobody ever fetched 0
  EXPECT_THAT(*metrics.needed_100_s, DoubleNear(1.24, 1e-9));
  EXPECT_THAT(*metrics.needed_50_s, DoubleNear(0.24, 1e-9));
  EXPECT_THAT(session_blocks(writing_log(), eight_blocks()), ElementsAre(1, 2));
}

TEST(WarmMetrics, what_the_session_itself_brought_in_by_writing_is_nobodys_coverage) {
  const RunMetrics metrics = measure(writing_log(), eight_blocks(), {}, 1ms);
  EXPECT_DOUBLE_EQ(*metrics.coverage, 0.5);  // 2; its write to 1 found it absent
  EXPECT_DOUBLE_EQ(*metrics.recall, 0.5);
  EXPECT_DOUBLE_EQ(*metrics.precision, 1);
}

TEST(WarmMetrics, writes_wait_for_a_block_that_they_do_not_cover_and_are_counted_beside_the_reads) {
  RunLog log = writing_log();
  RunMetrics metrics = measure(log, eight_blocks(), {}, 1ms);
  EXPECT_EQ(metrics.stalls->count, 0u);
  EXPECT_EQ(metrics.write_stalls->count, 2u);  // not the one behind the session's end
  EXPECT_THAT(metrics.write_stalls->max_ms, DoubleNear(39, 1e-6));
  log.touches.clear();
  for (DeviceRequest& request : log.requests) request.first_touches = 0;
  // Where nothing is absent not even one beside the write of the whole block waits.
  log.requests.push_back(write_of({0, kUnit / 2}, 1000ms, 1001ms, 0));
  log.all_present = true;
  metrics = measure(log, eight_blocks(), {}, 1ms);
  EXPECT_EQ(metrics.write_stalls->count, 0u);
}

sim::VolumeProfile plain(double latency_ms, double mib_s) {
  return {.latency_median_ms = latency_ms,
          .latency_sigma = 0,
          .tail_probability = 0,
          .stall_probability = 0,
          .fetch_bandwidth_mib_s = mib_s,
          .guest_iops = 0,
          .guest_bandwidth_mib_s = 0,
          .warm_latency_ms = 1};
}

TEST(WarmBounds, needed_blocks_are_there_after_latency_or_by_bandwidth) {
  const VolumeFacts volume = eight_blocks();
  const auto needed = needed_list(volume);
  EXPECT_THAT(fetch_bound_s(needed, volume, plain(40, 0), 1), DoubleNear(0.040, 1e-9));
  EXPECT_THAT(fetch_bound_s(needed, volume, plain(40, 5), 1), DoubleNear(0.5, 1e-9));
}

TEST(WarmBounds, the_pipe_is_full_at_bandwidth_times_latency_or_at_all_slots) {
  EXPECT_FALSE(pipe_depth(plain(40, 0)));
  EXPECT_THAT(*pipe_depth(plain(40, 300)), DoubleNear(24, 1e-9));
  sim::VolumeProfile slots = plain(40, 0);
  slots.fetch_slots = 64;
  EXPECT_THAT(*pipe_depth(slots), DoubleNear(64, 1e-9));
  slots.fetch_bandwidth_mib_s = 300;
  EXPECT_THAT(*pipe_depth(slots), DoubleNear(24, 1e-9));
}

TEST(WarmBounds, late_blocks_of_the_last_second_stall_the_end_by_half_a_second_on_average) {
  sim::VolumeProfile profile;  // 600 blocks a second, one in 1,000 takes a second more
  EXPECT_THAT(expected_tail_s(profile), DoubleNear(0.52, 0.03));
  profile.tail_probability = 0;
  EXPECT_EQ(expected_tail_s(profile), 0);
}

TEST(WarmBounds, late_blocks_that_hold_slots_are_not_in_what_the_expected_tail_is_added_to) {
  const VolumeFacts volume = eight_blocks();
  const auto needed = needed_list(volume);
  sim::VolumeProfile late = plain(40, 0);
  late.fetch_slots = 1;
  late.tail_probability = 1;
  late.tail_mean_ms = 1000;
  EXPECT_GT(fetch_bound_s(needed, volume, late, 1), 0.3);
  EXPECT_THAT(untailed_bound_s(needed, volume, late, 1), DoubleNear(0.2, 1e-9));
}

TEST(WarmBounds, the_replay_waits_for_each_block_and_keeps_the_floors_gaps) {
  RunLog local;
  local.session_opener = 1;
  local.start = 10s;
  local.session_end = 11s;
  // On the floor: block 3 at once, block 0 after 300 ms of thinking, then 700 ms more.
  local.requests = {read_of(1, 3, 10000ms, 10001ms, 0, false),
                    read_of(1, 0, 10300ms, 10301ms, 0, false)};
  const VolumeFacts volume = eight_blocks();
  // 40 ms for the first instead of 1; the second has come meanwhile.
  EXPECT_THAT(replay_bound_s(local, volume, plain(40, 0), 1), DoubleNear(1.039, 1e-9));
  // At 1 MiB/s the first comes after 500 ms and the second after 1,000.
  EXPECT_THAT(replay_bound_s(local, volume, plain(40, 1), 1), DoubleNear(1.699, 1e-9));
}

TEST(WarmStatistics, medians_percentiles_and_intervals) {
  EXPECT_DOUBLE_EQ(median({}), 0);
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 2, 3}, 0.5), 2);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 2, 3}, 0.99), 4);
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 100};
  const auto [low, high] = median_interval(values, 7);
  EXPECT_LE(low, 4);
  EXPECT_GE(high, 4);
  EXPECT_LT(high, 100);
  EXPECT_EQ(median_interval(values, 7), std::pair(low, high));  // the seed decides
  EXPECT_EQ(median_interval(std::vector{5.0}, 7), std::pair(5.0, 5.0));
}

TEST(WarmProfiles, keys_left_out_keep_their_defaults) {
  const auto profile = parse_profile("latency_median_ms = 100\nfetch_slots = 64\n");
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->latency_median_ms, 100);
  EXPECT_EQ(profile->fetch_slots, 64u);
  EXPECT_EQ(profile->fetch_bandwidth_mib_s, sim::VolumeProfile{}.fetch_bandwidth_mib_s);
}

TEST(WarmProfiles, mistakes_are_refused_with_their_line) {
  const std::pair<const char*, const char*> cases[] = {
      {"\nlatency = 3", "line 2: latency: no such key"},
      {"fetch_slots = 1.5", "fetch_slots must be a whole number"},
      {"fetch_slots = -1", "fetch_slots must be a number from 0"},
      {"tail_probability = 2", "tail_probability must be a number from 0 to 1"},
      {"latency_sigma = nan", "latency_sigma must be a number"},
      {"charge_hydration = 1", "charge_hydration must be true or false"},
      {"guest_iops = \"many\"", "guest_iops must be a number"},
      {"hydration_unit_kib = 0", "must be more than 0"},
      {"guest_iops =", "line 1"},
  };
  for (const auto& [text, why] : cases) {
    const auto profile = parse_profile(text);
    ASSERT_FALSE(profile) << text;
    EXPECT_THAT(profile.error().message(), HasSubstr(why));
  }
}

TEST(WarmContenders, lists_are_names_with_depths_where_there_is_one) {
  const auto chosen = parse_contenders("none,fio1m@16,ours");
  ASSERT_TRUE(chosen) << chosen.error().message();
  ASSERT_EQ(chosen->size(), 3u);
  EXPECT_EQ((*chosen)[1].name, "fio1m@16");
  EXPECT_EQ((*chosen)[1].depth, 16u);
  EXPECT_EQ(parse_contenders("all")->size(), all_contenders().size());
  for (const char* wrong : {"", "dd,", "fio", "none@4", "ours@4", "dd@0", "fio1m@0", "fio1m@x", "none,none"})
    EXPECT_FALSE(parse_contenders(wrong)) << wrong;
}

TEST(WarmContenders, fio_is_called_as_aws_documents_it) {
  const auto chosen = parse_contenders("fio128k,fio1m");
  const auto command = command_of(chosen->at(1), {.disk = "/dev/loop9"});
  ASSERT_TRUE(command);
  EXPECT_THAT(command->words, ElementsAre("/usr/bin/fio", "--filename=/dev/loop9", "--rw=read",
                                          "--bs=1M", "--iodepth=32", "--ioengine=libaio",
                                          "--direct=1", "--name=volume-initialize"));
}

TEST(WarmContenders, tuned_ones_are_told_their_depth_slices_and_readers) {
  const auto chosen = parse_contenders("fio4k@25,fio256k,dd@8,cat@64");
  ASSERT_TRUE(chosen) << chosen.error().message();
  const auto words = [&](std::size_t which) {
    return command_of(chosen->at(which),
                      {.disk = "/dev/loop9", .disk_bytes = 8 * kGiB, .root = "/root"})
        ->words;
  };
  EXPECT_THAT(words(0), IsSupersetOf({"--rw=read:508k", "--bs=4k", "--iodepth=25", "--number_ios=16384"}));
  EXPECT_THAT(words(1), IsSupersetOf({"--iodepth=128", "--numjobs=10", "--offset_increment=10%",
                                      "--size=10%"}));
  EXPECT_THAT(words(2), ElementsAre("/bin/sh", "-ec", HasSubstr("iflag=direct"), "/dev/loop9", "8"));
  EXPECT_THAT(words(3), ElementsAre("/bin/sh", "-c", HasSubstr("xargs"), "/root", "64"));
}

Row row_of(unsigned repetition, const char* contender, double session_s) {
  Row row{.repetition = repetition, .workload = "w", .contender = contender};
  row.metrics.session_s = session_s;
  row.bounds.replay_s = 2;
  return row;
}

TEST(WarmReport, ratios_are_taken_within_a_repetition) {
  const std::vector<Row> rows = {row_of(1, "ours", 3), row_of(1, "oracle", 2), row_of(2, "ours", 8),
                                 row_of(2, "oracle", 4),
                                 row_of(3, "ours", 9)};  // whose oracle failed
  const auto all = goals(rows, "w", 1);
  ASSERT_EQ(all.front().what, "session, own list / oracle");
  EXPECT_EQ(all.front().repetitions, 2u);
  EXPECT_DOUBLE_EQ(*all.front().median, 1.75);
  EXPECT_THAT(goal_table(all), HasSubstr("| 1.750 [1.500, 2.000] | 2.000 | 0 of 2 | missed |"));
}

const Goal& goal_of(const std::vector<Goal>& goals, const std::string& beginning) {
  return *std::find_if(goals.begin(), goals.end(),
                       [&](const Goal& goal) { return goal.what.starts_with(beginning); });
}

TEST(WarmReport, the_best_of_others_is_the_quickest_tool_of_the_same_repetition) {
  const std::vector<Row> rows = {
      row_of(1, "ours-nolist", 3), row_of(1, "fio1m", 12),  row_of(1, "touch@25", 6),
      row_of(1, "cat", 10),        row_of(1, "oracle", 1),  row_of(1, "oracle@8", 1),
      row_of(1, "local", 1),       row_of(1, "none", 1),    row_of(1, "plain", 1),
      row_of(1, "ours", 2),        row_of(2, "touch@25", 1),
      row_of(3, "ours-nolist", 9)};  // beside whom nobody ran
  const auto all = goals(rows, "w", 1);
  const Goal& nolist = goal_of(all, "session, no list / best of others");
  EXPECT_EQ(nolist.repetitions, 1u);
  EXPECT_DOUBLE_EQ(*nolist.median, 0.5);
  EXPECT_DOUBLE_EQ(nolist.wanted.value_or(0), 1);
  EXPECT_DOUBLE_EQ(*goal_of(all, "session, own list / best of others").median, 2.0 / 6);
}

TEST(WarmReport, each_of_ours_has_the_warmers_processor_time_and_memory_as_goals) {
  const char* const ours[] = {"ours",        "ours-other",         "ours-older", "ours-nolist",
                              "ours-blocks", "ours-nolist-blocks", "ours-pread"};
  std::vector<Row> rows;
  for (const char* name : ours) {
    Row row = row_of(1, name, 3);
    row.cpu_s = 0.1;
    row.made_warm_gib = 0.25 * static_cast<double>(rows.size() + 1);
    row.peak_mib = 10 + static_cast<double>(rows.size());
    rows.push_back(row);
  }
  std::vector<double> cpu, peak;
  for (const Goal& goal : goals(rows, "w", 1)) {
    const bool is_cpu = goal.what.starts_with("CPU s a GiB made warm, ");
    if (!is_cpu && !goal.what.starts_with("peak MiB of the warmer, ")) continue;
    ASSERT_TRUE(goal.median) << goal.what;
    EXPECT_DOUBLE_EQ(goal.wanted.value_or(0), is_cpu ? 0.05 : 24) << goal.what;
    (is_cpu ? cpu : peak).push_back(*goal.median);
  }
  ASSERT_EQ(cpu.size(), std::size(ours));
  for (std::size_t i = 0; i < cpu.size(); ++i)
    EXPECT_DOUBLE_EQ(cpu[i], 0.4 / static_cast<double>(i + 1)) << ours[i];
  EXPECT_THAT(peak, ElementsAre(10, 11, 12, 13, 14, 15, 16));
}

TEST(WarmReport, what_ours_never_reached_is_missed_and_not_left_out_of_the_median) {
  std::vector<Row> rows = {row_of(1, "ours", 3), row_of(2, "ours", 3), row_of(3, "ours", 3)};
  for (Row& row : rows) row.bounds.needed_untailed_s = 6;
  rows[0].metrics.needed_100_s = 6.1;
  auto all = goals(rows, "w", 1);
  EXPECT_EQ(goal_of(all, "needed blocks warm, own list / bound").repetitions, 3u);
  EXPECT_GT(*goal_of(all, "needed blocks warm, own list / bound").median, 1'000);
  EXPECT_THAT(goal_table(all), HasSubstr("needed blocks warm, own list / bound with the expected tail | <= 1.05 | inf"));
}

TEST(WarmReport, a_seeds_late_blocks_are_not_counted_beside_the_expected_tail) {
  std::vector<Row> rows = {row_of(1, "ours", 3)};
  rows[0].bounds.needed_s = 7;  // of a seed with late blocks that hold slots
  rows[0].bounds.needed_untailed_s = 2.5;
  rows[0].bounds.tail_s = 1.1;
  rows[0].metrics.needed_100_s = 7.2;
  EXPECT_DOUBLE_EQ(*goal_of(goals(rows, "w", 1), "needed blocks warm, own list / bound").median, 2);
}

TEST(WarmReport, a_depth_far_below_what_fills_the_pipe_is_as_wrong_as_one_above) {
  std::vector<Row> rows = {row_of(1, "ours", 3)};
  rows[0].bounds.depth = 25;
  rows[0].depth_at_1s = 5;
  EXPECT_DOUBLE_EQ(*goal_of(goals(rows, "w", 1), "depth after 1 s").median, 5);
  rows[0].depth_at_1s = 30;
  EXPECT_DOUBLE_EQ(*goal_of(goals(rows, "w", 1), "depth after 1 s").median, 1.2);
}

TEST(WarmReport, a_median_that_is_met_says_in_how_many_repetitions_it_was) {
  std::vector<Row> rows = {row_of(1, "ours", 3), row_of(2, "ours", 3), row_of(3, "ours", 3)};
  for (Row& row : rows) {
    row.bounds.depth = 20;
    row.depth_at_1s = 22;
  }
  rows[1].depth_at_1s = 60;
  rows[2].depth_at_1s = 16;  // 1.25 below
  const auto all = goals(rows, "w", 1);
  const Goal& depth = goal_of(all, "depth after 1 s");
  EXPECT_DOUBLE_EQ(*depth.median, 1.25);
  EXPECT_DOUBLE_EQ(depth.largest, 3);
  EXPECT_EQ(depth.within, 2u);
  EXPECT_EQ(depth.repetitions, 3u);
  EXPECT_THAT(goal_table(all), HasSubstr("| 3.000 | 2 of 3 | met |"));
  EXPECT_EQ(to_json(depth)["within"], 2);
  EXPECT_DOUBLE_EQ(to_json(depth)["largest"].get<double>(), 3);
}

TEST(WarmReport, beyond_the_floor_the_floor_of_the_same_repetition_is_taken_off_both_sides) {
  const std::vector<Row> rows = {
      row_of(1, "local", 5), row_of(1, "none", 17), row_of(1, "ours-nolist", 8),
      row_of(2, "local", 4), row_of(2, "none", 14), row_of(2, "ours-nolist", 3),  // the floor's noise
      row_of(3, "none", 17), row_of(3, "ours-nolist", 8)};  // without a floor
  const auto all = goals(rows, "w", 1);
  const Goal& beyond = goal_of(all, "session beyond the floor, no list / no warmer");
  EXPECT_FALSE(beyond.wanted);
  EXPECT_EQ(beyond.repetitions, 2u);
  EXPECT_DOUBLE_EQ(*beyond.median, (0.25 - 0.1) / 2);
  EXPECT_DOUBLE_EQ(beyond.largest, 0.25);
  EXPECT_EQ(beyond.within, 0u);
  EXPECT_TRUE(to_json(beyond)["wanted"].is_null());
  EXPECT_THAT(goal_table(all), HasSubstr("session beyond the floor, no list / no warmer | - | 0.075 ["));
  EXPECT_THAT(goal_table(all), HasSubstr("| 0.250 | - | - |\n"));
}

TEST(WarmReport, an_unrelated_readers_slowdown_is_a_ratio_of_one_repetition_with_a_goal) {
  std::vector<Row> rows;
  const auto add = [&](unsigned repetition, const char* contender, std::vector<double> cold_ms) {
    rows.push_back(row_of(repetition, contender, 3));
    rows.back().reader_cold_ms = std::move(cold_ms);
  };
  add(1, "none", {20, 40, 100});
  add(1, "ours", {30, 120});
  add(1, "touch", {200});
  add(2, "none", {50});
  add(2, "ours", {100});
  add(3, "none", {40});
  add(3, "ours", {});  // all was warm before it read anything
  rows.push_back(row_of(4, "none", 3));
  rows.push_back(row_of(4, "ours", 3));  // interrupted
  const auto all = goals(rows, "w", 1);
  const Goal& ours = goal_of(all, "unrelated reader's p99, own list / no warmer");
  EXPECT_EQ(ours.repetitions, 2u);
  EXPECT_DOUBLE_EQ(*ours.median, 1.6);
  EXPECT_DOUBLE_EQ(ours.largest, 2);
  EXPECT_DOUBLE_EQ(ours.wanted.value_or(0), 1.5);
  EXPECT_EQ(ours.within, 1u);
  EXPECT_THAT(goal_table(all), HasSubstr("| <= 1.50 | 1.600 [1.200, 2.000] | 2.000 | 1 of 2 | missed |"));
  const Goal& touch = goal_of(all, "unrelated reader's p99, touch");
  EXPECT_DOUBLE_EQ(*touch.median, 2);
  EXPECT_FALSE(touch.wanted);
  EXPECT_THAT(reader_table(rows), HasSubstr("| ours | 3 | 100 | 120 | 120 |"));
  EXPECT_EQ(to_json(rows[1])["reader_cold_ms"].size(), 2u);
  EXPECT_FALSE(to_json(rows.back()).contains("reader_cold_ms"));
  EXPECT_EQ(reader_table({}), "");
}

TEST(WarmReport, a_figure_that_one_repetition_lacks_is_left_out) {
  std::vector<Row> rows = {row_of(1, "none", 3), row_of(2, "none", 5)};
  rows[0].metrics.needed_100_s = 7.77;
  const std::vector<std::string> names = {"none"};
  std::string table = contender_table(rows, "w", names, 1);
  EXPECT_THAT(table, HasSubstr("| none |"));
  EXPECT_THAT(table, testing::Not(HasSubstr("7.77")));
  EXPECT_THAT(table, HasSubstr("4.00 [3.00, 5.00]"));
  rows[1].metrics.needed_100_s = 7.77;
  EXPECT_THAT(contender_table(rows, "w", names, 1), HasSubstr("7.77"));
}

}  // namespace
}  // namespace warmroot::bench
