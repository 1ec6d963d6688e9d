// The ledger as a file: to whom it belongs, what older versions of it become, and the keys of
// instances in it.
#include "manager/ledger.hpp"

#include "manager/account.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "manager/ledger_keys.hpp"
#include "tests/ledger_fixture.hpp"

namespace warmroot::manager {
namespace {

using core::LeaseState;
using ::testing::HasSubstr;

using LedgerFile = LedgerFixture;

TEST_F(LedgerFile, a_ledger_of_version_1_is_brought_up_to_date) {
  { open(); }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN throttled").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN token").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN with_volume").has_value());
    for (const char* table : {"departures", "refused_offers", "launch_streaks", "unclean_volumes"})
      ASSERT_TRUE(database->run(std::string("DROP TABLE ") + table).has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN fate").has_value());
    for (const char* column : {"role", "warmth"})
      ASSERT_TRUE(
          database->run(std::string("ALTER TABLE volumes DROP COLUMN ") + column).has_value());
    ASSERT_TRUE(database->run("ALTER TABLE keys DROP COLUMN heard_ms").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE intents DROP COLUMN silent_ms").has_value());
    ASSERT_TRUE(database->run("DROP TABLE orders").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 1").has_value());
  }
  EXPECT_TRUE(open().view().has_value());
}

TEST_F(LedgerFile, a_ledger_of_version_2_keeps_its_volumes_as_those_of_nodes) {
  {
    auto ledger = open();
    core::Plan plan;
    plan.records.push_back(
        core::RecordVolume{"vol-1", {"p", "p-0", "z-a", kNow, true, true, core::VolumeRole::node}});
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN throttled").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN token").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN with_volume").has_value());
    for (const char* table : {"refused_offers", "launch_streaks", "unclean_volumes"})
      ASSERT_TRUE(database->run(std::string("DROP TABLE ") + table).has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN fate").has_value());
    for (const char* column : {"role", "warmth"})
      ASSERT_TRUE(
          database->run(std::string("ALTER TABLE volumes DROP COLUMN ") + column).has_value());
    ASSERT_TRUE(database->run("ALTER TABLE keys DROP COLUMN heard_ms").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE intents DROP COLUMN silent_ms").has_value());
    ASSERT_TRUE(database->run("DROP TABLE orders").has_value());
    for (const char* column : {"reclaim_ms", "advised", "volume_id", "unclean"})
      ASSERT_TRUE(
          database->run(std::string("ALTER TABLE departures DROP COLUMN ") + column).has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 2").has_value());
  }
  const auto view = open().view();
  ASSERT_TRUE(view.has_value()) << view.error().message();
  EXPECT_EQ(view->volumes.at("vol-1").role, core::VolumeRole::node);
  EXPECT_EQ(view->volumes.at("vol-1").node, "p-0");
}

TEST_F(LedgerFile, a_ledger_of_version_11_knows_which_of_its_failures_are_throttles) {
  { open(); }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN throttled").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN token").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN with_volume").has_value());
    ASSERT_TRUE(database
                    ->run("INSERT INTO failures VALUES ('a', 1, 0, 'RequestLimitExceeded', 1, ''), "
                          "('b', 1, 0, 'IncorrectState', 1, '')")
                    .has_value());
    const SqlValue now(std::int64_t{kNow.time_since_epoch().count()});
    ASSERT_TRUE(database->run("UPDATE failures SET last_ms = ?", {now}).has_value());
    ASSERT_TRUE(database->run("ALTER TABLE departures DROP COLUMN unclean").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 11").has_value());
  }
  const auto view = open().view();
  ASSERT_TRUE(view.has_value()) << view.error().message();
  EXPECT_TRUE(view->failures.at("a").throttled);
  EXPECT_FALSE(view->failures.at("b").throttled);
}

TEST_F(LedgerFile, a_ledger_of_version_10_knows_of_no_volume_how_warm_it_is) {
  core::Plan plan;
  plan.records.push_back(
      core::RecordVolume{"vol-1", {"p", "p-0", "z-a", kNow, true, true, core::VolumeRole::node}});
  {
    auto ledger = open();
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN throttled").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN token").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN with_volume").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE volumes DROP COLUMN warmth").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE departures DROP COLUMN unclean").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 10").has_value());
  }
  auto ledger = open();
  EXPECT_FALSE(ledger.view()->volumes.at("vol-1").warmth);
  core::Plan heard;
  heard.records.push_back(core::RecordWarmth{"vol-1", 83});
  ASSERT_TRUE(ledger.record(heard, {}, kNow).has_value());
  EXPECT_EQ(ledger.view()->volumes.at("vol-1").warmth, 83);
  // A volume that is seen once more stays as warm as it is.
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_EQ(ledger.view()->volumes.at("vol-1").warmth, 83);
}

