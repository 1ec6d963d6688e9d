// Bugs planted between the parts of a manager are found by some seed of the first thousand.
#include <gtest/gtest.h>

#include <thread>

#include "tests/fleet_sim/batch.hpp"
#include "tests/fleet_sim/planted.hpp"

namespace warmroot::fleet {
namespace {

class FleetPlanted : public ::testing::TestWithParam<PlantedBug> {};

TEST_P(FleetPlanted, is_found_within_a_thousand_seeds) {
  Options options;
  options.seeds = 1000;
  options.planted = GetParam().number;
  options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto batch = run_batch(options);
  ASSERT_TRUE(batch.violation.has_value()) << GetParam().name;
  std::printf("%s: seed %llu, %llu runs: %s\n", GetParam().name,
              static_cast<unsigned long long>(batch.violation->seed),
              static_cast<unsigned long long>(batch.runs), batch.violation->violation.c_str());
}

INSTANTIATE_TEST_SUITE_P(Bugs, FleetPlanted, ::testing::ValuesIn(planted_bugs()),
                         [](const auto& info) {
                           return "bug_" + std::to_string(info.param.number);
                         });

}  // namespace
}  // namespace warmroot::fleet
