// Spares, golden volumes and copies of these: what EC2 shows and the ledger remembers on one side,
// the calls and notes on the other. Which way to fill one is cheapest is filling_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/core/backoff.hpp"
#include "manager/core/draft.hpp"
#include "manager/core/planner.hpp"
#include "tests/planner_stock_world.hpp"

namespace warmroot::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// ---- spares ----

TEST(Stock, spares_are_made_in_every_zone_beside_the_nodes_volumes) {
  StockWorld world(1, 0, {"z-a", "z-b"});
  world.volume("vol-0");
  world.pool().stock.spares = 2;
  const auto plan = world.plan();
  EXPECT_THAT(world.calls(), ElementsAre("CreateVolume from snap-ami-volume in z-a",
                                         "CreateVolume from snap-ami-volume in z-a",
                                         "CreateVolume from snap-ami-volume in z-b",
                                         "CreateVolume from snap-ami-volume in z-b"));
  std::set<std::string> tokens;
  for (const auto* call : all<aws::CreateVolume>(plan)) {
    tokens.insert(call->client_token);
    EXPECT_EQ(call->tags.at(kTagRole), "spare");
    EXPECT_FALSE(call->tags.contains(kTagNode));
    EXPECT_EQ(call->tags.at(kTagLineage), "snap-ami-volume");
    EXPECT_FALSE(call->initialization_rate) << "without a deadline nothing is paid for";
  }
  EXPECT_EQ(tokens.size(), 4u);
  EXPECT_FALSE(plan.stable);
}

TEST(Stock, spares_that_are_there_coming_or_asked_for_are_counted) {
  StockWorld world;
  world.volume("vol-0");
  world.served("vol-0", "i-0");
  world.stock_volume("vol-s");
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().stable) << world.notes();
  world.observed.volumes.erase("vol-s");
  EXPECT_THAT(world.calls(), IsEmpty()) << "one look without it";
  world.ledger.volumes["vol-s"].seen = false;
  EXPECT_THAT(world.calls(), IsEmpty()) << "accepted, not visible yet";
  world.ledger.volumes.erase("vol-s");
  Intent intent;
  intent.call.action = "CreateVolume";
  intent.pool = "p";
  intent.nodes = {to_string(StockSubject{"p", VolumeRole::spare, "z-a"})};
  intent.state = IntentState::unknown;
  world.ledger.intents.push_back(intent);
  EXPECT_THAT(world.calls(), IsEmpty()) << "without an answer yet";
}

TEST(Stock, a_node_without_a_volume_takes_a_spare_by_record_and_tag_and_is_served_after_the_tag) {
  StockWorld world;
  world.instance("i-0");
  world.stock_volume("vol-s");
  const auto plan = world.plan();
  const auto* tags = only<aws::CreateTags>(plan);
  ASSERT_NE(tags, nullptr);
  EXPECT_THAT(tags->resource_ids, ElementsAre("vol-s"));
  EXPECT_EQ(tags->tags.at(kTagNode), "p-0");
  EXPECT_EQ(tags->tags.at(kTagRole), "node");
  EXPECT_THAT(all<aws::AttachVolume>(plan), IsEmpty()) << "its tag is not there yet";
  EXPECT_THAT(all<aws::CreateVolume>(plan), IsEmpty()) << "it still looks like the spare";
  const RecordVolume* record = nullptr;
  for (const auto& each : plan.records)
    if (const auto* volume = std::get_if<RecordVolume>(&each)) record = volume;
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->volume.node, "p-0");
  EXPECT_EQ(record->volume.role, VolumeRole::node);

  world.ledger.volumes["vol-s"] = record->volume;
  EXPECT_THAT(world.calls(), Contains("CreateTags vol-s")) << "sent again until it shows";
  world.observed.volumes.at("vol-s").tags[kTagNode] = "p-0";
  EXPECT_THAT(world.calls(), Contains("AttachVolume vol-s to i-0 as /dev/sdf"));
  EXPECT_THAT(world.calls(), Contains(StartsWith("CreateVolume"))) << "the stock is filled up";
}

TEST(Stock, two_nodes_never_take_one_spare) {
  StockWorld world(3, 0);
  world.stock_volume("vol-s");
  const auto plan = world.plan();
  ASSERT_EQ(all<aws::CreateTags>(plan).size(), 1u);
  EXPECT_EQ(all<aws::CreateTags>(plan).front()->tags.at(kTagNode), "p-0");
  EXPECT_EQ(all<aws::CreateVolume>(plan).size(), 2u) << "p-1 and p-2";
}

TEST(Stock, a_spare_whose_lineage_tag_people_took_away_is_one_by_its_snapshot) {
  StockWorld world;
  world.volume("vol-0");
  world.stock_volume("vol-s").tags.erase(kTagLineage);
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
  EXPECT_THAT(world.notes(), Not(HasSubstr("delete vol-s")));
}

