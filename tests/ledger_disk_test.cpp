// The ledger on disks that fail it: full, and read-only. The disk is a tmpfs of its own in a mount
// namespace of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "manager/ledger.hpp"
#include "tests/must_run.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const Instant kNow{std::chrono::hours{24 * 20'000}};
const LedgerPins kPins{"test", "us-east-1"};

class LedgerDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("disk", directory_.path().c_str(), "tmpfs", 0, "size=512k") == 0;
    if (mounted) {
      mounted_ = true;
      return;
    }
    if (must_run()) FAIL() << "a tmpfs cannot be mounted here";
    GTEST_SKIP() << "a tmpfs cannot be mounted here (needs root)";
  }
  void TearDown() override {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }

  Result<Ledger> open() { return Ledger::open(path_, kPins, kNow); }

  static core::Plan create_plan() {
    aws::CreateVolume call;
    call.availability_zone = "z-a";
    call.client_token = "token-1";
    core::Plan plan;
    plan.actions.push_back({call, "p", {"p-0"}, "test", "z-a"});
    return plan;
  }
  static Result<std::vector<core::Intent>> record(Ledger& ledger) {
    const core::Plan plan = create_plan();
    return ledger.record(plan, {aws::EncodedCall{"CreateVolume", "Action=CreateVolume"}}, kNow);
  }

  /// Somebody else's file takes all the room that is left.
  void fill() {
    std::ofstream rest(directory_.path() + "/rest", std::ios::binary);
    const std::string block(512, 'x');
    while (rest.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void make_room() { std::filesystem::remove(directory_.path() + "/rest"); }
  Ok remount(unsigned long flags) {
    if (::mount("disk", directory_.path().c_str(), "tmpfs", MS_REMOUNT | flags, "size=512k") != 0)
      return fail_errno("remounting");
    return {};
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/ledger.sqlite";
  bool mounted_ = false;
};

TEST_F(LedgerDiskTest, a_full_disk_refuses_an_intent_before_its_call_and_loses_nothing) {
  auto ledger = open();
  ASSERT_TRUE(ledger) << ledger.error().message();
  ASSERT_TRUE(record(*ledger));
  fill();
  Result<std::vector<core::Intent>> refused = record(*ledger);
  for (int i = 0; i < 1000 && refused; ++i) refused = record(*ledger);  // fills the file's own room
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(refused.error().message(), HasSubstr("make room on the disk"));
  const auto view = ledger->view();
  ASSERT_TRUE(view) << "reading goes on: " << view.error().message();
  const std::size_t kept = view->intents.size();
  EXPECT_GE(kept, 1U);
  make_room();
  ASSERT_TRUE(record(*ledger)) << "and writing does when there is room again";
  EXPECT_THAT(ledger->view()->intents, SizeIs(kept + 1));
}

TEST_F(LedgerDiskTest, an_answer_that_cannot_be_written_leaves_its_intent_to_be_sent_again) {
  auto ledger = open();
  ASSERT_TRUE(ledger);
  const auto intents = record(*ledger);
  ASSERT_TRUE(intents);
  fill();
  aws::Volume volume;
  volume.volume_id = "vol-1";
  Settlement settlement{intents->front(), {}, aws::MutationAnswer(volume)};
  settlement.outcome.state = core::IntentState::accepted;
  settlement.outcome.burns_token = true;
  settlement.outcome.sentence = std::string(300'000, 'x');  // more than the log's file has left
  const auto settled = ledger->settle({settlement}, kNow);
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().kind, ErrorKind::misconfigured);
  make_room();
  auto again = open();
  ASSERT_TRUE(again);
  const auto view = again->view();
  ASSERT_THAT(view->intents, SizeIs(1)) << "the same bytes go out again, under the same token";
  EXPECT_EQ(view->intents.front().token, "token-1");
  EXPECT_TRUE(view->generations.empty());
  EXPECT_TRUE(view->volumes.empty());
}

TEST_F(LedgerDiskTest, a_ledger_that_cannot_be_made_for_want_of_room_says_so) {
  fill();
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(refused.error().message(), HasSubstr("make room on the disk"));
}

TEST_F(LedgerDiskTest, a_ledger_that_is_there_is_not_blamed_for_a_full_disk) {
  {
    auto ledger = open();
    ASSERT_TRUE(ledger);
    ASSERT_TRUE(record(*ledger));
  }
  fill();
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(refused.error().message(), HasSubstr("make room on the disk"));
  make_room();
  EXPECT_THAT(open()->view()->intents, SizeIs(1));
}

TEST_F(LedgerDiskTest, a_read_only_disk_is_said_when_opening_and_when_writing) {
  {
    auto ledger = open();
    ASSERT_TRUE(ledger);
    ASSERT_TRUE(record(*ledger));
  }
  ASSERT_TRUE(remount(MS_RDONLY));
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::misconfigured) << refused.error().message();
  EXPECT_THAT(refused.error().message(), HasSubstr("may be written"));
  ASSERT_TRUE(remount(0));
  auto ledger = open();
  ASSERT_TRUE(ledger);
  EXPECT_THAT(ledger->view()->intents, SizeIs(1));
}

}  // namespace
}  // namespace warmroot::manager
