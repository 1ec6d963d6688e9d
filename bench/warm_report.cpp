#include "bench/warm_report.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/warm_contenders.hpp"
#include "bootstrap/base/units.hpp"

namespace warmroot::bench {
namespace {

using Json = nlohmann::json;
using Value = std::function<std::optional<double>(const Row&)>;

std::string number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

struct Column {
  const char* title;
  int digits;
  Value value;
  bool interval = false;
};

std::optional<double> stall(const Row& row, double Stalls::*member) {
  if (!row.metrics.stalls) return {};
  return (*row.metrics.stalls).*member;
}

std::optional<double> percent(std::optional<double> share) {
  if (!share) return {};
  return *share * 100;
}

template <typename Number>
std::optional<double> real(const std::optional<Number>& value) {
  if (!value) return {};
  return static_cast<double>(*value);
}

const std::vector<Column>& columns() {
  static const std::vector<Column> columns = {
      {"disk to mounted s", 2, [](const Row& row) { return row.metrics.mounted_s; }},
      {"mount(2) s", 2, [](const Row& row) { return row.metrics.mount_s; }},
      {"session s", 2, [](const Row& row) { return row.metrics.session_s; }, true},
      {"of bound", 2, [](const Row& row) { return row.metrics.session_s / row.bounds.replay_s; }},
      {"stalls", 0,
       [](const Row& row) -> std::optional<double> {
         if (!row.metrics.stalls) return {};
         return static_cast<double>(row.metrics.stalls->count);
       }},
      {"stall p50 ms", 0, [](const Row& row) { return stall(row, &Stalls::p50_ms); }},
      {"p99", 0, [](const Row& row) { return stall(row, &Stalls::p99_ms); }},
      {"max", 0, [](const Row& row) { return stall(row, &Stalls::max_ms); }},
      {"write stalls", 0,
       [](const Row& row) -> std::optional<double> {
         if (!row.metrics.write_stalls) return {};
         return static_cast<double>(row.metrics.write_stalls->count);
       }},
      {"needed 50 % s", 2, [](const Row& row) { return row.metrics.needed_50_s; }},
      {"90 %", 2, [](const Row& row) { return row.metrics.needed_90_s; }},
      {"99 %", 2, [](const Row& row) { return row.metrics.needed_99_s; }},
      {"100 %", 2, [](const Row& row) { return row.metrics.needed_100_s; }},
      {"hot s", 2, [](const Row& row) { return row.metrics.hot_s; }},
      {"coverage %", 0, [](const Row& row) { return percent(row.metrics.coverage); }},
      {"recall %", 0, [](const Row& row) { return percent(row.metrics.recall); }},
      {"precision %", 0, [](const Row& row) { return percent(row.metrics.precision); }},
      {"I/Os", 0, [](const Row& row) { return real(row.metrics.contender_requests); }},
      {"MiB", 0,
       [](const Row& row) -> std::optional<double> {
         if (!row.metrics.contender_bytes) return {};
         return static_cast<double>(*row.metrics.contender_bytes) / static_cast<double>(kMiB);
       }},
      {"CPU s", 2, [](const Row& row) { return row.cpu_s; }},
      {"peak MiB", 0, [](const Row& row) { return row.peak_mib; }},
      {"page cache MiB", 0, [](const Row& row) { return row.page_cache_mib; }},
  };
  return columns;
}

std::vector<const Row*> rows_of(std::span<const Row> rows, const std::string& workload,
                                const std::string& contender) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows)
    if (row.workload == workload && row.contender == contender) chosen.push_back(&row);
  return chosen;
}

/// A value that some repetitions do not have (not reached in the limit) has no median: the missing
/// ones would be the largest.
std::string cell(const std::vector<const Row*>& rows, const Column& column, std::uint64_t seed) {
  std::vector<double> values;
  for (const Row* row : rows)
    if (const auto value = column.value(*row)) values.push_back(*value);
  if (values.empty() || values.size() < rows.size()) return "";
  std::string text = number(median(values), column.digits);
  if (column.interval && values.size() > 1) {
    const auto [low, high] = median_interval(values, seed);
    text += " [" + number(low, column.digits) + ", " + number(high, column.digits) + "]";
  }
  return text;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Stalls& stalls) {
  return {{"count", stalls.count},
          {"sum_s", stalls.sum_s},
          {"p50_ms", stalls.p50_ms},
          {"p99_ms", stalls.p99_ms},
          {"max_ms", stalls.max_ms}};
}

