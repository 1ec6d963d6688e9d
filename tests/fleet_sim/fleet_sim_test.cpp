// The simulation itself: one seed is one run, every fault alone and all together violate nothing.
// Seeds are printed; a failure names the command that repeats it.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/fleet_sim/batch.hpp"
#include "tests/fleet_sim/catalogue.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::fleet {
namespace {

#ifdef WARMROOT_FEW_SEEDS  // under sanitizers
constexpr std::uint64_t kTogether = 12;
constexpr std::uint64_t kAlone = 1;
constexpr std::uint64_t kLarge = 1;
constexpr std::uint64_t kReboots = 1;
#else
constexpr std::uint64_t kTogether = 120;
constexpr std::uint64_t kAlone = 3;
constexpr std::uint64_t kLarge = 12;
constexpr std::uint64_t kReboots = 80;
#endif

Options seeds(std::uint64_t first, std::uint64_t count) {
  Options options;
  options.first_seed = first;
  options.seeds = count;
  options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return options;
}

BatchResult expect_none(const Options& options) {
  auto batch = run_batch(options);
  std::string trace;
  if (batch.violation)
    for (const auto& line : batch.violation->trace) trace += line + "\n";
  EXPECT_FALSE(batch.violation.has_value())
      << trace << describe_violation(*batch.violation, options);
  return batch;
}

TEST(FleetSim, one_seed_gives_one_trace) {
  for (const std::uint64_t seed : {11, 12, 13}) {
    Options options = seeds(seed, 1);
    options.trace_lines = 1'000'000;
    const auto first = run_seed(seed, options);
    const auto second = run_seed(seed, options);
    EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
  }
}

TEST(FleetSim, ledgers_in_files_change_nothing) {
  const TemporaryDirectory directory;
  for (const std::uint64_t seed : {11, 12, 13, 14, 15, 16}) {
    Options options = seeds(seed, 1);
    const auto in_memory = run_seed(seed, options);
    options.ledgers = directory.path();
    EXPECT_EQ(run_seed(seed, options).hash, in_memory.hash) << "seed " << seed;
    EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "each world clears its own away";
  }
}

TEST(FleetSim, all_faults_together_violate_no_invariant) {
  expect_none(seeds(1'000'000, kTogether));
}

TEST(FleetSim, each_fault_alone_violates_no_invariant) {
  for (const auto* fault : all_faults()) {
    SCOPED_TRACE(fault->name);
    Options options = seeds(2'000'000, kAlone);
    options.faults = {fault->name};
    const auto batch = expect_none(options);
    if (kAlone > 1)
      EXPECT_TRUE(batch.coverage.has("fault", fault->name)) << "it struck nothing in any seed";
  }
}

TEST(FleetSim, machines_start_anew_in_every_way_and_violate_no_invariant) {
  Options options = seeds(4'000'000, kReboots);
  options.faults = {"reboots", "resets", "disk_gone"};
  const auto batch = expect_none(options);
  if (kReboots == 1) return;
  for (const char* way : {"back after a reboot", "back after a reset", "never back",
                          "never back, and well", "asked for its volume at a reboot",
                          "gives a lost disk up", "takes what it served, without a word"})
    EXPECT_TRUE(batch.coverage.has("guest", way)) << way;
  EXPECT_TRUE(batch.coverage.has("way", kEndedAfterReboot));
}

TEST(FleetSim, what_was_given_back_is_served_by_no_boot_behind_that_without_a_word) {
  Options options = seeds(5'000'000, kReboots);
  options.faults = {"reboots_behind_release", "leaves_unmounted"};
  const auto batch = expect_none(options);
  if (kReboots == 1) return;
  for (const char* way : {"back behind a release", "held back", "released, never mounted"})
    EXPECT_TRUE(batch.coverage.has("guest", way)) << way;
  EXPECT_TRUE(batch.coverage.has("report", "never mounted"));
}

TEST(FleetSim, disks_that_are_found_late_are_served_by_no_boot_behind_a_release_without_a_word) {
  Options options = seeds(6'000'000, kReboots);
  options.faults = {"late_disks"};
  const auto batch = expect_none(options);
  if (kReboots == 1) return;
  for (const char* way : {"back, and its disks late", "back behind a release", "held back"})
    EXPECT_TRUE(batch.coverage.has("guest", way)) << way;
}

TEST(FleetSim, who_has_given_its_volume_back_and_is_up_again_takes_none_while_the_manager_says_no) {
  Options options = seeds(7'000'000, kReboots);
  options.faults = {"ups_again"};
  const auto batch = expect_none(options);
  if (kReboots == 1) return;
  for (const char* way :
       {"up again", "told that it gets none", "takes back what it gave, by a word"})
    EXPECT_TRUE(batch.coverage.has("guest", way)) << way;
}

/// Somebody has a session there; nullptr: nobody has one anywhere.
Guest* some_serving(World& world) {
  const auto* serving = world.some_instance([&](const sim::InstanceRecord& each) {
    const Guest* guest = world.guests.find(each.id);
    return guest && guest->session;
  });
  return serving ? world.guests.find(serving->id) : nullptr;
}

/// Who was up again once was excused for as long as its instance ran.
TEST(FleetSim, up_again_excuses_nothing_that_is_given_back_later) {
  Options options = seeds(31, 1);
  options.faults = {"none of them"};
  World world(options.first_seed, options);
  bool reboots = false;
  world.later(std::chrono::minutes{4}, [&] {
    Guest* serving = some_serving(world);
    if (!serving) return;
    Guest& guest = *serving;
    guest.up_again = true;
    world.guests.forgets_given_away = true;
    Boot boot;
    boot.rests = boot.lasts = std::chrono::seconds{3};
    boot.drain_heard = boot.release_heard = false;
    world.guests.reboot_behind_release(guest, boot);
    reboots = true;
  });
  const auto result = world.run();
  EXPECT_TRUE(reboots) << "nobody serves";
  EXPECT_TRUE(result.violation.starts_with("(14) a session opens on ")) << result.violation;
}

/// Guests kept no record of what they serve, and waited for the manager's word: what came with its
/// launch is in the launch's mapping, so that no boot finds it by elimination.
TEST(FleetSim, behind_a_reset_a_volume_of_its_launch_is_served_again_without_a_word) {
  Options options = seeds(31, 1);
  options.faults = {"none of them"};
  World world(options.first_seed, options);
  std::string id, volume_id;
  bool serves_again = false;
  world.later(std::chrono::minutes{4}, [&] {
    Guest* guest = some_serving(world);
    if (!guest) return;
    id = guest->id;
    volume_id = guest->volume_id;
    EXPECT_EQ(guest->served, volume_id);
    const auto* volume = world.region.volume(volume_id);
    world.region.changeable(id)->launch_mapping["ebs9"] = volume->link->device;
    world.kill(world.host(), std::chrono::minutes{2});
    Boot boot;
    boot.lasts = std::chrono::seconds{3};
    world.guests.reset(*guest, boot);
  });
  world.later(std::chrono::minutes{5}, [&] {
    const Guest* guest = world.guests.find(id);
    if (!guest) return;
    EXPECT_EQ(guest->word, "");
    serves_again = guest->session && guest->volume_id == volume_id;
  });
  const auto result = world.run();
  EXPECT_TRUE(serves_again) << (id.empty() ? "nobody serves" : id);
  EXPECT_EQ(result.violation, "");
}

TEST(FleetSim, what_a_guest_serves_is_kept_for_no_boot_once_another_volume_is_named) {
  Options options = seeds(31, 1);
  options.faults = {"none of them"};
  World world(options.first_seed, options);
  bool heard = false;
  world.later(std::chrono::minutes{4}, [&] {
    Guest* guest = some_serving(world);
    if (!guest) return;
    world.guests.hear_word(*guest, guest->volume_id, false);
    EXPECT_EQ(guest->served, guest->volume_id);
    world.guests.hear_word(*guest, "vol-0abc", false);
    EXPECT_EQ(guest->served, "");
    heard = true;
  });
  const auto result = world.run();
  EXPECT_TRUE(heard) << "nobody serves";
  EXPECT_EQ(result.violation, "");
}

TEST(FleetSim, a_record_of_what_is_served_that_outlives_its_release_is_a_violation) {
  Options options = seeds(31, 1);
  options.faults = {"none of them"};
  World world(options.first_seed, options);
  world.guests.keeps_record = true;
  bool reboots = false;
  world.later(std::chrono::minutes{4}, [&] {
    Guest* guest = some_serving(world);
    if (!guest) return;
    world.kill(world.host(), std::chrono::minutes{2});
    Boot boot;
    boot.rests = boot.lasts = std::chrono::seconds{3};
    world.guests.reboot_behind_release(*guest, boot);
    reboots = true;
  });
  const auto result = world.run();
  EXPECT_TRUE(reboots) << "nobody serves";
  EXPECT_TRUE(result.violation.starts_with("(14) a session opens on ")) << result.violation;
}

/// Guests took no notice of such an answer.
TEST(FleetSim, who_reports_what_another_instance_has_hears_what_is_wished_beside_the_no) {
  Options options = seeds(31, 1);
  options.faults = {"none of them"};
  World world(options.first_seed, options);
  bool heard = false;
  world.later(std::chrono::minutes{4}, [&] {
    std::vector<Guest*> serving;
    for (const auto& [id, instance] : world.region.instances())
      if (Guest* guest = world.guests.find(id); guest && guest->session) serving.push_back(guest);
    if (serving.size() < 2) return;
    Guest& guest = *serving[0];
    core::NodeReport report;
    report.instance_id = guest.id;
    report.volume_id = serving[1]->volume_id;
    report.stage = NodeStage::ready;
    guest.word.clear();
    EXPECT_FALSE(world.deliver(guest, report).taken);
    EXPECT_EQ(guest.word, guest.volume_id);
    EXPECT_FALSE(guest.refused);
    std::map<std::string, manager::KnownInstance> known;  // until the next look
    known[serving[1]->id].volume_id = serving[1]->volume_id;
    known[guest.id].drain = true;
    auto& board = world.host().door->board;
    board.set_known(kDeployment, known);
    const auto answer = world.deliver(guest, report);
    EXPECT_FALSE(answer.taken);
    EXPECT_TRUE(answer.drain);
    EXPECT_EQ(guest.word, "");
    EXPECT_TRUE(guest.refused);
    known[guest.id].drain = false;  // it was no wish of the plan
    board.set_known(kDeployment, known);
    heard = true;
  });
  const auto result = world.run();
  EXPECT_TRUE(heard) << "fewer than two serve";
  EXPECT_EQ(result.violation, "");
}

TEST(FleetSim, a_seed_in_which_no_fault_that_is_apart_strikes_is_the_same_without_them) {
  std::vector<std::string> usual;
  for (const auto* fault : all_faults())
    if (!fault->apart) usual.push_back(fault->name);
  constexpr std::uint64_t kSeeds = 12;
  std::uint64_t same = 0;
  for (std::uint64_t seed = 21; seed < 21 + kSeeds; ++seed) {
    Options options = seeds(seed, 1);
    const auto all = run_seed(seed, options).hash;
    options.faults = usual;
    same += run_seed(seed, options).hash == all ? 1 : 0;
  }
  EXPECT_GT(same, 0U);
  EXPECT_LT(same, kSeeds) << "they strike in none of these seeds";
}

// More nodes than the bucket of AttachVolume holds: first volumes come with their launches.
TEST(FleetSim, many_nodes_violate_no_invariant) {
  Options options = seeds(3'000'000, kLarge);
  options.nodes = 40;
  const auto batch = expect_none(options);
  if (kLarge == 1) return;
  EXPECT_TRUE(batch.coverage.has("way", kVolumesWithLaunch));
  EXPECT_TRUE(batch.coverage.has("way", kClaimOfSeveral));
}

TEST(FleetSim, a_violation_names_the_command_that_repeats_it) {
  RunResult result;
  result.seed = 7;
  Options options;
  options.faults = {"killed", "frozen"};
  std::string again =
      "; again: fleet_sim --first-seed 7 --seeds 1 --nodes 5 --minutes 10 --faults killed,frozen";
  EXPECT_TRUE(describe_violation(result, options).ends_with(again))
      << describe_violation(result, options);
  options.planted = 3;
  again += " --planted 3";
  EXPECT_TRUE(describe_violation(result, options).ends_with(again))
      << describe_violation(result, options);
}

TEST(FleetSim, what_no_seed_produced_is_told) {
  const Coverage empty;
  const auto never = empty.missing({"killed"});
  EXPECT_NE(std::find(never.begin(), never.end(), "fault killed"), never.end());
  EXPECT_NE(std::find(never.begin(), never.end(), "note frozen"), never.end());
}

}  // namespace
}  // namespace warmroot::fleet
