// How long people and hooks have at a release: from [pool.session] of the spec into the ticket that
// a bootstrap reads, and into how long the manager waits for a node that gives its volume back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "bootstrap/ticket.hpp"
#include "manager/cli_context.hpp"
#include "manager/config.hpp"
#include "manager/core/draft.hpp"
#include "tests/planner_world.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// 7 lines.
const std::string kSpec = R"(deployment = "research"
manager_url = "http://10.0.0.5:8470"
[[pool]]
name = "imagenet"
ami = "ami-0123456789abcdef0"
zones = ["us-east-1a"]
nodes = 2
)";

/// The line of the user-data that the bootstrap is started with.
std::string ticket_of(const std::string& spec) {
  const manager::ParsedSpec parsed = manager::parse_spec(
      spec,
      [](const std::string& path) -> Result<std::string> { return fail(ErrorKind::gone, path); });
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  const manager::UserDataSource source(parsed.config,
                                       manager::BootstrapProgram{"", std::string(64, 'a')}, 8470);
  const auto text = source(parsed.config.desired.pools.at(0));
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().message());
  if (!text) return {};
  const std::size_t start = text->find("{\"version\"");
  return text->substr(start, text->find('\n', start) - start);
}

ReleaseWishes read_by_bootstrap(const std::string& ticket) {
  const auto read = bootstrap::parse_ticket(ticket);
  EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message());
  return read ? read->release_wishes : ReleaseWishes{};
}

TEST(SessionTimes, of_the_spec_are_those_that_the_bootstrap_reads) {
  const std::string both = ticket_of(kSpec + "[pool.session]\ngrace_s = 90\nhooks_s = 0\n");
  EXPECT_EQ(read_by_bootstrap(both).grace, seconds(90));
  EXPECT_EQ(read_by_bootstrap(both).hooks, seconds(0));
  const std::string hooks = ticket_of(kSpec + "[pool.session]\nhooks_s = 45\n");
  EXPECT_EQ(read_by_bootstrap(hooks).grace, ReleaseWishes{}.grace);
  EXPECT_EQ(read_by_bootstrap(hooks).hooks, seconds(45));
}

TEST(SessionTimes, that_are_the_usual_ones_leave_the_user_data_as_it_is) {
  const std::string usual = ticket_of(kSpec);
  EXPECT_THAT(usual, Not(HasSubstr("grace_s")));
  EXPECT_THAT(usual, Not(HasSubstr("hooks_s")));
  EXPECT_EQ(ticket_of(kSpec + "[pool.session]\ngrace_s = 5\nhooks_s = 30\n"), usual);
}

struct BadTime {
  std::string text;
  std::string expected;  ///< behind the spec's path
};
class BadTimes : public testing::TestWithParam<BadTime> {};

TEST_P(BadTimes, are_told_with_file_and_line_and_remedy) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/spec.toml";
  std::ofstream(path) << kSpec + GetParam().text;
  const auto loaded = manager::load_spec(path);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().message(), HasSubstr(path + GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTimes,
    testing::Values(BadTime{"[pool.session]\ngrace_s = 91\n",
                            ":9:11: [pool.session] grace_s: 91 is out of range, write 0 to 90"},
                    BadTime{"[pool.session]\nhooks_s = -1\n",
                            ":9:11: [pool.session] hooks_s: -1 is out of range, write 0 to 90"},
                    BadTime{"[pool.session]\ngrace_s = \"long\"\n",
                            ":9:11: [pool.session] grace_s: found text, write a whole number"},
                    BadTime{"hooks_s = 60\n",
                            ":8:1: unknown key hooks_s in [[pool]]: it belongs to [pool.session]"},
                    BadTime{"[pool.session]\nhook_s = 60\n",
                            ":9:1: unknown key hook_s in [pool.session]: did you mean hooks_s?"}));

/// A pool with one node, which gives its volume back, by a ticket with 90 s for people: it may take
/// a minute longer than others.
core::World with_long_grace() {
  core::World world;
  world.volume("vol-0");
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.report("i-0", "vol-0", NodeStage::draining);
  world.pool().session.release_wishes.grace = seconds(90);
  return world;
}

constexpr Milliseconds kLonger = core::kDrainPatience + seconds(60);

TEST(SessionTimes, a_node_that_is_not_wanted_is_not_ended_while_its_people_may_save) {
  core::World world = with_long_grace();
  world.ledger.paused_pools = {"p"};
  world.ledger.watches["drain/i-0"] = {core::kNow - kLonger + seconds(1), 100};
  EXPECT_THAT(world.calls(), IsEmpty());
  world.ledger.watches["drain/i-0"] = {core::kNow - kLonger, 100};
  EXPECT_THAT(world.calls(), ElementsAre("TerminateInstances i-0"));
}

TEST(SessionTimes, a_node_that_drains_by_itself_is_not_ended_while_its_people_may_save) {
  core::World world = with_long_grace();
  world.ledger.departures["i-0"] = {false, core::kNow - kLonger + seconds(1)};
  EXPECT_THAT(world.calls(), Not(Contains("TerminateInstances i-0")));
  world.ledger.departures["i-0"].since = core::kNow - kLonger;
  EXPECT_THAT(world.calls(), Contains("TerminateInstances i-0"));
}

TEST(SessionTimes, a_node_that_the_operator_releases_keeps_its_volume_while_its_people_may_save) {
  core::World world = with_long_grace();
  world.ledger.departures["i-0"] = {false, core::kNow};
  world.ledger.leases.back().state = core::LeaseState::leaving;
  world.limits.orders_only = true;
  world.ledger.orders.push_back(
      {1, core::OrderKind::release, "i-0", "", "", core::kNow - kLonger + seconds(1)});
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.plan().drains.contains("i-0"));
  world.ledger.orders.back().asked = core::kNow - kLonger;
  EXPECT_THAT(world.calls(), ElementsAre("DetachVolume vol-0 from i-0"));
}

}  // namespace
}  // namespace warmroot