/// In place of a contender's name: the least of all others' in the same repetition.
constexpr char kBestOfOthers[] = "best of others";

struct GoalRule {
  std::string what;
  std::optional<double> wanted;  ///< nothing: printed beside another, without a goal
  std::string contender;
  Value value;
  std::string against;  ///< contender of the same repetition, or kBestOfOthers; empty: `divisor` of
                        ///< the same row
  Value divisor;
  bool two_sided = false;  ///< as far below is as bad as above; not reached is not measured
  bool changed = false;    ///< of runs whose law changes, of which nothing else is asked
  std::string beyond{};    ///< contender of the same repetition whose `value` comes off both sides
  bool may_lack = false;   ///< nothing there is nothing measured, as where it is two-sided
};

std::optional<double> session_of(const Row& row) {
  return row.metrics.session_s;
}
std::optional<double> needed_of(const Row& row) {
  return row.metrics.needed_100_s;
}
std::optional<double> mounted_of(const Row& row) {
  return row.metrics.mounted_s;
}
std::optional<double> mount_of(const Row& row) {
  return row.metrics.mount_s;
}
std::optional<double> needed_bound(const Row& row) {
  return row.bounds.needed_untailed_s + row.bounds.tail_s;
}
std::optional<double> hot_of(const Row& row) {
  return row.metrics.hot_s;
}

std::optional<double> hot_bound(const Row& row) {
  return row.bounds.hot_s;
}

std::optional<double> reader_p99(const Row& row) {
  if (!row.reader_cold_ms || row.reader_cold_ms->empty()) return {};
  return percentile(*row.reader_cold_ms, 0.99);
}

std::optional<double> one(const Row&) {
  return 1;
}

std::vector<GoalRule> rules_of_times() {
  return {
      {"session, own list / oracle", 1.10, "ours", session_of, "oracle", session_of},
      {"session, own list / replay bound", 1.15, "ours", session_of, "",
       [](const Row& row) { return row.bounds.replay_s; }},
      {"session, no list / fio 1M", 0.40, "ours-nolist", session_of, "fio1m", session_of},
      {"session, no list / no warmer", 0.30, "ours-nolist", session_of, "none", session_of},
      // What is to be had: on some sessions the floor alone is more than the goal above.
      {.what = "session beyond the floor, no list / no warmer",
       .wanted = {},
       .contender = "ours-nolist",
       .value = session_of,
       .against = "none",
       .divisor = session_of,
       .beyond = "local"},
      {"session, own list / best of others", 1, "ours", session_of, kBestOfOthers, session_of},
      {"session, no list / best of others", 1, "ours-nolist", session_of, kBestOfOthers,
       session_of},
      {"session, other workload's list / own list", 2, "ours-other", session_of, "ours",
       session_of},
      {"session, older disk's list / own list", 1.3, "ours-older", session_of, "ours", session_of},
      {"needed blocks warm, own list / bound with the expected tail", 1.05, "ours", needed_of, "",
       needed_bound},
      {"needed blocks warm, no list / bound with the expected tail", 1.05, "ours-nolist", needed_of,
       "", needed_bound},
      {"needed blocks warm, no hot list but the block list / the same", 1.05, "ours-nolist-blocks",
       needed_of, "", needed_bound},
      {"needed blocks warm, own list / all asked for at once", 1.05, "ours", needed_of, "",
       [](const Row& row) { return row.bounds.needed_s; }},
      {"needed blocks warm, own list / fio 1M", 0.35, "ours", needed_of, "fio1m", needed_of},
      {"hot set warm, own list / bound", 1.10, "ours", hot_of, "", hot_bound},
      {"hot set warm, oracle / bound", 1.10, "oracle", hot_of, "", hot_bound},
      {"disk to mounted, own list / plain mount(8)", 0.25, "ours", mounted_of, "plain", mounted_of},
      {"disk to mounted, no list / plain mount(8)", 0.50, "ours-nolist", mounted_of, "plain",
       mounted_of},
      // What is to be had by knowing all that the mount reads.
      {"disk to mounted, oracle / plain mount(8)", 0.25, "oracle", mounted_of, "plain", mounted_of},
      {"disk to mounted, own list / no warmer", 0.25, "ours", mounted_of, "none", mounted_of},
      {"disk to mounted, no list / no warmer", 0.50, "ours-nolist", mounted_of, "none", mounted_of},
      {"mount(2), own list / no warmer", 0.25, "ours", mount_of, "none", mount_of},
      {"mount(2), no list / no warmer", 0.50, "ours-nolist", mount_of, "none", mount_of},
      {"depth after 1 s, own list, off what fills the pipe", 1.25, "ours",
       [](const Row& row) { return row.depth_at_1s; }, "",
       [](const Row& row) { return row.bounds.depth; }, true},
      {"depth a second after the law has changed", 1.25, "ours",
       [](const Row& row) { return row.depth_after_change; }, "",
       [](const Row& row) { return row.bounds.depth_changed; }, true, true},
      {"depth at the end, the law has changed", 1.25, "ours",
       [](const Row& row) { return row.depth_at_end; }, "",
       [](const Row& row) { return row.bounds.depth_changed; }, true, true},
      {"s until a warm volume is known to be warm", 1, "ours-warm",
       [](const Row& row) { return row.decided_s; }, "", one},
      {"session on a warm volume / floor", 1.02, "ours-warm", session_of, "local", session_of},
  };
}

