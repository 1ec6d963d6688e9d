// Bugs planted between the parts of a manager are found by some seed of the first thousand.
#include <gtest/gtest.h>

#include <thread>

#include "tests/fleet_sim/batch.hpp"
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {
namespace {

class FleetPlanted : public ::testing::TestWithParam<PlantedBug> {};

TEST_P(FleetPlanted, is_found_within_a_thousand_seeds) {
  constexpr std::uint64_t kSeeds = 1000;
  Options options;
  options.planted = GetParam().number;
  options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (options.first_seed = 1; options.first_seed <= kSeeds; ++options.first_seed) {
    options.seeds = kSeeds + 1 - options.first_seed;
    const auto batch = run_batch(options);
    ASSERT_TRUE(batch.violation.has_value()) << GetParam().name;
    options.first_seed = batch.violation->seed;
    // What the manager does wrong without the plant is not the plant's.
    Options honest = options;
    honest.planted = 0;
    honest.seeds = 1;
    if (run_batch(honest).violation.has_value()) continue;
    std::printf("%s: seed %llu: %s\n", GetParam().name,
                static_cast<unsigned long long>(batch.violation->seed),
                batch.violation->violation.c_str());
    return;
  }
  FAIL() << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(Bugs, FleetPlanted, ::testing::ValuesIn(planted_bugs()),
                         [](const auto& row) {
                           return "bug_" + std::to_string(row.param.number);
                         });

}  // namespace
}  // namespace warmroot::fleet
