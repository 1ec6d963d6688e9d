// What the simulated region says of instance types: facts, offerings with holes, placement scores,
// prices.
#include "tests/sim/region_types.hpp"
#include "tests/region_fixture.hpp"

using namespace warmroot;
using namespace warmroot::sim;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class TypesTest : public RegionTest {
 protected:
  std::string score(const std::string& more) {
    return call("Action=GetSpotPlacementScores&SingleAvailabilityZone=true" + more).body;
  }
  static std::string types(const std::vector<std::string>& names) {
    std::string out;
    for (std::size_t i = 0; i < names.size(); ++i)
      out += "&InstanceType." + std::to_string(i + 1) + "=" + names[i];
    return out;
  }
};

TEST_F(TypesTest, facts_of_a_type) {
  const auto nitro = call("Action=DescribeInstanceTypes&InstanceType.1=g5.xlarge").body;
  EXPECT_EQ(element(nitro, "hypervisor"), "nitro");
  EXPECT_EQ(element(nitro, "defaultVCpus"), "4");
  EXPECT_THAT(element(nitro, "supportedArchitectures"), HasSubstr("x86_64"));
  const auto xen = call("Action=DescribeInstanceTypes&InstanceType.1=p3.16xlarge").body;
  EXPECT_EQ(element(xen, "hypervisor"), "xen");
  EXPECT_EQ(element(xen, "nvmeSupport"), "unsupported");
  const auto arm = call("Action=DescribeInstanceTypes&InstanceType.1=t4g.medium").body;
  EXPECT_THAT(element(arm, "supportedArchitectures"), HasSubstr("arm64"));
  EXPECT_EQ(element(arm, "burstablePerformanceSupported"), "true");
  const auto metal = call("Action=DescribeInstanceTypes&InstanceType.1=c5.metal").body;
  EXPECT_EQ(element(metal, "bareMetal"), "true");
  EXPECT_THAT(metal, Not(HasSubstr("<hypervisor>")));
  EXPECT_EQ(code("Action=DescribeInstanceTypes&InstanceType.1=z9.huge"), "InvalidInstanceType");
}

TEST_F(TypesTest, types_are_filtered_and_paged) {
  const auto all = call("Action=DescribeInstanceTypes").body;
  EXPECT_GE(count_of(all, "<instanceType>"), 20);
  const auto arm = call(
                       "Action=DescribeInstanceTypes"
                       "&Filter.1.Name=processor-info.supported-architecture"
                       "&Filter.1.Value.1=arm64")
                       .body;
  EXPECT_EQ(count_of(arm, "<instanceType>"), 4);
  const auto page = call("Action=DescribeInstanceTypes&MaxResults=5").body;
  EXPECT_EQ(count_of(page, "<instanceType>"), 5);
  EXPECT_NE(element(page, "nextToken"), "");
}

TEST_F(TypesTest, offerings_have_holes) {
  const auto zones_of = [&](const std::string& type) {
    return call(
               "Action=DescribeInstanceTypeOfferings&LocationType=availability-zone"
               "&Filter.1.Name=instance-type&Filter.1.Value.1=" +
               type)
        .body;
  };
  EXPECT_THAT(zones_of("g5.xlarge"), AllOf(HasSubstr("us-east-1a"), HasSubstr("us-east-1b")));
  EXPECT_THAT(zones_of("p4d.24xlarge"), Not(HasSubstr("us-east-1b")));
  region.knobs.not_offered.insert({"g5.xlarge", "us-east-1a"});
  EXPECT_THAT(zones_of("g5.xlarge"), Not(HasSubstr("us-east-1a")));
  EXPECT_THAT(call("Action=DescribeInstanceTypeOfferings").body,
              HasSubstr("<location>us-east-1</location>"));
  EXPECT_EQ(code("Action=DescribeInstanceTypeOfferings&LocationType=planet"),
            "InvalidParameterValue");
}

