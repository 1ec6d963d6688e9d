// Launch templates and instant fleets of the simulated region, and instances that an Auto Scaling
// group launches.
#include "tests/sim/region_fleet.hpp"
#include "tests/region_fixture.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr char kSubnetA[] = "subnet-01000000000000001";
constexpr char kSubnetB[] = "subnet-02000000000000002";

class FleetTest : public RegionTest {
 protected:
  QueryReply create_template(const std::string& name, const std::string& more = "") {
    return call("Action=CreateLaunchTemplate&LaunchTemplateName=" + name +
                "&LaunchTemplateData.ImageId=" + kBase + more);
  }
  std::string template_id(const std::string& more = "") {
    const auto reply = create_template("pool", more);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return element(reply.body, "launchTemplateId");
  }
  /// One override's parameters.
  static std::string pool(int number, const std::string& type, const std::string& subnet,
                          const std::string& more = "") {
    const std::string start = "&LaunchTemplateConfigs.1.Overrides." + std::to_string(number) + ".";
    std::string out = start + "InstanceType=" + type + start + "SubnetId=" + subnet;
    if (!more.empty()) out += start + more;
    return out;
  }
  static std::string form(const std::string& id, int count, const std::string& more) {
    return "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification."
           "LaunchTemplateId=" +
           id +
           "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1"
           "&TargetCapacitySpecification.DefaultTargetCapacityType=spot"
           "&TargetCapacitySpecification.TotalTargetCapacity=" +
           std::to_string(count) + more;
  }
  QueryReply fleet(const std::string& id, int count, const std::string& more) {
    return call(form(id, count, more));
  }
  static std::string strategy(const std::string& name) {
    return "&SpotOptions.AllocationStrategy=" + name;
  }
  /// How many instances of the type the region has.
  long of_type(const std::string& type) {
    return std::count_if(region.instances().begin(), region.instances().end(),
                         [&](const auto& entry) { return entry.second.type == type; });
  }
};

TEST_F(FleetTest, a_template_is_made_once_a_name_and_once_a_token) {
  const auto first = create_template("pool", "&ClientToken=t");
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(element(first.body, "latestVersionNumber"), "1");
  const auto again = create_template("pool", "&ClientToken=t");
  EXPECT_EQ(element(again.body, "launchTemplateId"), element(first.body, "launchTemplateId"));
  EXPECT_EQ(create_template("pool", "&ClientToken=t&LaunchTemplateData.KeyName=operator").code,
            "IdempotentParameterMismatch");
  EXPECT_EQ(create_template("pool").code, "InvalidLaunchTemplateName.AlreadyExistsException");
  EXPECT_EQ(create_template("no").code, "InvalidLaunchTemplateName.MalformedException");
  EXPECT_EQ(code("Action=CreateLaunchTemplate&LaunchTemplateName=bare"), "MissingParameter");
  EXPECT_EQ(create_template("other", "&LaunchTemplateData.SubnetId=" + std::string(kSubnetA)).code,
            "UnknownParameter")
      << "a template has no subnet outside its network interface";
}

TEST_F(FleetTest, templates_are_described_tagged_versioned_and_deleted) {
  const auto id = template_id(
      "&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=pool"
      "&TagSpecification.1.Tag.1.Value=p");
  const auto by_tag =
      call("Action=DescribeLaunchTemplates&Filter.1.Name=tag:pool&Filter.1.Value.1=p");
  EXPECT_EQ(element(by_tag.body, "launchTemplateId"), id);
  EXPECT_EQ(code("Action=CreateTags&ResourceId.1=" + id + "&Tag.1.Key=a&Tag.1.Value=b"), "");
  EXPECT_THAT(call("Action=DescribeLaunchTemplates&LaunchTemplateName.1=pool").body,
              HasSubstr("<key>a</key>"));
  const auto second = call("Action=CreateLaunchTemplateVersion&LaunchTemplateId=" + id +
                           "&SourceVersion=1&LaunchTemplateData.InstanceType=g5.xlarge");
  EXPECT_EQ(element(second.body, "versionNumber"), "2");
  EXPECT_EQ(element(second.body, "imageId"), kBase) << "from the source version";
  const auto versions = call("Action=DescribeLaunchTemplateVersions&LaunchTemplateId=" + id +
                             "&LaunchTemplateVersion.1=%24Latest");
  EXPECT_EQ(count_of(versions.body, "<versionNumber>"), 1);
  EXPECT_EQ(element(versions.body, "instanceType"), "g5.xlarge");
  EXPECT_EQ(
      code("Action=DescribeLaunchTemplateVersions&LaunchTemplateVersion.1=7&LaunchTemplateId=" +
           id),
      "InvalidLaunchTemplateId.VersionNotFound");
  EXPECT_EQ(code("Action=DeleteLaunchTemplate&LaunchTemplateId=" + id), "");
  EXPECT_EQ(code("Action=DescribeLaunchTemplates&LaunchTemplateId.1=" + id),
            "InvalidLaunchTemplateId.NotFound");
  EXPECT_EQ(code("Action=DeleteLaunchTemplate&LaunchTemplateName=pool"),
            "InvalidLaunchTemplateName.NotFoundException");
  EXPECT_EQ(code("Action=DeleteLaunchTemplate"), "MissingParameter");
}

