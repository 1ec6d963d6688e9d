// How far the real manager stays behind what EC2's throttles allow. Each run is two processes: this
// one keeps the simulated region and the virtual clock, its child is the manager, so that CPU
// seconds and peak memory are the manager's alone. See README.md beside it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/scale_bound.hpp"
#include "bench/scale_manager.hpp"
#include "bench/scale_polling.hpp"
#include "bench/scale_world.hpp"

namespace {

using namespace warmroot;
using namespace warmroot::bench;
using nlohmann::json;

constexpr int kStormNodes = 1000;
/// How long a manager has run when its spec asks for launches: one that has just begun looks around
/// first, which `--just-begun` measures.
constexpr Milliseconds kLead{60'000};

struct Wishes {
  std::vector<int> nodes{16, 100, 1000, 10000};
  std::string kind = "all";
  double share = 1.0;
  std::uint64_t seed = 1;
  double jitter = 0.6;
  bool as_json = false;
  bool by_create = false;   ///< launches may not make volumes
  bool just_begun = false;  ///< the manager begins with the run in `launch`, too
  bool manager = true;      ///< the manager runs
  bool scripts = true;      ///< the polling client runs as well
};

int usage() {
  std::fprintf(stderr,
               "usage: scale_bench [--nodes N[,N...]] [--case running|launch|storm|faults|all]\n"
               "                   [--share S] [--seed S] [--jitter J]\n"
               "                   [--no-launch-volumes] [--just-begun] [--no-manager] "
               "[--no-scripts] [--json]\n");
  return 2;
}

/// Runs one case with the manager in a process of its own; returns the manager's own words.
json run_apart(World& world, const CaseOptions& options, bool launches) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
  const std::string nodes = std::to_string(options.nodes);
  const std::string share = std::to_string(options.share);
  const std::string lead = std::to_string(options.lead.count());
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const std::string fd = std::to_string(ends[1]);
    ::execl("/proc/self/exe", "scale_bench", "--manager", fd.c_str(), nodes.c_str(),
            launches ? "1" : "0", share.c_str(), options.events ? "1" : "0", lead.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  const std::string words = world.serve(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return json::parse(words);
}

double rounded(double value) {
  return static_cast<double>(static_cast<long long>(value * 1000 + (value < 0 ? -0.5 : 0.5))) /
         1000;
}

/// The end of a run beside its bounds, which are those of the waits that this run drew.
json against_bounds(const CaseOptions& options, const std::vector<NodeWaits>& waits, double done_s,
                    bool launches) {
  const bool from_nothing = options.kind == CaseKind::launch;
  const double bound = !from_nothing ? bound_running(waits)
                       : launches    ? bound_launch(waits)
                                     : bound_created(waits);
  // Of launches only the bound with foreknowledge is worked out.
  const double blind = from_nothing ? bound : bound_blind(waits);
  return {{"bound_s", rounded(bound)},
          {"done_s", rounded(done_s)},
          {"excess_s", rounded(done_s - bound)},
          {"blind_bound_s", rounded(blind)},
          {"blind_excess_s", rounded(done_s - blind)},
          {"ratio", rounded(bound > 0 ? done_s / bound : 0)}};
}

/// The part of the tokens that could have been spent between two instants that was.
double bucket_use(int attach_calls, double seconds) {
  if (attach_calls <= kAttachCalls.capacity) return 1;  // nobody waited for a token
  const double there = kAttachCalls.capacity + seconds * kAttachCalls.refill_per_s;
  return std::min(1.0, attach_calls / std::floor(there));
}

json run_case(const CaseOptions& options, bool launches) {
  World world(options);
  const json own = run_apart(world, options, launches);
  const Sight sight = world.sight();
  const double per_node = 1.0 / options.nodes;
  const double cpu = own.at("cpu_s").get<double>();
  json row = {{"case", to_string(options.kind)},
              {"events", options.events},
              {"lead_s", rounded(std::chrono::duration<double>(options.lead).count())},
              {"nodes", options.nodes},
              {"client", "warmroot"},
              {"served", sight.served},
              {"served_twice", sight.served_twice},
              {"finished", sight.finished},
              {"attach_bucket_use",
               rounded(bucket_use(sight.attach_calls, sight.last_attach_s - sight.first_attach_s))},
              {"attach_bucket_use_from_start",
               rounded(bucket_use(sight.attach_calls, sight.last_attach_s))},
              {"first_attach_s", rounded(sight.first_attach_s)},
              {"mutating_calls_per_node", rounded(sight.mutating_calls * per_node)},
              {"describing_calls_per_node", rounded(sight.describing_calls * per_node)},
              {"attach_calls_per_node", rounded(sight.attach_calls * per_node)},
              {"throttled_calls", sight.throttled_calls},
              {"cpu_s", rounded(cpu)},
              {"cpu_ms_per_node", rounded(cpu * 1000 * per_node)},
              {"peak_mib", rounded(own.at("peak_mib").get<double>())},
              {"ticks", own.at("ticks")},
              {"failed_ticks", own.at("failed_ticks")},
              {"xml_bytes_per_instance", rounded(sight.bytes_per_instance)},
              {"calls", sight.calls}};
  row.update(against_bounds(options, sight.waits, sight.done_s, launches));
  if (options.kind == CaseKind::storm) {
    for (const char* key :
         {"bound_s", "done_s", "excess_s", "blind_bound_s", "blind_excess_s", "ratio",
          "attach_bucket_use", "attach_bucket_use_from_start", "first_attach_s"})
      row[key] = nullptr;
    row["released_share"] = rounded(sight.released_share);
    row["unmounted_share"] = rounded(sight.unmounted_share);
  }
  return row;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// What one call of the AWS CLI costs at least: its start. Measured, once a run; absent where it is
/// not installed.
const std::optional<rusage>& cost_of_the_cli() {
  static const std::optional<rusage> cost = []() -> std::optional<rusage> {
    const pid_t child = ::fork();
    if (child == 0) {
      const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      ::dup2(null, STDOUT_FILENO);
      ::dup2(null, STDERR_FILENO);
      ::execlp("aws", "aws", "--version", nullptr);
      ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    if (child < 0 || ::wait4(child, &status, 0, &usage) != child) return std::nullopt;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
    return usage;
  }();
  return cost;
}

json run_scripts(const CaseOptions& options, bool launches) {
  const auto sight = run_polling(options);
  const double per_node = 1.0 / options.nodes;
  json cpu_s, cpu_ms, peak_mib;
  if (const auto& cli = cost_of_the_cli()) {
    const double calls = sight.mutating_calls + sight.describing_calls;
    const double each = seconds_of(cli->ru_utime) + seconds_of(cli->ru_stime);
    cpu_s = rounded(calls * each);
    cpu_ms = rounded(calls * each * 1000 * per_node);
    peak_mib = rounded(static_cast<double>(cli->ru_maxrss) / 1024);
  }
  json row = {{"case", to_string(options.kind)},
              {"nodes", options.nodes},
              {"client", "polling scripts"},
              {"served", sight.served},
              {"mutating_calls_per_node", rounded(sight.mutating_calls * per_node)},
              {"describing_calls_per_node", rounded(sight.describing_calls * per_node)},
              {"attach_calls_per_node", rounded(sight.attach_calls * per_node)},
              {"attach_bucket_use",
               rounded(bucket_use(sight.attached, sight.last_attach_s - sight.first_attach_s))},
              {"cpu_s", cpu_s},
              {"cpu_ms_per_node", cpu_ms},
              {"peak_mib", peak_mib},
              {"throttled_calls", sight.throttled_calls}};
  row.update(against_bounds(options, sight.waits, sight.done_s, launches));
  return row;
}

std::string first_line_of(const char* command) {
  std::string text;
  if (FILE* pipe = ::popen(command, "r")) {
    char buffer[256];
    if (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text = buffer;
    ::pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string machine() {
  std::string model;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && model.empty();)
    if (line.starts_with("model name")) model = line.substr(line.find(':') + 2);
  utsname names{};
  ::uname(&names);
  return std::to_string(std::thread::hardware_concurrency()) + " x " + model + ", " + names.release;
}

std::string cell(const json& row, const char* key) {
  if (!row.contains(key) || row.at(key).is_null()) return "-";
  const json& value = row.at(key);
  char text[32];
  if (value.is_number_float())
    std::snprintf(text, sizeof text, "%.*f", value.get<double>() >= 100 ? 0 : 2,
                  value.get<double>());
  else
    return value.is_string() ? value.get<std::string>() : value.dump();
  return text;
}

void print_table(const json& rows) {
  const std::vector<std::pair<const char*, const char*>> columns = {
      {"case", "case"},
      {"nodes", "nodes"},
      {"events", "events"},
      {"client", "client"},
      {"bound s", "bound_s"},
      {"done s", "done_s"},
      {"excess s", "excess_s"},
      {"blind excess s", "blind_excess_s"},
      {"bucket use", "attach_bucket_use"},
      {"released", "released_share"},
      {"attach/node", "attach_calls_per_node"},
      {"change/node", "mutating_calls_per_node"},
      {"look/node", "describing_calls_per_node"},
      {"CPU ms/node", "cpu_ms_per_node"},
      {"peak MiB", "peak_mib"}};
  for (const auto& [title, key] : columns) std::printf("| %s ", title);
  std::printf("|\n");
  for (std::size_t i = 0; i < columns.size(); ++i) std::printf("| --- ");
  std::printf("|\n");
  for (const auto& row : rows) {
    for (const auto& [title, key] : columns) std::printf("| %s ", cell(row, key).c_str());
    std::printf("|\n");
  }
}

std::optional<Wishes> parse(int argc, char** argv) {
  Wishes wishes;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      wishes.as_json = true;
    } else if (word == "--no-launch-volumes") {
      wishes.by_create = true;
    } else if (word == "--just-begun") {
      wishes.just_begun = true;
    } else if (word == "--no-manager") {
      wishes.manager = false;
    } else if (word == "--no-scripts") {
      wishes.scripts = false;
    } else if (i + 1 >= argc) {
      return std::nullopt;
    } else if (word == "--case") {
      wishes.kind = argv[++i];
    } else if (word == "--share") {
      wishes.share = std::atof(argv[++i]);
    } else if (word == "--jitter") {
      wishes.jitter = std::atof(argv[++i]);
    } else if (word == "--seed") {
      wishes.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--nodes") {
      wishes.nodes.clear();
      std::istringstream list(argv[++i]);
      for (std::string one; std::getline(list, one, ',');)
        wishes.nodes.push_back(std::atoi(one.c_str()));
    } else {
      return std::nullopt;
    }
  }
  if (wishes.nodes.empty()) return std::nullopt;
  for (const int nodes : wishes.nodes)
    if (nodes < 1 || nodes > 50'000) return std::nullopt;
  if (wishes.share <= 0 || wishes.share > 1) return std::nullopt;
  const bool scripted = wishes.kind != "storm" && wishes.kind != "faults";
  if (!wishes.manager && !(wishes.scripts && scripted)) return std::nullopt;  // nothing would run
  for (const char* kind : {"running", "launch", "storm", "faults", "all"})
    if (wishes.kind == kind) return wishes;
  return std::nullopt;
}

void add_case(json& rows, const Wishes& wishes, CaseKind kind, int nodes) {
  const bool launches = !wishes.by_create;
  CaseOptions options{kind, nodes, wishes.share, wishes.seed, wishes.jitter, false, {}};
  if (kind == CaseKind::launch && !wishes.just_begun) options.lead = kLead;
  for (const bool events : {false, true}) {
    if (!wishes.manager) continue;
    if (events && kind == CaseKind::faults) continue;
    if (!events && kind == CaseKind::storm) continue;
    std::fprintf(stderr, "%s %d%s ...\n", std::string(to_string(kind)).c_str(), nodes,
                 events ? " with events" : "");
    options.events = events;
    rows.push_back(run_case(options, launches));
  }
  options.events = false;
  if (wishes.scripts && (kind == CaseKind::running || kind == CaseKind::launch))
    rows.push_back(run_scripts(options, launches));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 8 && std::string(argv[1]) == "--manager")
    return run_manager(std::atoi(argv[2]),
                       {std::atoi(argv[3]), argv[4][0] == '1', std::atof(argv[5]),
                        argv[6][0] == '1', Milliseconds(std::atoll(argv[7]))});
  const auto wishes = parse(argc, argv);
  if (!wishes) return usage();
  const std::pair<const char*, CaseKind> kinds[] = {
      {"running", CaseKind::running}, {"launch", CaseKind::launch}, {"faults", CaseKind::faults}};
  const int most = *std::max_element(wishes->nodes.begin(), wishes->nodes.end());
  json rows = json::array();
  for (const auto& [name, kind] : kinds)
    if (wishes->kind == name || wishes->kind == "all")
      for (const int nodes : wishes->nodes) add_case(rows, *wishes, kind, nodes);
  if (wishes->kind == "storm" || wishes->kind == "all")
    add_case(rows, *wishes, CaseKind::storm, std::min(kStormNodes, most));
  if (!wishes->as_json) {
    print_table(rows);
    return 0;
  }
  const json out = {{"cases", rows},
                    {"seed", wishes->seed},
                    {"share", wishes->share},
                    {"jitter", wishes->jitter},
                    {"rev", first_line_of("git rev-parse --short HEAD 2>/dev/null")},
                    {"machine", machine()}};
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
}