/// Ours that warm.
constexpr std::pair<const char*, const char*> kOurs[] = {
    {"ours", "own list"},
    {"ours-other", "other workload's list"},
    {"ours-older", "older disk's list"},
    {"ours-nolist", "no list"},
    {"ours-blocks", "own list and the block list"},
    {"ours-nolist-blocks", "no hot list but the block list"},
    {"ours-pread", "own list without io_uring"},
};

/// How much later than with nobody beside an unrelated reader's cold reads come back.
GoalRule reader_rule(const std::string& contender, const std::string& what,
                     std::optional<double> wanted) {
  return {.what = "unrelated reader's p99, " + what + " / no warmer",
          .wanted = wanted,
          .contender = contender,
          .value = reader_p99,
          .against = "none",
          .divisor = reader_p99,
          .may_lack = true};
}

std::vector<GoalRule> rules_of_readers() {
  std::vector<GoalRule> rules;
  for (const auto& [contender, what] : kOurs) rules.push_back(reader_rule(contender, what, 1.5));
  rules.push_back(reader_rule("touch", "touch", {}));
  return rules;
}

/// What each of ours costs.
std::vector<GoalRule> rules_of_costs() {
  std::vector<GoalRule> rules;
  for (const auto& [contender, what] : kOurs)
    rules.push_back({std::string("CPU s a GiB made warm, ") + what, 0.05, contender,
                     [](const Row& row) { return row.cpu_s; }, "",
                     [](const Row& row) { return row.made_warm_gib; }});
  for (const auto& [contender, what] : kOurs)
    rules.push_back({std::string("peak MiB of the warmer, ") + what, 24, contender,
                     [](const Row& row) { return row.peak_mib; }, "", one});
  return rules;
}

std::vector<GoalRule> goal_rules() {
  std::vector<GoalRule> rules = rules_of_times();
  std::ranges::move(rules_of_readers(), std::back_inserter(rules));
  std::ranges::move(rules_of_costs(), std::back_inserter(rules));
  return rules;
}

/// What people could use instead of ours, with whatever depth.
bool is_of_others(const std::string& name) {
  const auto contender = parse_contenders(name);
  if (!contender) return false;
  const Method method = contender->front().method;
  return method == Method::dd || method == Method::fio || method == Method::touch ||
         method == Method::cat;
}

