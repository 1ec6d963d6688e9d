// The manager's block lists: fetched once, kept over restarts, and no trouble where there is none.
#include "manager/block_lists.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "manager/daemon_block_lists.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kSnapshot = "snap-0123456789abcdef0";
constexpr const char* kOther = "snap-0fedcba9876543210";

warm::BlockList list_of(const std::string& snapshot_id) {
  warm::BlockList list{snapshot_id, std::uint64_t{1} << 30, warm::BlockSet(2048)};
  list.blocks.insert_range({0, 100 * warm::kGridBytes});
  return list;
}

/// EBS as the test wants it, and what the lists told.
class BlockListsTest : public testing::Test {
 protected:
  BlockListHooks hooks() {
    BlockListHooks hooks;
    hooks.fetch = [this](const std::string& id, const std::atomic<bool>& give_up) {
      std::unique_lock lock(mutex_);
      asked_.push_back(id);
      changed_.notify_all();
      while (hangs_ && !give_up) changed_.wait_for(lock, std::chrono::milliseconds(1));
      return answer_ ? answer_(id) : Result<warm::BlockList>(list_of(id));
    };
    hooks.kept = [this](const warm::BlockList& list) { tell("kept " + list.snapshot_id); };
    hooks.failed = [this](const std::string& id, const Error& error) {
      tell(id + ": " + error.context);
    };
    return hooks;
  }
  void tell(const std::string& text) {
    const std::lock_guard lock(mutex_);
    told_.push_back(text);
    changed_.notify_all();
  }
  template <typename Condition>
  bool eventually(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), condition);
  }

  const TemporaryDirectory folder_;
  const std::string directory_ = folder_.path() + "/block-lists";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Result<warm::BlockList>(const std::string&)> answer_;
  bool hangs_ = false;
  std::vector<std::string> asked_, told_;
};

TEST_F(BlockListsTest, a_list_is_fetched_once_and_a_restart_does_not_ask_again) {
  std::string packed;
  {
    BlockLists lists(directory_, hooks());
    EXPECT_FALSE(lists.of(kSnapshot));
    lists.want({kSnapshot, "../../etc/passwd"});
    ASSERT_TRUE(eventually([&] { return !told_.empty(); }));
    lists.want({kSnapshot});
    packed = lists.of(kSnapshot).value_or("");
    EXPECT_EQ(warm::decode_block_list(packed).value_or(warm::BlockList{}), list_of(kSnapshot));
    EXPECT_FALSE(lists.of(kOther));
    EXPECT_FALSE(lists.of("../block-lists/" + std::string(kSnapshot)));
  }
  BlockLists again(directory_, hooks());
  EXPECT_EQ(again.of(kSnapshot).value_or(""), packed) << "served from the first moment on";
  again.want({kSnapshot, kOther});
  ASSERT_TRUE(eventually([&] { return told_.size() == 2; }));
  EXPECT_THAT(asked_, ElementsAre(kSnapshot, kOther));
  EXPECT_THAT(told_, ElementsAre("kept " + std::string(kSnapshot), "kept " + std::string(kOther)));
}

TEST_F(BlockListsTest, a_refusal_is_told_once_and_keeps_nobody_else_waiting) {
  answer_ = [this](const std::string& id) -> Result<warm::BlockList> {
    if (id == kSnapshot && asked_.size() < 6)
      return fail(asked_.size() < 3 ? ErrorKind::unauthorised : ErrorKind::retry_later,
                  asked_.size() < 3 ? "denied" : "throttled");
    return list_of(id);
  };
  const Milliseconds soon{1};
  BlockLists lists(directory_, hooks(), {soon, soon, soon});
  lists.want({kSnapshot, kOther});
  ASSERT_TRUE(eventually([&] { return told_.size() == 4; }));
  EXPECT_THAT(told_, testing::UnorderedElementsAre(kSnapshot + std::string(": denied"),
                                                   kSnapshot + std::string(": throttled"),
                                                   "kept " + std::string(kOther),
                                                   "kept " + std::string(kSnapshot)));
}

TEST_F(BlockListsTest, as_many_are_kept_as_are_wanted) {
  constexpr int kMany = 70;
  std::set<std::string> wanted;
  char id[32];
  for (int i = 0; i < kMany; ++i) {
    std::snprintf(id, sizeof id, "snap-%017x", i);
    wanted.insert(id);
  }
  BlockLists lists(directory_, hooks());
  lists.want(wanted);
  ASSERT_TRUE(eventually([&] { return told_.size() == kMany; }));
  for (const auto& each : wanted) EXPECT_TRUE(lists.of(each)) << each;
}

TEST_F(BlockListsTest, a_refused_snapshot_is_left_alone_for_an_hour) {
  answer_ = [](const std::string&) -> Result<warm::BlockList> {
    return fail(ErrorKind::unauthorised, "denied");
  };
  BlockLists lists(directory_, hooks());
  lists.want({kSnapshot});
  ASSERT_TRUE(eventually([&] { return told_.size() == 1; }));
  lists.want({kSnapshot, kOther});
  ASSERT_TRUE(eventually([&] { return told_.size() == 2; }));
  EXPECT_THAT(asked_, ElementsAre(kSnapshot, kOther));
}

TEST_F(BlockListsTest, neither_a_tick_nor_the_end_waits_for_a_listing) {
  hangs_ = true;
  BlockLists lists(directory_, hooks());
  lists.want({kSnapshot});
  ASSERT_TRUE(eventually([&] { return !asked_.empty(); }));
  lists.want({kSnapshot, kOther});
  EXPECT_FALSE(lists.of(kSnapshot));
}

TEST_F(BlockListsTest, a_damaged_file_or_one_of_another_snapshot_is_not_served_and_fetched_again) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/" + kSnapshot + ".blocks", std::ios::binary)
      << warm::encode_block_list(list_of(kOther)).value();
  std::ofstream(directory_ + "/" + kOther + ".blocks") << "torn";
  BlockLists lists(directory_, hooks());
  EXPECT_FALSE(lists.of(kSnapshot));
  EXPECT_FALSE(lists.of(kOther));
  lists.want({kSnapshot, kOther});
  ASSERT_TRUE(eventually([&] { return told_.size() == 2; }));
  EXPECT_TRUE(lists.of(kSnapshot));
  EXPECT_TRUE(lists.of(kOther));
}

TEST(SnapshotsToList, are_those_of_the_pools_that_warm_and_want_it) {
  Config config;
  core::Observed observed;
  for (const char* name : {"plain", "cold", "without"}) {
    core::PoolSpec pool;
    pool.name = name;
    pool.snapshot = std::string("snap-0") + name;
    pool.warm.enabled = pool.name != "cold";
    config.desired.pools.push_back(pool);
    aws::Snapshot snapshot;
    snapshot.snapshot_id = pool.snapshot;
    observed.snapshots[pool.snapshot].found = snapshot;
  }
  config.without_block_lists = {"without"};
  EXPECT_THAT(snapshots_to_list(config, observed), ElementsAre("snap-0plain"));
  config.desired.pools.clear();
  EXPECT_THAT(snapshots_to_list(config, observed), IsEmpty());
}

}  // namespace
}  // namespace warmroot::manager
