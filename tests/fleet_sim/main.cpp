// fleet_sim: deterministic simulation of the whole manager, one seed a run. Exit 0: no invariant
// was violated; 1: one was, with the line that reproduces it and the trace that led there; 2: bad
// usage; 3: it was interrupted, and the seeds until then violated none.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/fleet_sim/batch.hpp"
#include "tests/fleet_sim/catalogue.hpp"

namespace {

using namespace warmroot;
using namespace warmroot::fleet;

std::vector<std::string> fault_names(const Options& options) {
  std::vector<std::string> names;
  for (const auto* fault : chosen_faults(options.faults)) names.push_back(fault->name);
  return names;
}

void print_json(const Options& options, const BatchResult& batch) {
  nlohmann::json out = {
      {"first_seed", options.first_seed},
      {"seeds", options.seeds},
      {"runs", batch.runs},
      {"nodes", options.nodes},
      {"minutes", options.minutes},
      {"ticks", batch.ticks},
      {"cpu_s", batch.cpu_s},
      {"wall_s", batch.wall_s},
      {"longest_settle_s", static_cast<double>(batch.longest_settle.count()) / 1e3},
      {"interrupted", batch.interrupted},
      {"rev", revision()},
      {"violations", batch.violations},
      {"coverage", batch.coverage.counts()},
      {"never", batch.coverage.missing(fault_names(options))}};
  if (batch.violation)
    out["violation"] = {{"seed", batch.violation->seed},
                        {"fault", batch.violation->fault},
                        {"step", batch.violation->step},
                        {"text", batch.violation->violation},
                        {"line", describe_violation(*batch.violation, options)},
                        {"trace", batch.violation->trace}};
  std::printf("%s\n", out.dump().c_str());
}

/// One row a name; what never was has a 0.
void print_table(const Options& options, const BatchResult& batch) {
  std::printf("| kind | name | count in %llu seeds |\n| --- | --- | ---: |\n",
              static_cast<unsigned long long>(batch.runs));
  for (const auto& [kind, names] : batch.coverage.counts())
    for (const auto& [name, count] : names)
      std::printf("| %s | %s | %llu |\n", kind.c_str(), name.c_str(),
                  static_cast<unsigned long long>(count));
  for (const auto& never : batch.coverage.missing(fault_names(options))) {
    const auto space = never.find(' ');
    std::printf("| %s | %s | 0 |\n", never.substr(0, space).c_str(),
                never.substr(space + 1).c_str());
  }
}

void print_text(const Options& options, const BatchResult& batch) {
  for (const auto& [kind, names] : batch.coverage.counts()) {
    std::printf("%s:", kind.c_str());
    for (const auto& [name, count] : names)
      std::printf(" %s=%llu", name.c_str(), static_cast<unsigned long long>(count));
    std::printf("\n");
  }
  for (const auto& name : batch.coverage.missing(fault_names(options)))
    std::printf("never: %s\n", name.c_str());
  std::printf(
      "seeds=%llu ticks=%llu cpu_ms_per_seed=%.1f wall_s=%.1f longest_settle_s=%.0f "
      "violations=%llu\n",
      static_cast<unsigned long long>(batch.runs), static_cast<unsigned long long>(batch.ticks),
      batch.runs == 0 ? 0.0 : 1e3 * batch.cpu_s / static_cast<double>(batch.runs), batch.wall_s,
      static_cast<double>(batch.longest_settle.count()) / 1e3,
      static_cast<unsigned long long>(batch.violations));
}

/// Of every seed, whole.
int print_traces(Options options) {
  options.trace_lines = 1'000'000;
  bool good = true;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const auto result = run_seed(options.first_seed + i, options);
    for (const auto& line : result.trace) std::printf("%s\n", line.c_str());
    std::printf("seed=%llu trace=%016llx steps=%llu %s\n",
                static_cast<unsigned long long>(result.seed),
                static_cast<unsigned long long>(result.hash),
                static_cast<unsigned long long>(result.step), result.violation.c_str());
    good = good && result.violation.empty();
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "fleet_sim: %s\n", options.error().context.c_str());
    return 2;
  }
  if (options->print_trace) return print_traces(*options);
  const auto batch = run_batch(*options);
  if (options->json)
    print_json(*options, batch);
  else if (options->coverage)
    print_table(*options, batch);
  else
    print_text(*options, batch);
  if (batch.interrupted)
    std::fprintf(stderr, "interrupted after %llu of %llu seeds\n",
                 static_cast<unsigned long long>(batch.runs),
                 static_cast<unsigned long long>(options->seeds));
  if (!batch.violation) return batch.interrupted ? 3 : 0;
  std::fflush(stdout);
  if (!options->json)
    for (const auto& line : batch.violation->trace) std::fprintf(stderr, "%s\n", line.c_str());
  for (const auto& line : batch.described) std::fprintf(stderr, "%s\n", line.c_str());
  return 1;
}