TEST_F(FleetTest, a_launch_takes_from_its_template_what_it_does_not_say_itself) {
  const auto id = template_id(
      "&LaunchTemplateData.InstanceType=g5.xlarge&LaunchTemplateData.KeyName=operator"
      "&LaunchTemplateData.BlockDeviceMapping.1.DeviceName=/dev/sdf"
      "&LaunchTemplateData.BlockDeviceMapping.1.Ebs.SnapshotId=snap-01000000000000001"
      "&LaunchTemplateData.BlockDeviceMapping.1.Ebs.DeleteOnTermination=false");
  const auto reply = call(
      "Action=RunInstances&MinCount=1&MaxCount=1&InstanceType=g5.12xlarge"
      "&LaunchTemplate.LaunchTemplateId=" +
      id);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const auto* guest = region.instance(element(reply.body, "instanceId"));
  EXPECT_EQ(guest->type, "g5.12xlarge");
  EXPECT_EQ(guest->key_name, "operator");
  EXPECT_EQ(guest->disks.size(), 2U);
  EXPECT_EQ(guest->tags.at("aws:ec2launchtemplate:id"), id);
  EXPECT_EQ(code("Action=RunInstances&MinCount=1&MaxCount=1"), "MissingParameter");
}

TEST_F(FleetTest, a_fleet_launches_by_its_template_with_its_tags) {
  const auto id = template_id(
      "&LaunchTemplateData.UserData=aGk%3D&LaunchTemplateData.MetadataOptions.InstanceMetadataTags="
      "enabled&LaunchTemplateData.InstanceInitiatedShutdownBehavior=terminate");
  const auto reply =
      fleet(id, 3,
            pool(1, "g5.xlarge", kSubnetA) +
                "&TagSpecification.1.ResourceType=instance"
                "&TagSpecification.1.Tag.1.Key=pool&TagSpecification.1.Tag.1.Value=p");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const auto fleet_id = element(reply.body, "fleetId");
  EXPECT_THAT(reply.body, HasSubstr("<errorSet>"));
  EXPECT_EQ(element(reply.body, "lifecycle"), "spot");
  EXPECT_EQ(element(reply.body, "subnetId"), kSubnetA);
  EXPECT_THAT(reply.body, Not(HasSubstr("availabilityZone"))) << "the override as it was given";
  EXPECT_EQ(count_of(reply.body, "<item>i-"), 3);
  ASSERT_EQ(region.instances().size(), 3U);
  for (const auto& [guest_id, guest] : region.instances()) {
    EXPECT_TRUE(guest.spot());
    EXPECT_EQ(guest.user_data, "hi");
    EXPECT_TRUE(guest.metadata_tags);
    EXPECT_EQ(guest.tags.at("pool"), "p");
    EXPECT_EQ(guest.tags.at("aws:ec2:fleet-id"), fleet_id);
  }
  EXPECT_EQ(code("Action=DeleteTags&Tag.1.Key=aws:ec2:fleet-id&ResourceId.1=" +
                 region.instances().begin()->first),
            "InvalidParameterValue");
}