TEST_F(LedgerFile, a_ledger_of_version_9_knows_of_no_volume_that_was_left_unclean) {
  { open(); }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN throttled").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE failures DROP COLUMN token").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE instances DROP COLUMN with_volume").has_value());
    ASSERT_TRUE(database->run("DROP TABLE unclean_volumes").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE volumes DROP COLUMN warmth").has_value());
    ASSERT_TRUE(database->run("ALTER TABLE departures DROP COLUMN unclean").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 9").has_value());
  }
  auto ledger = open();
  core::Plan plan;
  plan.records.push_back(core::RecordUnclean{"vol-1", {"i-1", kNow, "", false}});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  EXPECT_EQ(ledger.view()->unclean.at("vol-1").instance_id, "i-1");
}

TEST_F(LedgerFile, a_ledger_of_version_15_knows_of_no_release_of_a_disk_that_was_gone) {
  core::Plan plan;
  plan.records.push_back(core::RecordDeparture{"i-1", {true, kNow, {}, false, "vol-1"}});
  {
    auto ledger = open();
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("ALTER TABLE departures DROP COLUMN unclean").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 15").has_value());
  }
  const auto view = open().view();
  ASSERT_TRUE(view.has_value()) << view.error().message();
  EXPECT_TRUE(view->departures.at("i-1").released);
  EXPECT_FALSE(view->departures.at("i-1").unclean);
}

TEST_F(LedgerFile, a_ledger_of_version_16_still_knows_of_a_disk_that_was_gone) {
  core::Plan plan;
  plan.records.push_back(core::RecordDeparture{"i-1", {true, kNow, {}, false, "vol-1", true}});
  {
    auto ledger = open();
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  }
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(
        database->run("ALTER TABLE departures RENAME COLUMN unclean TO disk_gone").has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 16").has_value());
  }
  const auto view = open().view();
  ASSERT_TRUE(view.has_value()) << view.error().message();
  EXPECT_TRUE(view->departures.at("i-1").unclean);
}

TEST_F(LedgerFile, belongs_to_one_account_and_outlives_an_sts_that_is_silent) {
  Ledger ledger = open();
  const auto silent = []() -> Result<std::string> {
    return fail(ErrorKind::retry_later, "no connection");
  };
  const auto account = [](const char* id) {
    return [id]() -> Result<std::string> { return std::string(id); };
  };
  const auto unknown = check_account(ledger, silent);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().context, testing::HasSubstr("reachable once"));
  ASSERT_TRUE(check_account(ledger, account("111122223333")));
  EXPECT_EQ(*ledger.account(), "111122223333");
  Ledger again = open();
  const auto other = check_account(again, account("444455556666"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(other.error().context,
              testing::HasSubstr("belongs to account 111122223333, not 444455556666"));
  const auto note = check_account(again, silent);
  ASSERT_TRUE(note);
  EXPECT_THAT(note->value_or(""), testing::HasSubstr("going on as account 111122223333"));
  EXPECT_EQ(*check_account(again, account("111122223333")), std::nullopt);
}

TEST_F(LedgerFile, belongs_to_one_deployment_and_region) {
  { open(); }
  const auto other = Ledger::open(path_, {"research", "eu-west-1"}, kNow);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(other.error().message(), HasSubstr("belongs to region us-east-1, not eu-west-1"));
}

TEST_F(LedgerFile, a_newer_or_damaged_file_is_refused_with_a_remedy) {
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(database->run("PRAGMA user_version = 99").has_value());
  }
  auto refused = Ledger::open(path_, kPins, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("newer warmroot"));

  const std::string damaged = directory_.path() + "/damaged.sqlite";
  std::ofstream(damaged) << std::string(8192, 'x');
  refused = Ledger::open(damaged, kPins, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("move it away"));
}