/// Of `contender` in the repetition of `row`, if it was measured; of kBestOfOthers the least.
std::optional<double> value_beside(const Row& row, std::span<const Row> rows,
                                   const std::string& contender, const Value& value_of) {
  std::optional<double> least;
  for (const Row& other : rows) {
    const bool meant =
        contender == kBestOfOthers ? is_of_others(other.contender) : other.contender == contender;
    if (!meant || other.workload != row.workload || other.repetition != row.repetition) continue;
    const auto value = value_of(other);
    if (value && (!least || *value < *least)) least = value;
  }
  return least;
}

/// Nothing where a side was not measured. What one of ours never reached counts as later than
/// anything.
std::optional<double> ratio_of(const GoalRule& rule, std::span<const Row> rows, const Row& row) {
  auto above = rule.value(row);
  if (!above && (rule.two_sided || rule.may_lack)) return {};
  auto below = rule.against.empty() ? rule.divisor(row)
                                    : value_beside(row, rows, rule.against, rule.divisor);
  if (!rule.beyond.empty()) {
    const auto least = value_beside(row, rows, rule.beyond, rule.value);
    if (!least) return {};
    if (above) *above -= *least;
    if (below) *below -= *least;
  }
  if (!below || *below <= 0) return {};
  if (!above) return std::numeric_limits<double>::infinity();
  const double ratio = *above / *below;
  return rule.two_sided ? std::max(ratio, 1 / ratio) : ratio;
}

}  // namespace

std::string contender_table(std::span<const Row> rows, const std::string& workload,
                            std::span<const std::string> contenders, std::uint64_t seed) {
  std::string text = "| " + workload + " |";
  std::string rule = "| --- |";
  for (const Column& column : columns()) {
    text += " " + std::string(column.title) + " |";
    rule += " --- |";
  }
  text += "\n" + rule + "\n";
  for (const std::string& contender : contenders) {
    const auto chosen = rows_of(rows, workload, contender);
    if (chosen.empty()) continue;
    text += "| " + contender + " |";
    for (const Column& column : columns()) text += " " + cell(chosen, column, seed) + " |";
    text += "\n";
  }
  std::vector<double> replay, needed, untailed, hot;
  double tail = 0;
  for (const Row& row : rows)
    if (row.workload == workload && row.contender == "local") {
      replay.push_back(row.bounds.replay_s);
      needed.push_back(row.bounds.needed_s);
      untailed.push_back(row.bounds.needed_untailed_s);
      hot.push_back(row.bounds.hot_s);
      tail = row.bounds.tail_s;
    }
  text += "Bounds: session " + number(median(replay), 2) + " s (replay), hot set " +
          number(median(hot), 2) + " s, needed blocks " + number(median(needed), 2) +
          " s (all asked for at once) or " + number(median(untailed), 2) +
          " s without late ones and " + number(tail, 2) + " s of expected tail.\n";
  return text;
}

std::vector<Goal> goals(std::span<const Row> rows, const std::string& workload,
                        std::uint64_t seed) {
  std::vector<Goal> goals;
  for (const GoalRule& rule : goal_rules()) {
    std::vector<double> ratios;
    for (const Row& row : rows) {
      if (row.workload != workload || row.contender != rule.contender ||
          row.bounds.depth_changed.has_value() != rule.changed)
        continue;
      if (const auto ratio = ratio_of(rule, rows, row)) ratios.push_back(*ratio);
    }
    Goal goal{.what = rule.what, .wanted = rule.wanted, .median = {}, .repetitions = ratios.size()};
    if (!ratios.empty()) {
      goal.median = median(ratios);
      goal.largest = std::ranges::max(ratios);
      goal.within = static_cast<std::size_t>(std::ranges::count_if(
          ratios, [&](double ratio) { return rule.wanted && ratio <= *rule.wanted; }));
      std::tie(goal.low, goal.high) = median_interval(ratios, seed);
    }
    goals.push_back(std::move(goal));
  }
  return goals;
}