TEST(Stock, copies_whose_lineage_tags_people_take_away_are_not_replaced_for_ever) {
  StockWorld world;
  world.volume("vol-0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(world.calls(), Contains(StartsWith("CreateVolume"))) << i;
    auto& copy = world.stock_volume("vol-c" + std::to_string(i));
    copy.tags.erase(kTagLineage);
    copy.snapshot_id.clear();
  }
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
  EXPECT_THAT(world.notes(), HasSubstr("put their tags right"));
}

TEST(Stock, a_volume_in_error_or_quarantined_is_replaced_by_a_spare) {
  for (const bool error : {true, false}) {
    StockWorld world;
    world.volume("vol-0");
    world.stock_volume("vol-s");
    if (error)
      world.observed.volumes.at("vol-0").state = aws::VolumeState::error;
    else
      world.observed.volumes.at("vol-0").tags[kTagQuarantined] = "by hand";
    EXPECT_THAT(world.calls(), Contains("CreateTags vol-s"));
    EXPECT_EQ(world.plan().nodes.front().volume_id, "vol-s");
  }
}

TEST(Stock, a_spare_that_was_leased_or_attached_or_is_of_another_zone_or_source_is_not_taken) {
  const auto refuses = [](auto change) {
    StockWorld world;
    change(world, world.stock_volume("vol-s"));
    return world.calls();
  };
  const auto not_taken = Not(Contains("CreateTags vol-s"));
  EXPECT_THAT(refuses([](auto& world, auto&) { world.ledger.volumes["vol-s"].ever_used = true; }),
              not_taken);
  EXPECT_THAT(refuses([](auto&, auto& volume) {
                volume.state = aws::VolumeState::in_use;
                volume.attachments = {
                    {"vol-s", "i-9", "/dev/sdf", aws::AttachmentState::attached, kNow, false}};
              }),
              not_taken);
  EXPECT_THAT(refuses([](auto&, auto& volume) { volume.availability_zone = "z-b"; }), not_taken);
  EXPECT_THAT(refuses([](auto&, auto& volume) { volume.tags[kTagLineage] = "snap-older"; }),
              not_taken);
  EXPECT_THAT(refuses([](auto&, auto& volume) { volume.tags[kTagQuarantined] = "by hand"; }),
              not_taken);
  EXPECT_THAT(
      refuses([](auto& world, auto&) { world.ledger.volumes["vol-s"].role = VolumeRole::golden; }),
      not_taken);
}

TEST(Stock, a_spare_that_somebody_attached_is_a_used_volume_for_ever) {
  StockWorld world;
  world.volume("vol-0");
  auto& spare = world.stock_volume("vol-s");
  spare.state = aws::VolumeState::in_use;
  spare.attachments = {{"vol-s", "i-9", "/dev/sdf", aws::AttachmentState::attached, kNow, false}};
  bool recorded = false;
  for (const auto& each : world.plan().records)
    if (const auto* volume = std::get_if<RecordVolume>(&each))
      recorded = recorded || (volume->volume_id == "vol-s" && volume->volume.ever_used);
  EXPECT_TRUE(recorded);
}

TEST(Stock, without_a_ledger_spares_are_known_by_their_tags_and_taken_ones_by_their_node) {
  StockWorld world(2, 0);
  world.stranger("vol-0");
  world.stock_volume("vol-s");
  auto& taken = world.stock_volume("vol-t");
  taken.tags[kTagNode] = "p-1";
  taken.tags[kTagRole] = "node";
  world.ledger.volumes.clear();
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.plan().nodes.at(1).volume_id, "vol-t");
}

TEST(Stock, an_old_copy_of_the_ledger_does_not_give_a_taken_spare_away_again) {
  StockWorld world(2, 0);
  auto& taken = world.stock_volume("vol-t");  // the ledger still says spare
  taken.tags[kTagNode] = "p-1";
  taken.tags[kTagRole] = "node";
  const auto plan = world.plan();
  EXPECT_EQ(plan.nodes.at(1).volume_id, "vol-t");
  EXPECT_THAT(all<aws::CreateTags>(plan), IsEmpty());
}

TEST(Stock, a_looking_around_neither_makes_nor_gives_spares) {
  StockWorld world;
  world.stock_volume("vol-s");
  world.ledger.begun = kNow - Milliseconds{100};
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Stock, spares_that_break_again_and_again_are_not_made_for_ever) {
  StockWorld world(0, 0);
  for (int i = 0; i < 3; ++i) {
    auto& broken = world.stock_volume("vol-" + std::to_string(i));
    broken.state = aws::VolumeState::error;
    broken.tags[kTagQuarantined] = "error";
  }
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_THAT(world.notes(), HasSubstr("3 spare volumes in z-a are broken, set aside"));
}