TEST_F(LedgerFile, any_page_that_is_damaged_is_found_when_opening_and_the_file_is_named) {
  constexpr std::streamoff kPage = 4'096;
  {
    auto ledger = Ledger::open(path_, kPins, kNow);
    ASSERT_TRUE(ledger.has_value());
    for (int i = 0; i < 200; ++i)
      ASSERT_TRUE(ledger->add_history({kNow, "imagenet", "imagenet-0", std::string(60, 'h')}));
  }
  const auto pages = static_cast<std::streamoff>(std::filesystem::file_size(path_)) / kPage;
  ASSERT_GT(pages, 10);
  const std::string damaged = directory_.path() + "/damaged-page.sqlite";
  for (std::streamoff page = 1; page < pages; ++page) {
    for (const char* tail : {"-wal", "-shm"}) std::filesystem::remove(damaged + tail);
    std::filesystem::copy_file(path_, damaged, std::filesystem::copy_options::overwrite_existing);
    {
      std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(page * kPage);
      file << std::string(kPage, 'x');
    }
    const auto refused = Ledger::open(damaged, kPins, kNow);
    ASSERT_FALSE(refused.has_value()) << "page " << page + 1 << " of " << pages;
    EXPECT_EQ(refused.error().kind, ErrorKind::broken);
    EXPECT_THAT(refused.error().message(), HasSubstr(damaged));
    EXPECT_THAT(refused.error().message(), HasSubstr("move it"));
  }
}

TEST_F(LedgerFile, a_directory_that_is_not_there_is_named) {
  const auto refused = Ledger::open(directory_.path() + "/none/ledger", kPins, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::misconfigured);
}

TEST_F(LedgerFile, keys_are_given_once_and_sequences_only_grow_also_after_a_restart) {
  {
    auto ledger = open();
    auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
    EXPECT_EQ(*keys->add_key("i-1", Secret("aa")), true);
    EXPECT_EQ(*keys->add_key("i-1", Secret("bb")), false);
    EXPECT_EQ(*keys->replace_unused_key("i-2", Secret("bb")), false);
    EXPECT_EQ(*keys->replace_unused_key("i-1", Secret("bb")), true);
    EXPECT_EQ(*keys->replace_unused_key("i-1", Secret("aa")), true) << "and again";
    EXPECT_EQ(*keys->advance("i-1", 0), Turn::fresh);
    EXPECT_EQ(*keys->advance("i-1", 0), Turn::replayed);
    EXPECT_EQ(*keys->advance("i-1", 18'446'744'073'709'551'615U), Turn::fresh);
    EXPECT_EQ(*keys->advance("i-2", 1), Turn::late) << "no hello, no report";
  }
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  EXPECT_EQ((*keys->key_of("i-1"))->reveal(), "aa");
  EXPECT_EQ(*keys->advance("i-1", 18'446'744'073'709'551'614U), Turn::late);
  EXPECT_EQ(*keys->replace_unused_key("i-1", Secret("dd")), false) << "it was used";
  EXPECT_EQ((*keys->key_of("i-1"))->reveal(), "aa");
  EXPECT_FALSE(keys->key_of("i-2")->has_value());
  ASSERT_TRUE(keys->replace_key("i-1", Secret("cc")));
  EXPECT_EQ((*keys->key_of("i-1"))->reveal(), "cc");
  EXPECT_EQ(*keys->advance("i-1", 0), Turn::fresh) << "a new key's numbers begin anew";
}

TEST_F(LedgerFile, a_report_of_draining_one_volume_does_not_make_anothers_release_its_own) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  const auto released_after = [&](NodeStage stage, const std::string& volume_id) {
    core::NodeReport report;
    report.instance_id = "i-1";
    report.volume_id = volume_id;
    report.stage = stage;
    report.received = kNow;
    EXPECT_TRUE(keys->keep_departure(report));
    return ledger.view()->departures.at("i-1").released;
  };
  EXPECT_TRUE(released_after(NodeStage::released, "vol-before"));
  EXPECT_FALSE(released_after(NodeStage::draining, "vol-now"));
  EXPECT_TRUE(released_after(NodeStage::released, "vol-now"));
  EXPECT_TRUE(released_after(NodeStage::draining, "vol-now")) << "it is not taken back";
}