TEST_F(TypesTest, scores_follow_the_capacity) {
  const std::vector<std::string> three = {"g4dn.xlarge", "g5.xlarge", "g6.xlarge"};
  for (const auto& type : three) region.knobs.capacity[{type, "us-east-1a"}] = 0;
  const auto body = score(types(three) + "&TargetCapacity=10");
  EXPECT_EQ(element(body, "availabilityZoneId"), "use1-az2") << "the best first, by zone id";
  EXPECT_EQ(element(body, "score"), "9");
  EXPECT_THAT(body, HasSubstr("<score>1</score>"));
  EXPECT_EQ(element(score(types({"g5.xlarge"}) + "&TargetCapacity=10"), "score"), "3")
      << "few types, low scores";
  const auto whole = call("Action=GetSpotPlacementScores&TargetCapacity=10" + types(three)).body;
  EXPECT_EQ(count_of(whole, "<score>"), 1);
  EXPECT_THAT(whole, Not(HasSubstr("availabilityZoneId")));
  EXPECT_EQ(code("Action=GetSpotPlacementScores&InstanceType.1=g5.xlarge"), "MissingParameter");
  region.knobs.denied["ec2:GetSpotPlacementScores"] = Denial::implicit;
  EXPECT_EQ(code("Action=GetSpotPlacementScores&TargetCapacity=1" + types(three)),
            "UnauthorizedOperation");
}

TEST_F(TypesTest, scores_are_given_within_the_accounts_limits) {
  const std::string three = types({"g4dn.xlarge", "g5.xlarge", "g6.xlarge"});
  const auto ask = [&](const std::string& more) {
    return code("Action=GetSpotPlacementScores&SingleAvailabilityZone=true" + three + more);
  };
  EXPECT_EQ(ask("&TargetCapacity=2000000001"), "InvalidParameterValue");
  EXPECT_EQ(ask("&TargetCapacity=1&TargetCapacityUnitType=cores"), "InvalidParameterValue");
  EXPECT_EQ(ask("&TargetCapacity=1&MaxResults=9"), "InvalidParameterValue");
  region.knobs.placement_target_limit = 5;
  EXPECT_EQ(ask("&TargetCapacity=6"), "InvalidParameterValue");
  EXPECT_EQ(ask("&TargetCapacity=5"), "");
  region.knobs.placement_configurations = 2;
  EXPECT_EQ(ask("&TargetCapacity=4"), "");
  EXPECT_EQ(ask("&TargetCapacity=3"), "MaxConfigLimitExceeded");
  EXPECT_EQ(ask("&TargetCapacity=5"), "") << "one that was asked before is taken again";
  region.advance_by(std::chrono::hours{24});
  EXPECT_EQ(ask("&TargetCapacity=3"), "");
}

TEST_F(TypesTest, spot_is_cheaper_than_on_demand_and_only_where_offered) {
  for (const auto& facts : type_catalogue())
    for (const char* zone : {"us-east-1a", "us-east-1b"}) {
      EXPECT_GT(region.spot_price(facts.name, zone), facts.price / 5);
      EXPECT_LT(region.spot_price(facts.name, zone), facts.price * 2 / 3);
    }
  const auto history = call("Action=DescribeSpotPriceHistory&InstanceType.1=p4d.24xlarge").body;
  EXPECT_EQ(count_of(history, "<spotPrice>"), 1);
}

TEST_F(TypesTest, other_types_of_ec2s_form_are_derived) {
  EXPECT_EQ(type_facts("r7g.4xlarge")->vcpus, 16);
  EXPECT_EQ(type_facts("r7g.4xlarge")->architecture, "arm64");
  EXPECT_EQ(type_facts("r4.large")->hypervisor, "xen");
  EXPECT_FALSE(type_facts("huge"));
  EXPECT_EQ(quota_class("g5.xlarge", true), "g");
  EXPECT_EQ(quota_class("m6i.large", true), "standard");
  EXPECT_EQ(quota_class("p4d.24xlarge", true), "p");
  EXPECT_EQ(quota_class("p5.48xlarge", true), "p5");
  EXPECT_EQ(quota_class("p5.48xlarge", false), "p");
}

}  // namespace
