// The links from the volume's /tmp to agent sockets on the base.
#include "bootstrap/agent_sockets.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "bootstrap/files.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::bootstrap {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class AgentSockets : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& path : {base_tmp_, point_, point_ + "/tmp"})
      ASSERT_EQ(::mkdir(path.c_str(), 0755), 0) << path;
  }
  void make_agents(int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(::mkdir((base_tmp_ + "/ssh-" + std::to_string(i)).c_str(), 0700), 0);
  }
  std::size_t links() const { return list_directory(point_ + "/tmp").size(); }
  /// False after half a minute.
  bool comes_to(std::size_t count) const {
    for (const auto limit = steady_clock::now() + seconds(30); steady_clock::now() < limit;) {
      if (links() >= count) return true;
      ::poll(nullptr, 0, 5);
    }
    return false;
  }
  std::jthread mirror() const {
    return std::jthread(
        [this](std::stop_token stop) { mirror_agent_sockets(base_tmp_, point_, std::move(stop)); });
  }

  TemporaryDirectory directory_;
  const std::string base_tmp_ = directory_.path() + "/base-tmp", point_ = directory_.path() + "/v";
};

TEST_F(AgentSockets, what_is_there_and_what_comes_is_linked_until_the_end) {
  make_agents(2);
  ASSERT_EQ(::mkdir((base_tmp_ + "/other").c_str(), 0700), 0);
  auto thread = mirror();
  EXPECT_TRUE(comes_to(2));
  ASSERT_EQ(::mkdir((base_tmp_ + "/ssh-new").c_str(), 0700), 0);
  EXPECT_TRUE(comes_to(3));
  EXPECT_NE(::access((point_ + "/tmp/other").c_str(), F_OK), 0);
  thread.request_stop();
  thread.join();
  EXPECT_EQ(links(), 0u);
}

/// Each had its link, one after the other, and a release that was asked for meanwhile found the
/// volume in use for minutes.
TEST_F(AgentSockets, a_directory_of_very_many_keeps_no_release_waiting) {
  make_agents(12'000);
  auto thread = mirror();
  EXPECT_TRUE(comes_to(4096));
  ::poll(nullptr, 0, 200);
  EXPECT_EQ(links(), 4096u) << "bounded";
  const auto asked = steady_clock::now();
  thread.request_stop();
  thread.join();
  EXPECT_LT(steady_clock::now() - asked, seconds(5)) << "half a second to hear it, and another";
}

}  // namespace
}  // namespace warmroot::bootstrap