TEST(Stock, lists_say_what_each_volume_is_for) {
  StockWorld world;
  world.volume("vol-0");
  world.stock_volume("vol-s");
  world.stock_volume("vol-g", VolumeRole::golden);
  world.stock_volume("vol-old").tags[kTagLineage] = "snap-older";
  std::map<std::string, std::string> rows;
  for (const auto& row : world.plan().volumes)
    rows[row.volume_id] =
        std::string(to_string(row.role)) + " " + std::string(describe(row.condition).word);
  EXPECT_EQ(rows["vol-0"], "node free");
  EXPECT_EQ(rows["vol-s"], "spare ready");
  EXPECT_EQ(rows["vol-g"], "golden ready");
  EXPECT_EQ(rows["vol-old"], "spare unclaimed");
  EXPECT_THAT(world.notes(),
              HasSubstr("stock of an older source is not used any more: delete vol-old"));
}

// ---- golden volumes and copies ----

struct GoldenWorld : StockWorld {
  GoldenWorld() : StockWorld(1, 0) {
    volume("vol-0");
    pool().stock.golden = true;
    pool().stock.ready_within = std::chrono::minutes{5};
    pool().stock.copy_usd_gib = "0.0001";
  }
  void warm(const std::string& id, bool done = true) {
    observed.volume_statuses[id] = {id, "ok", done ? "completed" : "initializing", "default", {}};
  }
};

TEST(Golden, the_first_one_and_a_spare_meanwhile_are_filled_at_the_cheaper_rate) {
  GoldenWorld world;
  const auto plan = world.plan();
  const auto calls = all<aws::CreateVolume>(plan);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]->tags.at(kTagRole), "golden");
  EXPECT_EQ(calls[0]->initialization_rate, 200);
  EXPECT_EQ(calls[1]->tags.at(kTagRole), "spare");
  EXPECT_THAT(
      plan.actions[1].reason,
      HasSubstr("a spare of z-a is missing; at a paid 200 MiB/s, ready in about 51 s, for "
                "0.019 USD; free loading would take about 27 min, it is wanted within 5 min"));
}

TEST(Golden, what_is_read_and_paid_for_is_the_snapshots_data_and_not_the_volumes_size) {
  GoldenWorld world;
  auto& source = *world.observed.snapshots.at("snap-ami-volume").found;
  source.volume_size_gib = 100;
  source.full_bytes = (std::int64_t{8} << 30) - 4096;
  const auto plan = world.plan();
  const auto calls = all<aws::CreateVolume>(plan);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1]->initialization_rate, 200) << "8 GiB are read in 41 s, 100 GiB not in 300";
  EXPECT_THAT(plan.actions[1].reason, HasSubstr("ready in about 51 s, for 0.019 USD"));
}

TEST(Golden, stock_that_is_not_encrypted_as_the_spec_asks_is_neither_copied_nor_taken) {
  GoldenWorld world;
  auto& golden = world.stock_volume("vol-g", VolumeRole::golden);
  auto& spare = world.stock_volume("vol-s");
  world.warm("vol-g");
  EXPECT_THAT(world.calls(), IsEmpty());
  world.pool().volumes.encrypted = true;
  world.pool().nodes = 2;
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume"), StartsWith("CreateVolume"),
                                         StartsWith("CreateVolume")))
      << "a golden one, a spare and p-1's, and no copy";
  EXPECT_THAT(world.notes(), HasSubstr("these are not or by another key: vol-0, vol-g, vol-s"));
  golden.encrypted = spare.encrypted = true;
  EXPECT_THAT(world.notes(), HasSubstr("these are not or by another key: vol-0."));
  golden.kms_key_id = "arn:aws:kms:us-east-1:111122223333:key/1234";
  for (const char* key : {"1234", "arn:aws:kms:us-east-1:111122223333:key/1234", "alias/any", ""}) {
    world.pool().volumes.kms_key = key;
    EXPECT_THAT(world.notes(), Not(HasSubstr("vol-g"))) << key;
  }
  world.pool().volumes.kms_key = "5678";
  EXPECT_THAT(world.notes(), HasSubstr("vol-0, vol-g"));
}

TEST(Stock, spares_that_never_get_the_encryption_that_is_asked_for_are_not_made_for_ever) {
  StockWorld world;
  world.volume("vol-0");
  world.pool().volumes.encrypted = true;
  for (int i = 0; i < 22; ++i) world.stock_volume("vol-s" + std::to_string(i));
  EXPECT_THAT(world.calls(), Contains(StartsWith("CreateVolume")));
  world.stock_volume("vol-s22");
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("CreateVolume"))));
  EXPECT_THAT(world.notes(), HasSubstr("so no more are made"));
}

