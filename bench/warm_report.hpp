// The rows of a warm benchmark as tables for people and JSON for machines: medians with intervals,
// and the ratios that the goals are about, taken within each repetition. Pure. Called by
// warm_bench.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/warm_metrics.hpp"

namespace warmroot::bench {

/// What no contender can beat in one repetition of one workload.
struct Bounds {
  double replay_s = 0;                    ///< replay_bound_s()
  double needed_s = 0;                    ///< fetch_bound_s() of the needed blocks
  double needed_untailed_s = 0;           ///< untailed_bound_s() of the needed blocks
  double hot_s = 0;                       ///< of the session's blocks
  std::optional<double> depth{};          ///< pipe_depth()
  double tail_s = 0;                      ///< expected_tail_s()
  std::optional<double> depth_changed{};  ///< pipe_depth() of the law that it changes to
};

/// One run.
struct Row {
  unsigned repetition = 0;
  std::uint64_t seed = 0;
  std::string workload;
  std::string contender;
  RunMetrics metrics{};
  Bounds bounds{};
  std::optional<double> cpu_s{}, peak_mib{};   ///< of the contender's process
  std::optional<double> made_warm_gib{};       ///< what its reads brought in
  std::optional<double> page_cache_mib{};      ///< that its reads of the device hold at the end
  bool contender_ended = false;                ///< by itself, before the limit
  std::string list{};                          ///< workload that its hot list is of; empty: none
  std::optional<double> list_recall{};         ///< of the session's blocks: in the hot list
  std::optional<double> depth_at_1s{};         ///< of ours
  std::optional<double> depth_after_change{};  ///< of ours, a second after the law has changed
  std::optional<double> depth_at_end{};        ///< of ours, where the law has changed
  std::optional<double> decided_s{};           ///< of ours: that the volume is warm already
  std::string warmer{};                        ///< last status of ours, JSON; empty: none
  /// Latencies of the cold reads of an unrelated reader beside the contender; without it: nothing.
  std::optional<std::vector<double>> reader_cold_ms{};
};

/// The contenders' medians for one workload, in the order of `contenders`.
std::string contender_table(std::span<const Row> rows, const std::string& workload,
                            std::span<const std::string> contenders, std::uint64_t seed);

/// A ratio that issue and README set a goal for, or that stands beside one; median and interval
/// over the repetitions where both sides were measured.
struct Goal {
  std::string what;
  std::optional<double> wanted;  ///< at most; nothing: no goal
  std::optional<double> median;
  double low = 0, high = 0;
  double largest = 0;  ///< of one repetition
  std::size_t repetitions = 0;
  std::size_t within = 0;  ///< repetitions that are at most `wanted` by themselves; 0 without
};
std::vector<Goal> goals(std::span<const Row> rows, const std::string& workload, std::uint64_t seed);
std::string goal_table(std::span<const Goal> goals);

/// What the unrelated reader's cold reads took beside each contender, of all repetitions together;
/// empty where none ran.
std::string reader_table(std::span<const Row> rows);

nlohmann::json to_json(const Row& row);
nlohmann::json to_json(const Goal& goal);

}  // namespace warmroot::bench
