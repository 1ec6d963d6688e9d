// Work whose order counts, and that may hang.
#include "bootstrap/base/ordered_work.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace warmroot {
namespace {

using testing::ElementsAre;

constexpr std::chrono::milliseconds kSoon{20};
constexpr std::chrono::minutes kLong{1};

TEST(OrderedWork, that_hangs_is_waited_for_no_longer_than_asked_and_overtaken_by_nothing) {
  OrderedWork work;
  EXPECT_TRUE(work.wait_for(kSoon)) << "nothing was asked for";
  std::promise<void> disk;
  std::vector<int> done;
  work.ask([&done, answer = disk.get_future().share()] {
    answer.wait();
    done.push_back(1);
  });
  work.ask([&done] { done.push_back(2); });
  EXPECT_FALSE(work.wait_for(kSoon));
  disk.set_value();
  ASSERT_TRUE(work.wait_for(kLong));
  EXPECT_THAT(done, ElementsAre(1, 2));
  work.ask([&done] { done.push_back(3); });
  ASSERT_TRUE(work.wait_for(kLong));
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(OrderedWork, is_done_also_when_whoever_could_wait_for_it_is_gone) {
  const auto done = std::make_shared<std::promise<int>>();
  auto told = done->get_future();
  std::promise<void> disk;
  {
    OrderedWork work;
    work.ask([answer = disk.get_future().share()] { answer.wait(); });
    work.ask([done] { done->set_value(1); });
  }
  disk.set_value();
  ASSERT_EQ(told.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(told.get(), 1);
}

}  // namespace
}  // namespace warmroot