TEST(Golden, a_warm_one_is_copied_and_a_cold_one_is_not) {
  GoldenWorld world;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g", false);
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
  world.warm("vol-g");
  const auto plan = world.plan();
  const auto* copy = only<aws::CopyVolumes>(plan);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->source_volume_id, "vol-g");
  EXPECT_EQ(copy->volume_type, "gp3");
  EXPECT_EQ(copy->tags.at(kTagRole), "spare");
  EXPECT_EQ(copy->tags.at(kTagLineage), "snap-ami-volume");
}

TEST(Golden, one_copy_at_a_time_the_second_waits_while_it_is_in_time) {
  GoldenWorld world;
  world.pool().stock.spares = 2;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g");
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CopyVolumes")));
  EXPECT_THAT(world.notes(), HasSubstr("one copy of a volume goes on at a time"));
  // 8 GiB: another copy may begin after 169 s, too late for two minutes.
  world.pool().stock.ready_within = std::chrono::minutes{2};
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CopyVolumes"), StartsWith("CreateVolume")));
}

TEST(Golden, a_node_that_somebody_waits_for_takes_no_copy_that_begins_minutes_later) {
  GoldenWorld world;
  world.pool().stock.spares = 0;
  world.pool().nodes = world.pool().running = 3;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g");
  const auto plan = world.plan();
  EXPECT_EQ(all<aws::CopyVolumes>(plan).size(), 1u);
  EXPECT_EQ(all<aws::CreateVolume>(plan).size(), 1u);
}

TEST(Golden, a_copy_that_ec2_still_fills_keeps_its_source_busy) {
  GoldenWorld world;
  world.pool().stock.spares = 2;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g");
  auto& copy = world.stock_volume("vol-c");
  copy.snapshot_id.clear();
  copy.source_volume_id = "vol-g";
  copy.create_time = kNow - std::chrono::seconds{60};
  world.warm("vol-c", false);
  EXPECT_THAT(world.calls(), IsEmpty());
  world.warm("vol-c");
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CopyVolumes")));
}

TEST(Golden, five_copies_in_the_region_are_all_there_may_be) {
  GoldenWorld world;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g");
  for (int i = 0; i < 5; ++i) {
    auto& copy = world.observed.volumes["vol-c" + std::to_string(i)];
    copy.volume_id = "vol-c" + std::to_string(i);
    copy.source_volume_id = "vol-other" + std::to_string(i);
    copy.size_gib = 1000;
    copy.create_time = kNow;
    copy.state = aws::VolumeState::available;
  }
  EXPECT_THAT(world.calls(), ElementsAre(StartsWith("CreateVolume")));
}

TEST(Golden, a_refused_copy_falls_back_to_the_next_way_and_a_refused_rate_too) {
  GoldenWorld world;
  world.stock_volume("vol-g", VolumeRole::golden);
  world.warm("vol-g");
  world.ledger.failures["CopyVolumes/p/spare/z-a"] = {1, kNow, "CopyVolumesLimitExceeded", true,
                                                      "s"};
  const auto plan = world.plan();
  const auto* create = only<aws::CreateVolume>(plan);
  ASSERT_NE(create, nullptr);
  EXPECT_EQ(create->initialization_rate, 200);
  world.ledger.failures["CreateVolume/p/spare/z-a"] = {
      1, kNow - std::chrono::hours{1}, "VolumeInitializationRateLimitExceeded", true, "s"};
  const auto later = world.plan();
  const auto* free_one = only<aws::CreateVolume>(later);
  ASSERT_NE(free_one, nullptr);
  EXPECT_FALSE(free_one->initialization_rate);
}

TEST(Golden, fast_snapshot_restore_is_used_while_credits_last) {
  GoldenWorld world;
  world.pool().stock.golden = false;
  world.observed.fast_restores = {{"snap-ami-volume", "z-a", "enabled"}};
  const auto plan = world.plan();
  ASSERT_NE(only<aws::CreateVolume>(plan), nullptr);
  EXPECT_FALSE(only<aws::CreateVolume>(plan)->initialization_rate);
  EXPECT_THAT(plan.actions.front().reason, HasSubstr("by fast snapshot restore"));
  for (int i = 0; i < 10; ++i) {
    auto& made = world.observed.volumes["vol-f" + std::to_string(i)];
    made.snapshot_id = "snap-ami-volume";
    made.availability_zone = "z-a";
    made.create_time = kNow - std::chrono::minutes{1};
  }
  const auto later = world.plan();
  EXPECT_EQ(only<aws::CreateVolume>(later)->initialization_rate, 200);
}

}  // namespace
}  // namespace warmroot::core