/// A boot that is held back has not seen its volume: the next one was told to serve it again.
TEST_F(LedgerFile, a_report_of_draining_without_a_volume_takes_no_release_back) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  const auto kept_after = [&](NodeStage stage, const std::string& volume_id,
                              std::string_view reason) {
    core::NodeReport report;
    report.instance_id = "i-1";
    report.volume_id = volume_id;
    report.stage = stage;
    report.reason = reason;
    report.received = kNow;
    EXPECT_TRUE(keys->keep_departure(report));
    const auto kept = ledger.view()->departures.at("i-1");
    return std::string(kept.released ? "released " : "holds ") + kept.volume_id +
           (kept.unclean ? " unclean" : "");
  };
  EXPECT_EQ(kept_after(NodeStage::draining, "", "spot-notice"), "holds ") << "it has named none";
  EXPECT_EQ(kept_after(NodeStage::released, "vol-1", kDiskGone), "released vol-1 unclean");
  EXPECT_EQ(kept_after(NodeStage::draining, "", "spot-notice"), "released vol-1 unclean");
  EXPECT_EQ(kept_after(NodeStage::draining, "vol-2", "spot-notice"), "holds vol-2");
  EXPECT_EQ(kept_after(NodeStage::draining, "", "spot-notice"), "holds vol-2");
  EXPECT_EQ(kept_after(NodeStage::released, "", kNeverMounted), "released vol-2 unclean");
}

/// A departure lasts: the node would never be served again on its instance.
TEST_F(LedgerFile, a_report_of_a_reboot_is_no_departure) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  core::NodeReport report;
  report.instance_id = "i-1";
  report.volume_id = "vol-1";
  report.stage = NodeStage::rebooting;
  report.reason = "reboot";
  report.received = kNow;
  EXPECT_TRUE(keys->keep_departure(report));
  EXPECT_TRUE(ledger.view()->departures.empty());
}

TEST_F(LedgerFile, a_release_of_a_disk_that_was_gone_is_kept_before_the_next_plan) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  const auto kept_after = [&](NodeStage stage, const std::string& volume_id,
                              std::string_view reason) {
    core::NodeReport report;
    report.instance_id = "i-1";
    report.volume_id = volume_id;
    report.stage = stage;
    report.reason = reason;
    report.received = kNow;
    EXPECT_TRUE(keys->keep_departure(report));
    return ledger.view()->departures.at("i-1").unclean;
  };
  EXPECT_FALSE(kept_after(NodeStage::draining, "vol-1", kDiskGone)) << "it is not released yet";
  EXPECT_TRUE(kept_after(NodeStage::released, "vol-1", kDiskGone));
  EXPECT_TRUE(open().view()->departures.at("i-1").unclean);
  EXPECT_TRUE(kept_after(NodeStage::draining, "vol-1", kDiskGone)) << "it is not taken back";
  EXPECT_FALSE(kept_after(NodeStage::draining, "vol-2", "spot-notice")) << "another volume";
  EXPECT_FALSE(kept_after(NodeStage::released, "vol-2", "spot-notice"));
}

/// The next manager took the volume for left clean.
TEST_F(LedgerFile, a_release_of_what_was_never_mounted_is_kept_as_no_clean_end) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  core::NodeReport report;
  report.instance_id = "i-1";
  report.stage = NodeStage::released;
  report.reason = kNeverMounted;
  report.received = kNow;
  EXPECT_TRUE(keys->keep_departure(report));
  EXPECT_TRUE(ledger.view()->departures.at("i-1").released);
  EXPECT_TRUE(open().view()->departures.at("i-1").unclean);
}

