// The mistakes that an operator can make in a spec, one row for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "manager/config.hpp"
#include "tests/config_spec.hpp"

namespace warmroot::manager {
namespace {

using testing::HasSubstr;

struct BadSpec {
  std::string text;
  std::string expected;  ///< a piece of the list "line:column: text"
};

class ConfigMistakes : public testing::TestWithParam<BadSpec> {};

TEST_P(ConfigMistakes, are_told_with_place_and_remedy) {
  const ParsedSpec parsed = parse_spec(GetParam().text, no_files);
  EXPECT_THAT(listed(parsed), HasSubstr(GetParam().expected)) << GetParam().text;
  EXPECT_EQ(parsed.mistakes.size(), 1u) << listed(parsed);
}

const std::string kPool =
    "deployment = \"d\"\n[[pool]]\nname = \"p\"\nami = \"ami-0123456789abcdef0\"\n";

INSTANTIATE_TEST_SUITE_P(
    Table, ConfigMistakes,
    testing::Values(
        BadSpec{"deployment = \"d\n", "1:"},
        BadSpec{"deployment = \"d\"\n", "1:1: pool is missing: write at least one [[pool]]"},
        BadSpec{kMinimal + "zonez = []\n",
                "7:1: unknown key zonez in [[pool]]: did you mean zones?"},
        BadSpec{kMinimal + "iops = 3000\n",
                "7:1: unknown key iops in [[pool]]: it belongs to [pool.volumes]"},
        BadSpec{kMinimal + "[pool.volumes]\nrunning = 1\n",
                "8:1: unknown key running in [pool.volumes]: it belongs to [[pool]], above"},
        BadSpec{kMinimal + kLaunch + "instance_type = [\"a.b\"]\n", "did you mean instance_types?"},
        BadSpec{kMinimal + "running = \"two\"\n",
                "7:11: [[pool]] running: found text, write a whole number"},
        BadSpec{kMinimal + "running = 3\n",
                "7:11: [[pool]] running: 3 instances are wanted for 2 volumes"},
        BadSpec{
            kMinimal + "auto_scaling_group = \"workers\"\n" + kLaunch,
            "7:22: [[pool]] auto_scaling_group: the group launches, and so would [pool.launch]: "
            "leave one of them out"},
        BadSpec{kMinimal + "running = -1\n", "-1 is out of range, write 0 to"},
        BadSpec{kMinimal + "snapshot = \"snap-0123456789abcdef0\"\n",
                "7:12: [[pool]] snapshot: a pool has either ami or snapshot"},
        BadSpec{"deployment = \"d\"\n[[pool]]\nname = \"p\"\nnodes = 1\nzones = [\"us-east-1a\"]\n",
                "2:1: [[pool]] ami is missing"},
        BadSpec{kPool + "nodes = 1\n", "[[pool]] zones is missing: write zones = [\"us-east-1a\"]"},
        BadSpec{kPool + "nodes = 1\nzones = []\n", "6:9: [[pool]] zones: no zone is named"},
        BadSpec{kPool + "nodes = 1\nzones = \"us-east-1a\"\n",
                "6:9: [[pool]] zones: found text, write a list"},
        BadSpec{kPool + "nodes = 1\nzones = [\"us-east-1\"]\n", "\"us-east-1\" is not a zone"},
        BadSpec{kPool + "nodes = 1\nzones = [\"us-east-1a\", \"us-east-1a\"]\n",
                "us-east-1a is listed twice"},
        BadSpec{"region = \"eu-west-1\"\n" + kMinimal, "us-east-1a is not in the Region eu-west-1"},
        BadSpec{kPool + "zones = [\"us-east-1a\"]\n", "[[pool]] nodes is missing"},
        BadSpec{kMinimal + "[[pool]]\nname = \"imagenet\"\nami = \"ami-0123456789abcdef0\"\nzones "
                           "= [\"us-east-1a\"]\nnodes = 1\n",
                "8:8: [[pool]] name: \"imagenet\" is the name of an earlier pool"},
        BadSpec{"deployment = \"\"\n" + kMinimal.substr(kMinimal.find('\n') + 1),
                "1:14: deployment: \"\" is not a name"},
        BadSpec{"deployment = \"d\"\n[[pool]]\nname = \"p\"\nami = \"\"\nzones = "
                "[\"us-east-1a\"]\nnodes = 1\n",
                "4:7: [[pool]] ami: \"\" is not an id"},
        BadSpec{"deployment = \"d\"\n[[pool]]\nname = \"p\"\nsnapshot = \"\"\nzones = "
                "[\"us-east-1a\"]\nnodes = 1\n",
                "4:12: [[pool]] snapshot: \"\" is not an id"},
        BadSpec{kMinimal + "[pool.launch]\nbase_ami = \"\"\ninstance_types = [\"g5.xlarge\"]\n",
                "base_ami: \"\" is not an id"},
        BadSpec{"deployment = \"Research_1\"\n" + kMinimal.substr(kMinimal.find('\n') + 1),
                "1:14: deployment: \"Research_1\" is not a name"},
        BadSpec{"deployment = \"d\"\n[[pool]]\nname = \"p\"\nami = \"ami-...\"\nzones = "
                "[\"us-east-1a\"]\nnodes = 1\n",
                "4:7: [[pool]] ami: \"ami-...\" is not an id"},
        BadSpec{"deployment = \"d\"\n[pool]\nname = \"p\"\nami = \"ami-0123456789abcdef0\"\nzones "
                "= [\"us-east-1a\"]\nnodes = 1\n",
                "2:1: pool: found a table, write [[pool]] with two brackets"},
        BadSpec{kMinimal + "[pool.volumes]\ntype = \"gp9\"\n",
                "8:8: [pool.volumes] type: \"gp9\" is not a volume type"},
        BadSpec{kMinimal + "[pool.volumes]\niops = 100\n",
                "100 is out of range for gp3, write 3000 to 80000"},
        BadSpec{kMinimal + "[pool.volumes]\ngrow = 1\n", "[pool.volumes] grow: "},
        BadSpec{kMinimal + "[pool.volumes]\nsize_gib = 8\niops = 5000\n",
                "5000 is too much for 8 GiB of gp3"},
        BadSpec{kMinimal + "[pool.volumes]\ntype = \"gp2\"\niops = 3000\n",
                "gp2 volumes take none"},
        BadSpec{kMinimal + "[pool.volumes]\ntype = \"io2\"\n",
                "[pool.volumes] iops: io2 volumes need it"},
        BadSpec{kMinimal + "[pool.volumes]\nthroughput_mib_s = 1000\n",
                "1000 MiB/s needs iops = 4000 or more"},
        BadSpec{kMinimal + "[pool.volumes]\ntype = \"st1\"\nsize_gib = 100\n",
                "100 is out of range for st1, write 125 to 16384"},
        BadSpec{kMinimal + "[pool.volumes]\nkms_key = \"alias/a\"\n", "write encrypted = true too"},
        BadSpec{kMinimal + "[pool.volumes]\ntags = { \"warmroot:pool\" = \"x\" }\n",
                "begins with a reserved prefix"},
        BadSpec{kMinimal + "[pool.volumes]\ntags = { n = 1 }\n",
                "found a whole number, write n = \"...\" in quotes"},
        BadSpec{kMinimal + "[pool.launch]\ninstance_types = [\"g5.xlarge\"]\n",
                "7:1: [pool.launch] base_ami is missing"},
        BadSpec{
            kMinimal + "[pool.launch]\nbase_ami = \"ami-0123456789abcdef0\"\ninstance_types = []\n",
            "the list is empty, name at least one type"},
        BadSpec{kMinimal + kLaunch + "max_price = \"cheap\"\n",
                "10:13: [pool.launch] max_price: \"cheap\" is not a number"},
        BadSpec{kMinimal + kLaunch + "max_price = 0.0001\n", "0.0001 is too low"},
        BadSpec{kMinimal + kLaunch + "zone_fallback = true\n",
                "[pool.launch] zone_fallback: the pool's only zone is us-east-1a, name another"},
        BadSpec{kMinimal + kLaunch + "rebalance_after_s = 60\n",
                "rebalance_after_s: hints count for nothing without replace_on_rebalance"},
        BadSpec{kMinimal + kLaunch + "on_demand_after_s = 60\n",
                "on_demand_after_s: nothing is bought on demand without on_demand_fallback"},
        BadSpec{kMinimal + kLaunch + "max_instances = 0\n", "max_instances: 0 is"},
        BadSpec{kMinimal + kLaunch + "max_price_hour = 0\n", "max_price_hour: 0 allows nothing"},
        BadSpec{kMinimal + kLaunch + "max_price_hour = 9\non_demand_fallback = true\n",
                "EC2 tells no on-demand prices, so that of g5.12xlarge is not known"},
        BadSpec{kMinimal + kLaunch + "on_demand_prices = { \"g4dn.xlarge\" = 1 }\n",
                "g4dn.xlarge is not one of instance_types (g5.12xlarge)"},
        BadSpec{kMinimal + kLaunch + "on_demand_prices = { \"g5.12xlarge\" = \"a lot\" }\n",
                "on_demand_prices g5.12xlarge: \"a lot\" is not a number"},
        BadSpec{kMinimal + kLaunch + "subnets = { us-east-1b = \"subnet-0123456789abcdef0\" }\n",
                "us-east-1b is not one of the pool's zones (us-east-1a)"},
        BadSpec{kMinimal + kLaunch + "subnets = { us-east-1a = \"net-1\" }\n",
                "\"net-1\" is not an id"},
        BadSpec{kMinimal + kLaunch + "user_data = \"setup.sh\"\n",
                "cannot read the file: setup.sh: No such file or directory"},
        BadSpec{"manager_url = \"10.0.0.5\"\n" + kMinimal, "\"10.0.0.5\" is not a URL"},
        BadSpec{"manager_url = \"https://10.0.0.5\"\n" + kMinimal, "write http, an IP address"},
        BadSpec{"manager_url = \"http://10.0.0.5:70000\"\n" + kMinimal, "is not a URL"},
        BadSpec{kMinimal + "[defaults.volumes]\niops = \"many\"\n",
                "8:8: [defaults.volumes] iops: found text"}));

INSTANTIATE_TEST_SUITE_P(
    Stock, ConfigMistakes,
    testing::Values(
        BadSpec{kMinimal + "[pool.stock]\nspares = -1\n", "8:10: [pool.stock] spares: -1 is out"},
        BadSpec{kMinimal + "[pool.stock]\nspare = 1\n", "did you mean spares?"},
        BadSpec{kMinimal + "[pool.stock]\ngolden = true\n",
                "8:10: [pool.stock] golden: copies of it cost money, so it is of use only with a "
                "deadline, write ready_within_s = 600 too"},
        BadSpec{kMinimal + "[pool.stock]\ngolden = true\nready_within_s = 0\n",
                "9:18: [pool.stock] ready_within_s: 0 is no deadline"},
        BadSpec{kMinimal + "[pool.stock]\ncopy_usd_gib = \"little\"\n", "is not a number"},
        BadSpec{kMinimal + "[pool.rollout]\npolicy = \"renew\"\n",
                "8:10: [pool.rollout] policy: \"renew\" is no policy, write \"keep\""},
        BadSpec{kMinimal + "[pool.rollout]\npolicy = \"replace\"\nmax_unavailable = 0\n",
                "0 is out of range, write 1 to"},
        BadSpec{kMinimal + "[pool.rollout]\nmax_unavailable = 2\n",
                "it limits a rollout, which only policy = \"replace\" allows"},
        BadSpec{kMinimal + "[pool.warm]\nenabled = false\nmax_depth = 8\n",
                "[pool.warm] max_depth: nothing is read with enabled = false"},
        BadSpec{kMinimal + "[pool.warm]\nmax_depth = 2000\n", "[pool.warm] max_depth: "},
        BadSpec{kMinimal + "[pool.warm]\nenabled = false\nmax_mib_s = 8\n",
                "[pool.warm] max_mib_s: nothing is read with enabled = false"},
        BadSpec{kMinimal + "[pool.warm]\nmax_mib_s = -1\n", "[pool.warm] max_mib_s: "},
        BadSpec{kMinimal + "[pool.session]\nhost_keys = \"no\"\n", "[pool.session] host_keys: "},
        BadSpec{kMinimal + "[pool.session]\nentry = \"ssh\"\n",
                "[pool.session] entry: \"ssh\" is no entry, write \"chroot\""},
        BadSpec{kMinimal + "[pool.session]\nrescue_port = 22\n",
                "[pool.session] rescue_port: 22 is where sessions come in"},
        BadSpec{kMinimal + "[pool.session]\nlogin_wait_s = 601\n", "[pool.session] login_wait_s: "},
        BadSpec{kMinimal + "[pool.session]\nuser = \"-oProxyCommand=x\"\n",
                "[pool.session] user: \"-oProxyCommand=x\" is no user's name"}));

TEST(Config, all_mistakes_are_listed_at_once_in_the_order_of_the_text) {
  const ParsedSpec parsed = parse_spec(R"(deployment = 7
[[pool]]
name = "Big Pool"
zones = []
nodes = "two"
[pool.launch]
base_am = "ami-0123456789abcdef0"
instance_types = ["g5"]
)",
                                       no_files);
  EXPECT_EQ(listed(parsed),
            "1:14: deployment: found a whole number, write deployment = \"...\"\n"
            "2:1: [[pool]] ami is missing: write ami = \"ami-...\" or snapshot = \"snap-...\", the "
            "source of the volumes\n"
            "3:8: [[pool]] name: \"Big Pool\" is not a name, write 1 to 63 of a-z, 0-9 and -, with "
            "a letter or digit at both ends\n"
            "4:9: [[pool]] zones: no zone is named, write e.g. zones = [\"us-east-1a\"]\n"
            "5:9: [[pool]] nodes: found text, write a whole number without quotes, e.g. nodes = 1\n"
            "6:1: [pool.launch] base_ami is missing: write base_ami = \"ami-...\", the AMI whose "
            "system receives the sessions\n"
            "7:1: unknown key base_am in [pool.launch]: did you mean base_ami?\n"
            "8:18: [pool.launch] instance_types: \"g5\" is not an instance type, write e.g. "
            "g5.12xlarge\n");
}

}  // namespace
}  // namespace warmroot::manager
