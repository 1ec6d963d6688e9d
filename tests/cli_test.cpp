// The manager's face: its command line, the forms of its listings, the pages it serves, its lock
// and its log lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "manager/cli_options.hpp"
#include "manager/cli_progress.hpp"
#include "manager/daemon_lock.hpp"
#include "manager/daemon_log.hpp"
#include "manager/daemon_status.hpp"
#include "manager/output.hpp"
#include "tests/planner_world.hpp"

namespace warmroot::manager {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const CommandDefaults kDefaults{"warmroot.toml", "/state", "/bin/warmroot-bootstrap"};

ParsedCommandLine parse(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments), kDefaults);
}

TEST(CommandLine, takes_global_options_before_and_after_the_command) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--spec", "a.toml", "--output", "json", "pool", "list"},
           {"pool", "list", "--spec", "a.toml", "--output", "json"},
           {"pool", "--spec=a.toml", "list", "--output=json"}}) {
    const ParsedCommandLine parsed = parse(arguments);
    ASSERT_TRUE(parsed.options.has_value()) << parsed.text;
    EXPECT_EQ(parsed.options->command, Command::pool_list);
    EXPECT_EQ(parsed.options->spec, "a.toml");
    EXPECT_EQ(parsed.options->output, OutputForm::json);
    EXPECT_EQ(parsed.options->state, "/state");
  }
}

TEST(CommandLine, knows_every_command) {
  const std::vector<std::pair<std::vector<std::string>, Command>> table = {
      {{"pool", "list"}, Command::pool_list},
      {{"pool", "pause", "imagenet"}, Command::pool_pause},
      {{"pool", "resume", "imagenet"}, Command::pool_resume},
      {{"node", "list"}, Command::node_list},
      {{"volume", "list"}, Command::volume_list},
      {{"plan"}, Command::plan},
      {{"reconcile", "--until-stable", "--timeout", "7"}, Command::reconcile},
      {{"serve", "--listen", "127.0.0.1:0"}, Command::serve},
      {{"user-data", "imagenet"}, Command::user_data},
      {{"doctor"}, Command::doctor},
      {{"ssh", "imagenet-0"}, Command::ssh},
      {{"ssh-config", "imagenet"}, Command::ssh_config},
  };
  for (const auto& [arguments, command] : table) {
    const ParsedCommandLine parsed = parse(arguments);
    ASSERT_TRUE(parsed.options.has_value()) << arguments[0] << ": " << parsed.text;
    EXPECT_EQ(parsed.options->command, command) << arguments[0];
  }
  EXPECT_EQ(parse({"pool", "pause", "imagenet"}).options->pool, "imagenet");
  EXPECT_EQ(parse({"reconcile", "--until-stable", "--timeout", "7"}).options->timeout.count(), 7);
  EXPECT_EQ(parse({"serve"}).options->listen, "0.0.0.0:8470");
  EXPECT_EQ(parse({"serve", "--identity-certificates", "f"}).options->identity_certificates, "f");
  EXPECT_FALSE(parse({"serve", "--any-address"}).options) << "of what is not proven";
}

TEST(CommandLine, what_ssh_is_to_run_is_taken_as_it_is) {
  const auto options = parse({"ssh", "ada@imagenet-0", "--", "ls", "-l", "--output", "x"}).options;
  ASSERT_TRUE(options);
  EXPECT_EQ(options->subject, "ada@imagenet-0");
  EXPECT_EQ(options->words, (std::vector<std::string>{"ls", "-l", "--output", "x"}));
  EXPECT_TRUE(parse({"ssh", "imagenet-0"}).options->words.empty());
}

TEST(CommandLine, tells_a_mistake_in_one_sentence_with_status_2) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"fly"},
                                             {"pool"},
                                             {"pool", "pause"},
                                             {"plan", "--outptu", "json"},
                                             {"plan", "--output", "xml"},
                                             {"reconcile", "--timeout", "soon"},
                                             {"reconcile", "--timeout", "0"}}) {
    const ParsedCommandLine parsed = parse(arguments);
    EXPECT_FALSE(parsed.options.has_value());
    EXPECT_EQ(parsed.exit_status, 2);
    EXPECT_TRUE(parsed.text.starts_with("warmroot: ")) << parsed.text;
    EXPECT_EQ(std::count(parsed.text.begin(), parsed.text.end(), '\n'), 1) << parsed.text;
  }
}

