#include "bench/warm_runs.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <unordered_set>
#include <utility>

#include "bench/run_facts.hpp"
#include "bench/warm_profile.hpp"
#include "bench/warm_report.hpp"
#include "bench/warm_rig.hpp"
#include "bootstrap/base/units.hpp"
#include "bootstrap/warm/block_set.hpp"

namespace warmroot::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// How far the emulated volume may be from its theory before figures from it mean nothing.
constexpr double kSelfCheckTolerance = 0.03;
/// Seeds of a run's repetitions: seed * this + repetition; repetition 0 trains the lists.
constexpr std::uint64_t kSeedStride = 1000;
constexpr std::size_t kReaderBlocks = 400;

struct Workload {
  std::string name;
  std::string script;
  std::string list_file{};            // recorded by training
  std::vector<warm::Block> listed{};  // its blocks
  std::string older_list_file{};      // recorded on the older disk
};

/// Lines on stderr with the time since the start, and on a terminal a clock below them.
class Progress {
 public:
  void tell(const std::string& text) {
    std::fprintf(stderr, "%s%s\n", stamp().c_str(), text.c_str());
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string stamp() const {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
    char text[32];
    std::snprintf(text, sizeof text, "%s[%5lld s] ", terminal_ ? "\r" : "",
                  static_cast<long long>(seconds));
    return text;
  }

  const Clock::time_point start_ = Clock::now();
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  std::jthread clock_{[this](const std::stop_token& stop) {
    while (terminal_ && !stop.stop_requested()) {
      std::fputs(stamp().c_str(), stderr);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }};
};

void tell(const std::string& text) {
  static Progress progress;
  progress.tell(text);
}

class Bench {
 public:
  Bench(WarmOptions options, const std::atomic<bool>& stop)
      : options_(std::move(options)), stop_(stop) {}
  Ok run();

 private:
  Ok prepare();
  Ok check_self();
  Ok train();
  Ok train_on_older_disk();
  Ok repetition(unsigned number);
  Ok run_workload(unsigned number, const Workload& workload);
  Result<Row> measured(unsigned number, const Workload& workload, const Contender& contender);
  Ok read_beside(unsigned number);
  void print() const;
  Ok write_json() const;
  std::uint64_t seed_of(unsigned repetition) const {
    return options_.seed * kSeedStride + repetition;
  }
  /// The next in their order, so that of several each one's list is tried on another.
  const Workload& other(const Workload& workload) const {
    return &workload == &workloads_.back() ? workloads_.front() : *(&workload + 1);
  }
  std::vector<std::string> names() const;

  WarmOptions options_;
  const std::atomic<bool>& stop_;
  sim::VolumeProfile profile_;
  std::optional<sim::VolumeProfile> change_to_;
  std::vector<Contender> contenders_;
  std::set<std::string> rare_;
  std::vector<Workload> workloads_;
  std::unique_ptr<Rig> rig_;
  VolumeFacts volume_;
  fs::path lists_;
  std::vector<sim::SelfCheckPoint> self_check_;
  std::vector<Row> rows_;
  double load_at_start_ = load_average();
  // At the start: whoever works in the tree meanwhile does not change what runs.
  std::string revision_ = first_line_of("git describe --always --dirty 2>/dev/null");
  // Of the present repetition and workload:
  Bounds bounds_;
  std::vector<std::uint64_t> session_blocks_;
};

Ok Bench::prepare() {
  TRY_ASSIGN(const std::string text, read_text(options_.profile));
  auto profile = parse_profile(text);
  if (!profile) return fail(std::move(profile).error().within(options_.profile));
  profile_ = *profile;
  if (!options_.change_to.empty()) {
    TRY_ASSIGN(const std::string changed, read_text(options_.change_to));
    auto law = parse_profile(changed);
    if (!law) return fail(std::move(law).error().within(options_.change_to));
    change_to_ = *law;
  }
  TRY_ASSIGN(contenders_, parse_contenders(options_.contenders));
  if (!options_.rarely.empty()) {
    TRY_ASSIGN(const auto rare, parse_contenders(options_.rarely));
    for (const Contender& contender : rare) rare_.insert(contender.name);
  }
  for (const std::string& file : options_.workloads) {
    TRY_ASSIGN(std::string script, read_text(file));
    workloads_.push_back({.name = fs::path(file).stem(), .script = std::move(script)});
  }
  const bool needs_another = std::ranges::any_of(
      contenders_, [](const Contender& each) { return each.list == ListFrom::other_workload; });
  if (needs_another && workloads_.size() < 2)
    return fail(ErrorKind::misconfigured, "a list of another workload needs two --workloads");
  TRY_ASSIGN(const Image image, image_called(options_.images, options_.image));
  std::string pattern = (fs::temp_directory_path() / "warm-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return fail_errno("making " + pattern);
  lists_ = fs::path(pattern) / "lists";
  TRY_ASSIGN(rig_, Rig::start(pattern, image, stop_));
  std::error_code error;
  fs::create_directory(lists_, error);
  TRY_ASSIGN(volume_, facts_of(image, profile_));
  return {};
}

Ok Bench::check_self() {
  tell("self-check of the volume at queue depths 1 to 128");
  TRY_ASSIGN(self_check_, rig_->self_check(profile_, options_.seed, kSelfCheckTolerance));
  std::fputs(sim::self_check_table(self_check_, profile_.hydration_unit_kib).c_str(), stderr);
  for (const sim::SelfCheckPoint& point : self_check_)
    if (std::abs(point.deviation()) > kSelfCheckTolerance)
      return fail(ErrorKind::retry_later,
                  "the volume is more than 3 % off its theory on this machine now (queue depth " +
                      std::to_string(point.depth) + "), so nothing is measured");
  return {};
}

/// Records each workload's list on a cold volume of a seed that no repetition has.
Ok Bench::train() {
  for (Workload& workload : workloads_) {
    TRY_ASSIGN(const RunResult result, rig_->run({.contender = all_contenders().front(),
                                                  .profile = profile_,
                                                  .seed = seed_of(0),
                                                  .session = workload.script,
                                                  .record = true}));
    workload.list_file = (lists_ / workload.name).string();
    std::ofstream(workload.list_file, std::ios::binary) << warm::encode_hot_list(*result.recorded);
    workload.listed = warm::hot_blocks(*result.recorded, warm::grid_blocks(volume_.size_bytes));
    tell("recorded " + workload.name + ": " + std::to_string(result.recorded->ranges.size()) +
         " ranges in " + std::to_string(workload.listed.size()) + " blocks");
  }
  return {};
}

/// The same on the disk that is one upgrade older.
Ok Bench::train_on_older_disk() {
  if (std::ranges::none_of(contenders_,
                           [](const auto& c) { return c.list == ListFrom::older_image; }))
    return {};
  TRY_ASSIGN(const Image image, image_called(options_.images, "older"));
  TRY_ASSIGN(const auto rig, Rig::start(lists_.parent_path() / "older", image, stop_));
  for (Workload& workload : workloads_) {
    TRY_ASSIGN(const RunResult result, rig->run({.contender = all_contenders().front(),
                                                 .profile = profile_,
                                                 .seed = seed_of(0),
                                                 .session = workload.script,
                                                 .record = true}));
    workload.older_list_file = (lists_ / (workload.name + "-older")).string();
    std::ofstream(workload.older_list_file, std::ios::binary)
        << warm::encode_hot_list(*result.recorded);
    tell("recorded " + workload.name +
         " on the older disk: " + std::to_string(result.recorded->ranges.size()) + " ranges");
  }
  return {};
}

/// The share of the session's blocks that lie in listed ones.
double recall_of(const std::vector<warm::Block>& listed, std::uint64_t unit_bytes,
                 const std::vector<std::uint64_t>& blocks) {
  std::unordered_set<std::uint64_t> units;
  for (const warm::Block block : listed)
    units.insert(std::uint64_t{block} * warm::kGridBytes / unit_bytes);
  const auto hits =
      std::ranges::count_if(blocks, [&](std::uint64_t block) { return units.contains(block); });
  return blocks.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(blocks.size());
}

/// The last line of the warmer's own words, and its depth when a second had passed.
void take_words(const std::string& output, std::optional<double> change_s, Row& row) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const Json progress = Json::parse(line, nullptr, false);
    if (!progress.is_object()) continue;
    row.warmer = line;
    const double elapsed_ms = progress.value("elapsed_ms", 0);
    if (!row.depth_at_1s && elapsed_ms >= 1000) row.depth_at_1s = progress.value("depth", 0);
    // Its clock begins with the mount, the law's change counts from the disk's appearance.
    const double since_start_ms = elapsed_ms + row.metrics.mounted_s * 1e3;
    if (change_s && since_start_ms >= *change_s * 1e3)
      row.depth_at_end = progress.value("depth", 0);
    if (change_s && !row.depth_after_change && since_start_ms >= *change_s * 1e3 + 1000)
      row.depth_after_change = progress.value("depth", 0);
    if (progress.value("note", "").starts_with("the volume was warm already"))
      row.decided_s = elapsed_ms / 1e3;
  }
}

/// The device's log of a run, times in seconds since its start; and what the contender said.
Ok write_log(const fs::path& file, const RunResult& result) {
  std::ofstream out(file);
  const auto since_start = [&](SimTime time) {
    return std::chrono::duration<double>(time - result.log.start).count();
  };
  out << "opener,kind,at_s,due_s,offset,length,first_touches,waited\n";
  for (const sim::DeviceRequest& request : result.log.requests)
    out << request.opener << ',' << "rwf"[static_cast<int>(request.kind)] << ','
        << since_start(request.at) << ',' << since_start(request.due) << ',' << request.range.offset
        << ',' << request.range.length << ',' << request.first_touches << ',' << request.waited
        << '\n';
  std::ofstream(fs::path(file).replace_extension(".txt")) << result.contender_output;
  if (!out.flush()) return fail(ErrorKind::broken, "writing " + file.string());
  return {};
}

Result<Row> Bench::measured(unsigned number, const Workload& workload, const Contender& contender) {
  RunSpec spec{.contender = contender,
               .profile = profile_,
               .seed = seed_of(number),
               .session = workload.script,
               .limit = std::chrono::seconds(options_.limit_s)};
  const Workload* list = contender.list == ListFrom::this_workload    ? &workload
                         : contender.list == ListFrom::other_workload ? &other(workload)
                                                                      : nullptr;
  if (list != nullptr) spec.list_file = list->list_file;
  if (contender.list == ListFrom::older_image) spec.list_file = workload.older_list_file;
  if (contender.method == Method::oracle) spec.blocks = session_blocks_;
  if (!contender.volume_is_warm && contender.method != Method::local) spec.change_to = change_to_;
  spec.change_after =
      std::chrono::milliseconds(static_cast<std::int64_t>(options_.change_after_s * 1e3));
  if (contender.has_block_list) spec.held_blocks = held_blocks(volume_);
  TRY_ASSIGN(RunResult result, rig_->run(spec));
  if (!options_.logs.empty())
    TRY(write_log(fs::path(options_.logs) / (std::to_string(number) + "-" + workload.name + "-" +
                                             contender.name + ".csv"),
                  result));
  if (contender.method == Method::local) {
    session_blocks_ = bench::session_blocks(result.log, volume_);
    const auto needed = needed_list(volume_);
    bounds_ = Bounds{.replay_s = replay_bound_s(result.log, volume_, profile_, spec.seed),
                     .needed_s = fetch_bound_s(needed, volume_, profile_, spec.seed),
                     .needed_untailed_s = untailed_bound_s(needed, volume_, profile_, spec.seed),
                     .hot_s = fetch_bound_s(session_blocks_, volume_, profile_, spec.seed),
                     .depth = pipe_depth(profile_),
                     .tail_s = expected_tail_s(profile_)};
    if (change_to_) bounds_.depth_changed = pipe_depth(*change_to_);
  }
  const SimTime warm(static_cast<SimTime::rep>(profile_.warm_latency_ms * 1e6));
  Row row{.repetition = number,
          .seed = spec.seed,
          .workload = workload.name,
          .contender = contender.name,
          .metrics = measure(result.log, volume_, session_blocks_, warm),
          .bounds = bounds_,
          .contender_ended = result.contender_ended};
  if (result.contender) {
    row.cpu_s = result.contender->cpu_s;
    row.peak_mib = result.contender->peak_mib;
    if (row.metrics.contender_blocks)
      row.made_warm_gib = static_cast<double>(*row.metrics.contender_blocks * volume_.unit_bytes) /
                          static_cast<double>(kGiB);
  }
  if (result.page_cache_bytes)
    row.page_cache_mib = static_cast<double>(*result.page_cache_bytes) / static_cast<double>(kMiB);
  if (list != nullptr || contender.list == ListFrom::older_image)
    row.list = list != nullptr ? list->name : workload.name;
  if (list != nullptr)
    row.list_recall = recall_of(list->listed, volume_.unit_bytes, session_blocks_);
  if (contender.method == Method::ours)
    take_words(result.contender_output,
               spec.change_to ? std::optional(options_.change_after_s) : std::nullopt, row);
  return row;
}

Ok Bench::run_workload(unsigned number, const Workload& workload) {
  // The floor's log is what oracle and bounds are made from, so that it goes first.
  std::vector<Contender> order;
  for (const Contender& contender : contenders_)
    if (contender.method != Method::local &&
        (!rare_.contains(contender.name) || (number - 1) % options_.rarely_every == 0))
      order.push_back(contender);
  std::ranges::shuffle(order, std::mt19937_64(seed_of(number)));
  order.insert(order.begin(), *std::ranges::find(all_contenders(), "local", &Contender::name));
  for (const Contender& contender : order) {
    TRY_ASSIGN(Row row, measured(number, workload, contender));
    char text[160];
    std::snprintf(text, sizeof text, "%u/%u %s %s: mounted %.2f s, session %.2f s, needed warm %s",
                  number, options_.repetitions, workload.name.c_str(), contender.name.c_str(),
                  row.metrics.mounted_s, row.metrics.session_s,
                  row.metrics.needed_100_s
                      ? (std::to_string(*row.metrics.needed_100_s) + " s").c_str()
                      : "not");
    tell(text);
    rows_.push_back(std::move(row));
  }
  return {};
}

/// A reader at depth 1 of cold blocks that the first workload's list, which ours has, does not
/// name, without a session: what filling costs it. Kept in that workload's row of the same
/// repetition.
Ok Bench::read_beside(unsigned number) {
  std::vector<std::uint64_t> blocks;
  std::unordered_set<std::uint64_t> listed;
  for (const warm::Block block : workloads_.front().listed)
    listed.insert(std::uint64_t{block} * warm::kGridBytes / volume_.unit_bytes);
  for (const std::uint64_t block : needed_list(volume_))
    if (!listed.contains(block)) blocks.push_back(block);
  std::ranges::shuffle(blocks, std::mt19937_64(seed_of(number)));
  blocks.resize(std::min(blocks.size(), kReaderBlocks));
  for (const Contender& contender : contenders_) {
    if (contender.volume_is_warm || contender.method == Method::cat) continue;
    if (contender.method == Method::oracle || contender.list == ListFrom::other_workload ||
        contender.list == ListFrom::older_image)
      continue;
    const auto row = std::ranges::find_if(rows_, [&](const Row& each) {
      return each.repetition == number && each.workload == workloads_.front().name &&
             each.contender == contender.name;
    });
    if (row == rows_.end()) continue;  // it runs in few repetitions
    RunSpec spec{.contender = contender,
                 .profile = profile_,
                 .seed = seed_of(number),
                 .reader_blocks = blocks,
                 .limit = std::chrono::seconds(std::min(options_.limit_s, 15U))};
    if (contender.list == ListFrom::this_workload) spec.list_file = workloads_[0].list_file;
    TRY_ASSIGN(const RunResult result, rig_->run(spec));
    row->reader_cold_ms = result.reader_cold_ms;
    tell(std::to_string(number) + " reader beside " + contender.name + ": p99 of " +
         std::to_string(result.reader_cold_ms.size()) + " cold reads " +
         std::to_string(percentile(result.reader_cold_ms, 0.99)) + " ms");
  }
  return {};
}

Ok Bench::repetition(unsigned number) {
  for (const Workload& workload : workloads_) TRY(run_workload(number, workload));
  if (options_.reader) TRY(read_beside(number));
  return {};
}

std::vector<std::string> Bench::names() const {
  std::vector<std::string> names;
  if (std::ranges::none_of(contenders_, [](const auto& c) { return c.name == "local"; }))
    names.emplace_back("local");
  for (const Contender& contender : contenders_) names.push_back(contender.name);
  return names;
}

void Bench::print() const {
  for (const Workload& workload : workloads_) {
    std::printf("%s\n", contender_table(rows_, workload.name, names(), options_.seed).c_str());
    std::printf("%s\n", goal_table(goals(rows_, workload.name, options_.seed)).c_str());
  }
  std::fputs(reader_table(rows_).c_str(), stdout);
}

Ok Bench::write_json() const {
  Json runs = Json::array(), ratios = Json::object(), check = Json::array(), lists = Json::object();
  for (const Row& row : rows_) runs.push_back(to_json(row));
  for (const Workload& workload : workloads_) {
    for (const Goal& goal : goals(rows_, workload.name, options_.seed))
      ratios[workload.name].push_back(to_json(goal));
    lists[workload.name] = workload.listed.size();
  }
  for (const sim::SelfCheckPoint& point : self_check_)
    check.push_back({{"depth", point.depth},
                     {"replay_blocks_s", point.replay_blocks_s},
                     {"measured_blocks_s", point.measured_blocks_s},
                     {"deviation", point.deviation()}});
  Json out = {{"rev", revision_},
              {"machine", first_line_of("uname -rm") + ", " +
                              first_line_of("grep -c ^processor /proc/cpuinfo") + " processors"},
              {"fio", first_line_of("fio --version 2>/dev/null")},
              {"load_at_start", load_at_start_},
              {"load_at_end", load_average()},
              {"profile", options_.profile},
              {"change_to", options_.change_to},
              {"change_after_s", options_.change_after_s},
              {"rarely", options_.rarely},
              {"rarely_every", options_.rarely_every},
              {"profile_text", read_text(options_.profile).value_or("")},
              {"image", options_.image},
              {"device_blocks", volume_.costly.size()},
              {"costly_blocks", std::ranges::count(volume_.costly, true)},
              {"needed_blocks", std::ranges::count(volume_.needed, true)},
              {"seed", options_.seed},
              {"training_seed", seed_of(0)},
              {"repetitions", options_.repetitions},
              {"limit_s", options_.limit_s},
              {"list_blocks", lists},
              {"self_check", check},
              {"ratios", ratios},
              {"runs", runs}};
  std::ofstream file(options_.json);
  file << out.dump(1) << '\n';
  if (!file.flush()) return fail(ErrorKind::broken, "writing " + options_.json);
  return {};
}

Ok Bench::run() {
  TRY(prepare());
  tell("volume: " + std::to_string(volume_.costly.size()) + " blocks, " +
       std::to_string(std::ranges::count(volume_.costly, true)) + " in the snapshot, " +
       std::to_string(std::ranges::count(volume_.needed, true)) + " needed");
  TRY(rig_->read_image());
  TRY(check_self());
  TRY(train());
  TRY(train_on_older_disk());
  Ok done;
  for (unsigned number = 1; done && number <= options_.repetitions; ++number)
    done = repetition(number);
  // An interrupted run still says what it has.
  if (!rows_.empty()) {
    print();
    if (!options_.json.empty()) TRY(write_json());
  }
  return done;
}

}  // namespace

Ok run_warm_bench(WarmOptions options, const std::atomic<bool>& stop) {
  return Bench(std::move(options), stop).run();
}

}  // namespace warmroot::bench