TEST_F(FleetTest, instances_and_errors_come_together_and_name_their_pools) {
  region.knobs.capacity[{"g5.xlarge", "us-east-1a"}] = 1;
  region.knobs.capacity[{"g5.xlarge", "us-east-1b"}] = 0;
  const auto reply = fleet(template_id(), 3,
                           pool(1, "g5.xlarge", kSubnetA) + pool(2, "g5.xlarge", kSubnetB) +
                               strategy("capacity-optimized"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(count_of(reply.body, "<item>i-"), 1);
  EXPECT_EQ(count_of(reply.body, "<errorCode>InsufficientInstanceCapacity</errorCode>"), 2);
  EXPECT_THAT(reply.body, AllOf(HasSubstr(kSubnetA), HasSubstr(kSubnetB)));
}

TEST_F(FleetTest, only_errors_is_success_all_the_same) {
  const auto id = template_id();
  region.knobs.capacity[{"*", "*"}] = 0;
  const auto none = fleet(id, 2, pool(1, "g5.xlarge", kSubnetA));
  EXPECT_EQ(none.status, 200);
  EXPECT_EQ(none.code, "");
  EXPECT_EQ(count_of(none.body, "<errorCode>"), 1);
  EXPECT_THAT(none.body, HasSubstr("<fleetInstanceSet>"));
  EXPECT_TRUE(region.instances().empty());
  region.knobs.capacity.clear();
  const std::pair<std::string, const char*> table[] = {
      {pool(1, "g5.xlarge", kSubnetA, "MaxPrice=0.01"), "SpotMaxPriceTooLow"},
      {pool(1, "p4d.24xlarge", kSubnetB), "Unsupported"},
      {pool(1, "m6g.large", kSubnetA), "InvalidParameterValue"},
      {pool(1, "g5.xlarge", "subnet-00000000000000000"), "InvalidSubnetID.NotFound"},
  };
  for (const auto& [more, wanted] : table)
    EXPECT_EQ(element(fleet(id, 1, more).body, "errorCode"), wanted) << more;
  region.knobs.fleet_throttles = 1;
  EXPECT_EQ(element(fleet(id, 1, pool(1, "g5.xlarge", kSubnetA)).body, "errorCode"),
            "RequestLimitExceeded")
      << "even the throttle can hide there";
  region.knobs.spot_vcpu_quota["g"] = 0;
  EXPECT_EQ(element(fleet(id, 1, pool(1, "g5.xlarge", kSubnetA)).body, "errorCode"),
            "MaxSpotInstanceCountExceeded");
  EXPECT_TRUE(region.instances().empty());
}

TEST_F(FleetTest, what_a_fleet_refuses_as_a_whole) {
  const auto id = template_id();
  const auto one = pool(1, "g5.xlarge", kSubnetA);
  EXPECT_EQ(fleet("lt-00000000000000000", 1, one).code, "InvalidLaunchTemplateId.NotFound");
  EXPECT_EQ(fleet("lt-x", 1, one).code, "InvalidLaunchTemplateId.Malformed");
  EXPECT_EQ(fleet(id, 1, one + strategy("cheapest")).code, "InvalidParameterValue");
  EXPECT_EQ(fleet(id, -1, one).code, "InvalidParameterValue");
  EXPECT_EQ(code("Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=1"),
            "MissingParameter");
  const std::string instant = "Type=instant&";
  std::string maintain = form(id, 1, one);
  maintain.erase(maintain.find(instant), instant.size());
  EXPECT_EQ(code(maintain), "UnsupportedOperation") << "maintain is the default";
  EXPECT_EQ(fleet(id, 1, one + "&DryRun=true").code, "DryRunOperation");
  EXPECT_TRUE(region.instances().empty());
}

TEST_F(FleetTest, a_replayed_fleet_launches_nothing_new) {
  region.knobs.capacity[{"g5.xlarge", "us-east-1a"}] = 2;
  const auto id = template_id();
  const auto more = pool(1, "g5.xlarge", kSubnetA) + "&ClientToken=t";
  const auto first = fleet(id, 3, more), again = fleet(id, 3, more);
  EXPECT_EQ(element(first.body, "fleetId"), element(again.body, "fleetId"));
  EXPECT_EQ(count_of(again.body, "<item>i-"), 2);
  EXPECT_EQ(count_of(again.body, "<errorCode>"), 1) << "the errors are told again";
  EXPECT_EQ(region.instances().size(), 2U);
  EXPECT_EQ(fleet(id, 4, more).code, "IdempotentParameterMismatch");
}

TEST_F(FleetTest, strategies_choose_by_price_capacity_and_priority) {
  region.knobs.spot_prices = {{{"g5.xlarge", "us-east-1a"}, 40'000},
                              {{"g4dn.xlarge", "us-east-1a"}, 30'000},
                              {{"g6.xlarge", "us-east-1a"}, 20'000}};
  region.knobs.capacity = {{{"g5.xlarge", "us-east-1a"}, 100},
                           {{"g4dn.xlarge", "us-east-1a"}, 10},
                           {{"g6.xlarge", "us-east-1a"}, 2}};
  const auto id = template_id();
  const std::string pools = pool(1, "g5.xlarge", kSubnetA, "Priority=2") +
                            pool(2, "g4dn.xlarge", kSubnetA, "Priority=1") +
                            pool(3, "g6.xlarge", kSubnetA, "Priority=3");
  const auto chosen = [&](const std::string& name) {
    const std::vector<long> before = {of_type("g5.xlarge"), of_type("g4dn.xlarge"),
                                      of_type("g6.xlarge")};
    const auto reply = fleet(id, 4, pools + (name.empty() ? "" : strategy(name)));
    EXPECT_EQ(reply.status, 200) << reply.body;
    std::vector<long> more = {of_type("g5.xlarge") - before[0], of_type("g4dn.xlarge") - before[1],
                              of_type("g6.xlarge") - before[2]};
    std::string ids;
    int number = 0;
    for (const auto& [guest_id, guest] : region.instances())
      ids += "&InstanceId." + std::to_string(++number) + "=" + guest_id;
    EXPECT_EQ(code("Action=TerminateInstances" + ids), "");
    region.advance_by(2min);
    region.advance_by(2h);
    return more;
  };
  EXPECT_THAT(chosen("lowest-price"), ElementsAre(0, 2, 2));
  EXPECT_THAT(chosen(""), ElementsAre(0, 2, 2)) << "the default";
  EXPECT_THAT(chosen("capacity-optimized"), ElementsAre(4, 0, 0));
  EXPECT_THAT(chosen("capacity-optimized-prioritized"), ElementsAre(0, 4, 0));
  EXPECT_THAT(chosen("price-capacity-optimized"), ElementsAre(0, 4, 0));
  EXPECT_THAT(chosen("diversified"), ElementsAre(2, 1, 1));
}

TEST_F(FleetTest, a_fleets_instances_can_be_unknown_for_a_while) {
  RegionTimes times;
  times.visibility = 3s;
  Region slow(builtin_catalog("us-east-1", {"us-east-1a"}), times, hardware, start_time());
  QueryFront slow_front(slow);
  const auto ask = [&](const std::string& text) {
    return slow_front.answer(text + "&Version=2016-11-15");
  };
  const auto id = element(ask("Action=CreateLaunchTemplate&LaunchTemplateName=pool"
                              "&LaunchTemplateData.ImageId=" +
                              std::string(kBase))
                              .body,
                          "launchTemplateId");
  const auto body = ask(form(id, 1, pool(1, "g5.xlarge", kSubnetA))).body;
  const auto guest = body.substr(body.find("<item>i-") + 6, 19);
  EXPECT_EQ(ask("Action=DescribeInstances&InstanceId.1=" + guest).code,
            "InvalidInstanceID.NotFound");
  slow.advance_by(3s);
  EXPECT_EQ(ask("Action=DescribeInstances&InstanceId.1=" + guest).code, "");
}

TEST_F(FleetTest, an_auto_scaling_group_launches_with_its_own_tag) {
  RunInstancesArgs args;
  args.image_id = kBase;
  args.type = "g5.xlarge";
  args.instance_tags = {{"warmroot:pool", "imagenet"}};
  const auto made = region.launch_in_group("workers", args);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->tags.at("aws:autoscaling:groupName"), "workers");
  EXPECT_EQ(made->tags.at("warmroot:pool"), "imagenet");
  EXPECT_EQ(count_of(call("Action=DescribeInstances&Filter.1.Name=tag:aws:autoscaling:groupName"
                          "&Filter.1.Value.1=workers")
                         .body,
                     "<instanceId>"),
            1);
  EXPECT_EQ(code("Action=CreateTags&Tag.1.Key=a&Tag.1.Value=b&ResourceId.1=" + made->id), "")
      << "EC2's own tags do not hinder others";
}

}  // namespace
