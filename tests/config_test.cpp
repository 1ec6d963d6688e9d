// The spec: the issue's example, inheritance of defaults, and what is large or unreadable. What an
// operator can do wrong is config_mistakes_test.cpp's.
#include "manager/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <fstream>

#include <chrono>
#include <regex>
#include <string>

#include "tests/config_spec.hpp"
#include "tests/temporary_directory.hpp"

namespace warmroot::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(Config, says_that_a_string_is_not_closed) {
  for (const char* text : {"deployment = \"research\nregion = \"x\"\n", "deployment = 'research\n",
                           "deployment = \"research"})
    EXPECT_NE(listed(parse_spec(text, no_files)).find("the string is not closed on this line"),
              std::string::npos)
        << text;
  EXPECT_NE(listed(parse_spec("deployment = \"a\x01\"\n", no_files)).find("control characters"),
            std::string::npos);
}

TEST(Config, ten_thousand_pools_are_read_in_seconds_and_the_same_name_twice_is_found) {
  std::string text = "deployment = \"research\"\n";
  for (int i = 0; i < 10'000; ++i)
    text += "[[pool]]\nname = \"p" + std::to_string(i == 9'999 ? 17 : i) +
            "\"\nami = \"ami-0123456789abcdef0\"\nzones = [\"us-east-1a\"]\nnodes = 1\n";
  const auto begin = std::chrono::steady_clock::now();
  const ParsedSpec parsed = parse_spec(text, no_files);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(listed(parsed), HasSubstr("p17"));
  EXPECT_LT(took, std::chrono::seconds(30)) << "it is linear: a tenth of a second by itself";
}

TEST(Config, a_very_long_value_is_a_mistake_and_no_crash) {
  const std::string longest(300'000, 'a');
  const auto told = [](const std::string& text, const char* sentence) {
    return listed(parse_spec(text, no_files)).find(sentence) != std::string::npos;
  };
  const auto with = [](const std::string& text, const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_TRUE(told("manager_url = \"http://" + longest + "\"\n" + kMinimal, "is not a URL"));
  EXPECT_TRUE(told(with(kMinimal, "ami-0123456789abcdef0", "ami-" + longest), "is not an id"));
  EXPECT_TRUE(told(with(kMinimal, "us-east-1a", "us-" + longest + "-1a"), "zone"));
  EXPECT_TRUE(told(kMinimal + with(kLaunch, "g5.12xlarge", "g5." + longest), "instance type"));
}

TEST(Config, reads_every_key_of_the_example) {
  const ParsedSpec parsed = parse_spec(R"(
deployment  = "research"
region      = "us-east-1"
manager_url = "http://10.0.0.5:8470/"

[[pool]]
name     = "imagenet"
ami      = "ami-0123456789abcdef0"
zones    = ["us-east-1a", "us-east-1b"]
nodes    = 3
running  = 2
[pool.volumes]
type             = "gp3"
size_gib         = 200
grow             = true
snapshot_unclean = true
iops             = 6000
throughput_mib_s = 500
encrypted        = true
kms_key          = "alias/volumes"
tags             = { team = "vision" }
[pool.launch]
base_ami         = "ami-0fedcba9876543210"
instance_types   = ["g5.12xlarge", "g5.24xlarge"]
subnets          = { us-east-1a = "subnet-0123456789abcdef0" }
security_groups  = ["sg-0123456789abcdef0"]
key_name         = "ops"
instance_profile = "node"
max_price        = 2.5
tags             = { cost = "42" }
user_data        = "#!/bin/sh\necho hello\n"
)",
                                       no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  EXPECT_EQ(parsed.config.desired.deployment, "research");
  EXPECT_EQ(parsed.config.region, "us-east-1");
  EXPECT_EQ(parsed.config.manager_url, "http://10.0.0.5:8470");
  ASSERT_EQ(parsed.config.desired.pools.size(), 1u);
  const core::PoolSpec& pool = parsed.config.desired.pools[0];
  EXPECT_EQ(pool.name, "imagenet");
  EXPECT_EQ(pool.ami, "ami-0123456789abcdef0");
  EXPECT_THAT(pool.zones, ElementsAre("us-east-1a", "us-east-1b"));
  EXPECT_EQ(pool.nodes, 3);
  EXPECT_EQ(pool.running, 2);
  EXPECT_EQ(pool.volumes.size_gib, 200);
  EXPECT_TRUE(pool.volumes.grow);
  EXPECT_TRUE(pool.volumes.snapshot_unclean);
  EXPECT_EQ(pool.volumes.iops, 6000);
  EXPECT_EQ(pool.volumes.throughput_mib_s, 500);
  EXPECT_TRUE(pool.volumes.encrypted);
  EXPECT_EQ(pool.volumes.kms_key, "alias/volumes");
  EXPECT_THAT(pool.volumes.tags, UnorderedElementsAre(Pair("team", "vision")));
  ASSERT_TRUE(pool.launch.has_value());
  EXPECT_THAT(pool.launch->instance_types, ElementsAre("g5.12xlarge", "g5.24xlarge"));
  EXPECT_THAT(pool.launch->subnets,
              UnorderedElementsAre(Pair("us-east-1a", "subnet-0123456789abcdef0")));
  EXPECT_THAT(pool.launch->security_groups, ElementsAre("sg-0123456789abcdef0"));
  EXPECT_EQ(pool.launch->key_name, "ops");
  EXPECT_EQ(pool.launch->instance_profile, "node");
  EXPECT_EQ(pool.launch->max_price, "2.5");
  EXPECT_EQ(pool.launch->user_data, "#!/bin/sh\necho hello\n");
}

TEST(Config, knows_the_zones_of_every_partition) {
  for (const char* zone : {"us-east-1a", "cn-north-1b", "us-gov-west-1a", "us-iso-east-1a",
                           "us-isob-east-1a", "eu-isoe-west-1a", "us-isof-south-1a",
                           "eusc-de-east-1a", "us-west-2-lax-1a", "us-east-1-wl1-bos-wlz-1"}) {
    std::string spec = kMinimal;
    spec.replace(spec.find("us-east-1a"), 10, zone);
    const ParsedSpec parsed = parse_spec(spec, no_files);
    EXPECT_THAT(parsed.mistakes, IsEmpty()) << zone << ": " << listed(parsed);
  }
}

TEST(Config, reads_what_a_launch_may_cost) {
  const ParsedSpec parsed = parse_spec(kMinimal + kLaunch + R"(zone_fallback = false
on_demand_fallback = true
on_demand_after_s = 600
rebalance_after_s = 60
on_demand_prices = { "g5.12xlarge" = 5.672 }
replace_on_rebalance = true
max_instances = 3
max_price_hour = 12
volume_with_launch = false
)",
                                       no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  const core::LaunchSpec& launch = *parsed.config.desired.pools[0].launch;
  EXPECT_FALSE(launch.zone_fallback);
  EXPECT_TRUE(launch.on_demand_fallback);
  EXPECT_EQ(launch.on_demand_after, std::chrono::minutes(10));
  EXPECT_EQ(launch.rebalance_after, std::chrono::minutes(1));
  EXPECT_THAT(launch.on_demand_prices, UnorderedElementsAre(Pair("g5.12xlarge", "5.672")));
  EXPECT_TRUE(launch.replace_on_rebalance);
  EXPECT_EQ(launch.max_instances, 3);
  EXPECT_EQ(launch.max_price_hour, "12");
  EXPECT_FALSE(launch.volume_with_launch);
}

TEST(Config, launches_cost_what_spot_costs_unless_the_spec_says_more) {
  const ParsedSpec parsed = parse_spec(kMinimal + kLaunch, no_files);
  const core::LaunchSpec& launch = *parsed.config.desired.pools[0].launch;
  EXPECT_FALSE(launch.zone_fallback);
  EXPECT_FALSE(launch.on_demand_fallback);
  EXPECT_FALSE(launch.replace_on_rebalance);
  EXPECT_FALSE(launch.max_instances.has_value());
  EXPECT_EQ(launch.max_price_hour, "");
}

TEST(Config, launches_may_bring_first_volumes_unless_that_costs_a_choice_of_types_or_a_deadline) {
  const auto read = [](const std::string& more, const std::string& stock = "") {
    const ParsedSpec parsed = parse_spec(kMinimal + kLaunch + more + stock, no_files);
    EXPECT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
    return parsed.config.desired.pools.at(0).launch->volume_with_launch;
  };
  EXPECT_TRUE(read(""));
  EXPECT_FALSE(read("volume_with_launch = false\n"));
  EXPECT_FALSE(read("", "[pool.stock]\nready_within_s = 900\n")) << "a launch pays for no rate";
  EXPECT_TRUE(read("", "[pool.stock]\nspares = 1\n"));
  EXPECT_TRUE(read("volume_with_launch = true\n", "[pool.stock]\nready_within_s = 900\n"));
  const ParsedSpec several = parse_spec(kMinimal +
                                            "[pool.launch]\nbase_ami = \"ami-0fedcba9876543210\"\n"
                                            "instance_types = [\"g5.12xlarge\", \"g5.24xlarge\"]\n",
                                        no_files);
  EXPECT_FALSE(several.config.desired.pools.at(0).launch->volume_with_launch)
      << "RunInstances takes one type, a fleet chooses";
  EXPECT_FALSE(read("[defaults.launch]\nvolume_with_launch = false\n")) << "inherited";
}

TEST(Config, a_pool_without_launch_serves_the_instances_of_others) {
  const ParsedSpec parsed = parse_spec(kMinimal, no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  EXPECT_FALSE(parsed.config.desired.pools[0].launch.has_value());
  EXPECT_EQ(parsed.config.desired.pools[0].running, 0);
  EXPECT_EQ(parsed.config.desired.pools[0].volumes.type, "gp3");
}

TEST(Config, every_node_of_a_group_s_pool_may_run_unless_the_spec_says_fewer) {
  const auto group = kMinimal + "auto_scaling_group = \"workers\"\n";
  const ParsedSpec parsed = parse_spec(group, no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  EXPECT_EQ(parsed.config.desired.pools[0].auto_scaling_group, "workers");
  EXPECT_EQ(parsed.config.desired.pools[0].running, 2);
  EXPECT_EQ(parse_spec(group + "running = 1\n", no_files).config.desired.pools[0].running, 1);
}

TEST(Config, the_keys_of_a_pool_win_over_the_defaults) {
  const ParsedSpec parsed = parse_spec(kMinimal + R"(
[pool.volumes]
iops = 4000
[pool.launch]
base_ami = "ami-0fedcba9876543210"
[defaults.volumes]
iops = 3000
encrypted = true
[defaults.launch]
base_ami = "ami-00000000000000000"
instance_types = ["c7i.large"]
subnets = { us-east-1a = "subnet-0123456789abcdef0", us-east-1f = "subnet-1123456789abcdef0" }
)",
                                       no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  const core::PoolSpec& pool = parsed.config.desired.pools[0];
  EXPECT_EQ(pool.volumes.iops, 4000);
  EXPECT_TRUE(pool.volumes.encrypted);
  EXPECT_EQ(pool.launch->base_ami, "ami-0fedcba9876543210");
  EXPECT_THAT(pool.launch->instance_types, ElementsAre("c7i.large"));
  EXPECT_THAT(pool.launch->subnets,
              UnorderedElementsAre(Pair("us-east-1a", "subnet-0123456789abcdef0")))
      << "subnets of zones that the pool does not use are left out";
}

TEST(Config, user_data_is_read_from_the_file_it_names) {
  const auto reader = [](const std::string& path) -> Result<std::string> {
    EXPECT_EQ(path, "setup.sh");
    return std::string("#!/bin/sh\ntrue\n");
  };
  const ParsedSpec parsed = parse_spec(kMinimal + kLaunch + "user_data = \"setup.sh\"\n", reader);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  EXPECT_EQ(parsed.config.desired.pools[0].launch->user_data, "#!/bin/sh\ntrue\n");
}

TEST(Config, reads_where_events_come_from_and_whether_hints_count) {
  const std::string url = "https://sqs.us-east-1.amazonaws.com/111122223333/warmroot";
  const std::string events = "[events]\nqueue_url = \"" + url + "\"\n";
  const auto parsed =
      parse_spec(kMinimal + kLaunch + "replace_on_rebalance = true\n" + events, no_files);
  EXPECT_EQ(listed(parsed), "");
  EXPECT_EQ(parsed.config.queue_url, url);
  EXPECT_TRUE(parsed.config.desired.pools[0].launch->replace_on_rebalance);
  EXPECT_EQ(parse_spec(kMinimal, no_files).config.queue_url, "") << "nobody listens";
  EXPECT_THAT(listed(parse_spec(kMinimal + "[events]\n", no_files)), HasSubstr("queue_url"));
  EXPECT_THAT(listed(parse_spec(kMinimal + "[events]\nqueue_url = \"warmroot\"\n", no_files)),
              HasSubstr("queue_url"));
}

TEST(Config, reads_what_is_kept_in_stock_and_how_a_new_source_comes_in) {
  const ParsedSpec parsed = parse_spec(kMinimal + R"([pool.stock]
spares = 2
golden = true
ready_within_s = 600
copy_usd_gib = 0.005
[pool.rollout]
policy = "replace"
max_unavailable = 3
[pool.warm]
record = false
max_depth = 24
max_mib_s = 80
block_list = false
[pool.session]
entry = "sshd"
host_keys = false
rescue_port = 2222
login_wait_s = 90
user = "ada"
)",
                                       no_files);
  ASSERT_THAT(parsed.mistakes, IsEmpty()) << listed(parsed);
  const core::PoolSpec& pool = parsed.config.desired.pools.at(0);
  EXPECT_EQ(pool.stock.spares, 2);
  EXPECT_TRUE(pool.stock.golden);
  EXPECT_EQ(pool.stock.ready_within, std::chrono::seconds(600));
  EXPECT_EQ(pool.stock.copy_usd_gib, "0.005");
  EXPECT_EQ(pool.rollout.policy, core::RolloutSpec::Policy::replace);
  EXPECT_EQ(pool.rollout.max_unavailable, 3);
  EXPECT_FALSE(pool.warm.record);
  EXPECT_EQ(pool.warm.max_depth, 24);
  EXPECT_EQ(parsed.config.ticket_settings.at(pool.name).warm_max_mib_s, 80);
  EXPECT_EQ(parsed.config.ticket_settings.at(pool.name).login_wait_s, 90);
  EXPECT_THAT(parsed.config.without_block_lists, ElementsAre(pool.name));
  EXPECT_THAT(parse_spec(kMinimal, no_files).config.without_block_lists, IsEmpty());
  EXPECT_EQ(pool.session.entry, "sshd");
  EXPECT_FALSE(pool.session.host_keys);
  EXPECT_EQ(pool.session.rescue_port, 2222);
  EXPECT_EQ(pool.session.user, "ada");
}

/// The template's optional keys are comments of the form "# key = value" and "# [table]".
std::string with_optional_keys(const std::string& spec) {
  static const std::regex optional("(^|\n)# (\\[[a-z.]+\\]|[a-z_]+ *= )");
  return std::regex_replace(spec, optional, "$1$2");
}

TEST(Config, the_example_of_the_templates_is_accepted_with_and_without_its_optional_keys) {
  const auto text = read_text_file(WARMROOT_TEMPLATES_DIR "/warmroot.toml", 1 << 20);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  const auto reader = [](const std::string&) -> Result<std::string> {
    return std::string("#!/bin/sh\n");
  };
  const ParsedSpec required = parse_spec(*text, reader);
  EXPECT_THAT(required.mistakes, IsEmpty()) << listed(required);
  std::string all = with_optional_keys(*text);
  // A key needs encryption, which the example shows with its default.
  all.replace(all.find("encrypted        = false"), 24, "encrypted        = true ");
  const ParsedSpec complete = parse_spec(all, reader);
  EXPECT_THAT(complete.mistakes, IsEmpty()) << listed(complete);
  EXPECT_EQ(complete.config.desired.pools[0].launch->user_data, "#!/bin/sh\n");
  EXPECT_EQ(complete.config.desired.pools[0].volumes.kms_key, "alias/volumes");
  EXPECT_EQ(complete.config.manager_url, "http://10.0.0.5:8470");
}

TEST(Config, a_spec_that_cannot_be_read_is_one_sentence_with_the_remedy) {
  const auto loaded = load_spec("no-such-folder/spec.toml");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::misconfigured);
  EXPECT_THAT(loaded.error().context, HasSubstr("cannot read the spec no-such-folder/spec.toml"));
  EXPECT_THAT(loaded.error().context, HasSubstr("--spec FILE"));
}

TEST(BadInput, a_spec_of_10_000_pools_is_read_in_bounded_time_and_memory) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/many.toml";
  {
    std::ofstream file(path);
    file << "deployment = \"many\"\nmanager_url = \"http://127.0.0.1:8470\"\n";
    for (int i = 0; i < 10'000; ++i)
      file << "[[pool]]\nname = \"p" << i << "\"\nsnapshot = \"snap-0ami0000000000001\"\n"
           << "zones = [\"us-east-1a\"]\nnodes = 1\nrunning = 1\n[pool.launch]\n"
           << "base_ami = \"ami-0base000000000001\"\ninstance_types = [\"g5.12xlarge\"]\n"
           << "subnets = { us-east-1a = \"subnet-0a00000000000001\" }\n";
  }
  const auto began = std::chrono::steady_clock::now();
  const auto config = load_spec(path);
  [[maybe_unused]] const auto took = std::chrono::steady_clock::now() - began;
  ASSERT_TRUE(config.has_value()) << config.error().message().substr(0, 400);
  EXPECT_EQ(config->desired.pools.size(), 10'000U);
#ifndef WARMROOT_SANITIZED  // whose runtimes take their time and keep what was freed
  EXPECT_LT(took, std::chrono::seconds(30));  // measured 2 s; a square of the pools takes minutes
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  EXPECT_LT(used.ru_maxrss, 512 * 1024);  // KiB
#endif
}

}  // namespace
}  // namespace warmroot::manager