TEST(CommandLine, names_the_word_that_is_no_command_and_the_choices) {
  EXPECT_THAT(parse({"bogus"}).text, HasSubstr("unknown command bogus;"));
  EXPECT_THAT(parse({"--spec", "a.toml", "bogus"}).text, HasSubstr("unknown command bogus;"));
  EXPECT_THAT(parse({"pool"}).text, HasSubstr("pool needs list, pause, resume or delete;"));
  EXPECT_THAT(parse({"pool", "feed"}).text, HasSubstr("unknown command pool feed;"));
  EXPECT_THAT(parse({"plan", "extra"}).text, Not(HasSubstr("unknown command")));
}

TEST(CommandLine, help_and_version_are_no_mistakes) {
  EXPECT_EQ(parse({"--help"}).exit_status, 0);
  EXPECT_THAT(parse({"--help"}).text, HasSubstr("reconcile"));
  EXPECT_EQ(parse({"--version"}).text, std::string(WARMROOT_VERSION) + "\n");
}

core::Plan plan_of_two_nodes() {
  core::Plan plan;
  core::NodeRow served;
  served.pool = "imagenet";
  served.node = "imagenet-0";
  served.wanted = true;
  served.zone = "us-east-1a";
  served.volume_id = "vol-1";
  served.instance_id = "i-1";
  served.lease = core::LeaseState::active;
  served.condition = core::NodeCondition::active;
  core::NodeRow asleep;
  asleep.pool = "imagenet";
  asleep.node = "imagenet-1";
  plan.nodes = {served, asleep};
  plan.volumes = {
      {"vol-1", "imagenet", "imagenet-0", "us-east-1a", "i-1", "/dev/sdf", 100,
       core::VolumeCondition::in_use},
      {"vol-22", "imagenet", "imagenet-1", "us-east-1a", "", "", 8, core::VolumeCondition::free}};
  plan.volumes.front().warmth = 83;
  core::Action attach;
  attach.mutation = aws::AttachVolume{"vol-1", "i-1", "/dev/sdf"};
  attach.nodes = {"imagenet-0"};
  attach.reason = "the instance runs";
  plan.actions = {attach};
  plan.notes = {
      {core::NoteKind::refused_call, "imagenet", "imagenet-1", "no capacity \"here\"", true},
      {core::NoteKind::look_failed, "", "", "for all", false}};
  return plan;
}

TEST(Listings, are_aligned_for_people) {
  EXPECT_EQ(as_text(volume_table(plan_of_two_nodes())),
            "VOLUME  POOL      NODE        ROLE  ZONE        SIZE GiB  WARM %  STATE   INSTANCE  "
            "DEVICE    MEANING\n"
            "vol-1   imagenet  imagenet-0  node  us-east-1a       100      83  in-use  i-1       "
            "/dev/sdf  attached to an instance\n"
            "vol-22  imagenet  imagenet-1  node  us-east-1a         8       -  free    -         "
            "-         available to its node\n");
  EXPECT_EQ(as_text(volume_table({})), "(none)\n");
}

TEST(Listings, are_arrays_of_objects_for_programs) {
  const json volumes = json::parse(as_json(volume_table(plan_of_two_nodes())));
  ASSERT_EQ(volumes.size(), 2u);
  EXPECT_EQ(volumes[0]["size_gib"], 100);
  EXPECT_EQ(volumes[0]["instance_id"], "i-1");
  EXPECT_TRUE(volumes[1]["instance_id"].is_null());
  EXPECT_EQ(json::parse(as_json(volume_table({}))), json::array());
  const json nodes = json::parse(as_json(node_table(plan_of_two_nodes())));
  EXPECT_EQ(nodes[0]["lease"], "active");
  EXPECT_EQ(nodes[1]["lease"], "none");
  EXPECT_EQ(nodes[0]["wanted"], true);
  const json actions = json::parse(as_json(action_table(plan_of_two_nodes())));
  EXPECT_EQ(actions, json::parse(R"([{"action":"AttachVolume","resource":"vol-1 to i-1 as /dev/sdf",
                                      "nodes":["imagenet-0"],"reason":"the instance runs"}])"));
}

