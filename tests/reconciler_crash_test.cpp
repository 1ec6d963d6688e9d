// The tick dies after each of its statements: before and after each commit of the ledger, before
// and after each call of EC2. A new manager on the same ledger, and one that has lost it, both end
// with exactly what the spec asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fleet_harness.hpp"

namespace warmroot {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct CrashCase {
  const char* name;
  bool keeps_ledger;
  Milliseconds visibility;  ///< how long new things stay invisible
  void (*story)(Fleet&);
};

/// From nothing to two served nodes.
void first_start(Fleet& fleet) {
  fleet.start();
  fleet.until_stable();
}

/// The power of one instance fails; its volume moves on.
void handover(Fleet& fleet) {
  first_start(fleet);
  if (fleet.region.crash(fleet.instance_of("p-0")).has_value())
    fleet.region.advance_by(Milliseconds{100});
  fleet.tick();
  fleet.until_stable();
}

/// A node drains and releases while its instance runs on.
void release(Fleet& fleet) {
  first_start(fleet);
  const auto instance = fleet.instance_of("p-1");
  fleet.report(instance, fleet.volume_of("p-1")->id, NodeStage::released);
  fleet.tick();
  fleet.until_stable();
}

/// All instances end, the volumes stay, and everything comes back.
void pause_and_resume(Fleet& fleet) {
  first_start(fleet);
  if (!fleet.ledger->pause("p", fleet.region.now())) return;
  fleet.tick();
  fleet.until_stable();
  if (!fleet.ledger->resume("p", fleet.region.now())) return;
  fleet.tick();
  fleet.until_stable();
}

class ReconcilerCrash : public ::testing::TestWithParam<CrashCase> {};

/// Runs the story, dying at effect `die_at`; false when the story ended before that.
bool run_and_die(Fleet& fleet, const CrashCase& each, int die_at) {
  fleet.die_at = die_at;
  try {
    each.story(fleet);
  } catch (const Crash&) {
    return true;
  }
  return false;
}

void recover(Fleet& fleet, const CrashCase& each) {
  fleet.die_at = 0;
  if (!each.keeps_ledger) fleet.lose_ledger();
  fleet.start();
  // A pause is the operator's word, given again where the ledger lost it or the crash fell into it.
  ASSERT_TRUE(fleet.ledger->resume("p", fleet.region.now()).has_value());
  fleet.tick();
  ASSERT_TRUE(fleet.until_stable()) << fleet.note_text();
}

void expect_exactly_the_wish(Fleet& fleet) {
  EXPECT_THAT(fleet.pool_volumes(), SizeIs(2));
  EXPECT_THAT(fleet.live_instances(), SizeIs(2));
  EXPECT_NE(fleet.instance_of("p-0"), "");
  EXPECT_NE(fleet.instance_of("p-1"), "");
  EXPECT_NE(fleet.instance_of("p-0"), fleet.instance_of("p-1"));
  EXPECT_THAT(fleet.violations, IsEmpty());
}

TEST_P(ReconcilerCrash, after_each_statement_ends_with_exactly_the_wish) {
  constexpr int kNoStoryIsLonger = 2000;
  int die_at = 1;
  for (; die_at < kNoStoryIsLonger; ++die_at) {
    SCOPED_TRACE("died at effect " + std::to_string(die_at));
    sim::RegionTimes times;
    times.visibility = GetParam().visibility;
    Fleet fleet(core::Desired{kDeployment, {pool_spec("p", 2, 2)}}, times);
    if (!run_and_die(fleet, GetParam(), die_at)) break;
    recover(fleet, GetParam());
    expect_exactly_the_wish(fleet);
    if (HasFailure()) return;
  }
  EXPECT_GT(die_at, 20) << "a story has many statements";
  EXPECT_LT(die_at, kNoStoryIsLonger);
}

INSTANTIATE_TEST_SUITE_P(
    Stories, ReconcilerCrash,
    ::testing::Values(
        CrashCase{"first_start", true, Milliseconds{0}, first_start},
        CrashCase{"first_start_ledger_lost", false, Milliseconds{0}, first_start},
        CrashCase{"first_start_slow_visibility", true, Milliseconds{3000}, first_start},
        CrashCase{"first_start_slow_visibility_ledger_lost", false, Milliseconds{3000},
                  first_start},
        CrashCase{"handover", true, Milliseconds{0}, handover},
        CrashCase{"handover_ledger_lost", false, Milliseconds{0}, handover},
        CrashCase{"release", true, Milliseconds{0}, release},
        CrashCase{"release_ledger_lost", false, Milliseconds{0}, release},
        CrashCase{"pause_and_resume", true, Milliseconds{0}, pause_and_resume},
        CrashCase{"pause_and_resume_ledger_lost", false, Milliseconds{0}, pause_and_resume}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace warmroot