TEST_F(LedgerFile, what_a_holder_says_of_a_volume_beyond_repair_is_kept_before_the_next_plan) {
  auto ledger = open();
  auto keys = std::make_unique<LedgerKeys>(ledger, [] { return kNow; });
  core::NodeReport report;
  report.instance_id = "i-1";
  report.volume_id = "vol-1";
  report.stage = NodeStage::released;
  report.reason = kUncleanBeyondRepair;
  report.message = "e2fsck ended with 4";
  report.received = kNow;
  ASSERT_TRUE(keys->keep_departure(report));
  EXPECT_TRUE(ledger.view()->unclean.empty()) << "it never had the volume";

  core::Plan plan;
  plan.records.push_back(core::RecordLease{
      {"p", "p-0", "vol-1", "i-1", "/dev/sdf", LeaseState::checking, kNow}, "found attached"});
  plan.records.push_back(core::RecordUnclean{"vol-1", {"i-0", kNow, "", false}});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  ASSERT_TRUE(keys->keep_departure(report));
  auto kept = ledger.view()->unclean.at("vol-1");
  EXPECT_EQ(kept.instance_id, "i-1");
  EXPECT_EQ(kept.beyond_repair, "e2fsck ended with 4");
  EXPECT_FALSE(kept.tagged);

  kept.tagged = true;
  core::Plan tagged;
  tagged.records.push_back(core::RecordUnclean{"vol-1", kept});
  ASSERT_TRUE(ledger.record(tagged, {}, kNow).has_value());
  ASSERT_TRUE(keys->keep_departure(report)) << "it says so every few seconds";
  EXPECT_TRUE(open().view()->unclean.at("vol-1").tagged);
}

/// What the view has of leases and device names, as text.
std::string leases_of(const core::LedgerView& view) {
  std::string text;
  for (const auto& lease : view.leases)
    text += lease.node + " " + lease.volume_id + " " + lease.instance_id + " " + lease.device +
            " " + std::string(core::to_string(lease.state)) + "\n";
  for (const auto& [instance, names] : view.used_devices)
    for (const auto& name : names) text += instance + " used " + name + "\n";
  return text;
}

TEST_F(LedgerFile, what_is_read_again_of_it_is_what_is_in_it) {
  auto ledger = open();
  std::mt19937 random(1);
  const auto draw = [&](unsigned below) { return static_cast<int>(random() % below); };
  for (int step = 0; step < 300; ++step) {
    core::Plan plan;
    const auto number = std::to_string(draw(6));
    core::Lease lease{"p", "p-" + number, "vol-" + number, "i-" + std::to_string(draw(8)), "",
                      {},  kNow};
    lease.state = draw(2) == 0 ? core::LeaseState::ended : core::LeaseState::reserved;
    if (lease.state == core::LeaseState::reserved && draw(2) == 0) lease.device = "/dev/sdf";
    plan.records.push_back(core::RecordLease{lease, "test"});
    if (draw(5) == 0)
      plan.records.push_back(core::RecordInstance{lease.instance_id, {"p", "z-a", kNow}});
    if (draw(7) == 0) plan.records.push_back(core::RecordInstanceGone{lease.instance_id});
    ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
    if (step % 100 == 99) {
      ASSERT_TRUE(ledger.prune(kNow + std::chrono::hours{24 * 8}));
    }
    auto other = open();
    ASSERT_EQ(leases_of(*ledger.view()), leases_of(*other.view())) << "step " << step;
  }
}

TEST_F(LedgerFile, keys_of_instances_that_are_long_gone_are_forgotten_and_no_others) {
  auto ledger = open();
  core::Plan plan;
  core::Lease lease;
  lease.pool = "p";
  lease.node = "p-0";
  lease.volume_id = "vol-1";
  lease.instance_id = "i-leased";
  lease.state = core::LeaseState::active;
  plan.records.push_back(core::RecordLease{lease, "test"});
  ASSERT_TRUE(ledger.record(plan, {}, kNow).has_value());
  Instant now = kNow;
  auto keys = std::make_unique<LedgerKeys>(ledger, [&] { return now; });
  for (const char* id : {"i-leased", "i-gone", "i-heard"})
    ASSERT_TRUE(*keys->add_key(id, Secret("aa")));
  now += std::chrono::hours{24 * 6};
  ASSERT_EQ(*keys->advance("i-heard", 1), Turn::fresh);
  ASSERT_TRUE(ledger.prune(kNow + std::chrono::hours{24 * 8}).has_value());
  EXPECT_TRUE(keys->key_of("i-leased")->has_value());
  EXPECT_TRUE(keys->key_of("i-heard")->has_value());
  EXPECT_FALSE(keys->key_of("i-gone")->has_value());
}

}  // namespace
}  // namespace warmroot::manager