TEST(Listings, show_pools_with_what_is_wanted_and_served) {
  core::Desired desired;
  desired.pools.resize(1);
  desired.pools[0].name = "imagenet";
  desired.pools[0].ami = "ami-1";
  desired.pools[0].zones = {"us-east-1a", "us-east-1b"};
  desired.pools[0].nodes = 2;
  const json pools = json::parse(as_json(pool_table(desired, plan_of_two_nodes(), {})));
  EXPECT_EQ(pools[0]["state"], "served");
  EXPECT_EQ(pools[0]["running_wanted"], 1);
  EXPECT_EQ(pools[0]["nodes_served"], 1);
  EXPECT_EQ(pools[0]["volumes"], 2);
  EXPECT_EQ(pools[0]["zones"], (json{"us-east-1a", "us-east-1b"}));
  EXPECT_EQ(
      json::parse(as_json(pool_table(desired, plan_of_two_nodes(), {"imagenet"})))[0]["state"],
      "paused");
}

std::string state_of(const core::World& world) {
  const auto table = pool_table(world.desired, world.plan(), {});
  return json::parse(as_json(table))[0]["state"];
}

TEST(Listings, a_pool_that_waits_for_its_operator_is_blocked_and_not_starting) {
  core::World world;
  EXPECT_EQ(state_of(world), "starting");
  world.observed.snapshots.clear();
  world.observed.images.at("ami-volume").found.reset();
  EXPECT_EQ(state_of(world), "blocked");
}

TEST(Listings, nodes_that_a_group_runs_no_instance_for_are_not_starting) {
  core::World world(2, 2);
  world.pool().launch.reset();
  world.pool().auto_scaling_group = "workers";
  world.volume("vol-0");
  world.volume("vol-1", 1);
  EXPECT_EQ(state_of(world), "asleep");
  world.instance("i-0");
  EXPECT_EQ(state_of(world), "starting");
  world.attach("vol-0", "i-0");
  EXPECT_EQ(state_of(world), "served");
}

core::NodeCondition now_condition(const core::World& world) {
  return world.plan().nodes_now.at(0).condition;
}

TEST(Listings, show_what_is_before_the_plans_calls) {
  core::World world;
  EXPECT_EQ(now_condition(world), core::NodeCondition::no_volume);
  EXPECT_EQ(world.plan().nodes.at(0).condition, core::NodeCondition::creating);
  world.volume("vol-0");
  EXPECT_EQ(now_condition(world), core::NodeCondition::no_instance);
  world.instance("i-0", aws::InstanceState::pending);
  EXPECT_EQ(now_condition(world), core::NodeCondition::launching);
  world.instance("i-0");
  world.attach("vol-0", "i-0");
  world.ledger.paused_pools = {"p"};
  const core::Plan paused = world.plan();
  ASSERT_EQ(paused.actions.size(), 1u);
  EXPECT_EQ(paused.nodes_now.at(0).condition, core::NodeCondition::checking);
  EXPECT_EQ(paused.nodes.at(0).condition, core::NodeCondition::leaving);
  const json actions = json::parse(as_json(action_table(paused)));
  EXPECT_EQ(actions[0]["nodes"], json{"p-0"}) << "whom the end of an instance concerns";
}

TEST(Listings, name_a_successor_only_when_there_is_one) {
  core::World world;
  world.volume("vol-0");
  world.instance("i-0", aws::InstanceState::shutting_down);
  world.attach("vol-0", "i-0");
  EXPECT_EQ(now_condition(world), core::NodeCondition::leaving);
  world.instance("i-1", aws::InstanceState::pending);
  EXPECT_EQ(now_condition(world), core::NodeCondition::handover);
}