std::string goal_table(std::span<const Goal> goals) {
  std::string text =
      "| ratio in one repetition | wanted | measured | largest | within | |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const Goal& goal : goals) {
    if (!goal.median) continue;
    text += "| " + goal.what + " | " + (goal.wanted ? "<= " + number(*goal.wanted, 2) : "-") +
            " | " + number(*goal.median, 3) + " [" + number(goal.low, 3) + ", " +
            number(goal.high, 3) + "] | " + number(goal.largest, 3) + " | ";
    if (goal.wanted)
      text += std::to_string(goal.within) + " of " + std::to_string(goal.repetitions) + " | " +
              (*goal.median <= *goal.wanted ? "met" : "missed") + " |\n";
    else
      text += "- | - |\n";
  }
  return text;
}

std::string reader_table(std::span<const Row> rows) {
  std::map<std::string, std::vector<double>> cold_ms;
  for (const Row& row : rows)
    if (row.reader_cold_ms) {
      auto& all = cold_ms[row.contender];
      all.insert(all.end(), row.reader_cold_ms->begin(), row.reader_cold_ms->end());
    }
  if (cold_ms.empty()) return "";
  std::string text =
      "| unrelated reader beside | cold reads | p50 ms | p99 ms | max ms |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (const auto& [contender, all] : cold_ms)
    text += "| " + contender + " | " + std::to_string(all.size()) + " | " +
            number(percentile(all, 0.5), 0) + " | " + number(percentile(all, 0.99), 0) + " | " +
            number(percentile(all, 1), 0) + " |\n";
  return text;
}

Json to_json(const Row& row) {
  const RunMetrics& m = row.metrics;
  Json json = {{"repetition", row.repetition},
               {"seed", row.seed},
               {"workload", row.workload},
               {"contender", row.contender},
               {"mounted_s", m.mounted_s},
               {"mount_s", m.mount_s},
               {"session_s", m.session_s},
               {"session_blocks", m.session_blocks},
               {"session_requests", m.session_requests},
               {"needed_50_s", optional_json(m.needed_50_s)},
               {"needed_90_s", optional_json(m.needed_90_s)},
               {"needed_99_s", optional_json(m.needed_99_s)},
               {"needed_100_s", optional_json(m.needed_100_s)},
               {"hot_s", optional_json(m.hot_s)},
               {"coverage", optional_json(m.coverage)},
               {"recall", optional_json(m.recall)},
               {"precision", optional_json(m.precision)},
               {"contender_requests", optional_json(real(m.contender_requests))},
               {"contender_bytes", optional_json(real(m.contender_bytes))},
               {"contender_blocks", optional_json(real(m.contender_blocks))},
               {"contender_ended", row.contender_ended},
               {"cpu_s", optional_json(row.cpu_s)},
               {"peak_mib", optional_json(row.peak_mib)},
               {"page_cache_mib", optional_json(row.page_cache_mib)},
               {"list", row.list},
               {"list_recall", optional_json(row.list_recall)},
               {"depth_at_1s", optional_json(row.depth_at_1s)},
               {"depth_after_change", optional_json(row.depth_after_change)},
               {"depth_at_end", optional_json(row.depth_at_end)},
               {"decided_s", optional_json(row.decided_s)},
               {"bounds",
                {{"replay_s", row.bounds.replay_s},
                 {"needed_s", row.bounds.needed_s},
                 {"needed_untailed_s", row.bounds.needed_untailed_s},
                 {"hot_s", row.bounds.hot_s},
                 {"tail_s", row.bounds.tail_s},
                 {"depth", optional_json(row.bounds.depth)},
                 {"depth_changed", optional_json(row.bounds.depth_changed)}}}};
  if (m.stalls) json["stalls"] = to_json(*m.stalls);
  if (m.write_stalls) json["write_stalls"] = to_json(*m.write_stalls);
  if (row.reader_cold_ms) json["reader_cold_ms"] = *row.reader_cold_ms;
  if (!row.warmer.empty()) json["warmer"] = Json::parse(row.warmer, nullptr, false);
  return json;
}

Json to_json(const Goal& goal) {
  return {{"what", goal.what},
          {"wanted", optional_json(goal.wanted)},
          {"median", optional_json(goal.median)},
          {"low", goal.low},
          {"high", goal.high},
          {"largest", goal.largest},
          {"repetitions", goal.repetitions},
          {"within", goal.within}};
}

}  // namespace warmroot::bench