TEST(Waiting, is_for_the_operator_when_nothing_else_can_change) {
  core::Plan plan = plan_of_two_nodes();
  plan.actions.clear();
  EXPECT_EQ(unsettled_nodes(plan), "the operator: imagenet-1: no capacity \"here\"");
  plan.notes.push_back(
      {core::NoteKind::source_problem, "imagenet", "", "AMI ami-1 is not found", true});
  EXPECT_THAT(unsettled_nodes(plan), HasSubstr("(and 1 more)"));
  plan.nodes[1].condition = core::NodeCondition::leaving;
  EXPECT_EQ(unsettled_nodes(plan), "imagenet-1 (leaving)");
  plan.nodes[1].condition = core::NodeCondition::asleep;
  for (core::Note& note : plan.notes) note.passes = true;
  EXPECT_EQ(unsettled_nodes(plan), "EC2 to finish what was asked for");
}

TEST(StatusPage, joins_the_plan_with_what_instances_reported) {
  TickView view;
  view.deployment = "research";
  view.region = "us-east-1";
  view.updated = Instant(std::chrono::seconds(1'767'323'045));
  view.plan = plan_of_two_nodes();
  view.instance_states = {{"i-1", "running"}};
  view.history = {{Instant(std::chrono::seconds(1)), "imagenet-0", "attached"}};
  ReportBoard board;
  core::NodeReport report;
  report.instance_id = "i-1";
  report.stage = NodeStage::mounted;
  report.received = Instant(std::chrono::seconds(5));
  board.record(report);
  report.stage = NodeStage::warming;
  report.received = Instant(std::chrono::seconds(9));
  report.status_json = R"({"volume_os":"Debian"})";
  report.warmth = 0.25;
  board.record(report);
  const json status = json::parse(status_json(view, board.entries()));
  EXPECT_EQ(status["updated"], "2026-01-02T03:04:05.000Z");
  EXPECT_EQ(status["stable"], false);
  EXPECT_EQ(status["plan"][0]["action"], "AttachVolume");
  EXPECT_EQ(status["history"][0]["text"], "attached");
  const json& served = status["nodes"][0];
  EXPECT_EQ(served["stage"], "warming");
  EXPECT_EQ(served["lease"], "active");
  EXPECT_EQ(served["instance_state"], "running");
  EXPECT_EQ(served["warmth"], 0.25);
  EXPECT_EQ(served["status"]["volume_os"], "Debian");
  EXPECT_EQ(served["stage_received"]["mounted"], "1970-01-01T00:00:05.000Z");
  EXPECT_EQ(served["report_received"], "1970-01-01T00:00:09.000Z");
  const json& asleep = status["nodes"][1];
  EXPECT_TRUE(asleep["stage"].is_null());
  EXPECT_TRUE(asleep["status"].is_null());
  EXPECT_EQ(asleep["lease"], "none");
  report.stage = NodeStage::rebooting;
  board.record(report);
  const json later = json::parse(status_json(view, board.entries()));
  EXPECT_EQ(later["nodes"][0]["stage"], "rebooting");
}

TEST(StatusPage, survives_nonsense_in_a_guests_status) {
  TickView view;
  view.plan = plan_of_two_nodes();
  for (const char* nonsense : {"", "[1]", "\"text\"", R"({"warm":7})", "{broken"}) {
    ReportBoard board;
    core::NodeReport report;
    report.instance_id = "i-1";
    report.status_json = nonsense;
    board.record(report);
    EXPECT_TRUE(json::parse(status_json(view, board.entries()))["nodes"][0]["warmth"].is_null())
        << nonsense;
    EXPECT_THAT(metrics_text(view, board.entries()), Not(HasSubstr("ratio{"))) << nonsense;
  }
}

TEST(MetricsPage, counts_nodes_volumes_notes_and_calls) {
  TickView view;
  view.plan = plan_of_two_nodes();
  view.calls = {{"AttachVolume accepted", 3}};
  const std::string text = metrics_text(view, {});
  EXPECT_THAT(text, HasSubstr("# TYPE warmroot_stable gauge\nwarmroot_stable 0\n"));
  EXPECT_THAT(text, HasSubstr("warmroot_nodes{pool=\"imagenet\",state=\"active\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("warmroot_volumes{pool=\"imagenet\",state=\"free\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("warmroot_notes{blocking=\"true\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("warmroot_calls_total{action=\"AttachVolume\",outcome=\"accepted\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("warmroot_events"))) << "nobody listens";
}

TEST(MetricsPage, tells_what_was_refused_and_whether_identities_are_verified) {
  TickView view;
  view.verifies_identity = true;
  view.refusals = {{"hello wrong_address", 2}, {"report late", 0}};
  view.keys_replaced = 1;
  const std::string text = metrics_text(view, {});
  EXPECT_THAT(text, HasSubstr("\nwarmroot_identity_verified 1\n"));
  EXPECT_THAT(text, HasSubstr("warmroot_requests_refused_total{request=\"hello\","
                              "reason=\"wrong_address\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("{request=\"report\",reason=\"late\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nwarmroot_keys_replaced_total 1\n"));
  EXPECT_EQ(json::parse(status_json(view, {}))["identity"], "signed document");
}

TEST(MetricsPage, counts_events_where_somebody_listens) {
  TickView view;
  view.listens = true;
  view.events = {{"interruption", 2}, {"doubled", 1}, {"failed_calls", 4}};
  const std::string text = metrics_text(view, {});
  EXPECT_THAT(text, HasSubstr("warmroot_events_total{kind=\"interruption\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("warmroot_events_total{kind=\"doubled\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("kind=\"failed_calls\"")));
  EXPECT_THAT(text, HasSubstr("warmroot_queue_calls_failed_total 4\n"));
}

TEST(StateFolder, admits_one_manager_at_a_time) {
  const std::string folder = testing::TempDir() + "warmroot-state/inner";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(make_state_folder(folder).has_value());
  ASSERT_TRUE(make_state_folder(folder).has_value()) << "it may be there already";
  {
    const auto first = StateLock::take(folder);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    const auto second = StateLock::take(folder);
    ASSERT_FALSE(second.has_value());
    EXPECT_THAT(second.error().context,
                HasSubstr("another manager (process " + std::to_string(::getpid()) + ")"));
    EXPECT_THAT(second.error().context, HasSubstr("--state DIR"));
  }
  EXPECT_TRUE(StateLock::take(folder).has_value()) << "a lock ends with its holder";
}

TEST(StateFolder, who_waits_for_it_gets_it_once_it_is_free_says_so_and_hears_a_stop) {
  const std::string folder = testing::TempDir() + "warmroot-state/waited-for";
  ASSERT_TRUE(make_state_folder(folder).has_value());
  auto held = StateLock::take(folder);
  ASSERT_TRUE(held.has_value());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(StateLock::wait(folder, stop.get_token()).has_value());
  testing::internal::CaptureStderr();
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    held = fail(ErrorKind::gone, "given back");
  });
  EXPECT_TRUE(StateLock::wait(folder, {}).has_value());
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("waiting for the state folder"));
  EXPECT_EQ(told.find("waiting"), told.rfind("waiting")) << "once";
}

TEST(StateFolder, that_cannot_be_made_is_one_sentence) {
  const auto made = make_state_folder("/proc/no/such");
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().context, HasSubstr("cannot use the state folder /proc/no/such"));
}

TEST(LogLine, stays_one_line_whatever_the_values_are) {
  EXPECT_EQ(
      log_fields_text(
          {{"node", "imagenet-0"}, {"reason", "two words"}, {"odd", "a\"b\nc"}, {"empty", ""}}),
      "node=imagenet-0 reason=\"two words\" odd=\"a\\\"b\\x0ac\" empty=\"\"");
}

}  // namespace
}  // namespace warmroot::manager
